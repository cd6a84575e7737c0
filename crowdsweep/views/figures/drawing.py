"""Drawing and writing of figures: colours, sizes, labels. Nothing here touches pyplot or its list of figures.

A figure is drawn once and written as SVG for the page, where ink and accent take the page's colours (light or dark), or
as PNG on white for a tracking server. Colours are Okabe and Ito's, which colour-blind readers can distinguish; markers
and dashes say the same again. Figures are drawn narrow, so that a phone need not shrink them until nobody can read
them; a wide page shows them larger.
"""

import html
import io
import re
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_mixed import MixedModeRenderer
from matplotlib.backends.backend_svg import FigureCanvasSVG, RendererSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator

from crowdsweep.views.figures.hover import HoverFigure

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_BLUE = PALETTE[0].lower()  # a dark page has a paler one, or thin lines would be lost on it
INK = "#1d2125"  # becomes `currentColor` in SVG
ACCENT = "#0a6299"  # becomes the page's accent in SVG: where shades say something, they fade into any paper
WIDTH = 4.2  # inches, of a figure before its labels
DOTS = 300  # an inch, of a picture for a paper
_OTHER_SCRIPTS = (  # fonts of scripts that matplotlib's own lacks, as systems have them
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR"),
    *("Source Han Sans SC", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Droid Sans Fallback", "PingFang SC"),
    *("Hiragino Sans", "Apple SD Gothic Neo", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "Noto Sans Devanagari"),
    *("Noto Sans Bengali", "Noto Sans Tamil", "Noto Sans Thai", "Nirmala UI", "Leelawadee UI", "Arial Unicode MS"),
)
_DASHES = ("-", "--", "-.", ":")
_DASHES_ALONE = (*_DASHES, (0, (7, 1, 1, 1, 1, 1)), (0, (4, 3)))  # of lines without markers
_ENLARGED = 1.4  # times its own width that a page may show a figure
_CANVAS = 3  # times the figure's size, to the right of it and above: where labels and bars beside the axes stand
_FLAT = 1e-4  # of their size: values that differ by less are drawn as the same
_LABEL_POINTS = 11.0  # that a line of text takes
_FAR = 12.0  # times the usual distance from the middle: beyond, a value leaves the scale to the others
_NO_METADATA: Mapping[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}
_STYLE: Any = {
    "svg.fonttype": "path",  # letters as outlines: no font of the reader's can make a label overflow
    "svg.hashsalt": "crowdsweep",
    "pdf.fonttype": 42,  # TrueType, which journals take; matplotlib's own Type 3 they refuse
    "font.size": 9,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "legend.frameon": False,
    "axes.formatter.useoffset": False,  # no sums such as 1e-5-8.7e-1 at the end of an axis, and no factors
    "axes.formatter.limits": (-8, 12),
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "text.parse_math": False,  # names are names, whatever dollars they hold
}


@contextmanager
def style() -> Generator[None]:
    """Draws by our own settings alone: matplotlib reads a `matplotlibrc` of the folder that a person stands in, which
    may have it run LaTeX. Names in scripts for which no font is here are no matter for a terminal."""
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        mpl.rcParams["font.family"] = list(_families())
        yield


@cache
def _families() -> tuple[str, ...]:
    """Returns matplotlib's own font, and behind it those of other scripts that this machine has."""
    here = set(font_manager.get_font_names())
    return "DejaVu Sans", *(name for name in _OTHER_SCRIPTS if name in here)


@cache
def _letters() -> frozenset[int]:
    fonts = [font_manager.get_font(font_manager.findfont(name)) for name in _families()]
    return frozenset(code for font in fonts for code in font.get_charmap())


def _has_letters(text: str) -> bool:
    """Whether the fonts here have every letter of a text."""
    return all(ord(letter) in _letters() for letter in text if letter.isprintable())


def _svg_of(figure: Figure, metadata: Mapping[str, Any]) -> str:
    """Returns a figure as SVG. Texts whose letters no font here has are written as texts, which the reader's fonts may
    show: which these are is known when names of ticks are made, so that such a figure, of which are few, is drawn
    again."""
    svg = _drawn(figure, metadata)
    lacking = [text for text in figure.findobj(Text) if not _has_letters(text.get_text())]
    for text in lacking:
        text.draw = partial(_draw_as_text, text.draw)
    return _drawn(figure, metadata) if lacking else svg


def _drawn(figure: Figure, metadata: Mapping[str, Any]) -> str:
    """Returns a figure as SVG, cut to what is drawn. `savefig` would draw it twice: first to learn where that ends."""
    buffer, dots = io.StringIO(), figure.dpi
    FigureCanvasSVG(figure)
    figure.dpi = 72  # an inch, of SVG
    width, height = _CANVAS * figure.get_size_inches()  # beyond its canvas the renderer draws no lines
    vectors = RendererSVG(72 * width, 72 * height, buffer, image_dpi=round(dots), metadata=metadata)
    renderer: Any = MixedModeRenderer(figure, width, height, dots, vectors)
    figure.draw(renderer)
    renderer.finalize()
    left, low, right, high = 72 * figure.get_tightbbox(renderer).padded(mpl.rcParams["savefig.pad_inches"]).extents
    figure.dpi = dots
    size = f'width="{right - left:.6f}pt" height="{high - low:.6f}pt"'
    cut = f'{size} viewBox="{left:.6f} {72 * height - high:.6f} {right - left:.6f} {high - low:.6f}"'
    return re.sub(r'width="[\d.]+pt" height="[\d.]+pt" viewBox="[^"]*"', cut, buffer.getvalue(), count=1)


def _draw_as_text(draw: Callable[[Any], None], renderer: Any) -> None:
    with mpl.rc_context({"svg.fonttype": "none"}):
        draw(renderer)


@dataclass(frozen=True, kw_only=True)
class LineEnd:
    """How high a line ends, what it is called, and its looks, as `line_style` has them."""

    y: float
    text: str
    looks: Mapping[str, Any]


def name_lines(axes: Axes, ends: Sequence[LineEnd]) -> None:
    """Names lines to the right of the axes in the order of their ends, as near to these as names have room, each behind
    a sample of its line: nothing leads from a line to its name, which would look like one more line. The limits of the
    axes must stand."""
    if not ends:
        return
    points = axes.get_position().height * axes.figure.get_figheight() * 72.0  # pyright: ignore[reportAttributeAccessIssue]
    low, high = axes.get_ylim()
    order = sorted(ends, key=lambda end: end.y)
    wanted = [(min(max(end.y, low), high) - low) / (high - low) for end in order]
    for end, fraction in zip(order, spread_out(wanted, _LABEL_POINTS / points), strict=True):
        sample = Line2D([1.04, 1.07, 1.1], [fraction] * 3, linewidth=1.6, markersize=4, markevery=[1], **end.looks)
        sample.set_transform(axes.transAxes)
        axes.figure.add_artist(sample)
        axes.text(1.12, fraction, end.text, transform=axes.transAxes, va="center", fontsize=8.5)


def spread_out(wanted: Sequence[float], gap: float) -> list[float]:
    """Returns places at least `gap` apart, as near to the wanted ones (ascending) as blocks of touching names allow."""
    blocks: list[tuple[float, int]] = []  # of names that touch: mean of what their first place should be, and how many
    for place in wanted:
        start, size = place, 1
        while blocks and blocks[-1][0] + blocks[-1][1] * gap > start:
            before, n_before = blocks.pop()
            start = (before * n_before + (start - n_before * gap) * size) / (n_before + size)
            size += n_before
        blocks.append((start, size))
    return [start + gap * step for start, size in blocks for step in range(size)]


def scale_of(values: Sequence[float], half_widths: Sequence[float]) -> tuple[float, float]:
    """Returns the range of values that a scale should show: all of them, unless some lie so far off (12 times the usual
    distance from the middle) that the others would be one blot.

    Args:
        values: at least one.
        half_widths: of the values' intervals, where they have any; what lies within the usual one is never far.
    """
    array = np.asarray(values, dtype=np.float64)
    middle = float(np.median(array))
    usual = max(float(np.median(np.abs(array - middle))), float(np.median(half_widths)) if len(half_widths) else 0.0)
    near = array[np.abs(array - middle) <= _FAR * usual] if usual > 0 else array
    return float(near.min()), float(near.max())


def margin_of(low: float, high: float, share: float) -> float:
    """Returns what an axis shows beyond the least and the greatest value: a share of their distance; where they are
    the same but for rounding so much that ticks are not all one number."""
    size = max(abs(low), abs(high))
    return share * (high - low) if high - low > _FLAT * size else 0.02 * max(size, 0.01)


def round_ticks(most: int = 5, *, whole: bool = False) -> MaxNLocator:
    """Returns what puts ticks at numbers that people count in: 1, 2, 5 and tens of these."""
    return MaxNLocator(most, steps=[1, 2, 5, 10], integer=whole)


def line_style(place: int) -> dict[str, Any]:
    """Returns the looks of the `place`th line of a figure: colour and marker, and dashes beyond six lines."""
    return {
        "color": PALETTE[place % len(PALETTE)],
        "marker": MARKERS[place % len(MARKERS)],
        "linestyle": _DASHES[(place // len(PALETTE)) % len(_DASHES)],
    }


def plain_line_style(place: int) -> dict[str, Any]:
    """Returns the looks of the `place`th line of a figure without markers: colour and dashes, so that lines differ on
    grey paper too."""
    return {
        "color": PALETTE[place % len(PALETTE)],
        "marker": "",
        "linestyle": _DASHES_ALONE[(place + place // len(PALETTE)) % len(_DASHES_ALONE)],
    }


def reference_style() -> dict[str, Any]:
    """Returns the looks of an upper bound, which is no competitor."""
    return {"color": INK, "marker": "", "linestyle": (0, (2, 2))}


def grid(axes: Axes, which: Any) -> None:
    """Draws pale lines behind everything: of `x`, `y` or `both`."""
    axes.grid(visible=True, axis=which, color=INK, alpha=0.13, linewidth=0.8)
    axes.set_axisbelow(True)


def legend(axes: Axes) -> None:
    """Names what is drawn to the right of the axes, where lines have no ends that could be named."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=1.6)


def to_png(figure: Figure) -> bytes:
    """Returns a figure as PNG on white, 144 dots an inch."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format="png", dpi=144, bbox_inches="tight", facecolor="white")
    return buffer.getvalue()


def to_file(figure: Figure, form: str) -> bytes:
    """Returns a figure as a file for a paper: of the same figure the same bytes, with no time in it.

    Args:
        figure: just drawn: another format may have changed it.
        form: `pdf` with its fonts embedded (Type 42), `svg` with letters as outlines, or `png` on white with 300 dots
            an inch.
    """
    buffer = io.BytesIO()
    look: dict[str, Any] = {"dpi": DOTS, "facecolor": "white"} if form == "png" else {}
    with style():
        if form == "svg":
            return _svg_of(figure, _NO_METADATA[form]).encode()
        figure.savefig(buffer, format=form, bbox_inches="tight", metadata=_NO_METADATA[form], **look)
    return buffer.getvalue()


def to_svg(figure: Figure, name: str, description: str) -> str:
    """Returns a figure as an `<svg>` element for a page.

    Args:
        name: makes the element's ids unique on its page; letters, digits and dashes.
        description: what a screen reader says.
    """
    telling = figure if isinstance(figure, HoverFigure) else None
    if telling is not None:
        telling.named()
    with style():
        svg = _svg_of(figure, {"Date": None})
    svg = svg[svg.index("<svg") :]
    told = "" if telling is None else telling.told(svg)
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg).replace("url(#", f"url(#{name}-")
    svg = svg.replace(INK, "currentColor").replace(ACCENT, f"var(--accent, {ACCENT})")
    svg = svg.replace(_BLUE, f"var(--blue, {_BLUE})")
    svg = re.sub(r"(font-family: [^;\"]*)", r"\1, sans-serif", svg)
    width = re.search(r'viewBox="[-\d.]+ [-\d.]+ ([\d.]+)', svg)
    if width is None:
        raise ValueError("expected matplotlib's SVG to have a viewBox")
    label = html.escape(description, quote=True)
    shown = _ENLARGED * float(width[1]) * 4 / 3
    head = f'<svg role="img" aria-label="{label}" style="max-width:{shown:.0f}px"{told}'
    svg = re.sub(r'(<svg[^>]*?) width="[\d.]+pt"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[\d.]+pt"', r"\1", svg, count=1)
    return svg.replace("<svg", head, 1).strip()
