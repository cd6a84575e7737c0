"""The tidy table of results, one row per trial."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from crowdsweep.models.progress import still_improves
from crowdsweep.record.result import TrialResult
from crowdsweep.record.shown import ShownTrial, one_each, shown_trials
from crowdsweep.record.spec import canonical_json
from crowdsweep.record.state import JournalState

TablePhase = Literal["report", "search", "all"]

# What scripts rely on: these columns in this order (`asked` only where all trials are wanted), then one for each
# metric, then the two of the failure.
TRIAL_COLUMNS: dict[str, pa.DataType] = {
    "sweep": pa.string(),
    "phase": pa.string(),
    "asked": pa.bool_(),
    "chosen": pa.bool_(),
    "model": pa.string(),
    "dataset": pa.string(),
    "dataset_params": pa.string(),
    "point": pa.string(),
    "seed": pa.int64(),
    "status": pa.string(),
    "key": pa.string(),
    "wall_s": pa.float64(),
    "batch_wall_s": pa.float64(),
    "batch_size": pa.int64(),
    "peak_bytes": pa.int64(),
    "iterations": pa.int64(),
    "flags": pa.string(),
    "device": pa.string(),
    "host": pa.string(),
    "unfinished": pa.bool_(),
}
FAILURE_COLUMNS: dict[str, pa.DataType] = {"failure_kind": pa.string(), "failure_message": pa.string()}


def results_table(state: JournalState, phase: TablePhase = "report", *, every: bool = False) -> pa.Table:
    """Returns the finished trials that the sweep asks for now, one row each, in the order of its plan.

    `model` is the label that the sweep file gives the model. `chosen` says which rows the report counts
    (`record.shown`): of the search phase none, of the report phase those of fixed points and of the point that stands
    for its search. A metric that does not apply to a trial, and every metric of a failed one, is null. Trials that have
    not finished have no row.

    Args:
        state: what the journal says.
        phase: trials of both phases stand under `all` once, as trials of the report.
        every: also the trials that the sweep does not ask for any more, marked by a column `asked`.
    """
    found = one_each(trial for trial in shown_trials(state, every=every) if phase in ("all", trial.spec.phase))
    return _table(state, found.values(), every=every)


def results_of_all(states: Sequence[JournalState], phase: TablePhase = "report", *, every: bool = False) -> pa.Table:
    """Returns the trials of several sweeps, one below another, as `results_table` has those of each; a metric that one
    of them lacks is null there."""
    tables = [results_table(state, phase, every=every) for state in states]
    metrics = sorted({name for table in tables for name in metric_columns(table)})
    told = [name for name in TRIAL_COLUMNS if every or name != "asked"]
    return pa.concat_tables(tables, promote_options="default").select([*told, *metrics, *FAILURE_COLUMNS])


def comparison_rows(state: JournalState) -> pa.Table:
    """Returns the report phase's table, in which a trial that answers for several models of the sweep file has a row
    for each of them."""
    return _table(state, [trial for trial in shown_trials(state) if trial.spec.phase == "report"])


def metric_columns(table: pa.Table) -> list[str]:
    """Returns the names of the metrics in a table of results."""
    return [name for name in table.column_names if name not in TRIAL_COLUMNS and name not in FAILURE_COLUMNS]


def _table(state: JournalState, found: Iterable[ShownTrial], *, every: bool = False) -> pa.Table:
    rows: list[dict[str, Any]] = []
    metrics: set[str] = set()
    for trial in found:
        result = state.results.get(trial.spec.key)
        if result is not None:
            rows.append(encodable({"sweep": state.name, **_row(trial, result)}))
            metrics.update(result.metrics)
    told = [(name, kind) for name, kind in TRIAL_COLUMNS.items() if every or name != "asked"]
    schema = [*told, *((name, pa.float64()) for name in sorted(metrics)), *FAILURE_COLUMNS.items()]
    return pa.Table.from_pylist(rows, schema=pa.schema(schema))


def _row(trial: ShownTrial, result: TrialResult) -> dict[str, Any]:
    spec, failure = trial.spec, result.failure
    return {
        "phase": spec.phase,
        "asked": trial.asked,
        "chosen": trial.chosen,
        "model": trial.label,
        "dataset": spec.dataset,
        "dataset_params": canonical_json(dict(spec.dataset_params)),
        "point": canonical_json(dict(spec.point)),
        "seed": spec.seed,
        "status": result.status,
        "key": result.key,
        "wall_s": result.wall_s,
        "batch_wall_s": result.batch_wall_s,
        "batch_size": result.batch_size,
        "peak_bytes": result.peak_bytes,
        "iterations": result.iterations,
        "flags": " ".join(result.flags) or None,
        "device": result.device,
        "host": result.host,
        "unfinished": ended_too_early(result),
        **({name: float(value) for name, value in result.metrics.items()} if failure is None else {}),
        "failure_kind": None if failure is None else failure.kind,
        "failure_message": None if failure is None else failure.message,
    }


def ended_too_early(result: TrialResult) -> bool:
    """Whether a fit ended, by its limit of steps, while its objective still clearly improved."""
    return not result.converged and still_improves(np.asarray(result.objective, dtype=np.float64))


def encodable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row whose texts have what UTF-8 cannot say (half a character of UTF-16) spelled out."""
    return {
        name: value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value
        for name, value in row.items()
    }
