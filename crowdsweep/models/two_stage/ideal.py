"""Ideal: the classifier trained on gold, which no crowd model may see.

It bounds what any model with this classifier can reach, and is marked in every report. Items without gold are left
out; the annotations are not looked at. Mena and Nanculef (CIARP 2019), where it is called Ideal.

    z_i   targets (gold)          f(x)   the classifier

Deviations: none in the method; under `protocol: equal_budget` all epochs are trained instead of stopping early.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Ge, Gt, Lt

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._classifiers import NetworkKind, Protocols
from crowdsweep.models._cost import training_cost
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo
from crowdsweep.models.two_stage._aggregate_then_train import (
    Aggregated,
    fit_two_stage,
)


@final
@dataclass(frozen=True, kw_only=True)
class Ideal:
    """Hyper-parameters of the classifier trained on gold.

    Attributes:
        network: the classifier.
        hidden: widths of the hidden layers of an mlp.
        dropout: share of hidden units dropped in training.
        learning_rate: of Adam.
        batch_size: items in a step.
        epochs: passes over the items; the most under `protocol: paper`.
        protocol: `paper` stops once the training loss gains less than 3 % over the best; `equal_budget` does not stop.
    """

    network: NetworkKind = "mlp"
    hidden: tuple[Annotated[int, Ge(1)], ...] = (128,)
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.5
    learning_rate: Annotated[float, Gt(0)] = 1e-3
    batch_size: Annotated[int, Ge(1)] = 64
    epochs: Annotated[int, Ge(1)] = 50
    protocol: Protocols = "equal_budget"

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Trains on gold.

        Raises:
            FitFailed: a context brings no gold.
        """
        aggregated = [
            Aggregated(targets=_gold_shares(part, context)) for part, context in zip(data, contexts, strict=True)
        ]
        return fit_two_stage(self, data, contexts, aggregated)


def _gold_shares(data: TrainingData, context: FitContext) -> ItemProbs:
    if context.gold is None:
        raise FitFailed("expected gold of the training items, got none: only a dataset with gold can train `ideal`")
    targets = np.zeros((data.n_items, data.n_classes))
    targets[context.gold.item, context.gold.label] = 1.0
    return targets


MODEL = ModelInfo(
    name="ideal",
    title="Ideal: a classifier trained on gold, an upper bound",
    model=Ideal,
    source="Mena and Nanculef 2019, section 4 (Ideal)",
    needs=frozenset({"features", "gold"}),
    supports=frozenset({"votes", "soft_answers"}),
    space={
        "learning_rate": {"values": [3e-4, 1e-3, 3e-3]},
        "dropout": {"values": [0.0, 0.2, 0.5]},
        "epochs": {"values": [10, 20, 50]},
    },
    cost=training_cost,
    label_symmetric=False,
)
