"""HTML of results for a notebook: a heading, a few facts, the first rows of tables."""

from collections.abc import Mapping
from html import escape
from typing import Any

import pyarrow as pa

from crowdsweep.errors import plain, shortened

_ROWS = 8
_STYLE = "margin:0;text-align:left;vertical-align:top"


def as_html(title: str, facts: Mapping[str, Any], tables: Mapping[str, pa.Table] | None = None) -> str:
    """Returns results as HTML, with all texts escaped.

    Args:
        title: heading, a few words.
        facts: name → value.
        tables: title → table; the first rows are shown, without columns that have no value.
    """
    lines = [f"<strong>{_cell(title)}</strong>"]
    if facts:
        rows = "".join(
            f'<tr><th style="{_STYLE}">{_cell(name)}</th><td style="{_STYLE}">{_cell(value)}</td></tr>'
            for name, value in facts.items()
        )
        lines.append(f"<table>{rows}</table>")
    for name, table in (tables or {}).items():
        lines += [f"<div><em>{_cell(name)}</em></div>"] if name else []
        lines.append(_table(table))
    return "<div>" + "".join(lines) + "</div>"


def _table(table: pa.Table) -> str:
    filled = [
        name for name in table.column_names if table.column(name).null_count < table.num_rows or not table.num_rows
    ]
    table = table.select(filled)
    head = "".join(f"<th>{_cell(name)}</th>" for name in table.column_names)
    columns = [column.to_pylist() for column in table.slice(0, _ROWS).columns]
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in zip(*columns, strict=True)
    )
    more = f"<div>… {table.num_rows:,} rows</div>" if table.num_rows > _ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return escape(plain(shortened(" ".join(text.split()))))
