"""The tidy table of results, one row per trial."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from crowdsweep.models.progress import still_improves
from crowdsweep.record.result import TrialResult
from crowdsweep.record.shown import ShownTrial, one_each, shown_trials
from crowdsweep.record.spec import canonical_json
from crowdsweep.record.state import JournalState

TablePhase = Literal["report", "search", "all"]

Cell = Callable[[ShownTrial, TrialResult], Any]

# Scripts rely on this order: the sweep's name, these columns (`asked` only in a table of all trials), one per metric,
# those of failures.
_OF_TRIALS: Mapping[str, tuple[pa.DataType, Cell]] = {
    "phase": (pa.string(), lambda trial, _: trial.spec.phase),
    "asked": (pa.bool_(), lambda trial, _: trial.asked),
    "chosen": (pa.bool_(), lambda trial, _: trial.chosen),
    "model": (pa.string(), lambda trial, _: trial.label),
    "dataset": (pa.string(), lambda trial, _: trial.spec.dataset),
    "dataset_params": (pa.string(), lambda trial, _: canonical_json(dict(trial.spec.dataset_params))),
    "point": (pa.string(), lambda trial, _: canonical_json(dict(trial.spec.point))),
    "seed": (pa.int64(), lambda trial, _: trial.spec.seed),
    "status": (pa.string(), lambda _, result: str(result.status)),
    "key": (pa.string(), lambda _, result: result.key),
    "wall_s": (pa.float64(), lambda _, result: result.wall_s),
    "batch_wall_s": (pa.float64(), lambda _, result: result.batch_wall_s),
    "batch_size": (pa.int64(), lambda _, result: result.batch_size),
    "peak_bytes": (pa.int64(), lambda _, result: result.peak_bytes),
    "iterations": (pa.int64(), lambda _, result: result.iterations),
    "flags": (pa.string(), lambda _, result: " ".join(result.flags) or None),
    "device": (pa.string(), lambda _, result: result.device),
    "host": (pa.string(), lambda _, result: result.host),
    "unfinished": (pa.bool_(), lambda _, result: ended_too_early(result)),
}
_OF_FAILURES: Mapping[str, tuple[pa.DataType, Cell]] = {
    "failure_kind": (pa.string(), lambda _, result: None if result.failure is None else result.failure.kind),
    "failure_message": (pa.string(), lambda _, result: None if result.failure is None else result.failure.message),
}
TRIAL_COLUMNS = {"sweep": pa.string(), **{name: kind for name, (kind, _) in _OF_TRIALS.items()}}
FAILURE_COLUMNS = {name: kind for name, (kind, _) in _OF_FAILURES.items()}


def results_table(
    state: JournalState, phase: TablePhase = "report", *, every: bool = False, shown: Sequence[ShownTrial] | None = None
) -> pa.Table:
    """Returns the finished trials that the sweep asks for now, one row each, in the order of its plan.

    `model` is the label of the model in the sweep file. `chosen` marks the rows that the report counts
    (`record.shown`): rows of the report phase at a fixed point, or at the point that a search selected; never rows of
    the search phase. A metric that does not apply to a trial is null, and so is every metric of a failed trial. Trials
    that have not finished have no row.

    Args:
        phase: the phase of the trials. With `all`, a trial of both phases has one row, as a trial of the report.
        every: whether to include trials that the sweep no longer asks for; a column `asked` tells them apart.
        shown: `shown_trials` of the state, where they are known already.
    """
    trials = shown_trials(state, every=every, phase=None if phase == "all" else phase) if shown is None else shown
    found = one_each(trial for trial in trials if phase in ("all", trial.spec.phase))
    return _table(state, found.values(), every=every)


def results_of_all(states: Sequence[JournalState], phase: TablePhase = "report", *, every: bool = False) -> pa.Table:
    """Returns the tables of several sweeps (`results_table`) as one; metrics that a sweep lacks are null."""
    tables = [results_table(state, phase, every=every) for state in states]
    metrics = sorted({name for table in tables for name in metric_columns(table)})
    told = [name for name in TRIAL_COLUMNS if every or name != "asked"]
    return pa.concat_tables(tables, promote_options="default").select([*told, *metrics, *FAILURE_COLUMNS])


def comparison_rows(state: JournalState, shown: Sequence[ShownTrial] | None = None) -> pa.Table:
    """Returns the table of the report phase, with one row per model for a trial that several models of the sweep file
    share; `shown` is as for `results_table`."""
    trials = shown_trials(state, phase="report") if shown is None else shown
    return _table(state, [trial for trial in trials if trial.spec.phase == "report"])


def metric_columns(table: pa.Table) -> list[str]:
    """Returns the names of the metrics in a table of results."""
    return [name for name in table.column_names if name not in TRIAL_COLUMNS and name not in FAILURE_COLUMNS]


def _table(state: JournalState, found: Iterable[ShownTrial], *, every: bool = False) -> pa.Table:
    """Builds the table column by column, as row objects of a hundred thousand trials would take a gigabyte."""
    ended = [(trial, result) for trial in found if (result := state.results.get(trial.spec.key)) is not None]
    columns: dict[str, Any] = {"sweep": pa.array([encodable_text(state.name)] * len(ended), pa.string())}
    for name, (kind, cell) in _OF_TRIALS.items():
        if every or name != "asked":
            columns[name] = _column(cell, ended, kind)
    for name in sorted({name for _, result in ended for name in result.metrics}):
        columns[name] = _column(partial(_metric, name), ended, pa.float64())
    for name, (kind, cell) in _OF_FAILURES.items():
        columns[name] = _column(cell, ended, kind)
    return pa.table(columns)


def _column(cell: Cell, ended: Sequence[tuple[ShownTrial, TrialResult]], kind: pa.DataType) -> Any:
    values = [cell(trial, result) for trial, result in ended]
    return pa.array([encodable_text(value) for value in values] if kind == pa.string() else values, kind)


def _metric(name: str, _: ShownTrial, result: TrialResult) -> float | None:
    return float(result.metrics[name]) if result.failure is None and name in result.metrics else None


def ended_too_early(result: TrialResult) -> bool:
    """Whether a fit ended, by its limit of steps, while its objective still clearly improved."""
    return not result.converged and still_improves(np.asarray(result.objective, dtype=np.float64))


def encodable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row with every text made encodable in UTF-8: lone UTF-16 surrogates become backslash escapes."""
    return {name: encodable_text(value) for name, value in row.items()}


def encodable_text(value: Any) -> Any:
    """Returns a text made encodable in UTF-8 (see `encodable`), and any other value unchanged."""
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode(errors="backslashreplace").decode()
