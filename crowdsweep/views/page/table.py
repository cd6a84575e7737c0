"""A table of the page, as data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class PageRow:
    """One row; `kind` is `best` for the winner, `apart` for models without a rank, else empty."""

    cells: Sequence[str]
    kind: str = ""


@dataclass(frozen=True, kw_only=True)
class PageTable:
    """One table.

    Attributes:
        columns: their heads; the first names the row.
        words: places of the columns of words, which stand to the left and may break over lines; the others are numbers.
        title, note: above and below; empty where there is none.
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
    """Returns a table of rows that are all of a kind; columns of names stand to the left."""
    filled = [[row[place] for row in rows if row[place]] for place in range(len(columns))]
    named = [place for place, cells in enumerate(filled) if cells and all(cell[0].isalpha() for cell in cells)]
    shown = [PageRow(cells=row) for row in rows]
    return PageTable(columns=columns, rows=shown, words=frozenset({0, *named}), title=title, note=note)
