"""A table as text: CSV, JSON, Markdown, LaTeX."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import pyarrow as pa

from crowdsweep.errors import plain
from crowdsweep.files.csv_files import to_csv

TableFormat = Literal["csv", "json", "md", "latex"]
_MARKDOWN = re.compile(r"[|`\\]|<(?=[A-Za-z/!?])|(?<=\])\(")  # ends a cell, is code or HTML, or makes a link
_LATEX = {
    "\\": "\\textbackslash{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    "−": "$-$",  # pdfTeX's fonts lack these as Unicode characters
    "×": "$\\times$",
    "±": "$\\pm$",
    "χ": "$\\chi$",
    "≥": "$\\geq$",
    "≤": "$\\leq$",
    "→": "$\\to$",
    "…": "\\ldots{}",
    "²": "$^2$",
    "–": "--",
    "†": "$^\\dagger$",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
_LATEX_SPECIAL = re.compile("|".join([*map(re.escape, _LATEX), "-(?=-)"]))  # several hyphens become one dash
_LATEX_OPTION = re.compile(r"\A([\[*])")  # an argument, after the end of a row


def render_table(table: pa.Table, form: TableFormat) -> str:
    """Returns a table in a form that the command line offers; each ends with a new line."""
    return {"csv": to_csv, "json": to_json, "md": to_markdown, "latex": to_latex}[form](table)


def to_json(table: pa.Table) -> str:
    """Returns a JSON list with an object for each row."""
    return json.dumps(table.to_pylist(), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def to_markdown(table: pa.Table, *, right: Sequence[str] | None = None) -> str:
    """Returns a pipe table, padded so that it reads well as text too; null is an empty cell.

    Args:
        right: right-aligned columns; by default those of numbers.
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
    """Returns a text that Markdown shows unchanged: no link, code, HTML or table."""
    return _MARKDOWN.sub(r"\\\g<0>", text)


def as_latex(text: str) -> str:
    """Returns a text that LaTeX typesets unchanged: no command, comment, argument or ligature. Letters beyond Latin are
    kept; pdfLaTeX cannot typeset them, XeLaTeX and LuaLaTeX can with a font that has them."""
    escaped = _LATEX_SPECIAL.sub(lambda hit: _LATEX.get(hit.group(), "-{}"), plain(" ".join(text.splitlines())))
    return _LATEX_OPTION.sub(r"{\1}", escaped)


def to_latex(table: pa.Table, *, right: Sequence[str] | None = None) -> str:
    """Returns a `tabular` that needs no package; every character that LaTeX takes for a command is escaped."""
    cells = zip(*(column.to_pylist() for column in table.columns), strict=True)
    rows = [_latex_row(table.column_names), "\\hline", *(_latex_row(map(_cell_text, row)) for row in cells)]
    columns = "".join("r" if is_right else "l" for is_right in _aligned(table, right))
    return "\n".join([f"\\begin{{tabular}}{{{columns}}}", "\\hline", *rows, "\\hline", "\\end{tabular}"]) + "\n"


def _aligned(table: pa.Table, right: Sequence[str] | None) -> list[bool]:
    if right is not None:
        return [name in right for name in table.column_names]
    return [pa.types.is_floating(kind) or pa.types.is_integer(kind) for kind in table.schema.types]


def _cell_text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else plain(" ".join(str(value).splitlines()))


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(map(as_latex, cells)) + " \\\\"
