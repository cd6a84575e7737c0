"""Models × datasets on a terminal; where not all datasets fit, in parts one below another."""

import textwrap
from collections.abc import Iterator, Sequence

from crowdsweep.analysis.pivot import Pivot, PivotColumn
from crowdsweep.metrics.wording import readable
from crowdsweep.views.tables.pivot import NO_SCORE, UNSOUND, PlusMinus, legend, mean_and_rest
from crowdsweep.views.terminal.grid import Column, Grid, render

BEST, AS_GOOD = "*", "~"
_MARKS = {"best": BEST, "as good": AS_GOOD}
_GAP = 2

Drawn = Sequence[str]
"""A column: its head, then a cell for each model."""


def pivot_text(pivot: Pivot, width: int | None, plus_minus: PlusMinus = "interval") -> str:
    """Returns the table, and below it what a reader must know. A mark after a score says whether it is the best, or
    not significantly worse.
    """
    models = [*pivot.models, *pivot.gold]
    names = ["model", *(f"{model} (saw gold)" if model in pivot.gold else model for model in models)]
    columns = [_drawn(pivot, column, models, plus_minus) for column in pivot.columns]
    if ranks := pivot.mean_ranks:
        columns.append(["mean rank", *(f"{ranks[model]:.1f}" if model in ranks else "" for model in models)])
    parts = [columns] if width is None else list(_parts(columns, width - max(map(len, names))))
    shown = [render(_grid(names, part), width) for part in parts]
    note = " ".join(legend(pivot, plus_minus, best=BEST, as_good=AS_GOOD))
    return "\n\n".join([*shown, note if width is None else textwrap.fill(note, width, break_on_hyphens=False)])


def _drawn(pivot: Pivot, column: PivotColumn, models: Sequence[str], plus_minus: PlusMinus) -> list[str]:
    head = column.title if pivot.metric or not column.metric else f"{column.title}, {readable(column.metric)}"
    drawn = [head]
    for model in models:
        if (cell := column.cells.get(model)) is None:
            drawn.append(f"{NO_SCORE}  ")
            continue
        value_text = " ".join(filter(None, mean_and_rest(cell.estimate, column.metric, plus_minus)))
        drawn.append(f"{value_text}{UNSOUND if cell.unsound else ''} {_MARKS.get(cell.stands, ' ')}")
    return drawn


def _parts(columns: Sequence[Drawn], room: int) -> Iterator[Sequence[Drawn]]:
    """Yields groups of as many columns as fit, at least one."""
    part: list[Drawn] = []
    used = 0
    for column in columns:
        needed = _GAP + max(map(len, column))
        if part and used + needed > room:
            yield part
            part, used = [], 0
        part.append(column)
        used += needed
    yield part


def _grid(names: Drawn, columns: Sequence[Drawn]) -> Grid:
    heads = (Column(title=names[0]), *(Column(title=column[0], right=True) for column in columns))
    return Grid(
        columns=heads, groups={"": [list(row) for row in zip(*(c[1:] for c in (names, *columns)), strict=True)]}
    )
