"""Belief propagation between items and annotators, each in a hidden cluster, answers being the edges between them.

    p(answer k of annotator t to item i | w_i = g, z_t = l) = Theta[g, l, k]

A message from an annotator to an item along edge e is a_e(g) = sum over l of Theta[g, l, y_e] zcav_e(l), where zcav_e
is the annotator's belief without e's own message; messages to annotators, b_e(l), likewise. Beliefs are products of
messages, summed as logarithms; a cavity is the belief divided by the edge's own message. On a tree the beliefs end as
the exact marginals, and the Bethe approximation of the log evidence is exact too:

    sum over nodes of log Z - sum over edges of log Z_e        Z: mass of a node's prior times its messages
                                                               Z_e = sum over g of wcav_e(g) a_e(g)

Edges lie sorted by label, so that all messages over one label are one matrix product. Between sweeps one direction is
kept: the annotators' cavities [edges, annotator_clusters].
"""

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float64, Int32, Int64

from crowdsweep.arrays import LOG_FLOOR, floored_log
from crowdsweep.data.annotations import Annotations
from crowdsweep.models._em import normalised

ItemBeliefs = Float64[np.ndarray, "items clusters"]
AnnotatorBeliefs = Float64[np.ndarray, "annotators annotator_clusters"]
ItemMessages = Float64[np.ndarray, "edges clusters"]
AnnotatorMessages = Float64[np.ndarray, "edges annotator_clusters"]
PairLabels = Float64[np.ndarray, "clusters annotator_clusters classes"]
"""Counts of labels, or their distribution, for each pair of clusters."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Edges:
    """The annotations of one data set, sorted by label. Built by `Edges.of`.

    Attributes:
        item, annotator: ends of each edge.
        label_pointers: the edges of label k are `label_pointers[k]:label_pointers[k + 1]`.
        weight: how often each edge counts, or None where each counts once.
        n_items, n_annotators: declared sizes.
    """

    item: Int32[np.ndarray, " edges"]
    annotator: Int32[np.ndarray, " edges"]
    label_pointers: Int64[np.ndarray, " pointers"]
    weight: Float64[np.ndarray, " edges"] | None
    n_items: int
    n_annotators: int

    @classmethod
    def of(cls, annotations: Annotations) -> "Edges":
        """Sorts the annotations by label. O(A log A)."""
        order = np.argsort(annotations.label, kind="stable")
        sizes = np.bincount(annotations.label, minlength=annotations.n_classes)
        return cls(
            item=annotations.item[order],
            annotator=annotations.annotator[order],
            label_pointers=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            weight=None if annotations.weight is None else annotations.weight[order].astype(np.float64),
            n_items=annotations.n_items,
            n_annotators=annotations.n_annotators,
        )

    @property
    def n_classes(self) -> int:
        return len(self.label_pointers) - 1

    @cached_property
    def label(self) -> Int64[np.ndarray, " edges"]:
        """The label of each edge."""
        return np.repeat(np.arange(self.n_classes), np.diff(self.label_pointers))

    def of_label(self, label: int) -> slice:
        """Returns where the edges of one label lie."""
        return slice(int(self.label_pointers[label]), int(self.label_pointers[label + 1]))

    def sums_by_item(self, per_edge: ItemMessages) -> Float64[np.ndarray, "items clusters"]:
        """Sums over the edges of each item, weighted."""
        return self._item_edges @ per_edge

    def sums_by_annotator(self, per_edge: AnnotatorMessages) -> Float64[np.ndarray, "annotators annotator_clusters"]:
        """Sums over the edges of each annotator, weighted."""
        return self._annotator_edges @ per_edge

    def product_counts(self, items: ItemBeliefs, annotators: AnnotatorBeliefs) -> PairLabels:
        """Returns sum over edges of label k of items[i, g] * annotators[t, l], one bilinear form per label."""
        counts = np.empty((items.shape[1], annotators.shape[1], self.n_classes))
        for label, table in enumerate(self._tables):
            counts[:, :, label] = items.T @ (table @ annotators)
        return counts

    @cached_property
    def _item_edges(self) -> sp.csr_array:
        return _indicator(self.item, self.n_items, self.weight)

    @cached_property
    def _annotator_edges(self) -> sp.csr_array:
        return _indicator(self.annotator, self.n_annotators, self.weight)

    @cached_property
    def _tables(self) -> list[sp.csr_array]:
        """For each label, the (weighted) number of its edges between items and annotators, sparse."""
        weight = np.ones(len(self.item)) if self.weight is None else self.weight
        shape = (self.n_items, self.n_annotators)
        parts = [self.of_label(label) for label in range(self.n_classes)]
        return [
            cast(sp.csr_array, sp.coo_array((weight[p], (self.item[p], self.annotator[p])), shape=shape).tocsr())
            for p in parts
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class PropagationState:
    """The state of belief propagation.

    Attributes:
        items: w, rows sum to one.
        annotators: z, rows sum to one.
        cavities: zcav, each edge's annotator without that edge, rows sum to one.
        item_cavities: wcav, made on the way to the last `annotators`.
        log_evidence: Bethe's approximation of log p(answers), hidden clusters summed out; -inf before any sweep.
    """

    items: ItemBeliefs
    annotators: AnnotatorBeliefs
    cavities: AnnotatorMessages
    item_cavities: ItemMessages | None = None
    log_evidence: float = -np.inf

    @classmethod
    def start(cls, edges: Edges, items: ItemBeliefs, annotators: AnnotatorBeliefs) -> "PropagationState":
        """Returns beliefs before any message."""
        return cls(items=items, annotators=annotators, cavities=annotators[edges.annotator])


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterParameters:
    """psi, Omega and Theta."""

    item_shares: Float64[np.ndarray, " clusters"]
    annotator_shares: Float64[np.ndarray, " annotator_clusters"]
    labels: PairLabels


def propagate(
    edges: Edges, parameters: ClusterParameters, beliefs: PropagationState, *, sweeps: int, tolerance: float
) -> PropagationState:
    """E-step: sweeps until KL(w_new || w_old) + KL(z_new || z_old), over all nodes, is small. O(A G L) per sweep.

    Args:
        parameters: psi, Omega, Theta; Theta is floored at LOG_FLOOR.
        sweeps: limit, at least 1.
        tolerance: mean KL divergence of a node to stop below.
    """
    # Beliefs are divided by messages below, so none may be 0.
    labels = np.maximum(parameters.labels, LOG_FLOOR)
    log_item_shares, log_annotator_shares = map(floored_log, (parameters.item_shares, parameters.annotator_shares))
    n_nodes = edges.n_items + edges.n_annotators
    for _ in range(sweeps):
        to_items = _messages(edges, beliefs.cavities, labels.transpose(1, 0, 2))
        log_items = log_item_shares + edges.sums_by_item(np.log(to_items))
        items, log_item_mass = normalised(log_items)
        item_cavities, edge_mass = _without(items, log_items, edges.item, to_items, edges.weight)
        to_annotators = _messages(edges, item_cavities, labels)
        log_annotators = log_annotator_shares + edges.sums_by_annotator(np.log(to_annotators))
        annotators, log_annotator_mass = normalised(log_annotators)
        edge_mass = edge_mass if edges.weight is None else edge_mass * edges.weight
        cavities, _ = _without(annotators, log_annotators, edges.annotator, to_annotators, edges.weight)
        moved = _divergence(items, beliefs.items) + _divergence(annotators, beliefs.annotators)
        beliefs = PropagationState(
            items=items,
            annotators=annotators,
            cavities=cavities,
            item_cavities=item_cavities,
            log_evidence=float(log_item_mass.sum() + log_annotator_mass.sum() - edge_mass.sum()),
        )
        if moved <= tolerance * n_nodes:
            break
    return beliefs


def edge_counts(edges: Edges, parameters: ClusterParameters, beliefs: PropagationState) -> PairLabels:
    """Returns the expected counts from edge marginals, proportional to wcav_e(g) * zcav_e(l) * Theta[g, l, y_e]."""
    if beliefs.item_cavities is None:
        return edges.product_counts(beliefs.items, beliefs.annotators)
    labels = np.maximum(parameters.labels, LOG_FLOOR)
    counts = np.empty_like(labels)
    for label in range(edges.n_classes):
        part = edges.of_label(label)
        from_items, from_annotators = beliefs.item_cavities[part], beliefs.cavities[part]
        mass = ((from_items @ labels[:, :, label]) * from_annotators).sum(axis=1)
        weight = 1.0 if edges.weight is None else edges.weight[part]
        counts[:, :, label] = labels[:, :, label] * (from_items.T @ (from_annotators * (weight / mass)[:, None]))
    return counts


def _messages(
    edges: Edges,
    cavities: Float64[np.ndarray, "edges senders"],
    labels: Float64[np.ndarray, "senders receivers classes"],
) -> Float64[np.ndarray, "edges receivers"]:
    """Returns, for each edge, sum over the sender's clusters s of cavities[e, s] * labels[s, :, y_e]."""
    out = np.empty((len(cavities), labels.shape[1]))
    for label in range(edges.n_classes):
        part = edges.of_label(label)
        np.matmul(cavities[part], labels[:, :, label], out=out[part])
    return out


def _without(
    beliefs: Float64[np.ndarray, "nodes clusters"],
    log_beliefs: Float64[np.ndarray, "nodes clusters"],
    node: Int32[np.ndarray, " edges"],
    messages: Float64[np.ndarray, "edges clusters"],
    weight: Float64[np.ndarray, " edges"] | None,
) -> tuple[Float64[np.ndarray, "edges clusters"], Float64[np.ndarray, " edges"]]:
    """Takes each edge's own message, as often as it counts, out of the belief at its end.

    Where weights make powers of messages, in logarithms (up to a factor): to the power of fifty, a message is zero.

    Returns:
        The cavities, rows summing to one, and log Z_e: the logarithm of each cavity's product with its message. Where
        every edge counts once the belief is that product, so that Z_e is one over what the cavity was divided by.
    """
    if weight is not None:
        cavities = normalised(log_beliefs[node] - weight[:, None] * np.log(messages))[0]
        return cavities, np.log(np.einsum("eg,eg->e", cavities, messages))
    cavities = beliefs.take(node, axis=0)
    cavities /= messages
    mass = cavities @ np.ones(cavities.shape[1])  # a product, since sums over few columns take numpy four times as long
    cavities /= mass[:, None]
    return cavities, -np.log(mass)


def _divergence(new: Float64[np.ndarray, "nodes clusters"], old: Float64[np.ndarray, "nodes clusters"]) -> float:
    return float((new * (floored_log(new) - floored_log(old))).sum())


def _indicator(
    code: Int32[np.ndarray, " edges"], size: int, weight: Float64[np.ndarray, " edges"] | None
) -> sp.csr_array:
    data = np.ones(len(code)) if weight is None else weight
    rows = np.arange(len(code), dtype=np.int32)
    return cast(sp.csr_array, sp.coo_array((data, (code, rows)), shape=(size, len(code))).tocsr())
