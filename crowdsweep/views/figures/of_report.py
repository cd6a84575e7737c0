"""Every figure of a report with its words, for the page and for files for papers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from typing import Any

from matplotlib.figure import Figure

from crowdsweep.analysis.compare import Comparison, DatasetComparison
from crowdsweep.analysis.cost_front import cost_front
from crowdsweep.analysis.maps import AnnotatorMap, ClusterMap, ItemMap, Maps
from crowdsweep.analysis.ranks import MeanRanks
from crowdsweep.analysis.searches import SearchShown
from crowdsweep.analysis.sections.confusions import CrowdMatrix
from crowdsweep.analysis.sections.training import Curves
from crowdsweep.analysis.sweep import AnalysedSweep
from crowdsweep.files.names import name_of
from crowdsweep.metrics.shown import show_with_interval
from crowdsweep.metrics.wording import readable, words
from crowdsweep.record.spec import Place
from crowdsweep.views.figures.bars import Bar, mean_ranks, means_with_intervals
from crowdsweep.views.figures.costs import score_against_seconds
from crowdsweep.views.figures.curves import curve, training_curves
from crowdsweep.views.figures.drawing import to_png
from crowdsweep.views.figures.maps import annotator_map, cluster_labels, heat_map, item_map
from crowdsweep.views.figures.searches import importances, parallel_coordinates, search_curve, slices, stopped_curves
from crowdsweep.views.figures.trade_offs import trade_off

_FEWEST_FOR_SLICES = 3  # points with a value


@dataclass(frozen=True, kw_only=True)
class ReportFigure:
    """A figure of a report.

    Attributes:
        name: name of its files, without their ending: small letters, digits and dashes; unique within the report.
        title: what it shows, for screen readers.
        caption: how to read it, in sentences; on a page the surrounding text says the rest.
        draw: draws it anew at each call.
        wide: whether a page shows it over its full width.
        about: the beginning of a full caption, where it differs from the title.
    """

    name: str
    title: str
    caption: str
    draw: Callable[[], Figure]
    wide: bool = False
    about: str = ""

    @property
    def whole_caption(self) -> str:
        """What the figure shows and how to read it, for places without surrounding text."""
        about = self.about or self.title
        return self.caption if self.caption.startswith(about) else f"{about[:1].upper()}{about[1:]}. {self.caption}"


class ReportFigures:
    """All figures of a report, in the order of its page; none of them is drawn yet."""

    def __init__(self) -> None:
        self._figures: dict[tuple[str, object], list[ReportFigure]] = {}
        self._taken: set[str] = set()

    def add(self, section: str, of: object, name: str, **parts: Any) -> None:
        """Adds a figure to a section: for a dataset its place, for a search its key, else an empty text."""
        plain = name_of(name)
        unique = next(one for n in count(1) if (one := plain if n == 1 else f"{plain}-{n}") not in self._taken)
        self._taken.add(unique)
        self._figures.setdefault((section, of), []).append(ReportFigure(name=unique, **parts))

    def of(self, section: str, of: object = "") -> Sequence[ReportFigure]:
        """Returns the figures of a section, in the order of the records that they are drawn from; empty for none."""
        return self._figures.get((section, of), ())

    def of_all(self, section: str) -> list[ReportFigure]:
        """Returns the figures of a section on all datasets."""
        return [figure for (name, _), figures in self._figures.items() if name == section for figure in figures]

    def __iter__(self) -> Iterator[ReportFigure]:
        """Yields each figure, in the order of the page."""
        return chain.from_iterable(self._figures.values())


def figures_of(found: AnalysedSweep) -> ReportFigures:
    """Returns the figures of a sweep's report."""
    comparison, maps, drawn = found.comparison, found.maps, ReportFigures()
    if comparison.ranks is not None and not found.winners:  # a study's curves show them
        _add_ranks(drawn, comparison.ranks)
    for one in found.study.curves if found.study else ():
        caption = f"{one.title}; bars are 95 % intervals."
        drawn.add("study", "", f"study {one.title}", title=one.title, caption=caption, draw=partial(curve, one))
    for block in comparison.datasets:
        place, title = block.place, block.title
        if block.ranked or block.gold:
            _add_means(drawn, block, comparison)
        _add_training(drawn, place, title, found.training.get(place, {}))
        for crowd in found.crowds:
            if crowd.place == place:
                _add_crowd(drawn, crowd, title)
        for annotators in maps.annotators.get(place, ()):
            _add_annotators(drawn, place, annotators, title)
        for items in maps.items.get(place, ()):
            _add_items(drawn, place, items, title)
        for clusters in maps.clusters.get(place, ()):
            _add_clusters(drawn, place, clusters, title)
    for search in found.searches:
        _add_search(drawn, found, search)
    for block in comparison.datasets if not found.winners else ():
        _add_costs(drawn, block)
    return drawn


def _add_ranks(drawn: ReportFigures, ranks: MeanRanks) -> None:
    what = f"Mean rank over the {ranks.n_datasets} datasets and settings; pale, the rank on each."
    if ranks.critical is not None:
        what += (
            " Upright lines join models that do not differ significantly at 5 %, by Nemenyi's test: their mean ranks "
            "are less than the critical difference apart. The test is of these ranks, and needs fewer datasets than "
            "pairwise signed-rank tests with Holm's correction; but its result for two models depends on which others "
            "are ranked (Benavoli et al., 2016)."
        )
    draw = partial(mean_ranks, ranks.each, ranks.critical)
    drawn.add("ranks", "", "ranks", title="ranks of the models", caption=what, draw=draw)


def _add_means(drawn: ReportFigures, block: DatasetComparison, comparison: Comparison) -> None:
    printed = comparison.printed(block)
    bars = [
        Bar(
            label=score.name,
            estimate=score.metrics[block.metric],
            values=list(score.scores.by_seed.values()),
            apart=score.saw_gold,
            printed=printed.get(score.model),
            text=show_with_interval(score.metrics[block.metric], block.metric),
        )
        for score in [*block.ranked, *block.gold]
    ]
    marks = ("; hollow: saw gold" if block.gold else "") + ("; upright mark: as published" if printed else "")
    drawn.add(
        "means",
        block.place,
        f"means {block.title}",
        title=f"{readable(block.metric)} on {block.title}",
        about=f"{words(block.metric)} on {block.title}{_in_unit(block.metric)}",
        caption=f"Mean and 95 % interval; pale, every seed{marks}.",
        draw=partial(means_with_intervals, bars, block.metric),
    )


def _add_costs(drawn: ReportFigures, block: DatasetComparison) -> None:
    if points := cost_front(block):
        drawn.add(
            "costs",
            block.place,
            f"cost {block.title}",
            title=f"{readable(block.metric)} against seconds on {block.title}",
            about=f"{words(block.metric)} against seconds on {block.title}{_in_unit(block.metric)}",
            caption="Filled and joined: no other model has a better mean for the same seconds or less; upright lines "
            "are 95 % intervals.",
            draw=partial(score_against_seconds, points, block.metric),
        )


def _in_unit(metric: str) -> str:
    unit = readable(metric).removeprefix(words(metric)).removeprefix(", ")
    return f", in {unit}" if unit else ""


def _add_training(drawn: ReportFigures, place: Place, title: str, curves: Curves) -> None:
    for metric, of_models in curves.items():
        drawn.add(
            "training",
            place,
            f"training {words(metric)} {title}",
            title=f"{readable(metric)} while models train on {title}",
            about=f"{words(metric)} while models train on {title}",
            caption=f"{readable(metric)} over the steps of training; a line for every fit whose scores were kept.",
            draw=partial(training_curves, of_models, metric),
        )


def _add_crowd(drawn: ReportFigures, one: CrowdMatrix, title: str) -> None:
    drawn.add(
        "crowds",
        one.place,
        f"confusion {title}",
        title=f"confusion matrix of the crowd on {title}",
        caption="Estimated confusion matrix of the crowd, mean over seeds; rows sum to one.",
        draw=partial(heat_map, one.matrix, one.class_names),
    )


def _add_annotators(drawn: ReportFigures, place: Place, one: AnnotatorMap, title: str) -> None:
    drawn.add(
        "annotators",
        place,
        f"annotators {one.model} {title}",
        title=f"map of the annotators of {title}",
        caption=f"t-SNE of the annotators' vectors, seed {one.seed}; from blue to orange the share of wrong answers, "
        f"by the model's posterior of the items. Lengths mean nothing, nearness does.",
        draw=partial(annotator_map, one.points, one.errors),
    )


def _add_items(drawn: ReportFigures, place: Place, one: ItemMap, title: str) -> None:
    drawn.add(
        "items",
        place,
        f"items {one.model} {title}",
        title=f"map of training items of {title}",
        caption=f"t-SNE of the latent vectors of {len(one.points)} training items, seed {one.seed}, by the class that "
        f"most of an item's annotators gave. Lengths mean nothing, nearness does.",
        draw=partial(item_map, one.points, one.classes, one.class_names),
    )


def _add_clusters(drawn: ReportFigures, place: Place, one: ClusterMap, title: str) -> None:
    both = len(one.annotator_sizes) > 0
    caption = "Label distribution of each cluster of items; the largest comes first, empty ones are left out."
    if both:
        caption = (
            "Label distributions of each cluster of items (down) with each cluster of annotators (across), one panel "
            "per class; the largest cluster comes first, empty ones are left out."
        )
    drawn.add(
        "clusters",
        place,
        f"clusters {one.model} {title}",
        title=f"label distributions of the clusters of {title}",
        caption=caption,
        draw=partial(cluster_labels, one.labels, one.item_sizes, one.annotator_sizes, one.class_names),
        wide=both,
    )


def _add_search(drawn: ReportFigures, found: AnalysedSweep, search: SearchShown) -> None:
    points, where = search.scored, f"{search.model} {search.dataset}"
    add = partial(drawn.add, "searches", search.key)
    if (several := found.trade_offs.get(search.key)) is not None:
        both = " against ".join(map(words, several.objectives[:2]))
        title = f"Pareto front of the search of {search.model} on {search.dataset}"
        add(
            f"front {where}",
            title=title,
            about=f"{title}: {both}",
            caption=(
                "Filled and joined: no other point is better in one of the two and as good in the other; lines are "
                "95 % intervals over the search seeds."
            ),
            draw=partial(trade_off, several),
        )
    if points.numbers:
        add(
            f"search {where}",
            title=f"history of the search of {search.model} on {search.dataset}",
            caption="Every point in the order of the search, and the best so far.",
            draw=partial(search_curve, search.values, search.goal, search.metric, search.points),
        )
    if (ended := found.stopped_early.get(search.key)) is not None:
        add(
            f"stopped {where}",
            title=f"where fits of the search of {search.model} were stopped early",
            caption=f"{ended.words}.",
            draw=partial(stopped_curves, ended),
        )
    if search.importances:
        add(
            f"importances {where}",
            title=f"what mattered in the search of {search.model}",
            caption=(
                "Share of the variance of the values that each setting explains, by Optuna's functional ANOVA; of "
                "settings that every point has."
            ),
            draw=partial(importances, search.importances),
        )
    if points.params and len(points.numbers) >= _FEWEST_FOR_SLICES:
        add(
            f"slices {where}",
            title="values over each setting",
            caption="Values over each setting; the stronger the colour, the later the point.",
            draw=partial(slices, points, search.metric),
        )
        if len(points.params) > 1:
            add(
                f"points {where}",
                title="settings and values of every point",
                caption="Each line is a point; the stronger the colour, the better." + _first_six(search),
                draw=partial(parallel_coordinates, points, search.goal, search.metric),
            )


def _first_six(search: SearchShown) -> str:
    if len(search.scored.params) <= 6:
        return ""
    return " Of the settings the six that mattered most." if search.importances else " The first six settings."


def pictures(maps: Maps) -> Iterator[tuple[str, bytes]]:
    """Yields each map as a file: `annotators-1.png` …, `items-1.png` …, `clusters-1.png` …, in the order of the
    page."""
    drawn = {
        "annotators": (annotator_map(one.points, one.errors) for one in chain(*maps.annotators.values())),
        "items": (item_map(one.points, one.classes, one.class_names) for one in chain(*maps.items.values())),
        "clusters": (
            cluster_labels(one.labels, one.item_sizes, one.annotator_sizes, one.class_names)
            for one in chain(*maps.clusters.values())
        ),
    }
    for kind, figures in drawn.items():
        for number, figure in enumerate(figures, start=1):
            yield f"{kind}-{number}.png", to_png(figure)
