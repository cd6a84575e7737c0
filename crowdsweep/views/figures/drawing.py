"""Drawing and writing of figures: colours, sizes, labels. No code here uses pyplot or its list of figures.

A figure is drawn once. It is written as SVG for the page, where ink and accent take the page's colours (light or dark),
or as PNG on white for a tracking server. Colours are Okabe and Ito's, which colour-blind readers can distinguish;
markers and dashes distinguish lines too. Figures are drawn narrow, so that a phone need not shrink them until they are
unreadable; a wide page enlarges them.
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
_BLUE = PALETTE[0].lower()  # becomes the page's blue in SVG; a dark page has a paler one for thin lines
INK = "#1d2125"  # becomes `currentColor` in SVG
ACCENT = "#0a6299"  # becomes the page's accent in SVG; shades of it fade into a light or a dark page
WIDTH = 4.2  # inches, width of a figure without its labels
DOTS = 300  # per inch, of a picture for a paper
_OTHER_SCRIPTS = (  # system fonts for scripts that matplotlib's own font lacks
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR"),
    *("Source Han Sans SC", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Droid Sans Fallback", "PingFang SC"),
    *("Hiragino Sans", "Apple SD Gothic Neo", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "Noto Sans Devanagari"),
    *("Noto Sans Bengali", "Noto Sans Tamil", "Noto Sans Thai", "Nirmala UI", "Leelawadee UI", "Arial Unicode MS"),
)
_DASHES = ("-", "--", "-.", ":")
_DASHES_ALONE = (*_DASHES, (0, (7, 1, 1, 1, 1, 1)), (0, (4, 3)))  # for lines without markers
_ENLARGED = 1.4  # largest width of a figure on a page, relative to its own
_CANVAS = 3  # size of the canvas relative to the figure's, to hold labels and bars beside the axes
_FLAT = 1e-4  # relative difference below which values are drawn as equal
_LABEL_POINTS = 11.0  # height of a line of text
_FAR = 12.0  # times the usual distance from the median, beyond which a value is off the scale
_NO_METADATA: Mapping[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}
_STYLE: Any = {
    "svg.fonttype": "path",  # letters as outlines, so that no font of the reader's makes a label overflow
    "svg.hashsalt": "crowdsweep",
    "pdf.fonttype": 42,  # TrueType, which journals accept; they refuse matplotlib's default, Type 3
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
    "axes.formatter.useoffset": False,  # no offsets such as 1e-5-8.7e-1 at the end of an axis, and no factors
    "axes.formatter.limits": (-8, 12),
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "text.parse_math": False,  # names are plain text, even with dollar signs
}


@contextmanager
def style() -> Generator[None]:
    """Sets matplotlib's settings to ours alone while a figure is drawn. matplotlib reads a `matplotlibrc` in the
    current folder, which may make it run LaTeX. Warnings about names in scripts without a font are suppressed."""
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        mpl.rcParams["font.family"] = list(_families())
        yield


@contextmanager
def new_figure(width: float, height: float) -> Generator[tuple[HoverFigure, Axes]]:
    """Yields an empty figure with its axes, to be drawn with our settings; its size is in inches."""
    with style():
        figure = HoverFigure(figsize=(width, height))
        yield figure, figure.subplots()


@cache
def _families() -> tuple[str, ...]:
    """Returns matplotlib's own font, followed by those of other scripts that this machine has."""
    here = set(font_manager.get_font_names())
    return "DejaVu Sans", *(name for name in _OTHER_SCRIPTS if name in here)


@cache
def _letters() -> frozenset[int]:
    fonts = [font_manager.get_font(font_manager.findfont(name)) for name in _families()]
    return frozenset(code for font in fonts for code in font.get_charmap())


def _has_letters(text: str) -> bool:
    """Returns whether the fonts of this machine have every letter of a text."""
    return all(ord(letter) in _letters() for letter in text if letter.isprintable())


def _svg_of(figure: Figure, metadata: Mapping[str, Any]) -> str:
    """Returns a figure as SVG. Texts with letters that no font here has are written as texts, which the reader's fonts
    may show. These texts are known only after a first drawing, which makes the names of ticks. So such a figure, a rare
    case, is drawn twice."""
    svg = _drawn(figure, metadata)
    lacking = [text for text in figure.findobj(Text) if not _has_letters(text.get_text())]
    for text in lacking:
        text.draw = partial(_draw_as_text, text.draw)
    return _drawn(figure, metadata) if lacking else svg


def _drawn(figure: Figure, metadata: Mapping[str, Any]) -> str:
    """Returns a figure as SVG, cropped to what is drawn. `savefig` would draw it twice, the first time to learn its
    extent."""
    buffer, dots = io.StringIO(), figure.dpi
    FigureCanvasSVG(figure)
    figure.dpi = 72  # dots per inch in SVG
    width, height = _CANVAS * figure.get_size_inches()  # the renderer draws no lines beyond its canvas
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
    """The end of a line: its height, the line's name, and the line's looks as returned by `line_style`."""

    y: float
    text: str
    looks: Mapping[str, Any]


def name_lines(axes: Axes, ends: Sequence[LineEnd]) -> None:
    """Names lines to the right of the axes, in the order of their ends and as near to these as there is room. Each name
    follows a sample of its line. No connector leads from a line to its name, as it would look like one more line. The
    limits of the axes must be final."""
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
    blocks: list[tuple[float, int]] = []  # of names that touch: mean wanted place of the first, number of names
    for place in wanted:
        start, size = place, 1
        while blocks and blocks[-1][0] + blocks[-1][1] * gap > start:
            before, n_before = blocks.pop()
            start = (before * n_before + (start - n_before * gap) * size) / (n_before + size)
            size += n_before
        blocks.append((start, size))
    return [start + gap * step for start, size in blocks for step in range(size)]


def scale_of(values: Sequence[float], half_widths: Sequence[float]) -> tuple[float, float]:
    """Returns the range of values that an axis should show. It covers all values, unless some are so far off (12 times
    the usual distance from the median) that the others would be drawn as one blot.

    Args:
        values: at least one.
        half_widths: half widths of the values' intervals, where they have any; the usual distance is at least their
            median.
    """
    array = np.asarray(values, dtype=np.float64)
    middle = float(np.median(array))
    usual = max(float(np.median(np.abs(array - middle))), float(np.median(half_widths)) if len(half_widths) else 0.0)
    near = array[np.abs(array - middle) <= _FAR * usual] if usual > 0 else array
    return float(near.min()), float(near.max())


def margin_of(low: float, high: float, share: float) -> float:
    """Returns how far an axis extends beyond the least and the greatest value: a share of their distance. If the two
    are equal up to rounding, the margin is large enough for the ticks to differ."""
    size = max(abs(low), abs(high))
    return share * (high - low) if high - low > _FLAT * size else 0.02 * max(size, 0.01)


def round_ticks(most: int = 5, *, whole: bool = False) -> MaxNLocator:
    """Returns a locator that puts ticks at round numbers: 1, 2, 5 and these times powers of ten."""
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
    """Returns the looks of an upper bound, which does not compete with the models."""
    return {"color": INK, "marker": "", "linestyle": (0, (2, 2))}


def grid(axes: Axes, which: Any) -> None:
    """Draws pale grid lines behind everything: `x`, `y` or `both`."""
    axes.grid(visible=True, axis=which, color=INK, alpha=0.13, linewidth=0.8)
    axes.set_axisbelow(True)


def legend(axes: Axes) -> None:
    """Adds a legend to the right of the axes, for figures whose lines have no ends that could be named."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=1.6)


def to_png(figure: Figure) -> bytes:
    """Returns a figure as PNG on white, 144 dots per inch."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format="png", dpi=144, bbox_inches="tight", facecolor="white")
    return buffer.getvalue()


def to_file(figure: Figure, form: str) -> bytes:
    """Returns a figure as a file for a paper. The same figure gives the same bytes, as no time is written.

    Args:
        figure: a figure that has just been drawn, because writing one format may change it for another.
        form: `pdf` with its fonts embedded (Type 42), `svg` with letters as outlines, or `png` on white with 300 dots
            per inch.
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
        description: text for screen readers.
    """
    telling = figure if isinstance(figure, HoverFigure) else None
    if telling is not None:
        telling.named()
    with style():
        svg = _svg_of(figure, {"Date": None})
    svg = svg[svg.index("<svg") :]
    hover_data = "" if telling is None else telling.told(svg)
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
    head = f'<svg role="img" aria-label="{label}" style="max-width:{shown:.0f}px"{hover_data}'
    svg = re.sub(r'(<svg[^>]*?) width="[\d.]+pt"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[\d.]+pt"', r"\1", svg, count=1)
    return svg.replace("<svg", head, 1).strip()
