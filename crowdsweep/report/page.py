"""The report of a sweep: one HTML page that needs nothing else, and its tables for papers.

`write_report` may be called at any time; of a sweep that still runs it reports what has finished, and says so.
"""

import io
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import jinja2
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import yaml
from markupsafe import Markup

from crowdsweep.errors import NotWritten, UnknownName
from crowdsweep.journal.artifacts import FOLDER, array_of, without_files
from crowdsweep.journal.journal import open_rows, read_journal
from crowdsweep.journal.shown import ShownTrial, one_each, points_of, shown_searches, shown_trials
from crowdsweep.journal.state import JournalState
from crowdsweep.journal.whole_file import write_whole
from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.wording import is_count, readable
from crowdsweep.models import registered
from crowdsweep.report import figures, phrases
from crowdsweep.report.baselines import MetricValues, baseline_lines, baseline_table, baseline_values
from crowdsweep.report.compare import (
    Comparison,
    DatasetComparison,
    compare,
    describe_dataset,
    no_item_scores,
)
from crowdsweep.report.comparison_table import comparison_table
from crowdsweep.report.flagged import flagged_notes
from crowdsweep.report.guidance import guidance_tables
from crowdsweep.report.kept_scores import KeptScores
from crowdsweep.report.maps import Maps, maps_of, pictures
from crowdsweep.report.references import References
from crowdsweep.report.soft_labels import soft_label_tables
from crowdsweep.report.table import comparison_rows, results_table, to_csv, to_latex, to_markdown
from crowdsweep.studies.contract import (
    ScoredBy,
    StudyReport,
    StudyTable,
    check_knobs,
    find_template,
    with_datasets,
    with_gold_models,
)
from crowdsweep.sweepfile.records import Metric, PublishedValue
from crowdsweep.trial.events import SweepStatus
from crowdsweep.trial.result import CROWD_CONFUSION, Failure, Status
from crowdsweep.trial.spec import TrialSpec, canonical_json

_log = logging.getLogger(__name__)
_MAX_SHOWN_FAILURES = 200
_RIGHT = ("rank", "mean", "n", "p (Holm)", "printed", "seconds")  # columns of numbers in the tables for reading
_FILTERS: dict[str, Any] = {
    "number": phrases.show_number,
    "spread": phrases.show_spread,
    "interval": phrases.show_interval,
    "p": phrases.show_p,
    "seconds": phrases.show_seconds,
    "size": phrases.show_bytes,
    "point": phrases.show_point,
    "collapse": phrases.collapse,
    "readable": readable,
}


@dataclass(frozen=True, kw_only=True)
class FailedTrial:
    """A trial without numbers, and why."""

    model: str
    dataset: str
    spec: TrialSpec
    failure: Failure


@dataclass(frozen=True, kw_only=True)
class SearchShown:
    """One search: what it looked for, what every point was worth, what it selected.

    Attributes:
        fresh: number of a selected point → the same metric on fresh seeds, where the report's trials have it.
    """

    model: str
    dataset: str
    metric: str
    goal: str
    points: Mapping[int, Mapping[str, Any]]
    values: Mapping[int, float | None]
    selected: Sequence[int]
    fresh: Mapping[int, Estimate]


@dataclass(kw_only=True)
class _Drawing:
    """Writes figures into the page; counts them, so that their ids differ."""

    count: int = field(default=0)

    def __call__(self, figure: Any, description: str) -> Markup:
        self.count += 1
        return Markup(figures.to_svg(figure, f"f{self.count}", description))  # noqa: S704 - our own drawing


def write_report(store: Path) -> Path:
    """Writes `report.html`, `table.md`, `table.csv`, `table.tex`, `results.parquet`, and, where models keep what they
    are drawn from, maps (`maps.pictures`: `annotators-1.png` …) into a sweep's store.

    Each is made before the first is written, and written whole or not at all.

    Returns:
        The page's path.

    Raises:
        JournalError: there is no sweep in that folder.
        NotWritten: one of them could not be written (a full disk, a folder that is read-only).
    """
    state = read_journal(store)
    everything = results_table(state, "all")
    comparison = comparison_of(state, store)
    flat = comparison_table(comparison)
    parquet = io.BytesIO()
    pyarrow.parquet.write_table(everything, parquet)
    notes = [*phrases.unscored(comparison), *_notes(state, comparison)]
    rows = open_rows(store, write=False)
    baselines = baseline_values(state, shown_trials(state), rows)
    shown = [to_markdown(_for_reading(flat), right=_RIGHT), *_without_a_fit(comparison, baselines)]
    shown += map("{}\n".format, notes)
    maps = maps_of(state, rows)
    texts = {
        "table.csv": to_csv(flat),
        "table.md": "\n".join(shown),
        "table.tex": to_latex(_for_reading(flat), right=_RIGHT),
        "report.html": render_page(state, comparison, store, maps, baselines),
    }
    files = {
        "results.parquet": parquet.getvalue(),
        **dict(pictures(maps)),
        **{name: text.encode(errors="backslashreplace") for name, text in texts.items()},
    }
    for name, content in files.items():
        try:
            write_whole(store / name, content)
        except OSError as error:
            raise NotWritten(
                f"{store / name}: could not be written ({error.strerror}); what stood there before stands, and the "
                f"record is safe. See to the disk, then run `crowdsweep report {store}`"
            ) from error
    if gone := without_files(state.results.values(), store):
        _log.warning(
            "%s: files of %d trials are gone from %s, and intervals and tests go without them. `crowdsweep repair %s`, "
            "then run the same sweep again: those trials are made up for",
            *(store, gone, store / FOLDER, store),
        )
    return store / "report.html"


def render_page(
    state: JournalState,
    comparison: Comparison,
    store: Path,
    maps: Maps,
    baselines: Mapping[tuple[str, str], MetricValues],
) -> str:
    """Returns the page's HTML."""
    template = Path(__file__).with_name("page.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    cast(dict[str, Any], environment.filters).update(_FILTERS)
    trials = shown_trials(state)
    failed = failed_trials(state, trials)
    return environment.from_string(template).render(
        state=state,
        comparison=comparison,
        store=store,
        written=datetime.now(tz=UTC).strftime("%Y-%m-%d %H:%M UTC"),
        progress=_progress(state, trials),
        unfinished=state.status is not SweepStatus.DONE,
        table_name=(state.config.get("published") or {}).get("table") or "the paper",
        searches=list(searches(state, comparison)),
        study=study_report(state),
        guidance=guidance_tables(state, open_rows(store, write=False), comparison.datasets),
        soft_labels=soft_label_tables(state, open_rows(store, write=False)),
        failed=failed[:_MAX_SHOWN_FAILURES],
        n_failed=len(failed),
        draw=_Drawing(),
        draw_means=_means_figure,
        draw_search=_search_figure,
        draw_curve=figures.curve,
        draw_confusion=figures.heat_map,
        draw_annotators=figures.annotator_map,
        draw_items=figures.item_map,
        draw_clusters=figures.cluster_labels,
        maps=maps,
        baselines=_baselines(comparison, baselines),
        confusions=_confusions(state, trials, comparison, store),
        verdict=phrases.verdict,
        notes=_notes(state, comparison),
        left_out=len(state.results.keys() - {trial.spec.key for trial in trials}),
        tests_used=phrases.tests_used,
        flattery=phrases.flattery,
        intervals_over=phrases.intervals_over,
        quality_metrics=_quality_metrics,
        printed=_printed_of,
        sweep_file=yaml.safe_dump(json.loads(json.dumps(dict(state.config))), sort_keys=False, allow_unicode=True),
    )


def _notes(state: JournalState, comparison: Comparison) -> list[str]:
    """Returns what a reader of the answers must know, in sentences."""
    chosen_by_gold = phrases.chosen_by_gold(comparison, state.plan.searches)
    return [
        *phrases.ranked_by_heldout(comparison),
        *chosen_by_gold,
        *phrases.refused(state.plan.refused),
        *flagged_notes(state, shown_trials(state)),
    ]


def searches(state: JournalState, comparison: Comparison) -> Iterator[SearchShown]:
    """Yields every search that has proposed a point."""
    rescored = {
        (block.dataset, block.dataset_params, score.model, score.point): score
        for block in comparison.datasets
        for score in [*block.scores, *block.other_points]
    }
    for search in shown_searches(state):
        points = points_of(state, search)
        place = (search.dataset, canonical_json(dict(search.dataset_params)), search.label)
        selected = [number for number in state.selected.get(search.key, ()) if number in points]
        scores = {number: rescored.get((*place, canonical_json(dict(points[number])))) for number in selected}
        yield SearchShown(
            model=search.label,
            dataset=describe_dataset(search.dataset, canonical_json(dict(search.dataset_params))),
            metric=search.metric,
            goal=search.goal,
            points=points,
            values={number: value for number, value in state.values.get(search.key, {}).items() if number in points},
            selected=selected,
            fresh={n: one.metrics[search.metric] for n, one in scores.items() if one and search.metric in one.metrics},
        )


def failed_trials(state: JournalState, trials: Iterable[ShownTrial]) -> list[FailedTrial]:
    """Returns those of the trials that failed, in either phase."""
    failed: list[FailedTrial] = []
    for key, trial in one_each(trials).items():
        result = state.results.get(key)
        if result is not None and result.failure is not None:
            dataset = describe_dataset(trial.spec.dataset, canonical_json(dict(trial.spec.dataset_params)))
            failed.append(FailedTrial(model=trial.label, dataset=dataset, spec=trial.spec, failure=result.failure))
    return failed


def study_report(state: JournalState) -> StudyReport | None:
    """Returns the section of the sweep's study template; None where it has none."""
    entry = state.config.get("study")
    if not entry:
        return None
    knobs = {name: value for name, value in entry.items() if name != "template"}
    template = find_template(entry["template"])
    rows = comparison_rows(state)
    table = with_gold_models(rows.filter(rows["chosen"]), _gold_labels(state))
    datasets = {
        row.dataset: ScoredBy(training_gold=row.gold.get("train", True), heldout=row.heldout)
        for row in sorted(state.plan.datasets, key=lambda row: row.heldout)
    }
    return template.summarise(with_datasets(table, datasets), check_knobs(template, knobs))


def comparison_of(state: JournalState, store: Path | None = None) -> Comparison:
    """Compares the models of a sweep, as its file asks for it.

    Args:
        state: what its journal says.
        store: where the scores of single items lie; without, intervals and tests vary over seeds alone.
    """
    wanted = state.config.get("metric")
    printed = (state.config.get("published") or {}).get("values", ())
    return compare(
        comparison_rows(state),
        metric=Metric(name=wanted["name"], goal=wanted["goal"]) if wanted else None,
        published=[PublishedValue(**value) for value in printed],
        gold_models=_gold_labels(state),
        references={
            (row.dataset, canonical_json(dict(row.dataset_params))): References(gold=row.gold, heldout=row.heldout)
            for row in state.plan.datasets
        },
        item_scores=no_item_scores if store is None else KeptScores(state, open_rows(store, write=False)),
    )


def _gold_labels(state: JournalState) -> frozenset[str]:
    """Returns the labels of models that need gold. A plan of the first format does not say: there, a model that is not
    installed any more is taken for one that does not."""
    if state.plan.cells is not None:
        return frozenset(cell.label for cell in [*state.plan.cells, *state.plan.searches] if cell.sees_gold)
    labels: set[str] = set()
    for entry in state.config.get("models", ()):
        try:
            needs = registered.model_info(entry["name"]).needs
        except UnknownName:
            continue
        if "gold" in needs:
            labels.add(entry.get("label") or entry["name"])
    return frozenset(labels)


def _progress(state: JournalState, trials: Iterable[ShownTrial]) -> dict[str, int]:
    known = {trial.spec.key for trial in trials}
    ended = Counter(state.results[key].status for key in known if key in state.results)
    return {
        "done": ended.total(),
        "planned": max(state.plan.n_trials, len(known)),
        "failed": ended[Status.FAILED],
        "stopped": ended[Status.STOPPED],
    }


def _means_figure(block: DatasetComparison, comparison: Comparison) -> Any:
    printed = _printed_of(block, comparison)
    bars = [
        figures.Bar(
            label=f"{score.model} (saw gold)" if score.saw_gold else score.model,
            estimate=score.metrics[block.metric],
            values=list(score.scores.by_seed.values()),
            apart=score.saw_gold,
            printed=printed.get(score.model),
        )
        for score in [*block.ranked, *block.gold]
    ]
    return figures.means_with_intervals(bars, block.metric)


def _search_figure(search: SearchShown) -> Any:
    return figures.search_curve(search.values, search.goal, search.metric)


def _printed_of(block: DatasetComparison, comparison: Comparison) -> dict[str, float]:
    return {
        entry.published.model: entry.published.value
        for entry in comparison.published
        if entry.block is block and entry.published.metric == block.metric
    }


def _quality_metrics(block: DatasetComparison) -> list[str]:
    """Returns the metrics of a dataset's models, counts left out, those of test items first."""
    names = {name for score in block.scores for name in score.metrics if not is_count(name)}
    return sorted(names, key=lambda name: (not name.startswith("test_"), not name.startswith("dev_"), name))


def _confusions(
    state: JournalState, trials: Iterable[ShownTrial], comparison: Comparison, store: Path
) -> dict[tuple[str, str], tuple[str, list[list[float]]]]:
    """Returns the crowd's estimated matrix by dataset, mean over seeds, of the best ranked model that has one."""
    rows = open_rows(store, write=False)
    by_cell: dict[tuple[str, str, str, str], list[Any]] = {}
    for trial in trials:
        spec, result = trial.spec, state.results.get(trial.spec.key)
        if not trial.chosen or result is None or result.status is not Status.OK:
            continue
        matrix: Any = result.confusion
        if matrix is None and CROWD_CONFUSION in result.kept:
            matrix = array_of(rows, result.kept[CROWD_CONFUSION])
        if matrix is not None:
            params, point = canonical_json(dict(spec.dataset_params)), canonical_json(dict(spec.point))
            by_cell.setdefault((spec.dataset, params, trial.label, point), []).append(matrix)
    found: dict[tuple[str, str], tuple[str, list[list[float]]]] = {}
    for block in comparison.datasets:
        for score in [*block.ranked, *block.unranked]:
            matrices = by_cell.get((block.dataset, block.dataset_params, score.model, score.point))
            if matrices:
                mean = np.mean(np.asarray(matrices, dtype=np.float64), axis=0)
                found[block.dataset, block.dataset_params] = (score.model, mean.tolist())
                break
    return found


def _baselines(
    comparison: Comparison, values: Mapping[tuple[str, str], MetricValues]
) -> dict[tuple[str, str], StudyTable]:
    """Returns the table of predictions that take no fit, by dataset, of those that compare label distributions."""
    tables = {
        (block.dataset, block.dataset_params): baseline_table(
            block, values.get((block.dataset, block.dataset_params), {})
        )
        for block in comparison.datasets
    }
    return {place: table for place, table in tables.items() if table is not None}


def _without_a_fit(comparison: Comparison, values: Mapping[tuple[str, str], MetricValues]) -> list[str]:
    """Returns the same of all datasets as Markdown; nothing where none compares label distributions."""
    lines = [
        line
        for block in comparison.datasets
        for line in baseline_lines(block, values.get((block.dataset, block.dataset_params), {}))
    ]
    return [to_markdown(pa.Table.from_pylist(lines), right=("value",))] if lines else []


def _for_reading(flat: pa.Table) -> pa.Table:
    """Returns the comparison with fewer columns, rounded and with the interval in one cell, for Markdown and LaTeX."""
    rows = [
        {
            "dataset": describe_dataset(row["dataset"], row["dataset_params"]),
            "rank": "" if row["rank"] is None else str(row["rank"]),
            "model": row["model"] + (" (saw gold)" if row["saw_gold"] else ""),
            "metric": readable(row["metric"]) if row["metric"] else "",
            "mean": phrases.show_number(row["mean"], row["metric"]),
            "95 % interval": phrases.show_interval(_as_estimate(row), row["metric"]) if row["mean"] is not None else "",
            "n": str(row["n"]) + (f" ({row['collapsed']} collapsed)" if row["collapsed"] else ""),
            "p (Holm)": phrases.show_p(row["p_holm"]).removeprefix("= "),
            "printed": phrases.show_number(row["printed"], row["metric"]),
            "seconds": "" if row["wall_s"] is None else f"{row['wall_s']:.3g}",
        }
        for row in flat.to_pylist()
    ]
    columns = ["dataset", "rank", "model", "metric", "mean", "95 % interval", "n", "p (Holm)", "printed", "seconds"]
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in columns]))


def _as_estimate(row: Mapping[str, Any]) -> Estimate:
    return Estimate(n=row["n"], mean=row["mean"], sd=row["sd"], low=row["low"], high=row["high"])
