"""Tables of cluster models: the clusters of items and annotators, and how a cluster answers.

Clusters are numbered from 1, the largest first (by the items or annotators whose most probable cluster it is). Clusters
of different fits do not correspond, so they cannot be averaged: the tables show the first fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float64, Int64

from crowdsweep.labelling.fitted import Fitted
from crowdsweep.labelling.tables import class_columns
from crowdsweep.models.clusters import ARRAYS, ClusteredCrowd


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterTables:
    """The clusters of the first fit.

    Attributes:
        items: `item`, its most probable `cluster`, the `probability` of that, and of each cluster (`cluster_1` …).
        annotators: the same columns for annotators; None where the model has no clusters of annotators.
        answers: how an annotator of one cluster answers an item of another: `item_cluster`, `annotator_cluster` (left
            out where there are none), and a column for each class.
    """

    items: pa.Table
    annotators: pa.Table | None
    answers: pa.Table


def cluster_tables(fitted: Fitted) -> ClusterTables | None:
    """Returns the clusters of a fitted model; None where it has none."""
    extras = fitted.fits[0].result.extras
    if not {*ARRAYS, "cluster_sizes"} <= set(extras):  # a plug-in may have arrays of its own by some of these names
        return None
    crowd = ClusteredCrowd.of(extras)
    by_size = np.argsort(-extras["cluster_sizes"], kind="stable")
    names = [fitted.dataset.item_names[int(code)] for code in fitted.code]
    annotators, of_annotators = None, np.zeros(1, np.int64)
    if len(crowd.annotators):
        of_annotators = np.argsort(-extras["annotator_cluster_sizes"], kind="stable")
        known = [fitted.dataset.annotator_names[code] for code in range(len(crowd.annotators))]
        annotators = _memberships("annotator", known, crowd.annotators[:, of_annotators])
    labels = crowd.clusters.labels[np.ix_(by_size, of_annotators)]
    return ClusterTables(
        items=_memberships("item", names, crowd.items[:, by_size]),
        annotators=annotators,
        answers=_answers(labels, fitted.dataset.class_labels, both=annotators is not None),
    )


def _memberships(what: str, names: Sequence[str], probs: Float64[np.ndarray, "members clusters"]) -> pa.Table:
    best: Int64[np.ndarray, " members"] = probs.argmax(axis=1)
    columns: dict[str, Any] = {
        what: list(names),
        "cluster": best + 1,
        "probability": probs[np.arange(len(probs)), best],
    }
    columns |= {f"cluster_{place + 1}": probs[:, place] for place in range(probs.shape[1])}
    return pa.Table.from_pydict(columns)


def _answers(
    labels: Float64[np.ndarray, "clusters annotator_clusters classes"], class_labels: Sequence[str], *, both: bool
) -> pa.Table:
    n_items, n_annotators, _ = labels.shape
    columns: dict[str, Any] = {"item_cluster": np.repeat(np.arange(n_items) + 1, n_annotators)}
    if both:
        columns["annotator_cluster"] = np.tile(np.arange(n_annotators) + 1, n_items)
    named = class_columns(class_labels, list(columns))
    columns |= {name: labels[:, :, place].ravel() for place, name in enumerate(named)}
    return pa.Table.from_pydict(columns)
