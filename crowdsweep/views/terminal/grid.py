"""Tables for a terminal of any width, drawn by rich; tab-separated where the output is no terminal."""

import io
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from crowdsweep.errors import plain

_GAP = 2
_NARROWEST = 20
_LEAST_WRAPPED = 18  # "not significantly" on a line of its own


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column.

    Attributes:
        title: its head.
        right: whether it is right-aligned, as numbers are.
        wraps: whether a long text continues on the next line; otherwise it is cut where there is no room.
        drop: where a terminal is too narrow, the column with the greatest number is dropped first; 0 is never dropped.
        below: title of a column that stays and wraps; where this one is dropped, its text goes below that one's.
    """

    title: str
    right: bool = False
    wraps: bool = False
    drop: int = 0
    below: str = ""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table in groups.

    Attributes:
        columns: from left to right.
        groups: heading → rows of cells; an empty heading is not shown.
        group: what the headings are, as the head of the first column of tab-separated text; empty where there are none.
    """

    columns: Sequence[Column]
    groups: Mapping[str, Sequence[Sequence[str]]]
    group: str = ""


def terminal_width() -> int | None:
    """Returns the width of the terminal that standard output goes to, in columns; None where it goes to no terminal."""
    return max(_NARROWEST, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


def render(grid: Grid, width: int | None) -> str:
    """Returns a table as text.

    Args:
        width: width of the terminal; None for tab-separated lines with a header and without colours.
    """
    if width is None:
        return _tabs(grid)
    out = io.StringIO()
    colours = "standard" if os.environ.get("TERM") != "dumb" else None
    console = Console(file=out, width=width, height=100, force_terminal=True, color_system=colours, highlight=False)
    for part in drawn(grid, width):
        console.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def drawn(grid: Grid, width: int) -> Iterator[RenderableType]:
    """Yields the parts of a table on a terminal of this width."""
    parts, widths = _fitting(grid, width)
    for number, (heading, rows) in enumerate(grid.groups.items()):
        if heading:
            yield Text(("\n" if number else "") + plain(heading), style="bold")
        yield _drawn(grid, parts, widths, rows, head=bool(heading) or not number)


def _tabs(grid: Grid) -> str:
    head = [*([grid.group] if grid.group else []), *(column.title for column in grid.columns)]
    rows = [[*([heading] if grid.group else []), *row] for heading, rows in grid.groups.items() for row in rows]
    return "\n".join("\t".join(" ".join(plain(cell).split()) for cell in row) for row in [head, *rows])


def _fitting(grid: Grid, width: int) -> tuple[dict[int, list[int]], list[int]]:
    """Returns the columns that fit, each with the columns whose text goes below its own, and the widths of all
    columns."""
    rows = [row for rows in grid.groups.values() for row in rows]
    widths = [
        max([cell_len(column.title), *(cell_len(plain(row[place])) for row in rows)])
        for place, column in enumerate(grid.columns)
    ]
    filled = [place for place in range(len(grid.columns)) if any(row[place] for row in rows) or not rows]
    places = {column.title: place for place, column in enumerate(grid.columns)}
    parts = {place: [place] for place in filled}

    def needed(least_of_wrapped: int) -> int:
        least = 0
        for place, told in parts.items():
            wide = max(widths[part] for part in told)
            least += (min(wide, least_of_wrapped) if grid.columns[place].wraps else wide) + _GAP
        return least - _GAP

    while needed(_LEAST_WRAPPED) > width and any(grid.columns[place].drop for place in parts):
        gone = max(parts, key=lambda place: grid.columns[place].drop)
        del parts[gone]
        host = places.get(grid.columns[gone].below)
        if host in parts:
            parts[host].append(gone)
    return parts, widths if needed(_LEAST_WRAPPED) <= width else [0] * len(widths)


def _drawn(
    grid: Grid, parts: Mapping[int, Sequence[int]], widths: Sequence[int], rows: Sequence[Sequence[str]], *, head: bool
) -> Table:
    table = Table(box=None, padding=(0, _GAP, 0, 0), header_style="dim", show_header=head, pad_edge=False)
    for place, told in parts.items():
        column = grid.columns[place]
        table.add_column(
            Text("\n".join(grid.columns[part].title for part in told)),
            justify="right" if column.right else "left",
            no_wrap=not column.wraps,
            overflow="fold" if column.wraps else "ellipsis",
            min_width=None if column.wraps else widths[place],
        )
    for row in rows:
        cells = ([plain(row[part]) for part in told if row[part]] for told in parts.values())
        table.add_row(*(Text("\n".join(lines)) for lines in cells))
    return table
