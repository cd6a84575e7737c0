"""Tooltips of a figure's points on a page: their positions in the picture, and their words."""

import html
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

_MOST = 2_000  # points of a figure with tooltips; of more points, an evenly spaced sample has them
_DOTS = 144  # per inch, in a notebook
_FRAME = "told"  # id of the frames of axes in the picture, before their number


@dataclass(kw_only=True)
class _AxesPoints:
    """Points of one axes, in the units of its data."""

    axes: Axes
    zooms: bool = False
    points: list[tuple[float, float, str]] = field(default_factory=list[tuple[float, float, str]])


class HoverFigure(Figure):
    """A figure whose points have tooltips, which a page shows where the pointer is; files have none. A notebook shows
    the figure as a picture."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._told: dict[int, _AxesPoints] = {}

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=_DOTS, bbox_inches="tight", facecolor="white")
        return buffer.getvalue()

    def tell(self, axes: Axes, x: Sequence[int | float], y: Sequence[int | float], words: Sequence[str]) -> None:
        """Gives tooltips to points.

        Args:
            axes: the axes that they are drawn on.
            x, y: positions in the units of the axes' data; a point beyond the axes has its tooltip at their edge.
            words: tooltip of each point, with several lines where it has several values.
        """
        self._of(axes).points += zip(map(float, x), map(float, y), words, strict=True)

    def zooms(self, axes: Axes) -> None:
        """Lets a page zoom into a part of the axes. While zoomed, the page shows only what is drawn in the units of
        their data."""
        self._of(axes).zooms = True

    def named(self) -> None:
        """Gives ids to the frames of the axes that have tooltips, so that `told` finds them in the picture."""
        for number, told in enumerate(self._told.values()):
            told.axes.patch.set_gid(f"{_FRAME}-{number}")

    def told(self, svg: str) -> str:
        """Returns an attribute for the element of the picture, drawn after `named`, as JSON; empty where there are no
        tooltips. For each axes it has the frame, across and up, and the points. For axes that zoom, it also has
        the ranges of the data and the named ticks."""
        every = -(-sum(len(told.points) for told in self._told.values()) // _MOST) or 1
        found = [_of_axes(told, number, svg, every) for number, told in enumerate(self._told.values())]
        return f' data-told="{html.escape(json.dumps(found, ensure_ascii=False), quote=True)}"' if found else ""

    def _of(self, axes: Axes) -> _AxesPoints:
        return self._told.setdefault(id(axes), _AxesPoints(axes=axes))


def _of_axes(told: _AxesPoints, number: int, svg: str, every: int) -> dict[str, Any]:
    axes = told.axes
    left, top, right, bottom = _frame(svg, number)
    points: list[list[Any]] = []
    for x, y, words in told.points[::every]:
        across, up = axes.transLimits.transform(axes.transScale.transform((x, y)))
        place = left + _inside(across) * (right - left), bottom - _inside(up) * (bottom - top)
        points.append([*(round(one, 1) for one in place), words])
    frame = [[round(left, 1), round(right, 1)], [round(bottom, 1), round(top, 1)]]
    found: dict[str, Any] = {"frame": frame, "points": points}
    if told.zooms:
        found["ranges"] = [list(map(float, axes.get_xlim())), list(map(float, axes.get_ylim()))]
        if isinstance(axes.xaxis.get_major_locator(), FixedLocator):
            found["names"] = [[round(left + at * (right - left), 1), text] for at, text in _ticks(axes)]
    return found


def _frame(svg: str, number: int) -> tuple[float, float, float, float]:
    """Returns the position of the frame of axes in the picture: left, top, right, bottom."""
    drawn = re.search(rf'<g id="{_FRAME}-{number}">\s*<path d="([^"]*)"', svg)
    if drawn is None:
        raise ValueError("expected matplotlib's SVG to have the frame of every axes")
    across, down = zip(*re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", drawn[1]), strict=True)
    return min(map(float, across)), min(map(float, down)), max(map(float, across)), max(map(float, down))


def _ticks(axes: Axes) -> Iterator[tuple[float, str]]:
    """Yields the position of each named tick, as a share of the axis, and its name."""
    for place, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True):
        across = float(axes.transLimits.transform(axes.transScale.transform((place, axes.get_ylim()[0])))[0])
        yield across, label.get_text()


def _inside(share: float) -> float:
    return min(max(float(share), 0.0), 1.0)
