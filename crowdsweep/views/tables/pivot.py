"""Tables of models × datasets as text: Markdown, and LaTeX with booktabs."""

from collections.abc import Callable, Sequence
from typing import Literal

import pyarrow as pa

from crowdsweep.analysis.pivot import Pivot, PivotCell, pivot_table
from crowdsweep.analysis.trial_table import encodable
from crowdsweep.files.names import name_of
from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.shown import show_number, show_printed, show_with_interval
from crowdsweep.metrics.wording import readable
from crowdsweep.views.tables.texts import TableFormat, as_latex, as_markdown, render_table, to_markdown

PlusMinus = Literal["interval", "sd", "none"]
"""What follows a mean: half its 95 % interval, the standard deviation over seeds, or nothing."""
NO_SCORE, UNSOUND = "–", "†"
_BEHIND = {"interval": " ± half the 95 % interval", "sd": " ± standard deviation over seeds", "none": ""}


def render_pivot(pivot: Pivot, form: TableFormat, plus_minus: PlusMinus = "interval") -> str:
    """Returns the table in a form that the command line offers. The forms for people (`md`, `latex`) are rounded; those
    for programs (`csv`, `json`) are in the metrics' own units."""
    if form == "latex":
        return pivot_in_latex(pivot, plus_minus)
    return pivot_in_markdown(pivot, plus_minus) if form == "md" else render_table(pivot_table(pivot), form)


def mean_and_rest(estimate: Estimate, metric: str, plus_minus: PlusMinus) -> tuple[str, str]:
    """Returns a mean, and what follows it: `82.2` and `± 0.9`. If one side of the interval is much longer, these are
    `95.0` and `(86.1 – 98.3)`. Nothing follows a mean that is not known to vary."""
    mean = show_number(estimate.mean, metric, estimate)
    if plus_minus == "interval":
        return mean, show_with_interval(estimate, metric).removeprefix(mean).strip()
    if plus_minus == "none" or estimate.sd is None:
        return mean, ""
    return mean, f"± {show_number(estimate.sd, metric, estimate)}"


def legend(pivot: Pivot, plus_minus: PlusMinus, *, best: str, as_good: str) -> list[str]:
    """Returns what a reader must know of the table, in sentences.

    Args:
        best, as_good: how these cells look: `Bold`, `underlined`.
    """
    fewest, most = pivot.seeds
    over = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    what = readable(pivot.metric) if pivot.metric else "by dataset, as its column says"
    what = what[:1].upper() + what[1:]
    lower = [column.title for column in pivot.columns if column.goal == "minimize"]
    lower_words = (
        "; lower is better" if len(lower) == len(pivot.columns) else f"; lower is better on {', '.join(lower)}"
    )
    told = [
        f"{what}: mean over {over} seed{'s' if most > 1 else ''}{_BEHIND[plus_minus]}{lower_words if lower else ''}."
    ]
    if any(pivot.has(stands) for stands in ("worse", "as good")):
        told.append(
            f"{best}: the best on a dataset; {as_good}: not significantly worse than it (paired tests at 5 %, Holm's "
            f"correction over all pairs of models on a dataset)."
        )
    elif pivot.has("best"):
        told.append(f"{best}: the best on a dataset; nothing was tested against it.")
    if pivot.mean_ranks:
        told.append("Mean rank: over the datasets on which all of these models are ranked.")
    if any(column.has_printed for column in pivot.columns):
        told.append(f"Published: as in {pivot.paper or 'the paper'}.")
    if pivot.gold:
        told.append("Models that saw gold are not ranked.")
    return [*told, *(f"{UNSOUND} {where}: {why}." for where, why in pivot.unsound.items())]


def pivot_in_markdown(pivot: Pivot, plus_minus: PlusMinus = "interval") -> str:
    """Returns the table in Markdown with its legend; the best is in bold, and what is not significantly worse in
    italics."""
    marks = {"best": "**", "as good": "*"}

    def shown(cell: PivotCell, metric: str) -> str:
        mark, told = (
            marks.get(cell.stands, ""),
            " ".join(filter(None, mean_and_rest(cell.estimate, metric, plus_minus))),
        )
        return f"{mark}{told}{mark}{UNSOUND if cell.unsound else ''}"

    heads = [
        column.title if pivot.metric or not column.metric else f"{column.title}: {readable(column.metric)}"
        for column in pivot.columns
    ]
    rows = _rows(pivot, shown)
    names = ["model", *_with_printed(pivot, heads), *(["mean rank"] if pivot.mean_ranks else [])]
    columns = [pa.array([encodable({"cell": cell})["cell"] for cell in column]) for column in zip(*rows, strict=True)]
    table = pa.Table.from_arrays(columns or [pa.array([], pa.string())] * len(names), names=names)
    notes = [as_markdown(line) for line in legend(pivot, plus_minus, best="Bold", as_good="in italics")]
    return "\n".join([to_markdown(table, right=names[1:]), " ".join(notes), ""])


def pivot_in_latex(pivot: Pivot, plus_minus: PlusMinus = "interval") -> str:
    """Returns a `table` for a paper that uses booktabs: the best is in bold, and what is not significantly worse is
    underlined. Its caption is the legend. Every name is text."""
    set_as = {"best": "\\textbf{%s}", "as good": "\\underline{%s}"}

    def shown(cell: PivotCell, metric: str) -> str:
        mean, rest = mean_and_rest(cell.estimate, metric, plus_minus)
        behind = f" {{\\scriptsize {_number(rest)}}}" if rest else ""
        return set_as.get(cell.stands, "%s") % _number(mean) + ("$^\\dagger$" if cell.unsound else "") + behind

    caption = " ".join(as_latex(line) for line in legend(pivot, plus_minus, best="Bold", as_good="underlined"))
    rows = [" & ".join(row) + " \\\\" for row in _rows(pivot, shown, as_latex, _number)]
    gold = len(pivot.models)
    width = sum(1 + column.has_printed for column in pivot.columns) + bool(pivot.mean_ranks)
    lines = [
        "% for a paper with \\usepackage{booktabs}",
        "\\begin{table}[t]",
        "\\centering\\small\\setlength{\\tabcolsep}{3.5pt}",
        f"\\caption{{{caption}}}",
        f"\\label{{tab:{name_of(pivot.sweep)}}}",
        "\\vspace{4pt}",
        f"\\begin{{tabular}}{{@{{}}l{'r' * width}@{{}}}}",
        "\\toprule",
        *_latex_heads(pivot),
        "\\midrule",
        *rows[:gold],
        *(["\\midrule", *rows[gold:]] if rows[:gold] and rows[gold:] else rows[gold:]),
        "\\bottomrule",
        "\\end{tabular}",
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_heads(pivot: Pivot) -> list[str]:
    """Returns the rows above the first model: datasets, and below them metrics, and `ours` or `published`, where these
    differ."""
    titles, below, rules, place = ["model"], [""], "", 2
    for column in pivot.columns:
        title, metric = as_latex(column.title), "" if pivot.metric else as_latex(readable(column.metric))
        if column.has_printed:
            titles.append(f"\\multicolumn{{2}}{{c}}{{{title}}}")
            below += [metric or "ours", "published"]
            rules += f"\\cmidrule(lr){{{place}-{place + 1}}}"
            place += 2
        else:
            titles.append(f"\\multicolumn{{1}}{{c}}{{{title}}}")
            below.append(metric)
            place += 1
    titles += ["mean rank"] if pivot.mean_ranks else []
    below += [""] if pivot.mean_ranks else []
    rows = [" & ".join(titles) + " \\\\", *([rules] if rules else [])]
    return [*rows, *([" & ".join(below) + " \\\\"] if any(below) else [])]


def _rows(
    pivot: Pivot,
    shown: Callable[[PivotCell, str], str],
    name: Callable[[str], str] = str,
    number: Callable[[str], str] = str,
) -> list[list[str]]:
    """Returns the cells of every model, the ranked ones first.

    Args:
        shown: a cell and its metric → its text.
        name, number: return a text and a number as the format writes them.
    """
    rows: list[list[str]] = []
    for model in [*pivot.models, *pivot.gold]:
        row = [name(f"{model} (saw gold)" if model in pivot.gold else model)]
        for column in pivot.columns:
            cell = column.cells.get(model)
            row.append(name(NO_SCORE) if cell is None else shown(cell, column.metric))
            if column.has_printed:
                row.append("" if cell is None else number(show_printed(cell.printed, column.metric)))
        if pivot.mean_ranks:
            rank = pivot.mean_ranks.get(model)
            row.append("" if rank is None else number(f"{rank:.1f}"))
        rows.append(row)
    return rows


def _with_printed(pivot: Pivot, heads: Sequence[str]) -> list[str]:
    return [
        name
        for head, column in zip(heads, pivot.columns, strict=True)
        for name in ([head, f"{head}, published"] if column.has_printed else [head])
    ]


def _number(text: str) -> str:
    """Returns a number, or several, as LaTeX with mathematical signs."""
    return as_latex(text.replace("-", "−"))
