"""Parts of a report for papers: its figures as files, each with its caption beside it, and the methods paragraph."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, get_args

from crowdsweep.analysis.methods import methods_of
from crowdsweep.analysis.sweep import AnalysedSweep
from crowdsweep.errors import BadInput, WriteFailed, error_words, plain
from crowdsweep.files.drafts import write_file
from crowdsweep.files.inside import opened_folder
from crowdsweep.files.owned import Kind, replaced
from crowdsweep.record.fetched import as_folder
from crowdsweep.record.store_uri import Store
from crowdsweep.views.figures.drawing import DOTS, to_file
from crowdsweep.views.figures.of_report import ReportFigure, figures_of
from crowdsweep.views.tables.texts import as_latex

FigureFormat = Literal["pdf", "svg", "png"]
FORMATS: tuple[FigureFormat, ...] = get_args(FigureFormat)
FOLDER, IN_LATEX = "figures", "figures.tex"
_SCALE, _LINE = 0.75, 4.8  # scale of a figure, and width of a line in inches, as in LaTeX's article
_FILE = re.compile(r"[a-z0-9][a-z0-9-]{0,79}\.(pdf|svg|png|txt)|figures\.tex")
FIGURES = Kind(name=FOLDER, may_write=lambda name: _FILE.fullmatch(name) is not None)


def methods_paragraph(found: AnalysedSweep, *, latex: bool = False) -> str:
    """Returns a description of how a sweep was done, in one paragraph, as plain text or for LaTeX."""
    text = " ".join(methods_of(found))
    return as_latex(text) if latex else plain(text)


def formats_of(text: str) -> tuple[FigureFormat, ...]:
    """Returns the formats that a person lists (`pdf,svg`), each once.

    Raises:
        BadInput: one of them is not a format.
    """
    named = [part.strip().lower() for part in text.split(",")]
    if wrong := [name for name in named if name not in FORMATS]:
        raise BadInput(f"figures: expected formats of {', '.join(FORMATS)}, with commas between, got {wrong[0]!r}")
    return tuple(form for form in FORMATS if form in named)


def write_figures(found: AnalysedSweep, formats: Sequence[FigureFormat]) -> list[Store]:
    """Writes every figure of a sweep's report into `figures` of its store, in place of those of an earlier call. Files
    that crowdsweep did not write there stay (`files.owned`).

    Each figure has its caption beside it, `NAME.txt`. For formats that LaTeX reads, `figures.tex` has an environment
    for each figure, to copy from. The same record gives the same files, to the byte.

    Raises:
        WriteFailed: they could not be written.
        ForeignFile: a file that crowdsweep did not write, or that was changed since, is in the way.
    """
    folder = found.store / FOLDER
    files = dict(_files(found, formats))  # all are drawn before the first is written
    try:
        with (
            as_folder(folder, FIGURES, write=True) as place,
            replaced(place.parent, (place.name,), FIGURES) as fresh,
            opened_folder(fresh) as opened,
        ):
            for name, content in files.items():
                write_file(opened, name, content)
    except OSError as error:
        raise WriteFailed(
            f"{folder}: could not be written ({error_words(error)}); what was there before is unchanged. Correct this, "
            f"then write the figures again"
        ) from error
    return [folder / name for name in files]


def _files(found: AnalysedSweep, formats: Sequence[FigureFormat]) -> Iterator[tuple[str, bytes]]:
    widths: dict[str, float] = {}
    drawn = list(figures_of(found))
    for figure in drawn:
        for form in formats:
            content = to_file(figure.draw(), form)
            yield f"{figure.name}.{form}", content
            if form != "svg":  # LaTeX does not read SVG
                widths.setdefault(figure.name, _width(content, form))
        yield f"{figure.name}.txt", _text(f"{figure.whole_caption}\n")
    if widths:
        yield IN_LATEX, _text(_in_latex(found.state.name, drawn, widths))


def _width(content: bytes, form: FigureFormat) -> float:
    """Returns the width of a written figure in inches."""
    if form == "png":
        return int.from_bytes(content[16:20], "big") / DOTS
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+)", content)
    if box is None:
        raise ValueError("expected matplotlib's PDF to have a MediaBox")
    return float(box[1]) / 72.0


def _in_latex(sweep: str, drawn: Iterable[ReportFigure], widths: Mapping[str, float]) -> str:
    """Returns an environment for each figure, for a document beside the folder. Letters have the same size in all
    figures, as far as the width of a line allows."""
    lines = [f"% figures of the sweep {as_latex(sweep)}; for a paper with \\usepackage{{graphicx}}, beside this folder"]
    for figure in drawn:
        share = min(1.0, _SCALE * widths[figure.name] / _LINE)
        lines += [
            "",
            "\\begin{figure}[t]",
            "\\centering",
            f"\\includegraphics[width={share:.2f}\\linewidth]{{{FOLDER}/{figure.name}}}",
            f"\\caption{{{as_latex(figure.whole_caption)}}}",
            f"\\label{{fig:{figure.name}}}",
            "\\end{figure}",
        ]
    return "\n".join(lines) + "\n"


def _text(text: str) -> bytes:
    return text.encode(errors="backslashreplace")
