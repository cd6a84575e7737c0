"""Where the Crowd Mixture Model begins: every item's possible labels, clustered by how they contradict its votes."""

import numpy as np
from jaxtyping import Int32
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA

from crowdsweep.arrays import ItemProbs
from crowdsweep.seeds import SeedStream

_SURPRISE = -np.log(np.finfo(np.float32).eps)  # 15.9: of a class that the label does not name, in Keras's clipping
_LEARNT_ROWS = 1 << 16


def cluster_labels(votes: ItemProbs, groups: int, seeds: SeedStream) -> Int32[np.ndarray, "items classes"]:
    """Returns the cluster of every pair (item, label), also of labels that were not given. O(items * classes^2).

    A pair (i, j) is the vector of cross-entropies of the item's votes with the label: 0 at j, 15.9 * votes[i, k] at
    k != j. It is reduced to three principal components, standardised, and clustered by mini-batch k-means.

    Args:
        votes: each item's share of votes.
        groups: at least 2; fewer come out where the pairs differ in fewer ways.
        seeds: of the k-means start and of the pairs that are learnt from.
    """
    n_items, n_classes = votes.shape
    n_pairs = n_items * n_classes
    learnt = np.arange(n_pairs)
    if n_pairs > _LEARNT_ROWS:
        learnt = np.sort(seeds.numpy("pairs").choice(n_pairs, _LEARNT_ROWS, replace=False))
    seed = seeds.integer("k-means") % 2**31
    points = _points(votes, learnt)
    reduction = PCA(n_components=min(3, *points.shape), svd_solver="full").fit(points)
    reduced = reduction.transform(points)
    spread = reduced.std(axis=0)
    spread[spread == 0] = 1.0
    reduced = reduced / spread
    n_clusters = min(groups, len(np.unique(reduced.round(9), axis=0)))
    means = MiniBatchKMeans(n_clusters=n_clusters, init="k-means++", batch_size=128, n_init="auto", random_state=seed)
    means.fit(reduced)
    found = np.empty(n_pairs, np.int32)
    for start in range(0, n_pairs, _LEARNT_ROWS):
        pairs = np.arange(start, min(start + _LEARNT_ROWS, n_pairs))
        found[pairs] = means.predict(reduction.transform(_points(votes, pairs)) / spread)
    return found.reshape(n_items, n_classes)


def _points(votes: ItemProbs, pairs: np.ndarray) -> np.ndarray:
    points = votes[pairs // votes.shape[1]] * _SURPRISE
    points[np.arange(len(pairs)), pairs % votes.shape[1]] = 0.0
    return points
