"""The methods paragraph on a sweep for a paper; every number in it comes from the record."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from crowdsweep.analysis.compare import Comparison, DatasetComparison
from crowdsweep.analysis.phrases import friedman_words, intervals_over
from crowdsweep.analysis.searches import SearchShown
from crowdsweep.analysis.sweep import AnalysedSweep
from crowdsweep.metrics.differences import SIGNIFICANCE
from crowdsweep.metrics.intervals import CONFIDENCE
from crowdsweep.metrics.metric_table import HELDOUT, by_held_out
from crowdsweep.metrics.wording import words
from crowdsweep.record.naming import short_name, show_point, show_value, told_words
from crowdsweep.record.plan_record import CellRecord, DatasetRecord
from crowdsweep.record.state import JournalState

_SAMPLERS = {
    "tpe": "the tree-structured Parzen estimator",
    "gp": "Bayesian optimisation with a Gaussian process",
    "nsga2": "the genetic algorithm NSGA-II",
    "random": "random search",
    "grid": "grid search",
}
_BY_OPTUNA = ("tpe", "gp", "nsga2")
_LIBRARIES = ("python", "numpy", "scipy", "scikit-learn", "torch", "optuna")


def methods_of(found: AnalysedSweep) -> list[str]:
    """Returns the sentences of the methods paragraph; none where the sweep has not begun.

    Args:
        found: the sweep, finished or not; the paragraph leaves out what has not run yet.
    """
    state, comparison = found.state, found.comparison
    if not state.started:
        return []
    return [
        *_compared(state, comparison),
        *_settings(state),
        *_searches(state, found.searches),
        *_numbers(state, comparison),
        *_tests(comparison),
        *_trials(found.counts),
        *_software(state, bool(found.searches)),
    ]


def _compared(state: JournalState, comparison: Comparison) -> Iterator[str]:
    """Yields sentences on the compared models and datasets, and on what the models were scored on."""
    labels = dict.fromkeys(cell.label for cell in _cells(state))
    gold = dict.fromkeys(cell.label for cell in _cells(state) if cell.sees_gold)
    ranked = [label for label in labels if label not in gold]
    by_name: dict[str, list[DatasetComparison]] = {}
    for block in comparison.datasets:
        by_name.setdefault(short_name(block.dataset, block.among), []).append(block)
    if not by_name:
        return
    models = f"{_counted(len(ranked), 'model')} ({_all(ranked)})"
    yield f"We compared {models} on {_counted(len(by_name), 'dataset')}: {'; '.join(map(_dataset, by_name.items()))}."
    if gold:
        yield f"Models that learn from gold ({_all(gold)}) are not ranked."
    yield from _by_dataset(comparison.datasets, _scored_on)


def _dataset(named: tuple[str, Sequence[DatasetComparison]]) -> str:
    name, blocks = named
    params = [json.loads(block.dataset_params) for block in blocks]
    values = {
        key: list(dict.fromkeys(show_value(one[key]) if key in one else "all" for one in params))
        for key in dict.fromkeys(key for one in params for key in one)
    }
    facts = [f"{key.replace('_', ' ')} {', '.join(told)}" for key, told in values.items()]
    return f"{name} ({'; '.join([*facts, *_sizes(blocks)])})" if facts or _sizes(blocks) else name


def _sizes(blocks: Sequence[DatasetComparison]) -> list[str]:
    """Returns the number of training annotations and of their annotators, as the trials counted them."""
    told: list[str] = []
    for metric, unit in (("n_annotations", "annotations"), ("n_active_annotators", "annotators")):
        counts = [s.metrics[metric].mean for block in blocks for s in block.scores if metric in s.metrics]
        if counts:
            low, high = round(min(counts)), round(max(counts))
            told.append(f"{low:,} {unit}" if low == high else f"{low:,} to {high:,} {unit}")
    return [f"trained on {' of '.join(told)}"] if told else []


def _scored_on(block: DatasetComparison) -> str:
    if not block.metric:
        return ""
    if by_held_out(block.metric):
        share = block.references.heldout
        held = f"{_percent(share)} of the annotations" if share else "annotations"
        return (
            f"Models were scored, without gold, by the {_of_answers(block.metric)} of {held} that were held out of the "
            f"fit and redrawn for each seed."
        )
    split = block.metric.partition("_")[0]
    known = block.references.gold.get(split, True)
    against = "gold" if known else "the distribution of each item's own annotations"
    numbers = {found.n_items for s in block.scores if (found := s.metrics.get(block.metric)) and found.n_items}
    items = f"{numbers.pop():,} {_ITEMS.get(split, 'items')}" if len(numbers) == 1 else _ITEMS.get(split, "items")
    alone = ", which no ranked model saw (truth inference)" if split == "train" and known else ""
    return f"Models were scored by {words(block.metric)}, on {items} against {against}{alone}."


_ITEMS = {"train": "training items", "dev": "dev items", "test": "test items"}


def _settings(state: JournalState) -> Iterator[str]:
    """Yields sentences on hyper-parameters that the sweep file sets, and on models that ran at their defaults."""
    fixed = {cell.label: cell.params for cell in _cells(state) if cell.params}
    if fixed:
        yield f"Set by hand: {'; '.join(f'{label}: {show_point(params)}' for label, params in fixed.items())}."
    searched = {search.label for search in state.plan.searches}
    default = dict.fromkeys(c.label for c in state.plan.cells if c.label not in fixed and c.label not in searched)
    if default:
        yield f"The hyper-parameters of {_all(default)} are their defaults."
    if protocol := state.config.get("protocol"):
        yield f"Models that have several training protocols followed `{protocol}`."


def _searches(state: JournalState, searches: Sequence[SearchShown]) -> Iterator[str]:
    """Yields sentences on the choice of hyper-parameters: sampler, number of points, score, and the use of gold."""
    sampler = state.config.get("sampler", {})
    kinds = [(search, "" if search.listed else search.sampler or sampler.get("kind", "")) for search in searches]
    for kind in sorted({kind for _, kind in kinds}):
        alike = [search for search, its in kinds if its == kind]
        yield _search_words(alike, kind=kind, seed=sampler.get("seed", 0))
    if told := told_words(sum((Counter(search.told) for search in searches), Counter[str]())):
        yield f"Before its first point, a sampler was given points of earlier sweeps on the same data: {told}."
    if not searches:
        return
    seeds, rows = state.config.get("seeds", {}), {row.place: row for row in state.plan.datasets}
    for told, places in _grouped((_chosen_by(s, rows.get(s.place), state), s.dataset) for s in searches).items():
        where = f"On {_all(places)} each" if len({s.dataset for s in searches}) > len(places) else "Each"
        yield f"{where} point was fitted with {_counted(seeds.get('search', 0), 'seed')} and scored by {told}."
    for others, places in _grouped(
        (_all([*map(words, search.further)]), search.dataset) for search in searches if search.further
    ).items():
        yield (
            f"The searches on {_all(places)} looked for the Pareto front of that score and {others}; of its points, "
            f"the one that was best by that score was taken."
        )
    again = "best point was" if (best := seeds.get("rescored", 1)) == 1 else f"{best} best points were"
    yield f"Of each search the {again} fitted again, with the seeds of the report, which no search had seen."
    stop = state.config.get("early_stop", {})
    if stop.get("kind") == "median":
        yield (
            f"Fits of a search ended early where their best score so far was below the {stop.get('quantile', 0.5):g} "
            f"quantile of earlier points at the same step."
        )
    elif stop.get("kind") == "wilcoxon":
        yield "Points that lost to the best on their first seeds, by a Wilcoxon test, were given up."


def _search_words(searches: Sequence[SearchShown], *, kind: str, seed: int) -> str:
    """Returns a sentence on which models were searched, and how; an empty kind means that every point was tried."""
    models = dict.fromkeys(search.model for search in searches)
    counts = sorted(len(search.values) for search in searches)
    points = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    how = f"by {_SAMPLERS.get(kind, kind)}{' as in Optuna' if kind in _BY_OPTUNA else ''} ({points} points"
    how += f"; seed {seed})" if kind != "grid" else ")"
    if not kind:
        how = f"by trying every point of their space ({points} points)"
    return f"The hyper-parameters of {_all(models)} were chosen {how}, on each dataset separately."


def _of_answers(metric: str) -> str:
    return "mean log-likelihood" if metric == HELDOUT else words(metric).removeprefix("held-out ")


def _chosen_by(search: SearchShown, row: DatasetRecord | None, state: JournalState) -> str:
    """Returns the score that chose the point of a search, in words, and whether it used gold."""
    split = search.metric.partition("_")[0]
    if by_held_out(search.metric):
        share = state.config.get("heldout", {}).get("fraction")
        held = f"{_percent(share)} of the annotations, held out of the fit" if share else "held-out annotations"
        return f"the {_of_answers(search.metric)} of {held}, so without gold"
    knows = row is None or row.gold.get(split, True)
    if split == "train":
        return f"{words(search.metric)} against the gold that also ranks the models"
    against = "gold" if knows else "the distribution of each item's annotations, so without gold"
    return f"{words(search.metric)} against {against}"


def _numbers(state: JournalState, comparison: Comparison) -> Iterator[str]:
    """Yields sentences on the seeds that the reported means are over, and on what their intervals vary over."""
    if not comparison.datasets:
        return
    n = state.plan.report_seeds
    yield (
        f"Each reported number is the mean over {_counted(n, 'seed')}, with a {_percent(CONFIDENCE)} interval."
        if n > 1
        else "Each reported number is of one seed."
    )
    yield from _by_dataset(comparison.datasets, intervals_over)


def _tests(comparison: Comparison) -> Iterator[str]:
    """Yields sentences on the tests of models: paired tests with their correction, and ranks over datasets."""
    tests = [
        test.test
        for block in comparison.datasets
        for score in block.ranked
        if (test := score.versus_best) is not None and test.p is not None
    ]
    if tests:
        kinds = _all(dict.fromkeys(_TESTS.get(test, test) for test in tests))
        yield (
            f"Models were compared on the same seeds by paired tests ({kinds}) at {_percent(SIGNIFICANCE)}, with "
            f"Holm's correction over all pairs of models on a dataset."
        )
    ranks = comparison.ranks
    if ranks is not None and ranks.friedman is not None:
        after = ""
        if ranks.critical is not None:
            after = (
                f", and those of two models by Nemenyi's test at {_percent(SIGNIFICANCE)} (critical difference "
                f"{ranks.critical.difference:.2f})"
            )
        yield (
            f"Over the {ranks.n_datasets} datasets, mean ranks were compared by Friedman's test with Iman and "
            f"Davenport's correction ({friedman_words(ranks.friedman)}){after}."
        )


_TESTS = {
    "Wilcoxon": "Wilcoxon's signed-rank test",
    "paired t": "Student's paired t test",
    "permutation": "an exact permutation test",
}


def _trials(counts: Mapping[str, int]) -> Iterator[str]:
    finished, failed, stopped = counts["finished"], counts["failed"], counts["stopped"]
    part = finished < counts["planned"]
    told = f"{finished:,} of {counts['planned']:,} trials had ended" if part else f"{finished:,} trials ran"
    more = [f"{failed:,} failed and {'is' if failed == 1 else 'are'} missing from the means"] if failed else []
    more += [f"{stopped:,} {'was' if stopped == 1 else 'were'} stopped early"] if stopped else []
    yield f"In all {told}{f' ({_all(more)})' if more else ''}."


def _software(state: JournalState, searched: bool) -> Iterator[str]:
    """Yields a sentence on the versions of the software: all of them, where drivers had different ones."""

    def versions(name: str) -> list[str]:
        return list(dict.fromkeys(one.environment[name] for one in state.started if name in one.environment))

    names = [name for name in _LIBRARIES if versions(name) and (searched or name != "optuna")]
    libraries = [f"{name.capitalize() if name == 'python' else name} {_all(versions(name))}" for name in names]
    if own := versions("crowdsweep"):
        yield f"Software: crowdsweep {_all(own)}{f' on {_all(libraries)}' if libraries else ''}."


def _by_dataset(blocks: Sequence[DatasetComparison], told: Callable[[DatasetComparison], str]) -> Iterator[str]:
    """Yields each distinct sentence on datasets; with the names of its datasets, where there are several sentences."""
    known = [(told(block), block.title) for block in blocks]
    groups = _grouped((text, title) for text, title in known if text)
    for text, titles in groups.items():
        yield text if len(groups) == 1 else f"{_all(titles)}: {text[:1].lower()}{text[1:]}"


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Returns first element → its second elements, without repetitions."""
    found: dict[str, list[str]] = {}
    for text, of in pairs:
        if of not in found.setdefault(text, []):
            found[text].append(of)
    return found


def _cells(state: JournalState) -> list[CellRecord]:
    return [*state.plan.cells, *state.plan.searches]


def _all(names: Collection[str]) -> str:
    *rest, last = names
    return f"{', '.join(rest)} and {last}" if rest else last


def _counted(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def _percent(share: float) -> str:
    return f"{100 * share:g} %"
