"""The page's section on a running sweep: its slots and their work, learning curves so far, and what its searches have
found before the report's trials have run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from crowdsweep.analysis.searches import SearchShown
from crowdsweep.analysis.sections.training import Steps, training_curves
from crowdsweep.analysis.sweep import AnalysedSweep
from crowdsweep.analysis.underway.places import places_of_trials
from crowdsweep.analysis.underway.snapshot import BusySlot, RunningTrial, SweepSnapshot
from crowdsweep.metrics.shown import number_words, show_number
from crowdsweep.metrics.wording import readable, words
from crowdsweep.record.naming import describe_dataset, show_point
from crowdsweep.units import show_bytes, show_seconds
from crowdsweep.views.figures.curves import training_curves as draw_curves
from crowdsweep.views.figures.of_report import ReportFigure
from crowdsweep.views.page.table import PageRow, PageTable, table_of

_MOST_FITS = 20  # latest fits of a model, whose curves are drawn
_MOST_FIGURES = 6
_NOTE = (
    "Means over the search seeds, of the points that have been scored; the best of several such numbers is optimistic"
    ". The report counts fresh seeds alone, which follow."
)


@dataclass(frozen=True, kw_only=True)
class Underway:
    """What the page of a running sweep has besides.

    Attributes:
        refresh: seconds after which the page reloads itself.
        words: what the sweep's driver says of this moment; empty where it says nothing.
        tables, figures: slots and their work, learning curves so far.
    """

    refresh: int
    words: str
    tables: Sequence[PageTable]
    figures: Sequence[ReportFigure]


def underway(found: AnalysedSweep, refresh: int, now: SweepSnapshot | None = None) -> Underway | None:
    """Returns what the page of a running sweep has besides; None where it does not run.

    Args:
        refresh: seconds after which the page reloads itself.
        now: what the sweep's driver says of this moment; None where it says nothing.
    """
    if not found.is_at_work:
        return None
    running = [] if now is None else now.running
    drawn = [*_curves_now(running), *_curves_so_far(found)]
    tables = [*([_at_work_table(now.busy)] if now is not None and running else []), *_places_table(found)]
    words = "" if now is None else now.words
    return Underway(refresh=refresh, words=words, tables=tables, figures=drawn[:_MOST_FIGURES])


def _at_work_table(busy: Sequence[BusySlot]) -> PageTable:
    rows: list[tuple[str, ...]] = []
    for one in busy:
        first, last = f"{one.first_step:,}", f"{one.last_step:,}"
        steps = "" if one.last_step == 0 else last if first == last else f"{first} – {last}"
        score = "" if one.score is None else f"{words(one.metric)} {number_words(one.score, one.metric)}"
        rows.append((one.slot, one.model, one.dataset, f"{one.trials}", steps, score))
    note = "A row for each slot and model: trials that it fits side by side, and the mean of their latest scores."
    return table_of(("slot", "model", "dataset", "trials", "step", "score"), rows, "Running now", note)


def _places_table(found: AnalysedSweep) -> Iterator[PageTable]:
    places = places_of_trials(found.state, found.trials)
    if places:
        rows = [
            (
                place.host,
                place.device,
                f"{place.ended:,}",
                f"{place.failed:,}" if place.failed else "",
                show_seconds(place.seconds),
                show_bytes(place.peak_bytes) if place.peak_bytes else "",
            )
            for place in places
        ]
        columns = ("machine", "device", "trials ended", "failed", "time of trials", "most memory")
        yield table_of(columns, rows, "Where trials ran")


def _curves_now(running: Sequence[RunningTrial]) -> Iterator[ReportFigure]:
    by_place: dict[tuple[str, str], dict[str, list[Steps]]] = {}
    for trial in running:
        if len(trial.curve) > 1:
            by_place.setdefault((trial.dataset, trial.metric), {}).setdefault(trial.model, []).append(trial.curve)
    for (dataset, metric), of_models in by_place.items():
        yield ReportFigure(
            name="now",
            title=f"{readable(metric)} of the fits that run now on {dataset}",
            caption=f"Fits that run now on {dataset}, as far as they are.",
            draw=partial(draw_curves, of_models, metric),
        )


def _curves_so_far(found: AnalysedSweep) -> Iterator[ReportFigure]:
    among = frozenset(row.dataset for row in found.state.plan.datasets)
    for place, curves in training_curves(found.state, found.trials, searched=True).items():
        dataset = describe_dataset(*place, among)
        for metric, of_models in curves.items():
            latest = {model: fits[-_MOST_FITS:] for model, fits in of_models.items()}
            yield ReportFigure(
                name="so-far",
                title=f"learning curves of the search on {dataset}, {readable(metric)}",
                caption=f"Learning curves of the search on {dataset}: the latest {_MOST_FITS} fits of each model at "
                "most.",
                draw=partial(draw_curves, latest, metric),
            )


def search_so_far(searches: Sequence[SearchShown]) -> PageTable | None:
    """Returns the best point so far of each search that has no point scored on fresh seeds yet, best first on each
    dataset. Returns None where there are no such points."""
    young = [(search, best) for search in searches if not search.fresh and (best := _best(search)) is not None]
    if not young:
        return None
    places = list(dict.fromkeys((search.place, search.metric) for search, _ in young))

    def order(one: tuple[SearchShown, tuple[int, float]]) -> tuple[int, float]:
        search, (_, value) = one
        return places.index((search.place, search.metric)), -value if search.goal == "maximize" else value

    rows = [
        PageRow(
            cells=[
                search.model,
                search.dataset,
                show_number(value, search.metric),
                readable(search.metric),
                str(len(search.values)),
                show_point(search.points[number]),
            ]
        )
        for search, (number, value) in sorted(young, key=order)
    ]
    columns = ["model", "dataset", "best so far", "by", "points", "settings"]
    return PageTable(
        title="So far, in the search", columns=columns, rows=rows, words=frozenset({0, 1, 3, 5}), note=_NOTE
    )


def _best(search: SearchShown) -> tuple[int, float] | None:
    """Returns the number and the value of the best point; None where no point has a value."""
    known = [(number, value) for number, value in search.values.items() if value is not None]
    return (max if search.goal == "maximize" else min)(known, key=lambda pair: pair[1], default=None)
