"""What models of clusters found: the label distribution of each cluster of items with each cluster of annotators.

From what a trial kept: Theta (`labels`), how many items and annotators each cluster has (of each its best one), and how
many equal clusters those sizes amount to. Clusters that nobody is in have only their prior to show and are left out.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from crowdsweep.analysis.counted import Place
from crowdsweep.analysis.kept_arrays import class_names, first_seeds
from crowdsweep.record.array_names import CLASSES
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.state import JournalState

_NEEDED = ("labels", "cluster_sizes", "effective_clusters")
_OF_ANNOTATORS = ("annotator_cluster_sizes", "effective_annotator_clusters")
_LEAST = 0.5  # items or annotators in a cluster that is shown: ties share what they belong to


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterMap:
    """The clusters of one fit, the largest first, empty ones left out.

    Attributes:
        model, seed: whose.
        labels: Theta; one cluster of annotators where the model has none.
        item_sizes, annotator_sizes: how many are in each; the latter empty where the model has no such clusters.
        effective_items, effective_annotators: numbers of equal clusters that are as uneven; 1 without clusters.
        n_item_clusters, n_annotator_clusters: as asked for.
        class_names: what the class codes stand for; empty where that is not known.
    """

    model: str
    seed: int
    labels: Float64[np.ndarray, "clusters annotator_clusters classes"]
    item_sizes: Float64[np.ndarray, " clusters"]
    annotator_sizes: Float64[np.ndarray, " _"]
    effective_items: float
    effective_annotators: float
    n_item_clusters: int
    n_annotator_clusters: int
    class_names: tuple[str, ...]

    @property
    def summary(self) -> str:
        """How many clusters there are, in a sentence."""
        items = f"{self.n_item_clusters} clusters of items, {len(self.item_sizes)} in use ({self.effective_items:.1f}"
        told = f"{items} effective)"
        if len(self.annotator_sizes):
            told += (
                f"; {self.n_annotator_clusters} of annotators, {len(self.annotator_sizes)} in use "
                f"({self.effective_annotators:.1f} effective)"
            )
        return told + ". Effective: as many equal clusters would be as uneven."


def cluster_maps(state: JournalState, trials: Iterable[ShownTrial], rows: Rows) -> dict[Place, list[ClusterMap]]:
    """Returns clusters by dataset and its parameters: of each model that keeps them, its first seed's."""
    found: dict[Place, list[ClusterMap]] = {}
    for kept in first_seeds(state, trials, rows, _NEEDED, (*_OF_ANNOTATORS, CLASSES)):
        arrays = kept.arrays
        labels, item_sizes = arrays["labels"], arrays["cluster_sizes"]
        if labels.ndim != 3 or item_sizes.shape != labels.shape[:1]:  # a plug-in's own arrays of these names
            continue
        of_annotators = set(_OF_ANNOTATORS) <= set(arrays)
        annotator_sizes = arrays["annotator_cluster_sizes"] if of_annotators else np.full(labels.shape[1], np.inf)
        rows_shown, columns_shown = _largest_first(item_sizes), _largest_first(annotator_sizes)
        drawn = ClusterMap(
            model=kept.model,
            seed=kept.seed,
            labels=labels[np.ix_(rows_shown, columns_shown)],
            item_sizes=item_sizes[rows_shown],
            annotator_sizes=annotator_sizes[columns_shown] if of_annotators else np.empty(0),
            effective_items=float(arrays["effective_clusters"]),
            effective_annotators=float(arrays["effective_annotator_clusters"]) if of_annotators else 1.0,
            n_item_clusters=labels.shape[0],
            n_annotator_clusters=labels.shape[1],
            class_names=class_names(state, kept),
        )
        found.setdefault(kept.place, []).append(drawn)
    return found


def _largest_first(sizes: Float64[np.ndarray, " clusters"]) -> np.ndarray:
    order = np.argsort(-sizes, kind="stable")
    return order[sizes[order] >= _LEAST]
