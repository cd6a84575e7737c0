"""The comparison as a table for reading, in Markdown and LaTeX: with fewer columns, rounded, and the interval in one
cell."""

import pyarrow as pa

from crowdsweep.analysis.compare import Comparison, DatasetComparison, ModelScore
from crowdsweep.analysis.sweep import AnalysedSweep
from crowdsweep.analysis.trial_table import encodable
from crowdsweep.metrics.shown import show_interval, show_number, show_printed
from crowdsweep.metrics.wording import readable
from crowdsweep.units import show_p
from crowdsweep.views.tables.texts import to_latex, to_markdown

_COLUMNS = ("dataset", "rank", "model", "metric", "mean", "95 % interval", "n", "p (Holm)", "published", "seconds")
_NUMBERS = ("rank", "mean", "n", "p (Holm)", "published", "seconds")


def comparison_for_reading(found: AnalysedSweep) -> dict[str, str]:
    """Returns `table.tex`, the comparison, and `table.md`, which also has predictions that need no fit and what a
    reader must know."""
    table, lines = _table(found.comparison), _without_a_fit(found)
    without_a_fit = [to_markdown(pa.Table.from_pylist(lines), right=("value",))] if lines else []
    notes = [f"{note}\n" for note in found.notes_below_a_table]
    return {
        "table.md": "\n".join([to_markdown(table, right=_NUMBERS), *without_a_fit, *notes]),
        "table.tex": to_latex(table, right=_NUMBERS),
    }


def _without_a_fit(found: AnalysedSweep) -> list[dict[str, str]]:
    """Returns a row per prediction that needs no fit, with its value of the metric that ranks."""
    return [
        {"dataset": block.title, "without a fit": name, "metric": readable(metric), "value": show_number(value, metric)}
        for block in found.comparison.datasets
        if block.place in found.baselines
        for name, (metric, value) in found.baselines[block.place].ranking.items()
    ]


def _table(comparison: Comparison) -> pa.Table:
    rows = [
        encodable(dict(zip(_COLUMNS, _cells(block, score, comparison.printed(block).get(score.model)), strict=True)))
        for block in comparison.datasets
        for score in block.scores
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in _COLUMNS]))


def _cells(block: DatasetComparison, score: ModelScore, printed: float | None) -> list[str]:
    metric, ours = block.metric, score.metrics.get(block.metric)
    collapsed = f" ({ours.collapsed} collapsed)" if ours is not None and ours.collapsed else ""
    return [
        block.title,
        "" if score.rank is None else str(score.rank),
        score.name,
        readable(metric) if metric else "",
        "" if ours is None else show_number(ours.mean, metric, ours),
        "" if ours is None else show_interval(ours, metric),
        f"{0 if ours is None else ours.n}{collapsed}",
        "" if score.versus_best is None else show_p(score.versus_best.p_holm).removeprefix("= "),
        show_printed(printed, metric),
        "" if score.wall_s is None else f"{score.wall_s.mean:.3g}",
    ]
