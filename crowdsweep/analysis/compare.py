"""The comparison of models: which is better, by how much, and with what certainty.

All numbers come from the report phase of the tidy table, that is, from trials on fresh seeds that no search has seen.
Where trials stored them, the scores of single items, of which the ranking metric is the mean, are used too.
`metrics.intervals` describes what intervals and tests vary over.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from crowdsweep.analysis.paired import PairedTest, SeedScores, against_best
from crowdsweep.analysis.ranks import MeanRanks, mean_ranks
from crowdsweep.analysis.trial_table import metric_columns
from crowdsweep.metrics.intervals import Estimate, Varies, estimate
from crowdsweep.metrics.metric_table import ACCURACY, by_held_out, metric_kind, repeats_votes
from crowdsweep.metrics.ranking import ranking_metric
from crowdsweep.metrics.shown import unsound_words
from crowdsweep.metrics.wording import goal_of
from crowdsweep.record.array_names import ItemScores, no_item_scores
from crowdsweep.record.naming import describe_dataset, is_thinned
from crowdsweep.record.plan_record import DatasetRecord
from crowdsweep.record.result import Status
from crowdsweep.search.contract import Goal
from crowdsweep.sweepfile.records import Metric, PublishedValue

Beside = Literal["the same", "not significantly different", "worse", "not tested"]
"""A model compared with the best: identical numbers, a difference that is not significant, a significant one, or no
test."""
_COMMON_DEFAULTS = {"scenario": "individual"}  # records leave out dataset parameters that have their default


@dataclass(frozen=True, kw_only=True)
class ModelScore:
    """Scores of one model on one dataset, at one point of its hyper-parameters.

    Attributes:
        point: the searched hyper-parameters, canonical JSON.
        rank: 1 is best; None for models that saw gold or lack the metric.
        metrics: estimates of every metric over the fresh seeds.
        scores: the ranking metric by seed, and by item where item scores are known; empty where the model lacks it.
        versus_best: the paired test against the best model; None for the best one and for models without rank.
        n_failed, n_stopped: number of seeds that failed, or were stopped early; no estimate includes them.
        n_fitted, n_flagged: number of seeds that were fitted, and of those whose fit is flagged (`trial.flags`).
        n_unfinished: number of fits that ended while their objective still clearly improved.
        wall_s, peak_bytes: mean seconds per trial; peak memory of its batches; None where every seed failed.
        saw_gold: whether the model needs gold by definition: it is an upper bound and is not ranked.
    """

    model: str
    point: str
    rank: int | None = None
    metrics: Mapping[str, Estimate]
    scores: SeedScores
    versus_best: PairedTest | None = None
    n_failed: int = 0
    n_stopped: int = 0
    n_fitted: int = 0
    n_flagged: int = 0
    n_unfinished: int = 0
    wall_s: Estimate | None = None
    peak_bytes: int | None = None
    saw_gold: bool = False

    @property
    def name(self) -> str:
        """Label of the model, with a mark where it saw gold."""
        return f"{self.model} (saw gold)" if self.saw_gold else self.model

    @property
    def beside_best(self) -> Beside | None:
        """Result of the test against the best model; None for the best and for models without rank."""
        test = self.versus_best
        if test is None:
            return None
        if test.p_holm is None:
            return "the same" if test.difference is not None and test.difference.mean == 0 else "not tested"
        return "worse" if test.is_significant else "not significantly different"

    def unsound(self, metric: str) -> str:
        """Returns why the mean of this metric is not sound, such as `2 of 10 seeds collapsed` or `1 of 10 trials is
        flagged`; empty where it is sound.

        A model without a sound mean never counts as being as good as another one.
        """
        found = self.metrics.get(metric)
        return unsound_words(found, self.n_flagged, self.n_fitted)


@dataclass(frozen=True, kw_only=True)
class DatasetComparison:
    """Comparison of all models on one dataset with its parameters.

    Attributes:
        dataset: name of the dataset.
        dataset_params: its parameters, canonical JSON.
        metric, goal: the metric that ranks, and its direction; the metric is empty where no trial has any.
        references: what the models are scored against.
        ranked: ranked models, best first.
        gold: models that saw gold, best first.
        unranked: models without this metric (an aggregate cannot label unseen items), or whose every seed failed.
        other_points: further re-scored points of searched models, in the order of selection.
        among: names of all datasets of the sweep; the title is chosen to differ from theirs.
    """

    dataset: str
    dataset_params: str
    metric: str
    goal: Goal
    ranked: Sequence[ModelScore]
    gold: Sequence[ModelScore]
    unranked: Sequence[ModelScore]
    other_points: Sequence[ModelScore] = ()
    references: DatasetRecord
    among: frozenset[str] = frozenset()

    @property
    def place(self) -> tuple[str, str]:
        """The dataset and its parameters, canonical JSON."""
        return self.dataset, self.dataset_params

    @property
    def title(self) -> str:
        """The dataset and its parameters, in words."""
        return describe_dataset(self.dataset, self.dataset_params, self.among)

    @property
    def scores(self) -> list[ModelScore]:
        """Every model: first the ranked ones, then those that saw gold, then the unranked ones."""
        return [*self.ranked, *self.gold, *self.unranked]

    @property
    def varies(self) -> list[Varies]:
        """What the intervals of the ranking metric vary over, without repetitions."""
        found = [score.metrics[self.metric] for score in [*self.ranked, *self.gold]]
        return list(dict.fromkeys(estimate.varies for estimate in found if estimate.low is not None))


@dataclass(frozen=True, kw_only=True)
class PublishedComparison:
    """One published value and the sweep's own estimate of it.

    Attributes:
        block: the comparison on its dataset; None, like `ours`, where the sweep has no such cell (yet).
    """

    published: PublishedValue
    block: DatasetComparison | None = None
    ours: Estimate | None = None

    @property
    def difference(self) -> float | None:
        return None if self.ours is None else self.ours.mean - self.published.value

    @property
    def inside(self) -> bool | None:
        """Whether the published value lies in the sweep's interval; None where there is no interval."""
        if self.ours is None or self.ours.low is None or self.ours.high is None:
            return None
        return self.ours.low <= self.published.value <= self.ours.high


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Comparison of a sweep's models: per dataset, over datasets, and with published values."""

    datasets: Sequence[DatasetComparison]
    ranks: MeanRanks | None
    published: Sequence[PublishedComparison]

    def printed(self, block: DatasetComparison) -> Mapping[str, float]:
        """Returns model → published value of the metric that ranks on a dataset."""
        return {
            entry.published.model: entry.published.value
            for entry in self.published
            if entry.block is block and entry.published.metric == block.metric
        }


@dataclass(kw_only=True)
class _Cell:
    """Table rows of one model × dataset × point."""

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
    references: Mapping[tuple[str, str], DatasetRecord] | None = None,
    item_scores: ItemScores = no_item_scores,
    by: str = "",
) -> Comparison:
    """Compares the models of a sweep.

    Args:
        table: a table of `comparison_rows` or `results_table`; rows of the search phase are ignored. Rows with `chosen`
            are compared; the others become `other_points`.
        metric: the metric of the sweep file; its test version ranks where there is one.
        references: (dataset, dataset_params) → what its models are scored against; gold where there is no entry.
        by: full name of the metric that ranks, in place of what `metrics.ranking` chooses; on a dataset that lacks it
            no model is ranked.
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
    wanted = None if metric is None else (metric.name, metric.goal)
    datasets: list[DatasetComparison] = []
    among = frozenset(dataset for dataset, _ in blocks)
    for (dataset, params), cells in blocks.items():
        known = (references or {}).get((dataset, params)) or DatasetRecord(dataset=dataset)
        used = [name for name in names if not repeats_votes(name, known.gold)]  # earlier versions kept such metrics
        rows = [row for cell in cells.values() if cell.chosen for row in cell.rows]
        present = [name for name in used if any(row[name] is not None for row in rows)]
        ranks = _given(by, present) if by else ranking_metric(present, wanted, known.gold)
        made = _compare_models(dataset, params, list(cells.values()), used, ranks, gold_models, known, item_scores)
        datasets.append(replace(made, among=among))
    return Comparison(
        datasets=datasets,
        ranks=mean_ranks([(block.dataset, _losses(block)) for block in datasets if block.ranked]),
        published=[_beside_ours(value, datasets) for value in published],
    )


def without_thinned(blocks: Sequence[DatasetComparison]) -> Sequence[DatasetComparison]:
    """Returns the comparisons on full datasets, without those on thinned ones; all where every dataset is thinned."""
    return [block for block in blocks if not is_thinned(block.dataset_params)] or blocks


def _given(by: str, present: Sequence[str]) -> tuple[str, Goal]:
    return (by, goal_of(by) or "maximize") if by in present else ("", "maximize")


def _compare_models(
    dataset: str,
    params: str,
    cells: Sequence[_Cell],
    names: Sequence[str],
    ranks: tuple[str, Goal],
    gold_models: frozenset[str],
    references: DatasetRecord,
    item_scores: ItemScores,
) -> DatasetComparison:
    metric, goal = ranks
    chosen = [cell for cell in cells if cell.chosen]
    keys = [row["key"] for cell in cells for row in cell.rows if metric and row[metric] is not None]
    by_item = {} if references.heldout and by_held_out(metric) else item_scores(keys, metric)
    scores = {
        id(cell): _score(cell, names, metric, cell.model in gold_models, references.heldout, by_item) for cell in cells
    }
    sign = -1.0 if goal == "maximize" else 1.0
    of_chosen = [scores[id(cell)] for cell in chosen]
    able = sorted(
        (score for score in of_chosen if score.scores.by_seed),
        key=lambda score: (round(sign * score.metrics[metric].mean, 12), _tie_loss(score, metric)),
    )
    heldout = references.heldout if by_held_out(metric) else 0.0
    return DatasetComparison(
        dataset=dataset,
        dataset_params=params,
        metric=metric,
        goal=goal,
        ranked=_rank_and_test([score for score in able if not score.saw_gold], heldout, metric),
        gold=[score for score in able if score.saw_gold],
        unranked=[score for score in of_chosen if not score.scores.by_seed],
        other_points=[scores[id(cell)] for cell in cells if not cell.chosen],
        references=references,
    )


def tie_breaker(metric: str) -> str:
    """Returns the metric that ranks models of the same accuracy, as many are on a few items with gold; empty for other
    metrics. The Brier score is about the same items, and says how near the models came to erring."""
    return metric.replace("accuracy", "brier") if metric_kind(metric) == ACCURACY else ""


def _tie_loss(score: ModelScore, metric: str) -> float:
    found = score.metrics.get(tie_breaker(metric))
    return 0.0 if found is None else found.mean


def _score(
    cell: _Cell,
    names: Sequence[str],
    metric: str,
    saw_gold: bool,
    heldout: float,
    item_scores: Mapping[str, Float[np.ndarray, " items"]],
) -> ModelScore:
    good = [row for row in cell.rows if row["status"] == Status.OK]
    ranked = [row for row in good if metric and row[metric] is not None]
    items = {row["seed"]: item_scores[row["key"]] for row in ranked if row["key"] in item_scores}
    known = np.stack(list(items.values())) if items and len(items) == len(ranked) else None
    columns = {name: [row[name] for row in good if row[name] is not None] for name in names}
    return ModelScore(
        model=cell.model,
        point=cell.point,
        metrics={
            name: estimate(
                values,
                metric=name,
                heldout=heldout if by_held_out(name) else 0.0,
                item_scores=known if name == metric else None,
            )
            for name, values in columns.items()
            if values
        },
        scores=SeedScores(
            by_seed={row["seed"]: row[metric] for row in ranked}, by_item=items if known is not None else {}
        ),
        n_failed=sum(row["status"] == Status.FAILED for row in cell.rows),
        n_stopped=sum(row["status"] == Status.STOPPED for row in cell.rows),
        n_fitted=len(good),
        n_flagged=sum(bool(row.get("flags")) for row in good),
        n_unfinished=sum(bool(row.get("unfinished")) for row in good),
        wall_s=estimate([row["wall_s"] for row in good]) if good else None,
        peak_bytes=max(row["peak_bytes"] for row in good) if good else None,
        saw_gold=saw_gold,
    )


def _rank_and_test(scores: Sequence[ModelScore], heldout: float, metric: str) -> list[ModelScore]:
    tests = [None, *against_best([score.scores for score in scores], heldout, metric)]
    return [
        replace(score, rank=place, versus_best=test)
        for place, (score, test) in enumerate(zip(scores, tests, strict=bool(scores)), start=1)
    ]


def _losses(block: DatasetComparison) -> dict[str, float]:
    """Returns ranked model → its mean, negated where more is better."""
    sign = -1.0 if block.goal == "maximize" else 1.0
    return {score.model: sign * score.metrics[block.metric].mean for score in block.ranked}


def _beside_ours(value: PublishedValue, datasets: Sequence[DatasetComparison]) -> PublishedComparison:
    """Finds the cell that a published value is about; of several, the one whose dataset has the fewest parameters."""
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
