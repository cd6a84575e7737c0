"""The items and annotators with answers, which alone take part in a graph model.

Whoever has no answer tells nothing of the clusters, but would pull shares that count everybody towards themselves.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from crowdsweep.data.annotations import Annotations
from crowdsweep.models._annotator_order import annotator_order
from crowdsweep.models.aggregate._bipartite import Edges
from crowdsweep.seeds import SeedStream


@dataclass(frozen=True, kw_only=True, eq=False)
class ActiveCrowd:
    """The items and annotators with answers, in an order that the annotators' codes do not decide.

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

    def of_all_items(
        self, active: Float64[np.ndarray, "active_items clusters"], rest: Float64[np.ndarray, " clusters"]
    ) -> Float64[np.ndarray, "items clusters"]:
        """Returns a row for each declared item; `rest` where it has no answers."""
        out = np.repeat(rest[None], self.n_items, axis=0)
        out[self.items] = active
        return out

    def of_all_annotators(
        self, active: Float64[np.ndarray, "active_annotators clusters"], rest: Float64[np.ndarray, " clusters"]
    ) -> Float64[np.ndarray, "annotators clusters"]:
        """Returns a row for each declared annotator; `rest` where one has no answers."""
        out = np.repeat(rest[None], self.n_annotators, axis=0)
        out[self.annotators] = active
        return out


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
