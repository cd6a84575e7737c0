"""A table of the page, as data. A wide table is split into parts, so that none is cut at the edge of a window or a
sheet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

WIDTH = 108
"""Greatest width of a table in letters. It fits on a sheet of A4 within its margins, and in a window of 1,280 pixels.
It is measured in wide letters, so others leave a little room."""
_BETWEEN = 2  # letters between columns
_LEAST_OF_WORDS = 12  # letters, least width of a column that may break over lines


@dataclass(frozen=True, kw_only=True)
class PageRow:
    """One row; `kind` is `best` for the winner, `apart` for models without a rank, else empty."""

    cells: Sequence[str]
    kind: str = ""


@dataclass(frozen=True, kw_only=True)
class PageTable:
    """One table.

    Attributes:
        columns: heads of the columns; the first names the row.
        words: places of the columns of words, which are left-aligned and may break over lines; the others are numbers.
        title, note: texts above and below; empty where there is none.
    """

    columns: Sequence[str]
    rows: Sequence[PageRow]
    words: frozenset[int] = frozenset({0})
    title: str = ""
    note: str = ""

    def of_columns(self, places: Sequence[int]) -> "PageTable":
        """Returns the table with these of its columns alone."""
        return replace(
            self,
            columns=[self.columns[place] for place in places],
            rows=[replace(row, cells=[row.cells[place] for place in places]) for row in self.rows],
            words=frozenset(number for number, place in enumerate(places) if place in self.words),
        )


def table_of(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "", note: str = "") -> PageTable:
    """Returns a table whose rows are all of one kind; columns of names are left-aligned."""
    filled = [[row[place] for row in rows if row[place]] for place in range(len(columns))]
    named = [place for place, cells in enumerate(filled) if cells and all(cell[0].isalpha() for cell in cells)]
    shown = [PageRow(cells=row) for row in rows]
    return PageTable(columns=columns, rows=shown, words=frozenset({0, *named}), title=title, note=note)


def in_parts(table: PageTable) -> list[PageTable]:
    """Returns a table as it is if all its columns fit side by side, else in parts one below another.

    There are as few parts as possible. Each begins with the first column, which names the rows. The widest part is as
    narrow as that number of parts allows. The first has the title, the last the note.
    """
    widths = [_width(table, place) for place in range(len(table.columns))]
    groups = list(_groups(widths))
    parts = [table.of_columns([0, *places]) for places in groups] or [table]
    parts = [part if number == 0 else replace(part, title="") for number, part in enumerate(parts)]
    return [part if number == len(parts) - 1 else replace(part, note="") for number, part in enumerate(parts)]


def _groups(widths: list[int]) -> Iterator[list[int]]:
    """Yields the places of the columns of each part, without the first column."""
    room = WIDTH - widths[0]
    n_parts = len(list(_filled(widths, room)))
    total = sum(widths[1:])
    even = next(
        (
            groups
            for most in range(total // max(n_parts, 1), room)
            if len(groups := list(_filled(widths, most))) <= n_parts
        ),
        None,
    )
    yield from even if even is not None else _filled(widths, room)


def _filled(widths: list[int], room: int) -> Iterator[list[int]]:
    places: list[int] = []
    used = 0
    for place, width in enumerate(widths[1:], start=1):
        if places and used + width > room:
            yield places
            places, used = [], 0
        places.append(place)
        used += width
    if places:
        yield places


def _width(table: PageTable, place: int) -> int:
    head = max(map(len, table.columns[place].split()), default=0)
    widest = max((len(row.cells[place]) for row in table.rows), default=0)
    if place and place in table.words:
        widest = min(widest, _LEAST_OF_WORDS)
    return max(head, widest) + _BETWEEN
