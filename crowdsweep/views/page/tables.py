"""The tables of the page, as data: the content of each cell. The template draws them all alike."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from crowdsweep.analysis.compare import Comparison, DatasetComparison, ModelScore
from crowdsweep.analysis.searches import SearchShown
from crowdsweep.analysis.trade_offs import TradeOffs
from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.metric_table import SECONDS, SPLITS, by_held_out
from crowdsweep.metrics.shown import (
    show_interval,
    show_number,
    show_printed,
    show_probability,
    show_score,
    show_with_interval,
)
from crowdsweep.metrics.wording import is_count, readable, words
from crowdsweep.record.naming import show_point, show_value
from crowdsweep.studies.contract import StudyTable
from crowdsweep.units import show_bytes, show_p, show_seconds
from crowdsweep.views.page.table import PageRow, PageTable, in_parts, table_of

_METRICS_NOTE = (
    "Mean ± half the 95 % interval, over seeds only, except for the metric that ranks; empty where a metric "
    "does not apply."
)
_FRONT_NOTE = (
    "No other point of the search is better in one objective and as good in all others. Means over the search seeds "
    "with half their 95 % intervals; as the best of many points they are optimistic. Seconds and memory are as "
    "measured: neighbours on the front may change places when they are measured again."
)
_MOST_POINTS = 1_000


def study_table(table: StudyTable) -> PageTable:
    """Returns a table of a study."""
    rows = [["" if cell is None else str(cell) for cell in row] for row in table.rows]
    return table_of(table.columns, rows, table.title, table.note)


def one_below_another(tables: Iterable[PageTable]) -> list[PageTable]:
    """Returns the tables of a section one below another, wide ones in parts. A note that several tables share is only
    below the first of them."""
    told: set[str] = set()
    shown: list[PageTable] = []
    for table in tables:
        shown += in_parts(replace(table, note="") if table.note in told else table)
        told.add(table.note)
    return shown


def scores_table(block: DatasetComparison, comparison: Comparison) -> PageTable:
    """Returns the scores of the models on a dataset, and what they cost."""
    printed = comparison.printed(block)
    predicted = any(show_probability(score.metrics[block.metric], block.metric) for score in block.ranked)
    columns = ["model", "rank", readable(block.metric) if block.metric else "score"]
    columns += ["probability of a held-out answer"] if predicted else []
    columns += ["behind the best", "as good?", *(["published"] if printed else []), "time per trial", "settings"]
    rows = [
        PageRow(
            cells=[
                score.name,
                "" if score.rank is None else str(score.rank),
                _reached(score, block.metric),
                *([_of(score, block.metric, show_probability)] if predicted else []),
                _behind(score, block.metric),
                _as_good(score, block.metric),
                *([show_printed(printed.get(score.model), block.metric)] if printed else []),
                show_seconds(score.wall_s.mean if score.wall_s else None),
                show_point(score.point),
            ],
            kind="best" if score.rank == 1 else "apart" if score.rank is None else "",
        )
        for score in block.scores
    ]
    words = {0, columns.index("as good?"), len(columns) - 1}
    return _without_empty_columns(PageTable(columns=columns, rows=rows, words=frozenset(words)))


def certainty_table(block: DatasetComparison) -> PageTable:
    """Returns intervals, tests and numbers of seeds of a dataset's models. It has only the models that have the metric,
    or that lack it because seeds failed or were stopped."""
    rows: list[PageRow] = []
    for score in block.scores:
        if block.metric not in score.metrics and not score.n_failed and not score.n_stopped:
            continue
        ours, test = score.metrics.get(block.metric), score.versus_best
        lacking = [f"{score.n_failed} failed"] if score.n_failed else []
        lacking += [f"{score.n_stopped} stopped"] if score.n_stopped else []
        lacking += [f"{ours.collapsed} collapsed"] if ours and ours.collapsed else []
        difference = test.difference if test else None
        cells = [
            score.name,
            "" if ours is None else show_number(ours.mean, block.metric, ours),
            ""
            if ours is None
            else show_interval(ours, block.metric) or ("same at every seed" if ours.constant else ""),
            "" if ours is None or not ours.sd else show_number(ours.sd, block.metric, ours),
            ("" if ours is None else str(ours.n)) + "".join(f" ({text})" for text in lacking),
            "" if difference is None else show_number(abs(difference.mean), block.metric, difference),
            "" if difference is None else show_interval(difference, block.metric),
            "" if test is None else (test.test if test.test != "none" else test.reason),
            "" if test is None else show_p(test.p_holm).removeprefix("= "),
        ]
        rows.append(PageRow(cells=cells, kind="best" if score.rank == 1 else "apart" if score.rank is None else ""))
    columns = [
        "model",
        "mean",
        "95 % interval",
        "sd",
        "seeds",
        "behind the best",
        "its 95 % interval",
        "test",
        "p (Holm)",
    ]
    return _without_empty_columns(PageTable(columns=columns, rows=rows, words=frozenset({0, 7})))


def metrics_tables(block: DatasetComparison) -> list[PageTable]:
    """Returns every metric of a dataset's models except counts, in tables that fit a sheet of paper. There is a table
    for the items of each split and each use of the models, and one for the rest. There are no tables if the only metric
    is the one that ranks."""
    names = sorted({name for score in block.scores for name in score.metrics if not is_count(name)})
    if len(names) < 2:
        return []
    uses = sorted({name.partition(".")[2] for name in names})  # the first is empty: the use to label
    parts = [
        (
            f"On {split} items{_own_answers(split, block)}" + (f", {use}" if use else ""),
            [name for name in names if name.startswith(f"{split}_") and name.partition(".")[2] == use],
        )
        for split in SPLITS[::-1]
        for use in uses
    ]
    of_items = {name for _, own in parts for name in own}
    parts.append(("Of annotators and their answers", [name for name in names if name not in of_items]))
    tables = [table for title, own in parts if own for table in in_parts(_metrics_table(block, title, own))]
    return [*tables[:-1], replace(tables[-1], note=_METRICS_NOTE)]


def _own_answers(split: str, block: DatasetComparison) -> str:
    """Returns a remark where a split is scored by the answers that trained, which no model can be right or wrong
    about."""
    echoes = split == "train" and not block.references.gold.get("train", True)
    return ", against the answers that trained" if echoes else ""


def _metrics_table(block: DatasetComparison, title: str, names: Sequence[str]) -> PageTable:
    able = [score for score in block.scores if any(name in score.metrics for name in names)]
    rows = [PageRow(cells=[score.name, *(_of(score, name, show_with_interval) for name in names)]) for score in able]
    return PageTable(title=title, columns=["model", *map(readable, names)], rows=rows)


def printed_table(comparison: Comparison) -> PageTable:
    """Returns the published values beside ours."""
    rows: list[PageRow] = []
    for entry in comparison.published:
        value, ours = entry.published, entry.ours
        dataset = entry.block.title if entry.block else value.dataset
        cells = [value.model, dataset, readable(value.metric), show_printed(value.value, value.metric)]
        if ours is None:
            cells += ["no such cell in this sweep yet", "", "", ""]
        else:
            inside = "" if entry.inside is None else "yes" if entry.inside else "no"
            interval = _printed_interval(ours, value.metric)
            cells += [show_printed(ours.mean, value.metric), interval, _signed(entry.difference, value.metric), inside]
        rows.append(PageRow(cells=cells))
    columns = ["model", "dataset", "metric", "published", "ours", "95 % interval", "difference", "in our interval?"]
    return PageTable(columns=columns, rows=rows, words=frozenset({0, 1, 2}))


def cost_table(comparison: Comparison) -> PageTable:
    """Returns the cost of every model's trials, including the points that were scored besides the chosen one."""
    rows = [
        PageRow(
            cells=[
                score.model,
                block.title,
                _of(score, block.metric, lambda ours, metric: show_number(ours.mean, metric, ours)),
                show_seconds(score.wall_s.mean if score.wall_s else None),
                show_bytes(score.peak_bytes),
                show_point(score.point),
            ],
            kind="apart" if score.saw_gold else "",
        )
        for block in comparison.datasets
        for score in [*block.scores, *block.other_points]
    ]
    columns = ["model", "dataset", "score", "time per trial", "memory", "settings"]
    note = (
        "The time is a trial's share of its batch. Memory is the highest of the process while the batch ran, libraries "
        "included."
    )
    return _without_empty_columns(PageTable(columns=columns, rows=rows, words=frozenset({0, 1, 5}), note=note))


def selected_table(search: SearchShown) -> PageTable:
    """Returns the points of a search that were scored again on fresh seeds."""
    rows = [
        PageRow(
            cells=[
                f"point {number}",
                show_number(search.values.get(number), search.metric, search.fresh.get(number)),
                show_with_interval(search.fresh[number], search.metric) if number in search.fresh else "not scored so",
                show_point(search.points[number]),
            ]
        )
        for number in search.selected
    ]
    columns = ["number", "value in the search", "on fresh seeds", "settings"]
    return PageTable(columns=columns, rows=rows, words=frozenset({0, 3}))


def front_table(found: TradeOffs) -> PageTable:
    """Returns the points on the Pareto front of a search, the best by its first objective first."""
    rows = [
        PageRow(
            cells=[
                f"point {point.number}",
                *(
                    (show_score if name == SECONDS else show_with_interval)(value, name)  # a time has its unit
                    for name, value in zip(found.objectives, point.values, strict=True)
                ),
                show_point(point.point),
            ]
        )
        for point in found.front[:_MOST_POINTS]
    ]
    names = [words(name) if name == SECONDS else readable(name) for name in found.objectives]
    columns = ["number", *names, "settings"]
    return PageTable(
        columns=columns, rows=rows, words=frozenset({0, len(columns) - 1}), title="Pareto front", note=_FRONT_NOTE
    )


def points_table(search: SearchShown) -> PageTable:
    """Returns the points of a search with their values and settings; at most the first 1,000."""
    numbers = sorted(search.points)[:_MOST_POINTS]
    names = list(dict.fromkeys(name for number in numbers for name in search.points[number]))
    rows = [
        [
            f"point {number}",
            _value_of_point(search, number),
            *(show_value(search.points[number][name]) if name in search.points[number] else "" for name in names),
        ]
        for number in numbers
    ]
    return table_of(["number", readable(search.metric), *names], rows)


def _value_of_point(search: SearchShown, number: int) -> str:
    if number not in search.values:
        return "not scored yet"
    value = search.values[number]
    return "failed" if value is None else show_number(value, search.metric)


def _without_empty_columns(table: PageTable) -> PageTable:
    """Returns a table without the columns that are empty in every row."""
    kept = [n for n in range(len(table.columns)) if n == 0 or any(row.cells[n] not in ("", "–") for row in table.rows)]
    return table.of_columns(kept)


def _reached(score: ModelScore, metric: str) -> str:
    ours = score.metrics.get(metric)
    if ours is not None:
        return show_with_interval(ours, metric)
    if score.n_stopped:
        return "no seed was fitted to its end"
    return "every seed failed" if score.n_failed else "not scored by this"


def _of(score: ModelScore, metric: str, show: Callable[[Estimate, str], str]) -> str:
    return show(score.metrics[metric], metric) if metric in score.metrics else ""


def _behind(score: ModelScore, metric: str) -> str:
    test = score.versus_best
    if test is None or test.difference is None:
        return ""
    return show_number(abs(test.difference.mean), metric, test.difference)


def _as_good(score: ModelScore, metric: str) -> str:
    beside = score.beside_best
    if beside is None:
        return ""
    if beside == "worse":
        return "predicts answers less well" if by_held_out(metric) else "no, worse"
    return score.unsound(metric) or beside


def _printed_interval(ours: Estimate, metric: str) -> str:
    if ours.low is None or ours.high is None:
        return ""
    return f"[{show_printed(ours.low, metric)}, {show_printed(ours.high, metric)}]"


def _signed(difference: float | None, metric: str) -> str:
    if difference is None:
        return ""
    sign = "+" if difference >= 0 else "\N{MINUS SIGN}"
    return sign + show_printed(abs(difference), metric)
