"""The tidy table of results, one row a trial, and the text forms that it is printed in."""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from crowdsweep.data.csv_files import table_as_csv
from crowdsweep.errors import plain
from crowdsweep.journal.shown import ShownTrial, one_each, shown_trials
from crowdsweep.journal.state import JournalState
from crowdsweep.models.progress import still_improves
from crowdsweep.trial.result import TrialResult
from crowdsweep.trial.spec import canonical_json

TablePhase = Literal["report", "search", "all"]
TableFormat = Literal["csv", "json", "md", "latex"]

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
    (`journal.shown`): of the search phase none, of the report phase those of fixed points and of the point that stands
    for its search. A metric that does not apply to a trial, and every metric of a failed one, is null. Trials that have
    not finished have no row.

    Args:
        state: what the journal says.
        phase: trials of both phases stand under `all` once, as trials of the report.
        every: also the trials that the sweep does not ask for any more, told apart by a column `asked`.
    """
    found = one_each(trial for trial in shown_trials(state, every=every) if phase in ("all", trial.spec.phase))
    return _table(state, found.values(), every=every)


def comparison_rows(state: JournalState) -> pa.Table:
    """Returns the report phase's table, in which a trial that answers for several models of the sweep file has a row
    for each of them."""
    return _table(state, [trial for trial in shown_trials(state) if trial.spec.phase == "report"])


def metric_columns(table: pa.Table) -> list[str]:
    """Returns the names of the metrics in a table of results."""
    return [name for name in table.column_names if name not in TRIAL_COLUMNS and name not in FAILURE_COLUMNS]


def to_csv(table: pa.Table) -> str:
    """Returns comma-separated values with a header; null is an empty field.

    A spreadsheet takes text that begins with `=`, `+`, `-` or `@` for a formula, and runs it; a quote before it says
    that it is text. Numbers stay numbers. What a terminal would obey is written as an escape (`errors.plain`).
    """
    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if pa.types.is_string(column.type):
            texts = [None if value is None else _csv_text(value) for value in column.to_pylist()]
            table = table.set_column(place, name, pa.array(texts, column.type))
    return table_as_csv(table.rename_columns([_csv_text(name) for name in table.column_names]))


def to_json(table: pa.Table) -> str:
    """Returns a JSON list with an object for each row."""
    return json.dumps(table.to_pylist(), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def to_markdown(table: pa.Table, *, right: Sequence[str] | None = None) -> str:
    """Returns a pipe table, padded so that it reads well as text too; null is an empty cell.

    Args:
        right: columns that stand to the right; those of numbers by default.
    """
    cells = [
        [name, *(_MARKDOWN.sub(r"\\\g<0>", _cell_text(value)) for value in column.to_pylist())]
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    columns: list[list[str]] = []
    for is_right, column in zip(_aligned(table, right), cells, strict=True):
        width = max(3, *map(len, column))
        head, *body = [text.rjust(width) if is_right else text.ljust(width) for text in column]
        columns.append([head, "-" * (width - 1) + ":" if is_right else "-" * width, *body])
    return "".join(f"| {' | '.join(row)} |\n" for row in zip(*columns, strict=True))


def as_markdown(text: str) -> str:
    """Returns a text that Markdown shows as it is: no link, code, HTML or table."""
    return _MARKDOWN.sub(r"\\\g<0>", text)


def to_latex(table: pa.Table, *, right: Sequence[str] | None = None) -> str:
    """Returns a `tabular` that needs no package; every character that LaTeX takes for a command is escaped.

    Args:
        right: columns that stand to the right; those of numbers by default.
    """
    rows = [_latex_row(table.column_names), "\\hline", *(_latex_row(map(_cell_text, row)) for row in _tuples(table))]
    columns = "".join("r" if is_right else "l" for is_right in _aligned(table, right))
    return "\n".join([f"\\begin{{tabular}}{{{columns}}}", "\\hline", *rows, "\\hline", "\\end{tabular}"]) + "\n"


def render_table(table: pa.Table, form: TableFormat) -> str:
    """Returns a table in one of the forms that the command line offers; each ends with a new line."""
    return {"csv": to_csv, "json": to_json, "md": to_markdown, "latex": to_latex}[form](table)


def _aligned(table: pa.Table, right: Sequence[str] | None) -> list[bool]:
    if right is not None:
        return [name in right for name in table.column_names]
    return [pa.types.is_floating(kind) or pa.types.is_integer(kind) for kind in table.schema.types]


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


def _tuples(table: pa.Table) -> Sequence[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _cell_text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else plain(" ".join(str(value).splitlines()))


def _csv_text(text: str) -> str:
    """Returns a text that is no formula and no command; a carriage return is only an end of line in quotes."""
    shown = "\r".join(map(plain, text.split("\r")))
    return f"'{shown}" if _is_formula(text) else shown


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet may take a text for a formula: also behind what it does not show, and in full width."""
    first = next((character for character in text if unicodedata.category(character) not in _UNSEEN), "")
    return unicodedata.normalize("NFKC", first) in _BEGINS_FORMULA or text[:1] in ("\t", "\r")


_MARKDOWN = re.compile(r"[|`\\]|<(?=[A-Za-z/!?])|(?<=\])\(")  # what ends a cell, is code or HTML, or makes a link
_UNSEEN = ("Cc", "Cf", "Zs", "Zl", "Zp")
_BEGINS_FORMULA = ("=", "+", "-", "@")
_LATEX = {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
_LATEX_SPECIAL = re.compile("|".join(map(re.escape, _LATEX)))


def _latex_row(cells: Iterable[str]) -> str:
    escaped = (_LATEX_SPECIAL.sub(lambda hit: _LATEX[hit.group()], cell) for cell in cells)
    return " & ".join(escaped) + " \\\\"
