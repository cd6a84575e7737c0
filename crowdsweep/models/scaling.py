"""Standardised features, which every model with a network reads; a trained one carries the scale for other items.

A feature becomes (x - mean) / deviation, both of the training items alone; one that is constant there becomes zero for
every item. Softmax regressions, which are fitted to the end under a penalty, read that (`Scale.of`). Networks, which
learn by steps of one size, read it with two bounds (`Scale.for_networks`):

- **A feature with a few values far from all others** (a rare 0/1 mark, an output of a rectifier) has a deviation so
  small that these values would outweigh everything else: it counts as at least a tenth of the feature's range, which
  of features without such values it is many times over.
- **Many features together**, as those of an embedding, move an item's logits by a step in proportion to their number,
  and the network memorises its items before it learns anything else: from 40 on they share a factor that
  keeps the length of an item's row what it is with 40. Dimensions of an embedding keep a scale each.

`standardise` decides (`Classifier`): null, the default, means yes, unless `protocol: paper` keeps the paper's features.
`fitting.fit_unchecked` does it, so that no such model sees features as they came, and every predictor that it hands
out carries the scale.
"""

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, final

import numpy as np
from jaxtyping import Float32, Float64

from crowdsweep.arrays import ItemFeatures
from crowdsweep.data.dataset import Items, TrainingData

WIDEST = 10.0  # the most that a feature's range may span, in deviations
MOST_FEATURES = 40  # whose standardised rows are as long as rows get
_BLOCK_NUMBERS = 1 << 22  # features that are held in double precision at once


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Scale:
    """Standardises features: (x - mean) * factor; the factor of a constant feature is zero."""

    mean: Float64[np.ndarray, " features"]
    factor: Float64[np.ndarray, " features"]

    @classmethod
    def of(cls, features: ItemFeatures) -> "Scale":
        """Returns the scale of these items; without any, features stay as they are."""
        if not len(features):
            return cls(mean=np.zeros(features.shape[1]), factor=np.ones(features.shape[1]))
        mean = features.mean(axis=0, dtype=np.float64)
        deviation = features.std(axis=0, dtype=np.float64)
        # What rounding leaves of a constant is no deviation.
        constant = deviation <= 1e-6 * np.maximum(np.abs(mean), 1e-30)
        return cls(mean=mean, factor=np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, deviation)))

    @classmethod
    def for_networks(cls, features: ItemFeatures) -> "Scale":
        """Returns the scale of these items with the two bounds for networks."""
        plain = cls.of(features)
        if not len(features):
            return plain
        spans = (features.max(axis=0).astype(np.float64) - features.min(axis=0)) * plain.factor
        shared = np.sqrt(min(1.0, MOST_FEATURES / max(1, np.count_nonzero(plain.factor))))
        return cls(mean=plain.mean, factor=plain.factor * (WIDEST / np.maximum(spans, WIDEST)) * shared)

    def applied(self, features: ItemFeatures) -> Float64[np.ndarray, "items features"]:
        """Returns standardised features in double precision."""
        return (features - self.mean) * self.factor

    def items(self, items: Items) -> Items:
        """Returns the items with standardised features; items without features as they are."""
        if items.features is None:
            return items
        features = np.empty_like(items.features, dtype=np.float32)
        size = max(1, _BLOCK_NUMBERS // max(1, len(self.mean)))
        for start in range(0, len(features), size):
            features[start : start + size] = self.applied(items.features[start : start + size])
        return replace(items, features=features)

    def training(self, data: TrainingData) -> TrainingData:
        """Returns the data with all items' features standardised: training, unlabelled and validation ones."""
        unlabelled = None if data.unlabelled is None else self.items(data.unlabelled)
        validation = data.validation
        if validation is not None:
            validation = replace(validation, items=self.items(validation.items))
        return replace(data, items=self.items(data.items), unlabelled=unlabelled, validation=validation)


def standardised(features: Float32[np.ndarray, "rows features"]) -> Float32[np.ndarray, "rows features"]:
    """Returns features with mean zero and deviation one over these rows; one that is constant becomes zero."""
    mean, deviation = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
    return ((features - mean) / np.where(deviation > 0, deviation, 1.0)).astype(np.float32)


def standardises(model: Any) -> bool:
    """Whether a model's hyper-parameters ask for standardised features; of a model without `standardise`, no."""
    settings = dict(_settings(model))
    if "standardise" not in settings:
        return False
    chosen = settings["standardise"]
    return settings.get("protocol") != "paper" if chosen is None else bool(chosen)


def _settings(record: Any) -> list[tuple[str, Any]]:
    """Returns the two hyper-parameters that decide, of a record and those that it holds."""
    found: list[tuple[str, Any]] = []
    for part in fields(record) if is_dataclass(record) else ():
        value = getattr(record, part.name)
        if part.name in ("standardise", "protocol"):
            found.append((part.name, value))
        found += _settings(value)
    return found
