"""Which model is better, by how much, and how sure that is.

Everything is computed from the report phase of the tidy table: trials on fresh seeds that no search has seen. Intervals
and tests speak of what the seeds vary (initial weights, simulated crowds, thinned samples), not of the sampling of the
test items, which all models share.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import stats

from crowdsweep.metrics.intervals import Estimate, estimate
from crowdsweep.report.paired import PairedTest, holm, paired_test
from crowdsweep.report.ranking import References, ranking_metric
from crowdsweep.report.table import metric_columns
from crowdsweep.search.contract import Goal
from crowdsweep.sweepfile.records import Metric, PublishedValue
from crowdsweep.trial.result import Status

_COMMON_DEFAULTS = {"scenario": "individual"}  # dataset parameters at their defaults are not written down


@dataclass(frozen=True, kw_only=True)
class Score:
    """One model on one dataset, at one point.

    Attributes:
        model: its label in the sweep.
        point: the searched parameters, canonical JSON.
        rank: 1 is best; None for models that saw gold or lack the metric.
        metrics: estimates of every metric over the fresh seeds.
        by_seed: seed → the ranking metric; empty where the model lacks it.
        versus_best: the paired test; None for the best one and for models without rank.
        n_failed, n_stopped: seeds that failed, or were stopped before their end: missing from all estimates.
        wall_s, peak_bytes: mean seconds of a trial; highest memory of its batches; None where every seed failed.
        saw_gold: the model needs gold by definition: an upper bound, not a competitor.
    """

    model: str
    point: str
    rank: int | None = None
    metrics: Mapping[str, Estimate]
    by_seed: Mapping[int, float]
    versus_best: PairedTest | None = None
    n_failed: int = 0
    n_stopped: int = 0
    wall_s: Estimate | None = None
    peak_bytes: int | None = None
    saw_gold: bool = False


@dataclass(frozen=True, kw_only=True)
class DatasetComparison:
    """All models on one dataset with its parameters.

    Attributes:
        dataset_params: canonical JSON.
        metric, goal: what ranks; the metric is empty where no trial has any.
        references: what the models are scored against.
        ranked: best first.
        gold: models that saw gold, best first.
        unranked: models without this metric (an aggregate cannot label unseen items), or whose every seed failed.
        other_points: further points of these models that were re-scored as well, in the order of selection.
    """

    dataset: str
    dataset_params: str
    metric: str
    goal: Goal
    ranked: Sequence[Score]
    gold: Sequence[Score]
    unranked: Sequence[Score]
    other_points: Sequence[Score] = ()
    references: References = field(default_factory=References)

    @property
    def title(self) -> str:
        """The dataset and its parameters, as a person would write them."""
        return describe_dataset(self.dataset, self.dataset_params)

    @property
    def scores(self) -> list[Score]:
        """Every model: ranked, then those that saw gold, then the rest."""
        return [*self.ranked, *self.gold, *self.unranked]


@dataclass(frozen=True, kw_only=True)
class MeanRanks:
    """Ranks averaged over the datasets on which every one of these models is ranked.

    Attributes:
        ranks: model → mean rank (ties share), best first.
        n_datasets: how many they are averaged over.
        statistic, p: Friedman's test; None where it does not apply.
        reason: why not; empty where it does.
    """

    ranks: Mapping[str, float]
    n_datasets: int
    statistic: float | None = None
    p: float | None = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class PublishedComparison:
    """One printed number beside ours.

    Attributes:
        block: the dataset of ours that it is about; None, like `ours`, where the sweep has no such cell (yet).
        difference: ours minus printed.
    """

    published: PublishedValue
    block: DatasetComparison | None = None
    ours: Estimate | None = None

    @property
    def difference(self) -> float | None:
        return None if self.ours is None else self.ours.mean - self.published.value

    @property
    def inside(self) -> bool | None:
        """Whether the printed number lies in our interval; None where there is no interval."""
        if self.ours is None or self.ours.low is None or self.ours.high is None:
            return None
        return self.ours.low <= self.published.value <= self.ours.high


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The answer of a sweep."""

    datasets: Sequence[DatasetComparison]
    ranks: MeanRanks | None
    published: Sequence[PublishedComparison]


@dataclass(kw_only=True)
class _Cell:
    """The rows of one model × dataset × point."""

    model: str
    point: str
    chosen: bool
    rows: list[dict[str, Any]] = field(default_factory=list)


def compare(
    table: pa.Table,
    *,
    metric: Metric | None = None,
    published: Sequence[PublishedValue] = (),
    gold_models: frozenset[str] = frozenset(),
    references: Mapping[tuple[str, str], References] | None = None,
) -> Comparison:
    """Compares the models of a sweep.

    Args:
        table: of `comparison_rows` or `results_table`; rows of the search phase are left out. Those that are `chosen`
            are compared, the others stand beside them.
        metric: of the sweep file; what ranks is its test version where there is one.
        published: printed numbers.
        gold_models: labels of the models that need gold.
        references: (dataset, dataset_params) → what its models are scored against; gold where it is not said.
    """
    blocks: dict[tuple[str, str], dict[tuple[str, str], _Cell]] = defaultdict(dict)
    for row in table.to_pylist():
        if row["phase"] != "report":
            continue
        cells = blocks[row["dataset"], row["dataset_params"]]
        name = (row["model"], row["point"])
        cell = cells.setdefault(name, _Cell(model=row["model"], point=row["point"], chosen=row["chosen"]))
        cell.rows.append(row)
    names = metric_columns(table)
    datasets: list[DatasetComparison] = []
    for (dataset, params), cells in blocks.items():
        chosen, others = ([cell for cell in cells.values() if cell.chosen is wanted] for wanted in (True, False))
        known = (references or {}).get((dataset, params), References())
        datasets.append(_compare_models(dataset, params, chosen, others, names, metric, gold_models, known))
    return Comparison(
        datasets=datasets,
        ranks=mean_ranks(datasets),
        published=[_beside_ours(value, datasets) for value in published],
    )


def mean_ranks(datasets: Sequence[DatasetComparison]) -> MeanRanks | None:
    """Returns mean ranks and Friedman's test; None where fewer than two datasets or models can be compared.

    Only models ranked on every dataset take part. One dataset under several parameters counts as several for the
    ranks, but not for the test, which needs independent datasets.
    """
    usable = [block for block in datasets if block.ranked]
    if len(usable) < 2:
        return None
    models = set.intersection(*({score.model for score in block.ranked} for block in usable))
    if len(models) < 2:
        return None
    order = sorted(models)
    losses = np.array([[_loss(block, model) for model in order] for block in usable])
    ranks = stats.rankdata(losses, axis=1).mean(axis=0)
    means: list[float] = ranks.tolist()
    by_model = {model: mean for mean, model in sorted(zip(means, order, strict=True))}
    result = MeanRanks(ranks=by_model, n_datasets=len(usable))
    if len(usable) < 3 or len(models) < 3:
        return replace(result, reason="Friedman's test needs at least three datasets and three models")
    if len({block.dataset for block in usable}) < len(usable):
        return replace(result, reason="No Friedman test: one dataset under several parameters is not independent data")
    if all(len(set(row)) == 1 for row in losses.tolist()):
        return replace(result, reason="No Friedman test: all models tie everywhere")
    friedman = stats.friedmanchisquare(*losses.T)
    return replace(result, statistic=float(friedman.statistic), p=float(friedman.pvalue))


def describe_dataset(dataset: str, dataset_params: str) -> str:
    """Returns `labelme (scenario: global)`: a dataset with its parameters in canonical JSON."""
    params = json.loads(dataset_params)
    inside = ", ".join(f"{name}: {value}" for name, value in params.items())
    return f"{dataset} ({inside})" if inside else dataset


def comparison_table(comparison: Comparison) -> pa.Table:
    """Returns the comparison as a flat table, one row for each model × dataset, in the metrics' own units."""
    printed = {
        (id(entry.block), entry.published.model, entry.published.metric): entry.published.value
        for entry in comparison.published
    }
    rows = [
        _flat_row(block, score, printed.get((id(block), score.model, block.metric)))
        for block in comparison.datasets
        for score in block.scores
    ]
    text, number, count = pa.string(), pa.float64(), pa.int64()
    schema = [("dataset", text), ("dataset_params", text), ("rank", count), ("model", text), ("saw_gold", pa.bool_())]
    schema += [("metric", text), ("mean", number), ("low", number), ("high", number), ("sd", number), ("n", count)]
    schema += [("failed", count), ("stopped", count), ("difference_to_best", number), ("test", text)]
    schema += [("p_holm", number), ("printed", number), ("difference_to_printed", number)]
    schema += [("wall_s", number), ("peak_bytes", count)]
    return pa.Table.from_pylist(rows, schema=pa.schema([*schema, ("point", text)]))


def _flat_row(block: DatasetComparison, score: Score, printed: float | None) -> dict[str, Any]:
    ours, test = score.metrics.get(block.metric), score.versus_best
    return {
        "dataset": block.dataset,
        "dataset_params": block.dataset_params,
        "rank": score.rank,
        "model": score.model,
        "saw_gold": score.saw_gold,
        "metric": block.metric,
        "mean": ours.mean if ours else None,
        "low": ours.low if ours else None,
        "high": ours.high if ours else None,
        "sd": ours.sd if ours else None,
        "n": ours.n if ours else 0,
        "failed": score.n_failed,
        "stopped": score.n_stopped,
        "difference_to_best": test.difference.mean if test and test.difference else None,
        "test": test.test if test else None,
        "p_holm": test.p_holm if test else None,
        "printed": printed,
        "difference_to_printed": ours.mean - printed if ours and printed is not None else None,
        "wall_s": score.wall_s.mean if score.wall_s else None,
        "peak_bytes": score.peak_bytes,
        "point": score.point,
    }


def _compare_models(
    dataset: str,
    params: str,
    chosen: Sequence[_Cell],
    others: Sequence[_Cell],
    names: Sequence[str],
    wanted: Metric | None,
    gold_models: frozenset[str],
    references: References,
) -> DatasetComparison:
    present = [name for name in names if any(row[name] is not None for cell in chosen for row in cell.rows)]
    metric, goal = ranking_metric(present, wanted, references.gold)
    sign = -1.0 if goal == "maximize" else 1.0
    scores = [_score(cell, names, metric, cell.model in gold_models) for cell in chosen]
    able = sorted((s for s in scores if s.by_seed), key=lambda s: sign * s.metrics[metric].mean)
    return DatasetComparison(
        dataset=dataset,
        dataset_params=params,
        metric=metric,
        goal=goal,
        ranked=_rank_and_test([score for score in able if not score.saw_gold]),
        gold=[score for score in able if score.saw_gold],
        unranked=[score for score in scores if not score.by_seed],
        other_points=[_score(cell, names, metric, cell.model in gold_models) for cell in others],
        references=references,
    )


def _score(cell: _Cell, names: Sequence[str], metric: str, saw_gold: bool) -> Score:
    good = [row for row in cell.rows if row["status"] == Status.OK]
    columns = {name: [row[name] for row in good if row[name] is not None] for name in names}
    return Score(
        model=cell.model,
        point=cell.point,
        metrics={name: estimate(values) for name, values in columns.items() if values},
        by_seed={row["seed"]: row[metric] for row in good if metric and row[metric] is not None},
        n_failed=sum(row["status"] == Status.FAILED for row in cell.rows),
        n_stopped=sum(row["status"] == Status.STOPPED for row in cell.rows),
        wall_s=estimate([row["wall_s"] for row in good]) if good else None,
        peak_bytes=max(row["peak_bytes"] for row in good) if good else None,
        saw_gold=saw_gold,
    )


def _rank_and_test(scores: Sequence[Score]) -> list[Score]:
    if not scores:
        return []
    best, rest = scores[0], scores[1:]
    tests = [paired_test(best.by_seed, score.by_seed, len(rest)) for score in rest]
    tested = [place for place, test in enumerate(tests) if test.p is not None]
    corrected = holm([p for test in tests if (p := test.p) is not None])
    for place, p_holm in zip(tested, corrected, strict=True):
        tests[place] = replace(tests[place], p_holm=p_holm)
    return [
        replace(best, rank=1),
        *(
            replace(score, rank=place, versus_best=test)
            for place, (score, test) in enumerate(zip(rest, tests, strict=True), start=2)
        ),
    ]


def _loss(block: DatasetComparison, model: str) -> float:
    mean = next(score.metrics[block.metric].mean for score in block.ranked if score.model == model)
    return -mean if block.goal == "maximize" else mean


def _beside_ours(value: PublishedValue, datasets: Sequence[DatasetComparison]) -> PublishedComparison:
    """Finds the cell that a printed number is about; where several fit, the one with the fewest other parameters."""
    fitting: list[tuple[int, DatasetComparison]] = []
    for block in datasets:
        params = {**_COMMON_DEFAULTS, **json.loads(block.dataset_params)}
        if value.dataset == block.dataset and all(params.get(k) == v for k, v in value.dataset_params.items()):
            fitting.append((len(json.loads(block.dataset_params)), block))
    for _, block in sorted(fitting, key=lambda pair: pair[0]):
        for score in block.scores:
            if score.model == value.model and value.metric in score.metrics:
                return PublishedComparison(published=value, block=block, ours=score.metrics[value.metric])
    return PublishedComparison(published=value)
