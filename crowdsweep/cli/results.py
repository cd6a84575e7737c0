"""What `run` shows when it has ended: a table for each dataset, best model first, and what should be known of it."""

import json
import shlex
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crowdsweep.console.tables import Grid
    from crowdsweep.report.compare import Comparison, DatasetComparison, Score
    from crowdsweep.report.of_sweep import ComparedSweep

NO_SCORE = "–"


def shown_results(compared: "ComparedSweep", width: int | None) -> str:
    """Returns the results of a sweep for people: tables, then the notes of `table.md` below.

    Args:
        compared: the sweep; its report has been written.
        width: of the terminal; None for tab-separated lines.
    """
    from crowdsweep.console.tables import render

    comparison = compared.comparison
    lines = (compared.store / "table.md").read_text(encoding="utf-8").splitlines()
    notes = [line for line in lines if line.strip() and not line.startswith("|")]
    if width is not None:
        notes = [textwrap.fill(note, width, break_long_words=False, break_on_hyphens=False) for note in notes]
    table = render(result_grid(comparison), width) if comparison.datasets else "no trial of the report has ended yet"
    return "\n\n".join([table, *notes])


def label_line(comparison: "Comparison", store: Path) -> str:
    """Returns the command that labels by what a sweep found; empty where it has several datasets, or no model.

    Where nothing ranks the models, it is for a person to name one; the first stands for it.
    """
    from crowdsweep.labelling.chosen import without_thinned

    found = without_thinned(comparison.datasets)
    if len(found) != 1 or not found[0].scores:
        return ""
    named = [] if found[0].ranked else ["--model", found[0].scores[0].model]
    return shlex.join(["crowdsweep", "label", str(store), *named])


def result_grid(comparison: "Comparison") -> "Grid":
    """Returns the models of each dataset: ranked ones, those that saw gold, those without the metric that ranks."""
    from crowdsweep.console.tables import Column, Grid
    from crowdsweep.metrics.wording import words
    from crowdsweep.trial.naming import dataset_words

    names = {block.dataset for block in comparison.datasets}
    printed = {
        (id(entry.block), entry.published.model): entry.published.value
        for entry in comparison.published
        if entry.block is not None and entry.published.metric == entry.block.metric
    }
    columns = (
        Column(title="rank", right=True),
        Column(title="model"),
        Column(title="score", right=True),
        Column(title="95 % interval", right=True, drop=1),
        Column(title="beside the best", drop=2),
        Column(title="printed", right=True, drop=3),
        Column(title="time per trial", right=True, drop=4),
        Column(title="seeds", right=True, drop=5),
    )
    groups: dict[str, list[list[str]]] = {}
    for block in comparison.datasets:
        place = dataset_words(block.dataset, json.loads(block.dataset_params), names)
        heading = f"{place} · {words(block.metric)}" if block.metric else place
        groups[heading] = [_row(block, score, printed.get((id(block), score.model))) for score in block.scores]
    return Grid(columns=columns, groups=groups, group="dataset")


def _row(block: "DatasetComparison", score: "Score", printed: float | None) -> list[str]:
    from crowdsweep.console.wording import number_words
    from crowdsweep.report.amounts import show_seconds

    found = score.metrics.get(block.metric) if block.metric else None
    interval = ""
    if found is not None and found.low is not None and found.high is not None:
        low, high = (number_words(value, block.metric).split(" ")[0] for value in (found.low, found.high))
        interval = f"{low} – {high}"
    failed = f" ({score.n_failed} failed)" if score.n_failed else ""
    return [
        str(score.rank or ""),
        score.model + (" (saw gold)" if score.saw_gold else ""),
        NO_SCORE if found is None else number_words(found.mean, block.metric),
        interval,
        _beside_best(score, block.metric),
        "" if printed is None else number_words(printed, block.metric),
        show_seconds(None if score.wall_s is None else score.wall_s.mean),
        f"{found.n if found is not None else 0}{failed}",
    ]


def _beside_best(score: "Score", metric: str) -> str:
    """Returns whether a model can be told from the best, or why no mean speaks for it."""
    test = score.versus_best
    if test is None or test.difference is None:
        return ""
    if test.distinguishable:
        return "worse"
    if test.p_holm is None:
        return score.unsound(metric) or ("the same" if test.difference.mean == 0 else "not tested")
    return score.unsound(metric) or "not told apart"
