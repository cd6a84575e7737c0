"""Bootstrap means of paired scores, over items and seeds.

Several settings were scored on the same seeds and items. One draw weights all items anew, the same for every setting,
and all seeds, so that what settings have in common stays common to them. Weights are exponential (Rubin's (1981)
Bayesian bootstrap), spread a little wider so that the variance of a mean is s² / n also where n is small. Seeds and
items are drawn independently, which counts their interaction more than once: intervals are rather too wide (Owen 2007).

Items that are right or wrong, and of which hardly any differ, have no variance to rely on. As in Agresti and Min's
(2005) interval two items are added, each right or wrong at random at every setting.
"""

import numpy as np
from jaxtyping import Float, Float64

Draws = Float64[np.ndarray, "draws settings"]
_BLOCKS = 5000  # more items than that are weighted in groups, which changes no variance
_CHUNK_NUMBERS = 1 << 22


def resampled_means(
    scores: Float[np.ndarray, "settings seeds items"],
    draws: int,
    rng: np.random.Generator,
    *,
    rights: bool = False,
    heldout: float = 0.0,
) -> Draws:
    """Returns the mean of each setting in every draw. O(draws × settings × seeds × items), of at most 5,000 items.

    Args:
        scores: of the items; a single column where only means over items are known, and then only seeds are drawn.
        rights: scores say of each item whether it is right.
        heldout: share of the annotations that each seed held out anew, where scores are of these: as such splits
            overlap, means vary more than they do (Nadeau and Bengio 2003).
    """
    settings, n_seeds, n_items = scores.shape
    blocks = min(n_items, _BLOCKS)
    block = np.arange(n_items) % blocks
    flat = scores.reshape(settings * n_seeds, n_items).astype(np.float64)
    sums = flat if blocks == n_items else _sums(flat, blocks)
    sizes = np.bincount(block, minlength=blocks).astype(np.float64)
    # s² (1 / n + f / (1 - f)) is s² / n times the square of this.
    overlap = (1.0 + n_seeds * heldout / (1.0 - heldout)) ** 0.5 if heldout else 1.0
    found = np.empty((draws, settings))
    step = max(1, _CHUNK_NUMBERS // blocks)
    for start in range(0, draws, step):
        number = min(step, draws - start)
        weights = _weights(number, blocks, rng) * sizes.sum() / blocks
        by_seed = (weights @ sums.T / (weights @ sizes)[:, None]).reshape(number, settings, n_seeds)
        found[start : start + number] = (by_seed * _weights(number, n_seeds, rng, overlap)[:, None, :]).sum(axis=2)
    if rights and n_items > 1:
        # The sum of two items that are right or wrong at random has the variance 1/2; here it is part of n + 2 items'
        # mean.
        found += rng.normal(0.0, 0.5**0.5 / (n_items + 2), found.shape)
    return found


def _weights(draws: int, n: int, rng: np.random.Generator, wider: float = 1.0) -> Float64[np.ndarray, "draws n"]:
    """Returns weights of n that sum to one in every draw; below zero at times, where n is small."""
    if n == 1:
        return np.ones((draws, 1))
    drawn = rng.standard_exponential((draws, n))
    drawn /= drawn.sum(axis=1, keepdims=True)
    # Dirichlet weights give a mean the variance Σ(x - x̄)² / (n (n + 1)); stretched about 1 / n by this root they give
    # it Σ(x - x̄)² / (n (n - 1)), which is s² / n.
    return 1.0 / n + (drawn - 1.0 / n) * wider * ((n + 1.0) / (n - 1.0)) ** 0.5


def _sums(flat: Float64[np.ndarray, "rows items"], blocks: int) -> Float64[np.ndarray, "rows blocks"]:
    """Returns the sum of each block, item i being in block i modulo their number."""
    # Filled up to whole rounds of the blocks, one reshape groups the items; zeros add nothing to a sum.
    padded = np.zeros((len(flat), -(-flat.shape[1] // blocks) * blocks))
    padded[:, : flat.shape[1]] = flat
    return padded.reshape(len(flat), -1, blocks).sum(axis=1)
