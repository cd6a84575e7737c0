"""Every map of a report: what models learned of annotators, of items, and of clusters of both."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from crowdsweep.journal.rows import Rows
from crowdsweep.journal.shown import shown_trials
from crowdsweep.journal.state import JournalState
from crowdsweep.report import figures
from crowdsweep.report.annotator_maps import AnnotatorMap, annotator_maps
from crowdsweep.report.cluster_maps import ClusterMap, cluster_maps
from crowdsweep.report.item_maps import ItemMap, item_maps
from crowdsweep.report.of_sweep import template_of

Place = tuple[str, str]
"""A dataset and its parameters, canonical JSON."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Maps:
    """The maps of each dataset, one for each model that has one."""

    annotators: Mapping[Place, Sequence[AnnotatorMap]]
    items: Mapping[Place, Sequence[ItemMap]]
    clusters: Mapping[Place, Sequence[ClusterMap]]


def maps_of(state: JournalState, rows: Rows) -> Maps:
    """Returns what there is to draw of a sweep; of a study that thins its datasets, of the whole ones alone: each map
    takes seconds, and those of a dataset with fewer labels say nothing that is asked."""
    trials, template = shown_trials(state), template_of(state)
    if template is not None and template.axis:
        trials = [trial for trial in trials if template.axis not in trial.spec.dataset_params] or trials
    return Maps(
        annotators=annotator_maps(state, trials, rows),
        items=item_maps(state, trials, rows),
        clusters=cluster_maps(state, trials, rows),
    )


def pictures(maps: Maps) -> Iterator[tuple[str, bytes]]:
    """Yields each as a file: `annotators-1.png` …, `items-1.png` …, `clusters-1.png` …, in the order of the page."""
    for number, annotators in enumerate(chain(*maps.annotators.values()), start=1):
        yield f"annotators-{number}.png", figures.to_png(figures.annotator_map(annotators.points, annotators.errors))
    for number, items in enumerate(chain(*maps.items.values()), start=1):
        drawn = figures.item_map(items.points, items.classes, items.class_names)
        yield f"items-{number}.png", figures.to_png(drawn)
    for number, found in enumerate(chain(*maps.clusters.values()), start=1):
        drawn = figures.cluster_labels(found.labels, found.item_sizes, found.annotator_sizes, found.class_names)
        yield f"clusters-{number}.png", figures.to_png(drawn)
