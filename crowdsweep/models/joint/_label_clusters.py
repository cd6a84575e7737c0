"""The start of the Crowd Mixture Model: every item's possible labels, clustered by how they contradict its votes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast, final

import numpy as np
from jaxtyping import Float64, Int32, Int64

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.contract import FitContext
from crowdsweep.seeds import SeedStream

_SURPRISE = -np.log(np.finfo(np.float32).eps)  # 15.9: of a class that the label does not name, in Keras's clipping
_COMPONENTS = 3
_LEARNT_PAIRS = 1 << 16

Points = Float64[np.ndarray, "points coordinates"]
GroupMatrices = Float64[np.ndarray, "groups true observed"]


@final
class Starts:
    """Where the restarts on one data set begin."""

    def __init__(self, annotations: Annotations, groups: int, seeds: SeedStream) -> None:
        """Lays out the (item, label) pairs, which all restarts share."""
        self._votes, self._counts = annotations.label_distribution(), annotations.counts.toarray()
        self._points = LabelPoints.of(self._votes) if groups > 1 else None
        self._groups, self._seeds = groups, seeds

    @classmethod
    def of(cls, data: Sequence[TrainingData], groups: Sequence[int], contexts: Sequence[FitContext]) -> "list[Starts]":
        """Returns the starts of each fit, given how many groups it has."""
        return [
            cls(part.annotations, own, context.seeds.child("clusters"))
            for part, own, context in zip(data, groups, contexts, strict=True)
        ]

    def clusters(self, number: int) -> Int32[np.ndarray, "items classes"]:
        """Returns the group that each label of each item is taken to come from at first."""
        if self._points is None:
            return np.zeros(self._counts.shape, np.int32)
        return self._points.clusters(self._groups, self._seeds.child(number))

    def of_restart(self, number: int) -> GroupMatrices:
        """Returns the expected label counts of the first M-step: a label's group is its cluster, its true class the
        vote.

        q_ij(m, k) = 1[cluster of (i, j) is m] * softMV_i(k), hence Q^m_kj = sum_i r_ij q_ij(m, k).
        """
        clusters = self.clusters(number)
        return np.stack([self._votes.T @ (self._counts * (clusters == group)) for group in range(self._groups)])


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelPoints:
    """Every pair (item, label) of a data set as a point, also of labels that were not given.

    A pair (i, j) is the vector of cross-entropies of the item's votes with the label: 0 at j, 15.9 * votes[i, k] at
    k != j, reduced to three principal components and standardised. Items with the same votes are one point with a
    weight.

    Attributes:
        reduced: a point for each different row of votes and each label.
        weights: how many items each point stands for.
        number: of each item, its row of votes.
    """

    reduced: Points
    weights: Float64[np.ndarray, " points"]
    number: Int64[np.ndarray, " items"]
    n_classes: int

    @classmethod
    def of(cls, votes: ItemProbs) -> "LabelPoints":
        """Lays out the points of each item's share of votes. O(items * classes^2)."""
        n_classes = votes.shape[1]
        distinct, number = _distinct_rows(votes)
        n_items = np.bincount(number)
        points = np.repeat(distinct * _SURPRISE, n_classes, axis=0)
        points[np.arange(len(points)), np.tile(np.arange(n_classes), len(distinct))] = 0.0
        weights = np.repeat(n_items, n_classes).astype(np.float64)
        reduced = _standardised_components(points, weights)
        return cls(reduced=reduced, weights=weights, number=number, n_classes=n_classes)

    def clusters(self, groups: int, seeds: SeedStream) -> Int32[np.ndarray, "items classes"]:
        """Returns the cluster of every pair (item, label), by k-means from one random start.

        Beyond 65,536 different pairs, a sample of them is learnt from.

        Args:
            groups: at least 2; fewer come out where the pairs differ in fewer ways.
            seeds: of the k-means start and of the sample.
        """
        reduced, shape = self.reduced, (-1, self.n_classes)
        learnt = np.arange(len(reduced))
        if len(reduced) > _LEARNT_PAIRS:
            learnt = np.sort(seeds.numpy("pairs").choice(len(reduced), _LEARNT_PAIRS, replace=False))
        n_clusters = min(groups, len(np.unique(reduced[learnt].round(9), axis=0)))
        if n_clusters == 1:
            return np.zeros((len(self.number), self.n_classes), np.int32)
        from sklearn.cluster import KMeans  # noqa: PLC0415 - takes a second to import, and who describes a model fits none

        seed = seeds.integer("k-means") % 2**31
        means = KMeans(n_clusters, n_init=1, random_state=seed)  # pyright: ignore[reportArgumentType]: its own default is text
        means.fit(reduced[learnt], sample_weight=self.weights[learnt])
        found = cast(np.ndarray, means.labels_ if len(learnt) == len(reduced) else means.predict(reduced))
        return found.astype(np.int32).reshape(shape)[self.number]


def _distinct_rows(
    table: ItemProbs,
) -> tuple[Float64[np.ndarray, "distinct classes"], Int64[np.ndarray, " items"]]:
    """Returns what `np.unique` does of rows, in a tenth of the time: each once, and which of them each item has."""
    order = np.lexsort(table.T[::-1])
    ordered = table[order]
    begins = np.ones(len(table), dtype=bool)
    begins[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    number = np.empty(len(table), np.int64)
    number[order] = np.cumsum(begins) - 1
    return ordered[begins], number


def _standardised_components(
    points: Points, weights: Float64[np.ndarray, " points"]
) -> Float64[np.ndarray, "points components"]:
    """Returns the weighted points' first principal components, each of unit variance (constant ones are left out)."""
    share = weights / weights.sum()
    centred = points - share @ points
    variances, directions = np.linalg.eigh((centred * share[:, None]).T @ centred)
    kept = [place for place in np.argsort(variances)[::-1][:_COMPONENTS] if variances[place] > 1e-9]
    return centred @ directions[:, kept] / np.sqrt(variances[kept])
