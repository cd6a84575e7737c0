"""Vectors laid out in the plane so that neighbours stay near, by t-SNE."""

import numpy as np
from jaxtyping import Float64, Num

LEAST, MOST = 5, 1_000  # points on a map


def in_the_plane(vectors: Num[np.ndarray, "points width"]) -> Float64[np.ndarray, "points 2"]:
    """Returns where each vector stands; lengths mean nothing, nearness does. At least `LEAST` of them; the same always.

    O(points²) in time and memory: `MOST` take seconds.
    """
    from sklearn.manifold import TSNE  # noqa: PLC0415 - takes a second to import, and most sweeps draw no map

    perplexity = min(30.0, (len(vectors) - 1) / 3)
    drawn = TSNE(perplexity=perplexity, init="random", random_state=0).fit_transform(vectors.astype(np.float64))
    return np.asarray(drawn, np.float64)
