"""A fitted cluster model: memberships of items and annotators, and predictions for new ones.

    p(answer k of annotator t to item i | w_i = g, z_t = l) = Theta[g, l, k]
    p(w_i = g) = psi_g,    p(z_t = l) = Omega_l

`fmm` (which has one cluster of annotators), `pgm-bp` and `pgm-annealing` keep all of it among their result's arrays:

    crowd = ClusteredCrowd.of(result.extras)
    crowd.items[i], crowd.annotators[t]                        probabilities of their clusters
    newcomer = crowd.new_annotator(items, labels)              clusters of somebody who gave these answers
    crowd.answers(items, newcomer)                             what this somebody would say of each of these items
    crowd.new_item(annotators, labels)                         clusters of an item that got these answers

Reports never ask this of the items that they score.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Float64, Int, Shaped

from crowdsweep.arrays import AnnotatorCodes, ClassProbs, ItemCodes, ItemProbs, RowProbs, floored_log
from crowdsweep.errors import BadInput
from crowdsweep.models._em import chunks, normalised, winners

Snap = Literal["hard", "soft"]
ItemClusters = Float64[np.ndarray, "items clusters"]
AnnotatorClusters = Float64[np.ndarray, "annotators annotator_clusters"]
ClusterProbs = Float64[np.ndarray, " _"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Clusters:
    """The parameters of a model of clusters.

    Attributes:
        item_shares: psi, probability of each item cluster.
        annotator_shares: Omega, of each annotator cluster.
        annotator_mix: mean membership of the annotators, in place of Omega, whose pseudo-counts give much to clusters
            without members where annotators are few.
        labels: Theta, label distribution of each pair of clusters.
        distributions: what an item of each cluster is labelled with.
    """

    item_shares: Float64[np.ndarray, " clusters"]
    annotator_shares: Float64[np.ndarray, " annotator_clusters"]
    annotator_mix: Float64[np.ndarray, " annotator_clusters"]
    labels: Float64[np.ndarray, "clusters annotator_clusters classes"]
    distributions: Float64[np.ndarray, "clusters classes"]

    def scores(self, probs: ItemProbs, count: float) -> ItemClusters:
        """Returns log p(cluster, `count` answers distributed like this) for each row of class probabilities.

            score_g = log psi_g + count * sum over k of probs_k log(sum over l of mix_l Theta[g, l, k])

        The answers are those of a whole crowd, in which each answer has another annotator. O(G L K + N G K).
        """
        of_cluster = np.einsum("l,glk->gk", self.annotator_mix, self.labels)
        return floored_log(self.item_shares) + count * (probs @ floored_log(of_cluster).T)


def projected(
    memberships: ItemClusters, distributions: Float64[np.ndarray, "clusters classes"], snap: Snap
) -> ItemProbs:
    """Returns the distribution of each item's best cluster (ties shared evenly), or the mixture of all."""
    return (winners(memberships) if snap == "hard" else memberships) @ distributions


ARRAYS = ("item_shares", "annotator_shares", "labels", "cluster_distributions", "item_memberships")
"""What every model of clusters hands over as `extras`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusteredCrowd:
    """A fitted model of clusters, with the items and annotators that it was fitted to.

    Attributes:
        clusters: psi, Omega and Theta.
        items: probability of each cluster for each training item.
        annotators: the same for each annotator; as the crowd's where one gave no answer. No rows where the model knows
            no annotators, who then all belong to the one cluster there is.
    """

    clusters: Clusters
    items: ItemClusters
    annotators: AnnotatorClusters = field(default_factory=lambda: np.ones((0, 1)))

    @classmethod
    def of(cls, extras: Mapping[str, Shaped[np.ndarray, "..."]]) -> "ClusteredCrowd":
        """Returns what a fit's `extras` (or the arrays that a trial kept of them) hold.

        Raises:
            BadInput: the arrays are not those of a cluster model.
        """
        if missing := [name for name in ARRAYS if name not in extras]:
            raise BadInput(
                f"expected the arrays of a model of clusters (fmm, pgm-bp, pgm-annealing); {', '.join(missing)} is "
                f"missing among {', '.join(extras) or 'none'}"
            )
        shares, annotator_shares, labels, distributions, items = (extras[name] for name in ARRAYS)
        return cls(
            clusters=Clusters(
                item_shares=shares,
                annotator_shares=annotator_shares,
                annotator_mix=extras.get("annotator_mix", annotator_shares),  # earlier trials kept none
                labels=labels,
                distributions=distributions,
            ),
            items=items,
            annotators=extras.get("annotator_memberships", np.ones((0, 1))),
        )

    @property
    def extras(self) -> dict[str, Float64[np.ndarray, "..."]]:
        """The arrays that `of` reads, with how many items and annotators each cluster has (of each its best one, ties
        shared evenly), and how many clusters those sizes amount to."""
        sizes = winners(self.items).sum(axis=0)
        found = {
            "item_shares": self.clusters.item_shares,
            "annotator_shares": self.clusters.annotator_shares,
            "annotator_mix": self.clusters.annotator_mix,
            "labels": self.clusters.labels,
            "cluster_distributions": self.clusters.distributions,
            "item_memberships": self.items,
            "cluster_sizes": sizes,
            "effective_clusters": np.array(effective_number(sizes)),
        }
        if len(self.annotators):
            sizes = winners(self.annotators).sum(axis=0)
            found["annotator_memberships"] = self.annotators
            found["annotator_cluster_sizes"] = sizes
            found["effective_annotator_clusters"] = np.array(effective_number(sizes))
        return found

    def new_annotator(self, items: Int[np.ndarray, " answers"], labels: Int[np.ndarray, " answers"]) -> ClusterProbs:
        """Returns the probability of each cluster for somebody who gave training items these labels.

        p(z = l | answers) is proportional to the crowd's mix of l times the product over answers of sum over g of
        items[i, g] Theta[g, l, y]; without any answer it is the mix.
        """
        said = np.einsum("ag,gla->al", self.items[items], self.clusters.labels[:, :, labels])
        return normalised(floored_log(self.clusters.annotator_mix) + floored_log(said).sum(axis=0))[0]

    def new_item(self, annotators: Int[np.ndarray, " answers"], labels: Int[np.ndarray, " answers"]) -> ClusterProbs:
        """Returns the probability of each cluster for an item that these annotators gave these labels.

        p(w = g | answers) is proportional to psi_g times the product over answers of sum over l of
        annotators[t, l] Theta[g, l, y]; without any answer it is psi.
        """
        who = self._annotators(annotators)
        said = np.einsum("al,gla->ag", who, self.clusters.labels[:, :, labels])
        return normalised(floored_log(self.clusters.item_shares) + floored_log(said).sum(axis=0))[0]

    def answers(self, items: Int[np.ndarray, " rows"], annotator: ClusterProbs) -> Float64[np.ndarray, "rows classes"]:
        """Returns what an annotator of these clusters would say of training items, each label with its probability."""
        of_cluster = np.einsum("l,glk->gk", annotator, self.clusters.labels)
        return self.items[items] @ of_cluster

    def label_probs(self, item: ItemCodes, annotator: AnnotatorCodes) -> RowProbs:
        """Returns, row by row, what this known annotator would say of this training item."""
        labels = self.clusters.labels
        out = np.empty((len(item), labels.shape[2]))
        for part in chunks(len(item), labels[0].size):
            of_item = np.tensordot(self.items[item[part]], labels, axes=1)
            out[part] = np.einsum("al,alk->ak", self._annotators(annotator[part]), of_item)
        return out

    def _annotators(self, codes: Int[np.ndarray, " rows"]) -> Float64[np.ndarray, "rows annotator_clusters"]:
        return self.annotators[codes] if len(self.annotators) else np.ones((len(codes), 1))


def effective_number(sizes: ClassProbs) -> float:
    """Returns the number of equal clusters that are as uneven as these: exp of the entropy of their shares."""
    shares = sizes / max(float(sizes.sum()), 1e-300)
    return float(np.exp(-(shares * floored_log(shares)).sum()))
