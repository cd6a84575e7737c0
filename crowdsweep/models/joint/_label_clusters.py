"""Where the Crowd Mixture Model begins: every item's possible labels, clustered by how they contradict its votes."""

from typing import cast

import numpy as np
from jaxtyping import Float64, Int32
from sklearn.cluster import KMeans

from crowdsweep.arrays import ItemProbs
from crowdsweep.seeds import SeedStream

_SURPRISE = -np.log(np.finfo(np.float32).eps)  # 15.9: of a class that the label does not name, in Keras's clipping
_COMPONENTS = 3
_LEARNT_PAIRS = 1 << 16
# Of k-means, as in the authors' mini-batch variant. From one start, one crowd in sixteen (3,500 annotators) began with
# groups that no restart of the network recovered from; from three, one in forty.
_STARTS = 3

Points = Float64[np.ndarray, "points coordinates"]


def cluster_labels(votes: ItemProbs, groups: int, seeds: SeedStream) -> Int32[np.ndarray, "items classes"]:
    """Returns the cluster of every pair (item, label), also of labels that were not given. O(items * classes^2).

    A pair (i, j) is the vector of cross-entropies of the item's votes with the label: 0 at j, 15.9 * votes[i, k] at
    k != j. Pairs are reduced to three principal components, standardised, and clustered by k-means. Items with the
    same votes are one point with a weight; beyond 65,536 different pairs, a sample of them is learnt from.

    Args:
        votes: each item's share of votes.
        groups: at least 2; fewer come out where the pairs differ in fewer ways.
        seeds: of the k-means start and of the sample.
    """
    n_classes = votes.shape[1]
    distinct, number, n_items = np.unique(votes, axis=0, return_inverse=True, return_counts=True)
    points = np.repeat(distinct * _SURPRISE, n_classes, axis=0)
    points[np.arange(len(points)), np.tile(np.arange(n_classes), len(distinct))] = 0.0
    weights = np.repeat(n_items, n_classes).astype(np.float64)
    reduced = _standardised_components(points, weights)
    learnt = np.arange(len(points))
    if len(points) > _LEARNT_PAIRS:
        learnt = np.sort(seeds.numpy("pairs").choice(len(points), _LEARNT_PAIRS, replace=False))
    n_clusters = min(groups, len(np.unique(reduced[learnt].round(9), axis=0)))
    if n_clusters == 1:
        return np.zeros(votes.shape, np.int32)
    seed = seeds.integer("k-means") % 2**31
    means = KMeans(n_clusters, n_init=_STARTS, random_state=seed)  # pyright: ignore[reportArgumentType]: its own default is text
    means.fit(reduced[learnt], sample_weight=weights[learnt])
    found = cast(np.ndarray, means.predict(reduced))
    clusters = found.astype(np.int32).reshape(len(distinct), n_classes)
    return clusters[number.reshape(-1)]


def _standardised_components(
    points: Points, weights: Float64[np.ndarray, " points"]
) -> Float64[np.ndarray, "points components"]:
    """Returns the weighted points' first principal components, each of unit variance (constant ones are left out)."""
    share = weights / weights.sum()
    centred = points - share @ points
    variances, directions = np.linalg.eigh((centred * share[:, None]).T @ centred)
    kept = [place for place in np.argsort(variances)[::-1][:_COMPONENTS] if variances[place] > 1e-9]
    return centred @ directions[:, kept] / np.sqrt(variances[kept])
