"""The items and annotators with answers, the only ones that take part in a graph model.

Those without answers carry no information on the clusters, but would distort the clusters' shares.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from crowdsweep.data.annotations import Annotations
from crowdsweep.models._annotator_order import annotator_order
from crowdsweep.models.aggregate._bipartite import ClusterParameters, Edges
from crowdsweep.models.clusters import ClusteredCrowd, Clusters
from crowdsweep.seeds import SeedStream


@dataclass(frozen=True, kw_only=True, eq=False)
class ActiveCrowd:
    """The items and annotators with answers, in an order that does not depend on the annotators' codes.

    Attributes:
        edges: the answers, between their places in the two lists.
        items, annotators: their codes.
        n_items, n_annotators: declared sizes.
    """

    edges: Edges
    items: Int64[np.ndarray, " active_items"]
    annotators: Int64[np.ndarray, " active_annotators"]
    n_items: int
    n_annotators: int

    @classmethod
    def of(cls, annotations: Annotations) -> "ActiveCrowd":
        """Lays out the answers. O(A log A + N K + T log T)."""
        items = np.flatnonzero(annotations.labels_per_item > 0)
        annotators = np.flatnonzero(annotations.labels_per_annotator > 0)
        active = _recoded(annotations, items, annotators)
        order = annotator_order(active, SeedStream(0).numpy("order"))  # the same for all seeds, which share it
        return cls(
            edges=Edges.of(_recoded(active, np.arange(len(items)), order)),
            items=items,
            annotators=annotators[order],
            n_items=annotations.n_items,
            n_annotators=annotations.n_annotators,
        )

    def clustered(
        self,
        parameters: ClusterParameters,
        items: Float64[np.ndarray, "active_items clusters"],
        annotators: Float64[np.ndarray, "active_annotators annotator_clusters"],
        unknown: Float64[np.ndarray, " annotator_clusters"] | None = None,
    ) -> ClusteredCrowd:
        """Returns all declared items and annotators; items without answers have psi for their clusters' probabilities.

        The mix of annotator clusters is the annotators' mean membership, not Omega, whose pseudo-counts give much to
        clusters without members where annotators are few.

        Args:
            items, annotators: probabilities of the clusters of those with answers.
            unknown: the same for an annotator without answers; None: the crowd's mix.
        """
        mix = annotators.mean(axis=0) if len(annotators) else parameters.annotator_shares
        return ClusteredCrowd(
            clusters=Clusters(
                item_shares=parameters.item_shares,
                annotator_shares=parameters.annotator_shares,
                annotator_mix=mix,
                labels=parameters.labels,
                distributions=np.einsum("l,glk->gk", mix, parameters.labels),
            ),
            items=_laid_out(items, self.items, self.n_items, parameters.item_shares),
            annotators=_laid_out(annotators, self.annotators, self.n_annotators, mix if unknown is None else unknown),
        )


def _laid_out(
    active: Float64[np.ndarray, "active clusters"],
    codes: Int64[np.ndarray, " active"],
    size: int,
    rest: Float64[np.ndarray, " clusters"],
) -> Float64[np.ndarray, "size clusters"]:
    """Returns a row for each of so many codes: the active ones' own, and `rest`."""
    rows = np.repeat(rest[None], size, axis=0)
    rows[codes] = active
    return rows


def _recoded(
    annotations: Annotations, items: Int64[np.ndarray, " active_items"], annotators: Int64[np.ndarray, " _"]
) -> Annotations:
    """Returns the answers between places in these lists, in which all that have answers stand."""
    item_place, annotator_place = (np.zeros(size, np.int64) for size in (annotations.n_items, annotations.n_annotators))
    item_place[items], annotator_place[annotators] = np.arange(len(items)), np.arange(len(annotators))
    return Annotations.of(
        item=item_place[annotations.item],
        annotator=annotator_place[annotations.annotator],
        label=annotations.label,
        weight=annotations.weight,
        n_items=len(items),
        n_annotators=len(annotators),
        n_classes=annotations.n_classes,
    )
