"""A table of the page, as data."""

from collections.abc import Sequence
from dataclasses import dataclass


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
