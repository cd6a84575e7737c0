"""The results at the end of `run`: a table for each dataset, best model first, and notes on it."""

import json
import shlex
import textwrap

from crowdsweep.analysis.compare import Comparison, DatasetComparison, ModelScore, without_thinned
from crowdsweep.analysis.sweep import AnalysedSweep
from crowdsweep.analysis.trade_offs import TradeOffs
from crowdsweep.metrics.shown import number_words
from crowdsweep.metrics.wording import words
from crowdsweep.record.naming import dataset_words, show_point
from crowdsweep.units import show_seconds
from crowdsweep.views.terminal.grid import Column, Grid, render

NO_SCORE = "–"
_FINDINGS = 12  # of a study, shown on a terminal
_PUBLISHED = "published"  # shown where a paper has values
_FRONT = 12  # points of a Pareto front
_COLUMNS = (
    Column(title="rank", right=True),
    Column(title="model"),
    Column(title="score", right=True),
    Column(title="95 % interval", right=True, drop=1),
    Column(title="beside the best", wraps=True, drop=2),
    Column(title=_PUBLISHED, right=True, drop=3),
    Column(title="time per trial", right=True, drop=4),
    Column(title="seeds", right=True, drop=5),
)


def shown_results(found: AnalysedSweep, width: int | None) -> str:
    """Returns the results of a sweep for people: tables, and what must be known of them."""
    shown_notes = [*_study_words(found), *found.notes_below_a_table]
    notes = [line for note in shown_notes for line in note.splitlines() if line.strip()]
    if width is not None:
        notes = [textwrap.fill(note, width, break_long_words=False, break_on_hyphens=False) for note in notes]
    comparison = found.comparison
    table = render(result_grid(comparison), width) if comparison.datasets else "no trial of the report has ended yet"
    fronts = [f"{front_heading(one)}\n{render(front_grid(one), width)}" for one in found.trade_offs.values()]
    return "\n\n".join([table, *fronts, *notes]).encode(errors="backslashreplace").decode()


def front_heading(found: TradeOffs) -> str:
    """Returns the heading of a table of a Pareto front; it says whether the table has all points of the front."""
    search, n = found.search, len(found.front)
    first = f", the first {_FRONT} of {n} points" if n > _FRONT else ""
    return f"Pareto front of the search of {search.model} on {search.dataset}{first}, over the search seeds:"


def front_grid(found: TradeOffs) -> Grid:
    """Returns the points on the Pareto front of a search, the best by its first objective first."""
    objectives = [Column(title=words(name), right=True) for name in found.objectives]
    columns = (Column(title="point", right=True), *objectives, Column(title="settings", wraps=True))
    rows = [
        [
            str(point.number),
            *(number_words(value.mean, name) for name, value in zip(found.objectives, point.values, strict=True)),
            show_point(point.point),
        ]
        for point in found.front[:_FRONT]
    ]
    return Grid(columns=columns, groups={"": rows})


def _study_words(found: AnalysedSweep) -> list[str]:
    """Returns which model is best along the axis of the sweep's study, the study's first findings, and a line that says
    how many more there are."""
    best = [f"{one.dataset}: {one.sentence}" for one in found.winners]
    if found.study is None or not found.study.numbers:
        return best
    findings = list(found.study.findings)
    rest = len(findings) - _FINDINGS
    return [*best, *findings[:_FINDINGS], *([f"{rest} more findings are in the report."] if rest > 0 else [])]


def label_line(found: AnalysedSweep) -> str:
    """Returns the command that labels with a sweep's best model; empty where the sweep has several datasets, or no
    model.

    Where nothing ranks the models, a person must choose one; the command names the first as an example.
    """
    blocks = without_thinned(found.comparison.datasets)
    if len(blocks) != 1 or not blocks[0].scores:
        return ""
    named = [] if blocks[0].ranked else ["--model", blocks[0].scores[0].model]
    return shlex.join(["crowdsweep", "label", str(found.store), *named])


def result_grid(comparison: Comparison) -> Grid:
    """Returns the models of each dataset: ranked ones, those that saw gold, those without the metric that ranks."""
    groups: dict[str, list[list[str]]] = {}
    for block in comparison.datasets:
        place = dataset_words(block.dataset, json.loads(block.dataset_params), block.among)
        heading = f"{place} · {words(block.metric)}" if block.metric else place
        printed = comparison.printed(block)
        groups[heading] = [_row(block, score, printed.get(score.model)) for score in block.scores]
    published = any(comparison.printed(block) for block in comparison.datasets)
    shown = [n for n, column in enumerate(_COLUMNS) if published or column.title != _PUBLISHED]
    cells = {heading: [[row[n] for n in shown] for row in rows] for heading, rows in groups.items()}
    return Grid(columns=tuple(_COLUMNS[n] for n in shown), groups=cells, group="dataset")


def _row(block: DatasetComparison, score: ModelScore, printed: float | None) -> list[str]:
    found = score.metrics.get(block.metric) if block.metric else None
    interval = ""
    if found is not None and found.low is not None and found.high is not None:
        low, high = (number_words(value, block.metric).split(" ")[0] for value in (found.low, found.high))
        interval = f"{low} – {high}"
    failed = f" ({score.n_failed} failed)" if score.n_failed else ""
    return [
        str(score.rank or ""),
        score.name,
        NO_SCORE if found is None else number_words(found.mean, block.metric),
        interval,
        _beside_best(score, block.metric),
        "" if printed is None else number_words(printed, block.metric),
        show_seconds(None if score.wall_s is None else score.wall_s.mean),
        f"{found.n if found is not None else 0}{failed}",
    ]


def _beside_best(score: ModelScore, metric: str) -> str:
    """Returns whether a model is significantly different from the best, or why its mean is not sound."""
    beside, test = score.beside_best, score.versus_best
    if beside is None or test is None or test.difference is None:
        return ""
    return beside if beside == "worse" else score.unsound(metric) or beside
