"""The report of a sweep: one HTML page that needs nothing else, and its tables for papers.

`write_report` may be called at any time; of a sweep that still runs it reports what has finished, and says so.
"""

import io
import json
import logging
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import jinja2
import pyarrow.parquet
import yaml
from markupsafe import Markup, escape

from crowdsweep.console.status import BROKEN_OFF, is_broken_off, left_out_words
from crowdsweep.errors import NotWritten
from crowdsweep.files.owned import replace_files
from crowdsweep.journal.artifacts import FOLDER, without_files
from crowdsweep.journal.journal import open_rows
from crowdsweep.journal.shown import ShownTrial, datasets_of, left_out_as_data_changed, one_each, shown_trials
from crowdsweep.journal.state import JournalState
from crowdsweep.journal.store_files import STORE
from crowdsweep.metrics.wording import readable
from crowdsweep.report import amounts, figures, page_tables, phrases
from crowdsweep.report.answer import answer_of
from crowdsweep.report.baselines import MetricValues, baseline_table, baseline_values
from crowdsweep.report.compare import Comparison, DatasetComparison, describe_dataset
from crowdsweep.report.comparison_table import comparison_table
from crowdsweep.report.confusions import crowd_matrices
from crowdsweep.report.flagged import flagged_notes
from crowdsweep.report.guidance import guidance_tables
from crowdsweep.report.maps import Maps, maps_of, pictures
from crowdsweep.report.next_steps import next_steps
from crowdsweep.report.of_sweep import ComparedSweep, compared_sweep, study_report, template_of
from crowdsweep.report.page_table import PageTable
from crowdsweep.report.reading_tables import RIGHT, for_reading, without_a_fit
from crowdsweep.report.search_so_far import search_so_far
from crowdsweep.report.searches import SearchShown, searches
from crowdsweep.report.soft_labels import soft_label_tables
from crowdsweep.report.table import results_table, to_csv, to_latex, to_markdown
from crowdsweep.report.training import training_curves
from crowdsweep.report.unseen_annotators import unseen_tables
from crowdsweep.report.winners import winners_of
from crowdsweep.trial.events import SweepStatus
from crowdsweep.trial.naming import short_name
from crowdsweep.trial.result import Failure, Status
from crowdsweep.trial.spec import TrialSpec, canonical_json

_log = logging.getLogger(__name__)
_MAX_SHOWN_FAILURES = 200
RUNS = (SweepStatus.NEW, SweepStatus.RUNNING)
"""States of a sweep that is at work, as far as its record says."""


@dataclass(frozen=True, kw_only=True)
class FailedTrial:
    """A trial without numbers, and why."""

    model: str
    dataset: str
    spec: TrialSpec
    failure: Failure


@dataclass(kw_only=True)
class _Drawing:
    """Writes figures into the page; counts them, so that their ids differ."""

    count: int = field(default=0)

    def __call__(self, figure: Any, description: str) -> Markup:
        self.count += 1
        return Markup(figures.to_svg(figure, f"f{self.count}", description))  # noqa: S704 - our own drawing


def write_report(store: Path, *, refresh: int = 0) -> Path:
    """Writes `report.html`, `table.md`, `table.csv`, `table.tex`, `results.parquet`, and, where models keep what they
    are drawn from, maps (`maps.pictures`: `annotators-1.png` …) into a sweep's store.

    Each is made before the first is written, and all are written or none; maps that an earlier report drew and this one
    does not go. What crowdsweep did not write is never overwritten (`files.owned`).

    Args:
        store: of the sweep, as a person would write it: commands on the page name it so.
        refresh: seconds after which the page is to load itself again while the sweep runs; 0 for never.

    Returns:
        The page's path.

    Raises:
        JournalError: there is no sweep in that folder.
        NotWritten: they could not be written (a full disk, a folder that is read-only).
        NotOurs: a file of that name stands there that crowdsweep did not write, or that was changed since.
    """
    return write_pages(compared_sweep(store), refresh=refresh)


def write_pages(compared: ComparedSweep, *, refresh: int = 0) -> Path:
    """Writes what `write_report` writes, of a sweep that has been read and compared."""
    store, state, comparison = compared.store, compared.state, compared.comparison
    everything = results_table(state, "all")
    flat = comparison_table(comparison)
    parquet = io.BytesIO()
    pyarrow.parquet.write_table(everything, parquet)
    notes = [*phrases.unscored(comparison), *_notes(state, comparison)]
    rows = open_rows(store, write=False)
    baselines = baseline_values(state, shown_trials(state), rows)
    shown = [to_markdown(for_reading(flat), right=RIGHT), *without_a_fit(comparison, baselines)]
    shown += map("{}\n".format, notes)
    maps = maps_of(state, rows)
    texts = {
        "table.csv": to_csv(flat),
        "table.md": "\n".join(shown),
        "table.tex": to_latex(for_reading(flat), right=RIGHT),
        "report.html": render_page(state, comparison, store, maps, baselines, refresh),
    }
    files = {
        "results.parquet": parquet.getvalue(),
        **dict(pictures(maps)),
        **{name: text.encode(errors="backslashreplace") for name, text in texts.items()},
    }
    try:
        replace_files(store, STORE, files)
    except OSError as error:
        place = store / error.filename if error.filename in files else store
        raise NotWritten(
            f"{place}: could not be written ({error.strerror}); what stood there before stands, and the record is "
            f"safe. See to the disk, then run `crowdsweep report {shlex.quote(str(store))}`"
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
    refresh: int = 0,
) -> str:
    """Returns the page's HTML."""
    folder = Path(__file__).parent
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    cast(dict[str, Any], environment.filters).update(_FILTERS)
    template = environment.from_string((folder / "page.html.j2").read_text(encoding="utf-8"))
    return template.render(
        style=Markup((folder / "page.css").read_text(encoding="utf-8")),  # noqa: S704 - our own
        refresh=refresh if state.status in RUNS and not is_broken_off(state, store) else 0,
        **_FUNCTIONS,
        **_about_the_sweep(state, store),
        **_first_screen(state, comparison, store),
        **_rooms(state, comparison, store),
        draw=_Drawing(),
        maps=maps,
        baselines=_baselines(comparison, baselines),
    )


def _about_the_sweep(state: JournalState, store: Path) -> dict[str, Any]:
    """Returns what the page says of the sweep as a whole: how far it is, what failed, how to run it again."""
    trials = shown_trials(state)
    failed = failed_trials(state, trials)
    standing = BROKEN_OFF if is_broken_off(state, store) else state.status
    return {
        "state": state,
        "written": datetime.now(tz=UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "progress": _progress(state, trials),
        "unfinished": state.status is not SweepStatus.DONE,
        "failed": failed[:_MAX_SHOWN_FAILURES],
        "n_failed": len(failed),
        "quoted_store": shlex.quote(str(store)),
        "a_key": next((trial.spec.key for trial in trials if trial.spec.key in state.results), ""),
        "standing": standing,
        "left_out": left_out_words(
            len(state.results.keys() - {trial.spec.key for trial in trials}),
            {
                short_name(name, datasets_of(state.plan)): number
                for name, number in left_out_as_data_changed(state, trials).items()
            },
        ),
        "sweep_file": yaml.safe_dump(json.loads(json.dumps(dict(state.config))), sort_keys=False, allow_unicode=True),
    }


def _first_screen(state: JournalState, comparison: Comparison, store: Path) -> dict[str, Any]:
    """Returns the answer, and what it gives rise to."""
    trials, template, study = shown_trials(state), template_of(state), study_report(state, store)
    winners = [] if template is None else winners_of(comparison, template)
    answers = [answer_of(state, block, trials) for block in comparison.datasets]
    crowds = crowd_matrices(state, trials, comparison, open_rows(store, write=False))
    found = list(searches(state, comparison))
    whole = [answer for answer in answers if not winners or any(one.whole is answer.block for one in winners)]
    return {
        "comparison": comparison,
        "study": study,
        "study_tables": page_tables.study_tables(study.tables) if study else [],
        "winners": winners,
        "answers": answers,
        "ranks": comparison.ranks.each if comparison.ranks else {},
        "first_notes": phrases.worth_of_heldout(comparison),
        "steps": next_steps(whole, study, found, crowds, store),
        "crowds": crowds,
        "searches": found,
        "so_far": None if state.status is SweepStatus.DONE else search_so_far(found),
        "notes": _notes(state, comparison),
    }


def _rooms(state: JournalState, comparison: Comparison, store: Path) -> dict[str, Any]:
    """Returns the sections below."""
    rows = open_rows(store, write=False)
    guidance = guidance_tables(state, rows, comparison.datasets)
    soft_labels = soft_label_tables(state, rows)
    unseen = unseen_tables(state, shown_trials(state), rows)
    return {
        "training": training_curves(state),
        "guidance": page_tables.study_tables(guidance),
        "soft_labels": page_tables.study_tables(soft_labels),
        "unseen": {place: page_tables.study_tables([table]) for place, table in unseen.items()},
        "printed_values": page_tables.printed_table(comparison),
        "cost": page_tables.cost_table(comparison),
        "table_name": (state.config.get("published") or {}).get("table") or "the paper",
    }


def _notes(state: JournalState, comparison: Comparison) -> list[str]:
    """Returns what a reader of the answers must know, in sentences."""
    chosen_by_gold = phrases.chosen_by_gold(comparison, state.plan.searches)
    return [
        *phrases.ranked_by_heldout(comparison),
        *chosen_by_gold,
        *phrases.refused(state.plan.refused, {row.dataset for row in state.plan.datasets}),
        *flagged_notes(state, shown_trials(state)),
    ]


def failed_trials(state: JournalState, trials: Iterable[ShownTrial]) -> list[FailedTrial]:
    """Returns those of the trials that failed, in either phase."""
    failed: list[FailedTrial] = []
    among = {row.dataset for row in state.plan.datasets}
    for key, trial in one_each(trials).items():
        result = state.results.get(key)
        if result is not None and result.failure is not None:
            dataset = describe_dataset(trial.spec.dataset, canonical_json(dict(trial.spec.dataset_params)), among)
            failed.append(FailedTrial(model=trial.label, dataset=dataset, spec=trial.spec, failure=result.failure))
    return failed


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
    printed = page_tables.printed_of(block, comparison)
    bars = [
        figures.Bar(
            label=page_tables.named(score),
            estimate=score.metrics[block.metric],
            values=list(score.scores.by_seed.values()),
            apart=score.saw_gold,
            printed=printed.get(score.model),
            text=amounts.show_spread(score.metrics[block.metric], block.metric),
        )
        for score in [*block.ranked, *block.gold]
    ]
    return figures.means_with_intervals(bars, block.metric)


def _search_figure(search: SearchShown) -> Any:
    return figures.search_curve(search.values, search.goal, search.metric)


def _baselines(
    comparison: Comparison, values: Mapping[tuple[str, str], MetricValues]
) -> dict[tuple[str, str], list[PageTable]]:
    """Returns the tables of predictions that take no fit, by dataset, of those that compare label distributions."""
    tables = {
        (block.dataset, block.dataset_params): baseline_table(
            block, values.get((block.dataset, block.dataset_params), {})
        )
        for block in comparison.datasets
    }
    return {place: page_tables.study_tables([table]) for place, table in tables.items() if table is not None}


def _ticks(text: str) -> Markup:
    """Returns a sentence whose `words in backticks` are code."""
    parts = re.split(r"`([^`]*)`", text)
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if place % 2 else escape(part) for place, part in enumerate(parts))


_FILTERS: dict[str, Any] = {
    "p": amounts.show_p,
    "point": amounts.show_point,
    "collapse": phrases.collapse,
    "readable": readable,
    "ticks": _ticks,
}
_FUNCTIONS: dict[str, Any] = {
    "draw_means": _means_figure,
    "draw_ranks": figures.mean_ranks,
    "draw_search": _search_figure,
    "draw_importances": figures.importances,
    "draw_slices": figures.slices,
    "draw_parallel": figures.parallel_coordinates,
    "draw_curve": figures.curve,
    "draw_training": figures.training_curves,
    "draw_confusion": figures.heat_map,
    "draw_annotators": figures.annotator_map,
    "draw_items": figures.item_map,
    "draw_clusters": figures.cluster_labels,
    "verdict": phrases.verdict,
    "tests_used": phrases.tests_used,
    "flattery": phrases.flattery,
    "intervals_over": phrases.intervals_over,
    "scores": page_tables.scores_table,
    "certainty": page_tables.certainty_table,
    "every_metric": page_tables.metrics_tables,
    "selected": page_tables.selected_table,
    "printed": page_tables.printed_of,
}
