"""The answer for one dataset, as a report's first screen gives it: the model to use, its settings, the models that are
as good, and the gap to a model that learns from gold.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from crowdsweep.analysis.compare import DatasetComparison, ModelScore, tie_breaker
from crowdsweep.analysis.phrases import collapse, why_unranked
from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.metric_table import ACCURACY, HELDOUT, by_held_out, metric_kind
from crowdsweep.metrics.shown import show_number, show_probability, show_score, show_with_interval
from crowdsweep.metrics.wording import is_share, readable, words
from crowdsweep.record.naming import show_point
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.state import JournalState
from crowdsweep.units import listed, show_times

_CHEAPER = 2.0  # a saving is mentioned where the best model costs at least this many times as much
_NO_COST = 0.05  # seconds per trial below which no saving is mentioned
_WHERE = {"test": "test items", "dev": "dev items", "train": "training items"}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Recommendation for one dataset, in sentences.

    Attributes:
        block: the comparison that it is derived from.
        lead: one to a few sentences: the model to use, those that are as good, those that are worse.
        warnings: sentences on why the lead may not be reliable.
        settings: hyper-parameters of the model to use; empty where no model is ranked.
        ceiling: the score of a model that saw gold; empty where none ran.
    """

    block: DatasetComparison
    lead: str
    warnings: tuple[str, ...] = ()
    settings: str = ""
    ceiling: str = ""


def answer_of(state: JournalState, block: DatasetComparison, trials: Iterable[ShownTrial]) -> Answer:
    """Returns the recommendation for one dataset."""
    if not block.ranked:
        return Answer(block=block, lead=why_unranked(block), ceiling=_ceiling(block))
    best = block.ranked[0]
    return Answer(
        block=block,
        lead=lead(block),
        warnings=tuple(_warnings(block)),
        settings=_settings(state, block, best, trials),
        ceiling=_ceiling(block),
    )


def lead(block: DatasetComparison) -> str:
    """Returns the recommendation in sentences; some model must be ranked.

    Example: `Use dl-em: 83.7 % ± 1.1 on test items. dl-ds and cmm are not significantly different from it; dl-ds costs
    18 times less for 0.2 points (at most 1.0). soft-mv and hard-mv are worse.`
    """
    best = block.ranked[0]
    told = f"Use {best.model}: {reached(best.metrics[block.metric], block.metric)}."
    return " ".join([told, *_about_others(block)])


def reached(estimate: Estimate, metric: str) -> str:
    """Returns a model's score in words: `83.7 % ± 1.1 on test items`, `it gives held-out answers a probability of 61 %
    (…), not an accuracy`, `test KL 0.573 ± 0.012 nats`."""
    if metric == HELDOUT:
        probability, loglik = show_probability(estimate, metric), show_with_interval(estimate, metric)
        return f"it gives held-out answers a probability of {probability} (log-likelihood {loglik}), not an accuracy"
    if metric_kind(metric) == ACCURACY and (split := metric.partition("_")[0]) in _WHERE:
        number = f"{estimate.n_items:,} " if estimate.n_items and split == "train" else ""
        return f"{show_score(estimate, metric)} on {number}{_WHERE[split]}"
    name, _, unit = readable(metric).partition(", ")
    return f"{name} {show_score(estimate, metric)}" + ("" if is_share(metric) or not unit else f" {unit}")


def by_test(block: DatasetComparison) -> tuple[list[ModelScore], list[ModelScore], list[ModelScore]]:
    """Groups the ranked models other than the best by their test against it.

    Returns:
        Models that give the same numbers or are not significantly different; models that are significantly worse; and
        models that cannot be compared with the best, as there is no test or no sound mean (`ModelScore.unsound`).
    """
    alike: list[ModelScore] = []
    worse: list[ModelScore] = []
    untested: list[ModelScore] = []
    for score in block.ranked[1:]:
        if score.beside_best == "worse":
            worse.append(score)
        elif score.beside_best in ("the same", "not significantly different") and not score.unsound(block.metric):
            alike.append(score)
        else:
            untested.append(score)
    return alike, worse, untested


def _about_others(block: DatasetComparison) -> list[str]:
    rest = block.ranked[1:]
    if not rest:
        return ["No other model was ranked."]
    alike, worse, untested = by_test(block)
    told: list[str] = []
    if same := [score.model for score in alike if score.beside_best == "the same"]:
        told.append(f"{listed(same)} {'gives' if len(same) == 1 else 'give'} the same numbers{_on_these(block)}.")
    if close := [score.model for score in alike if score.beside_best != "the same"]:
        told.append(f"{listed(close)} {not_different(len(close))} from it{_cheaper(block, alike, close)}.")
    elif cheaper := _cheaper(block, alike, []):
        told.append(f"{cheaper.removeprefix('; ')}.")
    if worse:
        names = [score.model for score in worse]
        all_others = f"The {len(names)} others" if len(names) > 4 and len(names) == len(rest) else listed(names)
        told.append(f"{all_others} {_are_worse(block.metric, len(names))}.")
    return told + _about_untested(block, untested)


def _on_these(block: DatasetComparison) -> str:
    """Returns on how many items models give the same numbers, and what ranks them then; empty where it is not known."""
    best = block.ranked[0]
    if not (n_items := best.metrics[block.metric].n_items):
        return ""
    ranks = tie_breaker(block.metric) in best.metrics
    return f" on these {n_items:,} items" + ("; their Brier scores rank them" if ranks else "")


def not_different(number: int) -> str:
    """Returns `is` or `are not significantly different`, for this number of models."""
    return f"{'is' if number == 1 else 'are'} not significantly different"


def _are_worse(metric: str, number: int) -> str:
    """Returns the verb phrase for this number of worse models.

    By a held-out metric it says that they predict answers less well: such a model may still label more items right.
    """
    if by_held_out(metric):
        verb = "predicts" if number == 1 else "predict"
        return f"{verb} held-out answers less well, which does not show which of them labels more items correctly"
    return f"{'is' if number == 1 else 'are'} worse"


def _about_untested(block: DatasetComparison, untested: list[ModelScore]) -> list[str]:
    """Returns sentences on the models that are not compared with the best: one per unsound model, one per reason."""
    by_reason: dict[str, list[str]] = {}
    told: list[str] = []
    for score in untested:
        if unsound := score.unsound(block.metric):
            told.append(f"{score.model} is not as good: {unsound}.")
        else:
            reason = "" if score.versus_best is None else score.versus_best.reason
            by_reason.setdefault(reason, []).append(score.model)
    for why, names in by_reason.items():
        verb = "was" if len(names) == 1 else "were"
        told.append(f"{listed(names)} {verb} not tested against it{f' ({why})' if why else ''}.")
    return told


def _cheaper(block: DatasetComparison, alike: list[ModelScore], close: list[str]) -> str:
    """Returns how many times less the best of the cheaper models that are as good costs, and what score it gives up.

    Empty where the best model takes less than `_NO_COST` seconds, or no such model costs `_CHEAPER` times less.

    Args:
        alike: models that are as good as the best, best first.
        close: names that the sentence before has just listed; the text continues that sentence.
    """
    best = block.ranked[0]
    if best.wall_s is None or best.wall_s.mean < _NO_COST:
        return ""
    limit = best.wall_s.mean / _CHEAPER
    saving = [one for one in alike if one.wall_s is not None and 0 < one.wall_s.mean <= limit]
    if not saving:
        return ""
    chosen = saving[0]  # best first: the next point after the best on the Pareto front of score and cost
    assert chosen.wall_s is not None  # noqa: S101 - `saving` holds models with a cost only
    times = show_times(best.wall_s.mean / chosen.wall_s.mean)
    whom = " and" if close == [chosen.model] else f"; {chosen.model}"
    return f"{whom} costs {times} less{_given_up(block, chosen)}"


def _given_up(block: DatasetComparison, score: ModelScore) -> str:
    """Returns the loss of score, such as ` for 0.4 points (at most 1.9)`; empty for a model with the same numbers."""
    test = score.versus_best
    if test is None or test.difference is None or not test.difference.mean:
        return ""
    sign = 1.0 if block.goal == "maximize" else -1.0
    found, unit = test.difference, " points" if is_share(block.metric) else ""
    most = found.high if sign > 0 else found.low
    bound = "" if most is None else f" (at most {show_number(max(sign * most, 0.0), block.metric, found)})"
    return f" for {show_number(sign * found.mean, block.metric, found)}{unit}{bound}"


def _warnings(block: DatasetComparison) -> list[str]:
    best = block.ranked[0]
    found = best.metrics[block.metric]
    told: list[str] = []
    if found.collapsed:
        told.append(f"{best.model}: {collapse(found)}.")
    elif unsound := best.unsound(block.metric):
        told.append(f"{best.model}: {unsound}; see how sure this is, below.")
    if found.n == 1:
        told.append("One seed: the variation between seeds is not known. Raise seeds.report.")
    return told


def _settings(state: JournalState, block: DatasetComparison, best: ModelScore, trials: Iterable[ShownTrial]) -> str:
    """Returns the hyper-parameters of the best model in words, and whether a search or the sweep file set them."""
    cells = [one for one in (*state.plan.cells, *state.plan.searches) if one.place == block.place]
    cell = next((one for one in cells if one.label == best.model), None)
    fixed: Mapping[str, Any] = {} if cell is None else cell.params
    chosen = (trial for trial in trials if trial.chosen and trial.label == best.model)
    spec = next((trial.spec for trial in chosen if trial.spec.place == block.place), None)
    if spec is None or not (spec.point or fixed):
        return "its defaults"
    parts = [show_point(spec.point)] if spec.point else []
    if spec.point and cell is not None and cell.metric:
        tried = f", of {cell.points} points" if cell.points else ""
        parts[0] += f" (found by a search for {words(cell.metric)}{tried})"
    if fixed:
        parts.append(f"{show_point(fixed)} (as the sweep file sets {'it' if len(fixed) == 1 else 'them'})")
    return "; ".join(parts)


def _ceiling(block: DatasetComparison) -> str:
    """Returns a sentence with the score of the best model that saw gold, and its gap to the best ranked model."""
    if not block.gold:
        return ""
    top = block.gold[0]
    told = f"{top.model}, which learns from gold, reaches {reached(top.metrics[block.metric], block.metric)}"
    if not block.ranked:
        return told + "."
    gap = headroom(block)
    if gap is None or gap <= 0:
        return f"{told}: no more than {block.ranked[0].model}."
    amount = show_number(gap, block.metric) + (" points" if is_share(block.metric) else "")
    return f"{told}: {amount} better."


def headroom(block: DatasetComparison) -> float | None:
    """Returns how much better the best model that saw gold is than the best ranked model, in the metric's units.

    None where there is no such model of one kind or the other.
    """
    if not block.gold or not block.ranked:
        return None
    difference = block.gold[0].metrics[block.metric].mean - block.ranked[0].metrics[block.metric].mean
    return difference if block.goal == "maximize" else -difference
