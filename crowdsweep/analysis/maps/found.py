"""Every map of a report: what models learned of annotators, of items, and of clusters of both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crowdsweep.analysis.counted import Place
from crowdsweep.analysis.maps.annotators import AnnotatorMap, annotator_maps
from crowdsweep.analysis.maps.clusters import ClusterMap, cluster_maps
from crowdsweep.analysis.maps.items import ItemMap, item_maps
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.state import JournalState


@dataclass(frozen=True, kw_only=True, eq=False)
class Maps:
    """The maps of each dataset, one for each model that has one."""

    annotators: Mapping[Place, Sequence[AnnotatorMap]]
    items: Mapping[Place, Sequence[ItemMap]]
    clusters: Mapping[Place, Sequence[ClusterMap]]


def maps_of(state: JournalState, trials: Sequence[ShownTrial], rows: Rows, axis: str = "") -> Maps:
    """Returns what there is to draw of a sweep; of a study that thins its datasets, of the whole ones alone: each map
    takes seconds, and those of a dataset with fewer labels say nothing that is asked.

    Args:
        state, trials, rows: of the sweep.
        axis: parameter of datasets that the sweep's study moves; empty where it moves none.
    """
    if axis:
        trials = [trial for trial in trials if axis not in trial.spec.dataset_params] or trials
    return Maps(
        annotators=annotator_maps(state, trials, rows),
        items=item_maps(state, trials, rows),
        clusters=cluster_maps(state, trials, rows),
    )
