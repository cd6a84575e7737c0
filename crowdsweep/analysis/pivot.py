"""Pivot table of models × datasets, as papers print it: one cell per model and dataset, with the best ones marked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from crowdsweep.analysis.answer import by_test
from crowdsweep.analysis.compare import Comparison, DatasetComparison, ModelScore
from crowdsweep.analysis.trial_table import encodable
from crowdsweep.metrics.intervals import Estimate
from crowdsweep.search.contract import Goal

Verdict = Literal["best", "as good", "worse", "not tested", "saw gold"]
"""A model on a dataset: the best (or with identical numbers), not significantly worse than the best, significantly
worse, not compared with it (no test, or no sound mean), or one that saw gold and is not ranked."""


@dataclass(frozen=True, kw_only=True)
class PivotCell:
    """One model on one dataset.

    Attributes:
        stands: how the model compares with the best of the column.
        unsound: why the mean is not sound (`ModelScore.unsound`); empty where it is.
        printed: the published value; None where there is none.
    """

    estimate: Estimate
    stands: Verdict
    unsound: str = ""
    printed: float | None = None


@dataclass(frozen=True, kw_only=True)
class PivotColumn:
    """One dataset with its parameters.

    Attributes:
        title: the dataset with its parameters, in words.
        cells: model → cell, for models with a score.
    """

    title: str
    metric: str
    goal: Goal
    cells: Mapping[str, PivotCell]

    @property
    def has_printed(self) -> bool:
        """Whether any cell has a published value."""
        return any(cell.printed is not None for cell in self.cells.values())


@dataclass(frozen=True, kw_only=True)
class Pivot:
    """Pivot table of models × datasets.

    Attributes:
        paper: source of the published values; empty where it is not given.
        columns: datasets, in the order of the sweep.
        models: models that are ranked or have no score at all, best on average first.
        mean_ranks: model → its mean rank (`MeanRanks.ranks`); empty where there are none, as for a single dataset.
    """

    sweep: str
    paper: str
    columns: Sequence[PivotColumn]
    models: Sequence[str]
    gold: Sequence[str] = ()
    mean_ranks: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def metric(self) -> str:
        """The metric that ranks on every dataset; empty where datasets have different ones."""
        found = {column.metric for column in self.columns}
        return found.pop() if len(found) == 1 else ""

    @property
    def seeds(self) -> tuple[int, int]:
        """Lowest and highest number of seeds of a cell; zeros where there is no cell."""
        found = [cell.estimate.n for column in self.columns for cell in column.cells.values()]
        return (min(found), max(found)) if found else (0, 0)

    @property
    def unsound(self) -> Mapping[str, str]:
        """`model on dataset` → why its mean is not sound, for the cells where it is not."""
        return {
            f"{model} on {column.title}": cell.unsound
            for column in self.columns
            for model, cell in column.cells.items()
            if cell.unsound
        }

    def has(self, stands: Verdict) -> bool:
        """Whether any cell has this value of `stands`."""
        return any(cell.stands == stands for column in self.columns for cell in column.cells.values())


def pivot_of(comparison: Comparison, *, sweep: str = "", paper: str = "") -> Pivot:
    """Returns the pivot table of a comparison, with its tests and means as they are."""
    blocks = comparison.datasets
    gold = dict.fromkeys(score.model for block in blocks for score in block.scores if score.saw_gold)
    places: dict[str, list[float]] = {}
    for block in blocks:
        for score in block.scores:
            if score.model not in gold:
                places.setdefault(score.model, []).append(score.rank or len(block.scores))
    order = sorted(places, key=lambda model: (sum(places[model]) / len(places[model]), model))
    return Pivot(
        sweep=sweep,
        paper=paper,
        columns=[_column(block, comparison.printed(block)) for block in blocks],
        models=order,
        gold=list(gold),
        mean_ranks=comparison.ranks.ranks if comparison.ranks else {},
    )


def pivot_table(pivot: Pivot) -> pa.Table:
    """Returns the pivot table for programs: one row per model, in the metrics' own units.

    Each dataset has a column named by its title, with the mean. Further columns are `<title>: low` and `<title>: high`,
    the ends of the 95 % interval, `sd` over seeds, `n` (number of seeds), `stands` (`Verdict`), and `printed` where the
    dataset has published values.
    """
    schema = [("model", pa.string()), ("saw_gold", pa.bool_())]
    schema += [("mean rank", pa.float64())] if pivot.mean_ranks else []
    for column in pivot.columns:
        schema += [(column.title, pa.float64())]
        schema += [(f"{column.title}: {part}", pa.float64()) for part in ("low", "high", "sd")]
        schema += [(f"{column.title}: n", pa.int64()), (f"{column.title}: stands", pa.string())]
        schema += [(f"{column.title}: printed", pa.float64())] if column.has_printed else []
    named = [(encodable({"name": name})["name"], kind) for name, kind in schema]
    rows = [encodable(_row(pivot, model)) for model in [*pivot.models, *pivot.gold]]
    columns = [pa.array([row.get(name) for row in rows], kind) for name, kind in schema]
    return pa.Table.from_arrays(columns, schema=pa.schema(named))


def _column(block: DatasetComparison, printed: Mapping[str, float]) -> PivotColumn:
    alike, worse, _ = by_test(block) if block.ranked else ([], [], [])
    stands: dict[str, Verdict] = {}
    for score in worse:
        stands[score.model] = "worse"
    for score in alike:
        stands[score.model] = "best" if score.beside_best == "the same" else "as good"
    for score in block.ranked[:1]:
        stands[score.model] = "best"
    for score in block.gold:
        stands[score.model] = "saw gold"

    def cell(score: ModelScore) -> PivotCell:
        return PivotCell(
            estimate=score.metrics[block.metric],
            stands=stands.get(score.model, "not tested"),
            unsound=score.unsound(block.metric),
            printed=printed.get(score.model),
        )

    return PivotColumn(
        title=block.title,
        metric=block.metric,
        goal=block.goal,
        cells={score.model: cell(score) for score in [*block.ranked, *block.gold]},
    )


def _row(pivot: Pivot, model: str) -> dict[str, Any]:
    row: dict[str, Any] = {"model": model, "saw_gold": model in pivot.gold, "mean rank": pivot.mean_ranks.get(model)}
    for column in pivot.columns:
        if (cell := column.cells.get(model)) is None:
            continue
        found = cell.estimate
        row |= {
            column.title: found.mean,
            f"{column.title}: low": found.low,
            f"{column.title}: high": found.high,
            f"{column.title}: sd": found.sd,
            f"{column.title}: n": found.n,
            f"{column.title}: stands": cell.stands,
            f"{column.title}: printed": cell.printed,
        }
    return row
