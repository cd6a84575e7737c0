"""Softmax regression on standardised features, fitted to its optimum: the classifier of models whose M-step is exact.

    maximise over W    sum over items and classes of targets * log softmax(x W)  -  penalty / 2 * |W|²

Targets need not sum to one: the sum of its row is an item's weight. The objective is strictly concave, so that L-BFGS
finds its maximum from any start and nothing is random. Features are standardised by the training items and have a
column of ones beside them, so that the prior N(0, 1 / penalty) of all weights means the same for every data set. Data
sets that are fitted together are optimised one after another, as each has line searches of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Protocol, cast, final, runtime_checkable

import numpy as np
from annotated_types import Ge, Gt
from jaxtyping import Float64

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models._cost import MATRIX_PRODUCT
from crowdsweep.models._em import PerReplica, normalised
from crowdsweep.models.contract import DataShape
from crowdsweep.models.networks.contract import features_of
from crowdsweep.models.scaling import Scale

Inputs = Float64[np.ndarray, "items inputs"]
Weights = Float64[np.ndarray, "inputs classes"]
ReplicaWeights = Float64[np.ndarray, "replicas inputs classes"]
LogProbs = Float64[np.ndarray, "items classes"]

_STEPS = 100
_FLATNESS = 1e-6  # of every slope, by the number of items


@final
@dataclass(frozen=True, kw_only=True)
class RegressionEM:
    """Hyper-parameters of EM whose classifier is a softmax regression.

    Attributes:
        penalty: L2 penalty of the regression's weights: one over their prior's variance; features are standardised.
        iterations: limit of EM steps.
        tolerance: stop once the objective rises by less than this share of itself.
    """

    penalty: Annotated[float, Gt(0)] = 1.0
    iterations: Annotated[int, Ge(1)] = 50
    tolerance: Annotated[float, Ge(0)] = 1e-5


@runtime_checkable
class FeatureMap(Protocol):
    """Maps items to the inputs of a regression."""

    def inputs(self, items: Items) -> Inputs:
        """Returns a row for each item.

        Raises:
            FitFailed: the items have no features.
        """
        ...


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class StandardisedFeatures:
    """Features as a regression reads them: on the scale of the training items, with a column of ones."""

    scale: Scale

    @classmethod
    def of(cls, items: Items) -> "StandardisedFeatures":
        """Returns what is read on the scale of these items."""
        return cls(scale=Scale.of(features_of(items)))

    def inputs(self, items: Items) -> Inputs:
        """Returns standardised features, and a column of ones."""
        features = features_of(items)
        inputs = np.ones((len(features), features.shape[1] + 1))
        inputs[:, :-1] = self.scale.applied(features)
        return inputs


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class SoftmaxPredictor:
    """A fitted regression: labels items from their features."""

    features: FeatureMap
    weights: Weights
    uses = ("classifier",)

    def predict(self, items: Items, use: str) -> ItemProbs:  # noqa: ARG002 - there is one use
        return normalised(self.features.inputs(items) @ self.weights)[0]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Regressions:
    """The regressions of several data sets, whose items lie one behind the other in flat arrays.

    Attributes:
        data: agree in the numbers of classes and features.
        penalty: 1 / variance of the weights' prior.
    """

    data: Sequence[TrainingData]
    penalty: float

    @cached_property
    def features(self) -> list[StandardisedFeatures]:
        return [StandardisedFeatures.of(part.items) for part in self.data]

    @cached_property
    def _inputs(self) -> list[Inputs]:
        return [own.inputs(part.items) for own, part in zip(self.features, self.data, strict=True)]

    def start(self) -> ReplicaWeights:
        """Returns weights of zero."""
        return np.zeros((len(self.data), self._inputs[0].shape[1], self.data[0].n_classes))

    def learn(self, targets: Float64[np.ndarray, "items classes"], weights: ReplicaWeights) -> ReplicaWeights:
        """Returns the weights that fit these targets best, or better than those given where steps run out."""
        found, start = np.empty_like(weights), 0
        for own, inputs, before in zip(found, self._inputs, weights, strict=True):
            own[:] = maximised(inputs, targets[start : start + len(inputs)], before, self.penalty)
            start += len(inputs)
        return found

    def log_probs(self, weights: ReplicaWeights) -> LogProbs:
        """Returns the log class probabilities of all items."""
        scores = [inputs @ own for inputs, own in zip(self._inputs, weights, strict=True)]
        return log_softmax(np.concatenate(scores))

    def log_prior(self, weights: ReplicaWeights) -> PerReplica:
        """Returns the logarithm of the weights' prior density, up to a constant."""
        return -0.5 * self.penalty * (weights**2).sum(axis=(1, 2))

    def predictor(self, weights: ReplicaWeights, replica: int) -> SoftmaxPredictor:
        """Returns what labels unseen items."""
        return SoftmaxPredictor(features=self.features[replica], weights=weights[replica].copy())


def log_softmax(scores: Float64[np.ndarray, "*rows classes"]) -> Float64[np.ndarray, "*rows classes"]:
    """Returns log softmax along the last axis; of a hundred rows, scipy's own takes twice as long."""
    # With the largest score moved to 0, exp cannot overflow, and its sum is at least 1.
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def maximised(inputs: Inputs, targets: Float64[np.ndarray, "items classes"], start: Weights, penalty: float) -> Weights:
    """Returns the weights at the maximum of this module's first lines; none worse than those to start with."""
    from scipy.optimize import minimize  # noqa: PLC0415 - who describes a model needs none of it

    taught = targets.sum(axis=1) > 0
    rows, wanted = inputs[taught], targets[taught]
    totals = wanted.sum(axis=1, keepdims=True)

    def lost(flat: Float64[np.ndarray, " weights"]) -> tuple[float, Float64[np.ndarray, " weights"]]:
        weights = flat.reshape(start.shape)
        log_probs = log_softmax(rows @ weights)
        slope = rows.T @ (totals * np.exp(log_probs) - wanted) + penalty * weights
        return float(0.5 * penalty * (flat @ flat) - (wanted * log_probs).sum()), slope.ravel()

    found = minimize(
        lost,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _STEPS, "gtol": _FLATNESS * max(1.0, float(totals.sum())), "ftol": 1e-12},
    )
    return cast(np.ndarray, found.x).reshape(start.shape) if found.fun <= lost(start.ravel())[0] else start


def em_cost(shape: DataShape, params: Mapping[str, Any]) -> float:
    """Returns the cost of all EM steps: in each some twenty evaluations of two products, and the annotators' part."""
    evaluations = 40.0 * MATRIX_PRODUCT * shape.n_items * (shape.n_features + 1) * shape.n_classes
    return params["iterations"] * (evaluations + 4.0 * shape.n_annotations * shape.n_classes)
