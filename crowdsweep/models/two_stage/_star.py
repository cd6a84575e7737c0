"""Shared by the baselines of LIA's paper: an aggregator, and LIA's network of items trained on its likeliest classes.

`maj-star` and `mmce-star` read features. The `-e` variants read a learned vector for each item, so that the network can
only memorise its targets and cannot label other items.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, final

from annotated_types import Ge

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._cost import passes_over, training_cost
from crowdsweep.models.classifier import Classifier
from crowdsweep.models.contract import DataShape, FitContext, FitResult, Model, ModelInfo, Predictor, Report
from crowdsweep.models.networks.embedded import READS_VECTORS, VECTOR_SPACE, embedded_network
from crowdsweep.models.schedule import Schedule
from crowdsweep.models.training_length import SEARCHED
from crowdsweep.models.two_stage._pair import READS_FEATURES, Fixed, pair
from crowdsweep.models.two_stage._targets import Aggregated, Likeliest
from crowdsweep.models.two_stage._training import Training, fit_stages

_SPACE: Mapping[str, Any] = {
    "hidden": {"values": [[16], [16, 16, 16, 16], [32, 32, 32, 32], [128]]},
    "dropout": {"values": [0.0, 0.5]},
    "learning_rate": {"values": [1e-3, 3e-3, 1e-2]},
    "epochs": {"values": [20, 50, 100]},
    "steps": {"values": SEARCHED},
}
_SOURCE = "Platanios, Al-Shedivat, Xing and Mitchell 2020, Learning from Imperfect Annotations, Table 2"


@final
@dataclass(frozen=True, kw_only=True)
class EmbeddedTraining:
    """Hyper-parameters of a network that learns a vector for each item.

    Attributes:
        item_embedding: width of an item's vector.
        epochs: passes over the items.
    """

    item_embedding: Annotated[int, Ge(1)] = 16
    classifier: Classifier = Classifier(network=READS_VECTORS, learning_rate=1e-2)
    epochs: Annotated[int, Ge(1)] = 100

    def fit(
        self, data: Sequence[TrainingData], contexts: Sequence[FitContext], stages: Sequence[Aggregated]
    ) -> list[FitResult]:
        network = embedded_network(
            self.classifier.network,
            n_outputs=data[0].n_classes,
            n_items=max(part.n_items for part in data),
            width=self.item_embedding,
        )
        known = [replace(context, report=_without_predictor(context.report)) for context in contexts]
        schedule = Schedule(epochs=self.epochs)
        fitted = fit_stages(self.classifier, schedule, data, known, stages, network)
        return [replace(one, predictor=None) for one in fitted]


def _without_predictor(report: Report) -> Report:
    """Returns the report of a fit that labels no unseen items."""

    def told(step: int, objective: float, predictor: Callable[[], Predictor] | None = None) -> bool:  # noqa: ARG001
        return report(step, objective)

    return told


def _embedded_cost(shape: DataShape, params: Mapping[str, Any]) -> float:
    """Returns the cost of the network's training; all vectors are moved in each step."""
    steps = passes_over(shape.n_items, params, params["epochs"]) * shape.n_items / params["batch_size"]
    vectors = replace(shape, n_features=params["item_embedding"])
    return training_cost(vectors, params) + steps * shape.n_items * params["item_embedding"]


def star(
    module: str,
    title: str,
    aggregate: Model | Fixed,
    *,
    space: Mapping[str, Any] | None = None,
    item_vectors: bool = False,
    version: int,
) -> ModelInfo:
    """Returns an aggregator of whose likeliest classes LIA's network of items learns.

    Args:
        space: what is searched of the aggregator.
        item_vectors: whether the network reads a learned vector for each item in place of features.
    """
    return pair(
        module,
        title=title,
        source=_SOURCE,
        aggregate=aggregate,
        targets=Likeliest(),
        training=EmbeddedTraining() if item_vectors else Training(epochs=100),
        needs=frozenset() if item_vectors else READS_FEATURES,
        space={**(VECTOR_SPACE if item_vectors else {}), **(space or {}), **_SPACE},
        cost=_embedded_cost if item_vectors else training_cost,
        version=version,
    )
