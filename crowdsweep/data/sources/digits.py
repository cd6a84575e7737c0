"""scikit-learn's handwritten digits, with a simulated crowd of four kinds of annotators.

The crowd answers the train and dev items. How often a digit is misread depends on the digit and on the group. For which
other digit it is taken depends on how alike the two look (the distance of their mean images).
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float64
from sklearn.datasets import load_digits

from crowdsweep.data.catalogue import Source, whole_param
from crowdsweep.data.dataset import SPLITS, CrowdDataset, Scalar
from crowdsweep.data.simulate import answered, unanswered
from crowdsweep.seeds import SeedStream

_N_CLASSES = 10
_SHARES = {"train": 0.6, "dev": 0.2, "test": 0.2}
# Careful, average, careless and guessing annotators: their shares and the chance that they read a digit right.
_GROUP_PROBS = np.array([0.25, 0.40, 0.25, 0.10])
_ABILITY = np.array([0.90, 0.65, 0.45, 0.10])
_BRIGHTEST = 16.0  # the highest grey level of the images


def _base(params: Mapping[str, Scalar]) -> CrowdDataset:
    pixels, gold = (np.asarray(part) for part in load_digits(return_X_y=True))
    return unanswered(
        name=SOURCE.name,
        title=SOURCE.title,
        features=(pixels / _BRIGHTEST).astype(np.float32),
        gold=gold.astype(np.int32),
        split=_split(len(gold), whole_param(params, "feature_seed", at_least=0)),
        item_name="digit",
        class_names=[str(digit) for digit in range(_N_CLASSES)],
        params=params,
    )


def _split(n_items: int, feature_seed: int) -> np.ndarray:
    order = SeedStream(feature_seed).child("digits").numpy("split").permutation(n_items)
    ends = np.round(np.cumsum(list(_SHARES.values())) * n_items).astype(int)
    split = np.empty(n_items, dtype=np.int8)
    for name, part in zip(_SHARES, np.split(order, ends[:-1]), strict=True):
        split[part] = SPLITS.index(name)
    return split


def _confusion(base: CrowdDataset) -> Float64[np.ndarray, "groups true observed"]:
    pixels = np.asarray(base.items.features, dtype=np.float64)
    means = np.stack([pixels[base.gold.label == digit].mean(axis=0) for digit in range(_N_CLASSES)])
    distance = np.linalg.norm(means[:, None] - means[None], axis=2)
    alike = np.exp(-2.0 * distance) * (1 - np.eye(_N_CLASSES))
    doubles = alike.sum(axis=1)
    # A digit that looks like another one is misread more often than one that does not.
    right = _ABILITY[:, None] ** np.clip(doubles / doubles.mean(), 0.5, 1.5)
    misread = alike / doubles[:, None]
    return (1 - right)[:, :, None] * misread + right[:, :, None] * np.eye(_N_CLASSES)


def _draw(base: CrowdDataset, seeds: SeedStream) -> CrowdDataset:
    seen = np.flatnonzero(base.split != SPLITS.index("test")).astype(np.int32)
    return answered(base, seen, group_probs=_GROUP_PROBS, confusion=_confusion(base), seeds=seeds)


SOURCE = Source(
    name="digits",
    title="Handwritten digits (scikit-learn), a simulated crowd of four groups",
    defaults={"annotators": 50, "labels_per_item": 3.0, "feature_seed": 0},
    base=_base,
    draw=_draw,
)
