"""Shared by stl and mtl: each item's one class (gold, or silver: the majority vote), and its soft label."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, final

import numpy as np
from annotated_types import Ge, Gt
from scipy.special import softmax

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.classifier import Classifier
from crowdsweep.models.contract import FitContext, FitResult, Need
from crowdsweep.models.networks.automatic import Auto
from crowdsweep.models.two_stage._targets import Aggregated, gold_targets, most_votes, one_hot
from crowdsweep.models.two_stage._training import ValidatedTraining

Ties = Literal["drop", "random", "first"]
Soft = Literal["softmax_counts", "softmax_proportions", "proportions", "smoothed"]


@final
@dataclass(frozen=True, kw_only=True)
class HardLabels:
    """Hyper-parameters of the one class that an item is taken for.

    Attributes:
        labels: `gold`, or `silver`: the class with the most votes.
        ties: an item whose votes tie is left out, or taken for one of the tied classes, drawn, or for the first.
    """

    labels: Literal["gold", "silver"] = "silver"
    ties: Ties = "drop"

    def needs(self) -> frozenset[Need]:
        return frozenset[Need]({"gold"} if self.labels == "gold" else ())

    def of(self, data: TrainingData, context: FitContext) -> ItemProbs:
        """Returns one-hot rows; rows of zeros for items without a class.

        Raises:
            FitFailed: gold is asked for, and there is none.
        """
        if self.labels == "silver":
            return self.silver(data.annotations, context)
        return gold_targets(data, context, "take labels: silver, or a dataset with gold")

    def silver(self, annotations: Annotations, context: FitContext) -> ItemProbs:
        """Returns one-hot rows of the classes with the most votes."""
        voted = most_votes(annotations)
        if self.ties == "drop":
            return np.where(voted.max(axis=1, keepdims=True) == 1.0, voted, 0.0)
        return one_hot(voted, context, draw=self.ties == "random")

    def stage(self, data: TrainingData, context: FitContext, _: FitResult | None) -> Aggregated:
        return Aggregated(
            targets=self.of(data, context),
            annotators_alike=True,
            dev_targets=lambda annotations: self.silver(annotations, context),
        )


@final
@dataclass(frozen=True, kw_only=True)
class SoftLabels:
    """Hyper-parameters of the soft label that votes make.

    Attributes:
        soft: softmax of the counts of votes, which is sharper the more votes there are and gives some probability to
            classes without any; softmax of their proportions; the proportions; or these smoothed.
        temperature: counts or proportions are divided by it before a softmax.
        smoothing: pseudo-count of the `smoothed` proportions, spread evenly over the classes.
    """

    soft: Soft = "softmax_counts"
    temperature: Annotated[float, Gt(0)] = 1.0
    smoothing: Annotated[float, Ge(0)] = 1.0

    def of(self, annotations: Annotations) -> ItemProbs:
        """Returns rows that sum to one; rows of zeros for items without votes."""
        counts = annotations.counts.toarray()
        if self.soft == "softmax_counts":
            found = softmax(counts / self.temperature, axis=1)
        elif self.soft == "softmax_proportions":
            found = softmax(annotations.label_distribution() / self.temperature, axis=1)
        elif self.soft == "proportions":
            found = annotations.label_distribution()
        else:
            found = counts + self.smoothing / annotations.n_classes
            found /= np.maximum(found.sum(axis=1, keepdims=True), 1e-300)
        return np.where((annotations.labels_per_item > 0)[:, None], found, 0.0)


TRAINING = ValidatedTraining(classifier=Classifier(network=Auto(dropout=0.1)), epochs=50)
SPACE: Mapping[str, Any] = {
    "learning_rate": {"values": [3e-4, 1e-3, 3e-3]},
    "dropout": {"values": [0.0, 0.1, 0.3, 0.5]},
}
