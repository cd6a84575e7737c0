"""Sentences on how the numbers of a report were obtained: tests, intervals, and how points were chosen."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from math import isinf

from crowdsweep.analysis.compare import Comparison, DatasetComparison, ModelScore
from crowdsweep.analysis.searches import SearchShown
from crowdsweep.analysis.trial_table import ended_too_early
from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.metric_table import HELDOUT
from crowdsweep.metrics.rank_tests import FriedmanTest
from crowdsweep.metrics.shown import show_interval, show_number
from crowdsweep.metrics.wording import goal_of, is_share, readable, words
from crowdsweep.record.flags import flag_words
from crowdsweep.record.naming import describe_dataset
from crowdsweep.record.plan_record import CellRecord, RefusedRecord
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.state import JournalState
from crowdsweep.units import listed, show_p


def verdict(block: DatasetComparison) -> str:
    """Returns the result on one dataset in one or two sentences: the best model, and whether the runner-up differs."""
    if not block.ranked:
        return why_unranked(block)
    best, *rest = block.ranked
    mean, metric = best.metrics[block.metric], block.metric
    where = "at one seed" if mean.n == 1 else f"over {mean.n} seeds"
    bare = ", so without interval" if mean.n == 1 and mean.low is None else ""
    sentence = f"{best.model} is best: {words(metric)} {_quantity(mean, metric)} {where}{bare}."
    if mean.constant:
        sentence += " Every seed gives the same number, so " + (
            "there is no interval." if mean.low is None else f"the interval is over the {mean.n_items:,} items alone."
        )
    if mean.collapsed:
        sentence += f" {collapse(mean)}."
    if not rest:
        return sentence + " No other model was ranked."
    return f"{sentence} {_about_runner_up(rest[0], metric)}"


def ranked_by_heldout(comparison: Comparison) -> list[str]:
    """Returns a sentence on the datasets that are ranked by held-out annotations; none without such datasets."""
    blocks = [block for block in comparison.datasets if block.references.heldout and block.metric == HELDOUT]
    if not blocks:
        return []
    have, share = ("has" if len(blocks) == 1 else "have"), f"{100 * blocks[0].references.heldout:g} %"
    titles = ", ".join(block.title for block in blocks)
    sentence = (
        f"{titles} {have} neither gold nor dev or test items, so models are ranked there by the mean log-likelihood, "
        f"in nats, that they give to {share} of the annotations, which are left out of the fit and redrawn for each "
        f"seed; agreement with the votes that a model was fitted to says nothing, as majority vote wins it by "
        f"construction."
    )
    return [sentence]


def worth_of_heldout(comparison: Comparison) -> list[str]:
    """Returns sentences for the first screen on what a ranking by held-out annotations shows; none without one."""
    blocks = [block for block in comparison.datasets if block.references.heldout and block.metric == HELDOUT]
    if not blocks:
        return []
    where = "There" if len(blocks) == len(comparison.datasets) else f"On {listed(unique(blocks))} there"
    sentence = (
        f"{where} is no gold. Models are ranked by the probability that they give to held-out labels. That shows which "
        f"model describes this crowd best, and exposes one that went wrong. It does not show which of two close models "
        f"labels more items correctly, least of all where annotators gave few labels each: a model that describes "
        f"every annotator better may be a point or two less accurate. The accuracies themselves are not known; gold "
        f"for a few hundred items would show them."
    )
    return [sentence]


def unique(blocks: Sequence[DatasetComparison]) -> list[str]:
    """Returns the names of the datasets, without repetitions."""
    return list(dict.fromkeys(block.dataset for block in blocks))


def collapse(estimate: Estimate) -> str:
    """Returns `3 of 20 seeds collapsed: …`; empty where none did."""
    if not estimate.collapsed:
        return ""
    return f"{estimate.collapsed} of {estimate.n} seeds collapsed: the interval does not cover where seeds split so"


def unscored(comparison: Comparison) -> list[str]:
    """Returns a sentence for each dataset on which no model can be scored."""
    blocks = [block for block in comparison.datasets if not block.metric and block.references.only_own_votes]
    return [f"{block.title}: {why_unranked(block)}" for block in blocks]


def chosen_by_gold(comparison: Comparison, searches: Sequence[CellRecord]) -> list[str]:
    """Returns a sentence on the models whose points were chosen by the gold that also ranks them; none without such
    models."""
    by_place = {block.place: block for block in comparison.datasets}
    flattered: list[str] = []
    for search in searches:
        block = by_place.get(search.place)
        if block is not None and search.metric.startswith("train_") and block.metric.startswith("train_"):
            flattered.append(f"{search.label} on {block.title}")
    if not flattered:
        return []
    whose, them = ("its point was", "it") if len(flattered) == 1 else ("their points were", "them")
    sentence = f"{whose} chosen by the gold that also ranks {them}, so the score is optimistic."
    return [f"{', '.join(flattered)}: {sentence}"]


def objectives_words(search: SearchShown) -> str:
    """Returns the objectives of a search in words, separated by semicolons, such as `dev accuracy, % (maximize)`."""
    further = [f"{readable(name)} ({goal_of(name)})" for name in search.further]
    return "; ".join([f"{readable(search.metric)} ({search.goal})", *further])


def optimism(searched: float | None, fresh: Estimate | None, metric: str) -> str:
    """Returns a sentence with the score that chose a point and its mean on fresh seeds; empty where one is missing."""
    if searched is None or fresh is None:
        return ""
    return f"Chosen at {show_number(searched, metric)}, fresh seeds {show_number(fresh.mean, metric)}."


def refused(searches: Sequence[RefusedRecord], among: Collection[str]) -> list[str]:
    """Returns a sentence for each search that could not be run; `among` holds all datasets of the sweep."""
    return [f"{one.label} on {describe_dataset(*one.place, among)} was not searched: {one.reason}." for one in searches]


def tests_used(block: DatasetComparison) -> str:
    """Returns a sentence on the tests in a dataset's table, with reasons for those other than Wilcoxon's."""
    tests = [(score.model, score.versus_best) for score in block.ranked if score.versus_best is not None]
    why_t = {
        "seeds": " (Wilcoxon could not reach 5 % on so few seeds)",
        "held-out splits": " (with the variance of overlapping splits)",
    }
    parts: dict[str, list[str]] = {}
    for model, test in tests:
        if test.test != "none":
            why = why_t.get(test.varies, " (with the variance over items)") if test.test == "paired t" else ""
            why = " (exact: signs of the few items that differ are flipped)" if test.test == "permutation" else why
            parts.setdefault(test.test + why, []).append(model)
    if not parts:
        return ""
    told = [part if len(parts) == 1 else f"{part} for {', '.join(models)}" for part, models in parts.items()]
    pairs = len(block.ranked) * (len(block.ranked) - 1) // 2
    over = "" if pairs == 1 else f" over all {pairs} pairs of models"
    return f"Tested against the best at 5 %, after Holm's correction{over}: {'; '.join(told)}."


def intervals_over(block: DatasetComparison) -> str:
    """Returns sentences on what a dataset's intervals and tests vary over; empty where there are no intervals."""
    varies = block.varies
    if not varies:
        return ""
    known = [score.metrics[block.metric] for score in [*block.ranked, *block.gold]]
    n, n_items = max(found.n for found in known), max(found.n_items for found in known)
    if "held-out splits" in varies:
        share = block.references.heldout
        factor = (1 + n * share / (1 - share)) ** 0.5
        return (
            f"Intervals and tests vary over which annotations are held out. These splits overlap, so with {n} of them "
            f"intervals are {factor:.2f} times as wide as Student's (Nadeau and Bengio, 2003)."
        )
    parts: list[str] = []
    if "items" in varies or "seeds and items" in varies:
        also = ", and over seeds where these give different numbers" if "seeds and items" in varies else ""
        parts.append(f"Intervals and tests vary over the choice of the {n_items:,} items{also}.")
    if "seeds" in varies:
        whom = "Intervals and tests" if len(varies) == 1 else "Those of other models"
        parts.append(
            f"{whom} vary over seeds only: the choice of items is not included, as the scores of single items are "
            f"not known."
        )
    if varies != ["items"]:
        unseen = 100 * (1 - 0.05 ** (1 / n))
        parts.append(f"A collapse of up to {unseen:.0f} % of seeds can go unseen with {n} seeds.")
    return " ".join(parts)


def friedman_words(test: FriedmanTest) -> str:
    """Returns the result of Friedman's test, such as `F(3, 39) = 3.69, p = 0.020; χ² = 9.28`."""
    f = "∞" if isinf(test.f) else f"{test.f:.2f}"
    return f"F({test.freedom[0]}, {test.freedom[1]}) = {f}, p {show_p(test.p)}; χ² = {test.chi2:.2f}"


def why_unranked(block: DatasetComparison) -> str:
    """Returns a sentence on why no model is ranked on a dataset."""
    if block.references.heldout and any(score.wall_s is not None for score in block.unranked):
        return "No model is ranked: none gives a probability to an answer that it has not seen."
    if block.references.only_own_votes and not block.references.heldout:
        return (
            "No model is ranked: there is neither gold nor a dev or test item, and no annotation could be held out "
            "without leaving an item none."
        )
    return "No model has a score yet."


def _about_runner_up(second: ModelScore, metric: str) -> str:
    test = second.versus_best
    if test is None or test.difference is None:
        return f"The runner-up {second.model} shares no seed with it, so they were not compared."
    if test.p is None and test.difference.mean == 0:
        return f"{second.model} gives the same numbers."
    gap = _quantity(test.difference, metric, difference=True)
    if test.p_holm is None:
        return f"The runner-up {second.model} is {gap} behind; no test: {test.reason}."
    told = f"is{'' if test.is_significant else ' not'} significantly different from it"
    but = f" Of it {unsound}." if (unsound := second.unsound(metric)) else ""
    return f"The runner-up {second.model} {told}: {gap} behind ({test.test}, Holm p {show_p(test.p_holm)}).{but}"


def _quantity(estimate: Estimate, metric: str, *, difference: bool = False) -> str:
    unit = (" points" if difference else " %") if is_share(metric) else ""
    interval = show_interval(estimate, metric)
    return f"{show_number(estimate.mean, metric, estimate)}{unit} {interval}".rstrip()


def flagged_notes(state: JournalState, trials: Iterable[ShownTrial]) -> list[str]:
    """Returns notes on doubtful fits among the counted trials.

    One sentence per model, dataset and flag has the number of flagged trials. One sentence per model and dataset has
    the number of fits that ended while their objective still clearly improved.
    """
    counted: Counter[tuple[str, str]] = Counter()
    flagged: Counter[tuple[str, str, str]] = Counter()
    unfinished: Counter[tuple[str, str]] = Counter()
    among = {row.dataset for row in state.plan.datasets}
    for trial in trials:
        result = state.results.get(trial.spec.key)
        if trial.chosen and result is not None and result.failure is None:
            place = trial.label, describe_dataset(*trial.spec.place, among)
            counted[place] += 1
            flagged.update((*place, flag) for flag in result.flags)
            unfinished[place] += ended_too_early(result)
    notes = [
        f"{number} of {counted[model, dataset]} trials of {model} on {dataset}: {flag_words([flag])}."
        for (model, dataset, flag), number in flagged.items()
    ]
    notes += [
        f"{number} of {counted[model, dataset]} fits of {model} on {dataset} ended while the objective still clearly "
        f"improved: more training (epochs, steps or iterations) may label better."
        for (model, dataset), number in unfinished.items()
        if number
    ]
    return notes
