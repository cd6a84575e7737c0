"""Finds oddities of features that matter to a model. Features have no names and are numbered from 0.

The checks cover the annotated items (all items if none is annotated). Every check works by column and takes
O(items * features), except the one for duplicates: O(features² * items) for at most `_COMPARED` features and
`_SAMPLED` items.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float64

from crowdsweep.arrays import ItemFeatures

_WIDE = 1e3  # ratio of the largest to the smallest standard deviation above which scales are very different
_ALIKE = 0.9999  # correlation above which two features are duplicates
_COMPARED, _SAMPLED = 2000, 2000

OddFeatures = tuple[str, list[str], str]


def odd_features(features: ItemFeatures) -> Iterator[OddFeatures]:
    """Yields kind, examples and remedy of each oddity, each kind once."""
    if not features.size:
        return
    broken = np.flatnonzero(~np.isfinite(features).all(axis=0))
    if len(broken):
        yield "features that are not finite", _named(broken), "fill them in, or leave these features out"
    whole = np.isfinite(features).all(axis=0)
    deviation, varies = np.zeros(features.shape[1]), np.zeros(features.shape[1], dtype=bool)
    deviation[whole] = features[:, whole].std(axis=0, dtype=np.float64)
    largest = np.abs(features[:, whole]).max(axis=0, initial=0.0)
    varies[whole] = deviation[whole] > 1e-6 * np.maximum(largest, 1e-30)
    constant = np.flatnonzero(whole & ~varies)
    if len(constant) and len(features) > 1:
        yield "features that are the same for every item", _named(constant), "models learn nothing from them"
    yield from _scales(deviation, varies)
    pairs = _alike(features, varies)
    if pairs:
        yield "features that repeat another feature", pairs, "leave one of each pair out"


def _scales(
    deviation: Float64[np.ndarray, " features"], varies: Bool[np.ndarray, " features"]
) -> Iterator[OddFeatures]:
    order = np.flatnonzero(varies)[np.argsort(deviation[varies], kind="stable")]
    if len(order) < 2 or deviation[order[-1]] < _WIDE * deviation[order[0]]:
        return
    examples = [f"{code} (standard deviation {deviation[code]:.2g})" for code in (order[0], order[-1])]
    yield "features on very different scales", examples, "models standardise them unless `standardise: false`"


def _alike(features: ItemFeatures, varies: Bool[np.ndarray, " features"]) -> list[str]:
    """Returns `A = B` for each feature B that equals an earlier feature A up to scale, sign and an offset."""
    code = np.flatnonzero(varies)
    if not 1 < len(code) <= _COMPARED or len(features) < 3:
        return []
    step = -(-len(features) // _SAMPLED)
    columns = features[::step, code].astype(np.float64)
    columns -= columns.mean(axis=0)
    lengths = np.linalg.norm(columns, axis=0)
    columns /= np.where(lengths > 0, lengths, np.inf)
    same = np.triu(np.abs(columns.T @ columns) > _ALIKE, k=1)
    later = np.flatnonzero(same.any(axis=0))
    return [f"{code[same[:, two].argmax()]} = {code[two]}" for two in later]


def _named(codes: np.ndarray) -> list[str]:
    return [str(code) for code in codes.tolist()]
