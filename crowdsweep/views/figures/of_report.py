"""Every figure of a report with its words, for the page and for files for papers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, TypeVar

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

_Map = TypeVar("_Map", AnnotatorMap, ItemMap, ClusterMap)
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


By = Mapping[Place, Sequence[ReportFigure]]
"""The figures of each dataset, in the order of the records that they are drawn from."""


@dataclass(frozen=True, kw_only=True)
class ReportFigures:
    """All figures of a report.

    Attributes:
        ranks: ranks of the models over several datasets; None for a single dataset, and for a study, whose curves show
            them.
        training, crowds, annotators, items, clusters: by dataset, in the order of the records of `AnalysedSweep` that
            they are drawn from.
        searches: by the search's key.
        costs: score against seconds, by dataset where enough models are ranked.
    """

    ranks: ReportFigure | None
    means: Mapping[Place, ReportFigure]
    study: Sequence[ReportFigure]
    training: By
    crowds: By
    annotators: By
    items: By
    clusters: By
    searches: Mapping[str, Sequence[ReportFigure]]
    costs: Mapping[Place, ReportFigure]

    def __iter__(self) -> Iterator[ReportFigure]:
        """Yields each figure, in the order of the page."""
        yield from [] if self.ranks is None else [self.ranks]
        yield from self.study
        each = (self.training, self.crowds, self.annotators, self.items, self.clusters)
        for place in dict.fromkeys([*self.means, *(place for several in each for place in several)]):
            yield from [self.means[place]] if place in self.means else []
            for several in each:
                yield from several.get(place, ())
        for several in self.searches.values():
            yield from several
        yield from self.costs.values()


def figures_of(found: AnalysedSweep) -> ReportFigures:
    """Returns the figures of a sweep's report; none of them is drawn yet."""
    comparison, named = found.comparison, _Named()
    titles = {block.place: block.title for block in comparison.datasets}
    ranks, maps = None if found.winners else comparison.ranks, found.maps
    return ReportFigures(
        ranks=None if ranks is None else _ranks(ranks, named),
        study=[
            named(
                f"study {one.title}",
                title=one.title,
                caption=f"{one.title}; bars are 95 % intervals.",
                draw=partial(curve, one),
            )
            for one in (found.study.curves if found.study else ())
        ],
        means={
            block.place: _means(block, comparison, named) for block in comparison.datasets if block.ranked or block.gold
        },
        training={
            place: list(_training(title, found.training[place], named))
            for place, title in titles.items()
            if place in found.training
        },
        crowds={
            place: [_crowd(one, title, named) for one in found.crowds if one.place == place]
            for place, title in titles.items()
        },
        annotators=_maps("annotators", maps.annotators, _annotators, titles, named),
        items=_maps("items", maps.items, _items, titles, named),
        clusters=_maps("clusters", maps.clusters, _clusters, titles, named),
        searches={search.key: list(_search(found, search, named)) for search in found.searches},
        costs={} if found.winners else dict(_costs(comparison, named)),
    )


@dataclass(kw_only=True)
class _Named:
    """Makes figures with distinct names."""

    taken: set[str] = field(default_factory=set[str])

    def __call__(self, name: str, **parts: Any) -> ReportFigure:
        plain = name_of(name)
        unique, number = plain, 1
        while unique in self.taken:
            number += 1
            unique = f"{plain}-{number}"
        self.taken.add(unique)
        return ReportFigure(name=unique, **parts)


def _ranks(ranks: MeanRanks, named: _Named) -> ReportFigure:
    what = f"Mean rank over the {ranks.n_datasets} datasets and settings; pale, the rank on each."
    if ranks.critical is not None:
        what += (
            " Upright lines join models that do not differ significantly at 5 %, by Nemenyi's test: their mean ranks "
            "are less than the critical difference apart. The test is of these ranks, and needs fewer datasets than "
            "pairwise signed-rank tests with Holm's correction; but its result for two models depends on which others "
            "are ranked (Benavoli et al., 2016)."
        )
    return named(
        "ranks", title="ranks of the models", caption=what, draw=partial(mean_ranks, ranks.each, ranks.critical)
    )


def _means(block: DatasetComparison, comparison: Comparison, named: _Named) -> ReportFigure:
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
    return named(
        f"means {block.title}",
        title=f"{readable(block.metric)} on {block.title}",
        about=f"{words(block.metric)} on {block.title}{_in_unit(block.metric)}",
        caption=f"Mean and 95 % interval; pale, every seed{marks}.",
        draw=partial(means_with_intervals, bars, block.metric),
    )


def _costs(comparison: Comparison, named: _Named) -> Iterator[tuple[Place, ReportFigure]]:
    for block in comparison.datasets:
        if points := cost_front(block):
            yield (
                block.place,
                named(
                    f"cost {block.title}",
                    title=f"{readable(block.metric)} against seconds on {block.title}",
                    about=f"{words(block.metric)} against seconds on {block.title}{_in_unit(block.metric)}",
                    caption="Filled and joined: no other model has a better mean for the same seconds or less; "
                    "upright lines are 95 % intervals.",
                    draw=partial(score_against_seconds, points, block.metric),
                ),
            )


def _in_unit(metric: str) -> str:
    unit = readable(metric).removeprefix(words(metric)).removeprefix(", ")
    return f", in {unit}" if unit else ""


def _training(title: str, curves: Curves, named: _Named) -> Iterator[ReportFigure]:
    for metric, of_models in curves.items():
        yield named(
            f"training {words(metric)} {title}",
            title=f"{readable(metric)} while models train on {title}",
            about=f"{words(metric)} while models train on {title}",
            caption=f"{readable(metric)} over the steps of training; a line for every fit whose scores were kept.",
            draw=partial(training_curves, of_models, metric),
        )


def _crowd(one: CrowdMatrix, title: str, named: _Named) -> ReportFigure:
    return named(
        f"confusion {title}",
        title=f"confusion matrix of the crowd on {title}",
        caption="Estimated confusion matrix of the crowd, mean over seeds; rows sum to one.",
        draw=partial(heat_map, one.matrix, one.class_names),
    )


def _maps(
    kind: str,
    maps: Mapping[Place, Sequence[_Map]],
    words_of: Callable[[_Map, str], dict[str, Any]],
    titles: Mapping[Place, str],
    named: _Named,
) -> By:
    return {
        place: [named(f"{kind} {one.model} {title}", **words_of(one, title)) for one in maps[place]]
        for place, title in titles.items()
        if place in maps
    }


def _annotators(one: AnnotatorMap, title: str) -> dict[str, Any]:
    return {
        "title": f"map of the annotators of {title}",
        "caption": (
            f"t-SNE of the annotators' vectors, seed {one.seed}; from blue to orange the share of wrong answers, by "
            f"the model's posterior of the items. Lengths mean nothing, nearness does."
        ),
        "draw": partial(annotator_map, one.points, one.errors),
    }


def _items(one: ItemMap, title: str) -> dict[str, Any]:
    return {
        "title": f"map of training items of {title}",
        "caption": (
            f"t-SNE of the latent vectors of {len(one.points)} training items, seed {one.seed}, by the class that most "
            f"of an item's annotators gave. Lengths mean nothing, nearness does."
        ),
        "draw": partial(item_map, one.points, one.classes, one.class_names),
    }


def _clusters(one: ClusterMap, title: str) -> dict[str, Any]:
    both = len(one.annotator_sizes) > 0
    return {
        "title": f"label distributions of the clusters of {title}",
        "caption": (
            "Label distributions of each cluster of items (down) with each cluster of annotators (across), one panel "
            "per class; the largest cluster comes first, empty ones are left out."
            if both
            else "Label distribution of each cluster of items; the largest comes first, empty ones are left out."
        ),
        "draw": partial(cluster_labels, one.labels, one.item_sizes, one.annotator_sizes, one.class_names),
        "wide": both,
    }


def _search(found: AnalysedSweep, search: SearchShown, named: _Named) -> Iterator[ReportFigure]:
    points, where = search.scored, f"{search.model} {search.dataset}"
    if (several := found.trade_offs.get(search.key)) is not None:
        both = " against ".join(map(words, several.objectives[:2]))
        title = f"Pareto front of the search of {search.model} on {search.dataset}"
        yield named(
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
        yield named(
            f"search {where}",
            title=f"history of the search of {search.model} on {search.dataset}",
            caption="Every point in the order of the search, and the best so far.",
            draw=partial(search_curve, search.values, search.goal, search.metric, search.points),
        )
    if (ended := found.stopped_early.get(search.key)) is not None:
        yield named(
            f"stopped {where}",
            title=f"where fits of the search of {search.model} were stopped early",
            caption=f"{ended.words}.",
            draw=partial(stopped_curves, ended),
        )
    if search.importances:
        yield named(
            f"importances {where}",
            title=f"what mattered in the search of {search.model}",
            caption=(
                "Share of the variance of the values that each setting explains, by Optuna's functional ANOVA; of "
                "settings that every point has."
            ),
            draw=partial(importances, search.importances),
        )
    if points.params and len(points.numbers) >= _FEWEST_FOR_SLICES:
        yield named(
            f"slices {where}",
            title="values over each setting",
            caption="Values over each setting; the stronger the colour, the later the point.",
            draw=partial(slices, points, search.metric),
        )
        if len(points.params) > 1:
            yield named(
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
    for number, annotators in enumerate(chain(*maps.annotators.values()), start=1):
        yield f"annotators-{number}.png", to_png(annotator_map(annotators.points, annotators.errors))
    for number, items in enumerate(chain(*maps.items.values()), start=1):
        drawn = item_map(items.points, items.classes, items.class_names)
        yield f"items-{number}.png", to_png(drawn)
    for number, found in enumerate(chain(*maps.clusters.values()), start=1):
        drawn = cluster_labels(found.labels, found.item_sizes, found.annotator_sizes, found.class_names)
        yield f"clusters-{number}.png", to_png(drawn)
