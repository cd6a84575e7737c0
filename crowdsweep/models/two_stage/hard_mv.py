"""Hard majority vote, then a classifier: it learns the class that got the most votes.

The targets are one-hot; where classes tie, one of them is drawn (`ties: random`) or the first is taken, which favours
low class codes. Trusts all annotators alike. Baseline of Mena and Nanculef (CIARP 2019), where it is called hardMV.

    argmax r_i   targets          f(x)   the classifier

Deviations: the authors' code takes the first of tied classes; under `protocol: equal_budget` all epochs are trained
instead of stopping early.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, final

import numpy as np
from annotated_types import Ge, Gt, Lt

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._classifiers import NetworkKind, Protocols
from crowdsweep.models._cost import training_cost
from crowdsweep.models.aggregate.majority_vote import MajorityVote
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo
from crowdsweep.models.two_stage._aggregate_then_train import (
    Aggregated,
    answered,
    fit_two_stage,
)


@final
@dataclass(frozen=True, kw_only=True)
class HardMV:
    """Hyper-parameters of hard majority vote with a classifier.

    Attributes:
        network: the classifier.
        hidden: widths of the hidden layers of an mlp.
        dropout: share of hidden units dropped in training.
        learning_rate: of Adam.
        batch_size: items in a step.
        epochs: passes over the items; the most under `protocol: paper`.
        protocol: `paper` stops once the training loss gains less than 3 % over the best; `equal_budget` does not stop.
        ties: what an item whose votes tie is taken for: one of the tied classes, drawn; or the first of them.
    """

    network: NetworkKind = "mlp"
    hidden: tuple[Annotated[int, Ge(1)], ...] = (128,)
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.5
    learning_rate: Annotated[float, Gt(0)] = 1e-3
    batch_size: Annotated[int, Ge(1)] = 64
    epochs: Annotated[int, Ge(1)] = 50
    protocol: Protocols = "equal_budget"
    ties: Literal["random", "first"] = "random"

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Counts votes and trains on their winners."""
        voted = MajorityVote(votes="hard").fit_batch(data, contexts)
        aggregated = [
            Aggregated(targets=answered(part, self._broken(vote.item_probs, context)), annotators=vote.annotators)
            for part, vote, context in zip(data, voted, contexts, strict=True)
        ]
        return fit_two_stage(self, data, contexts, aggregated)

    def _broken(self, winners: ItemProbs, context: FitContext) -> ItemProbs:
        """Returns one-hot rows for rows in which tied winners share one."""
        scores = winners > 0
        if self.ties == "random":
            scores = scores * (1.0 + context.seeds.numpy("ties").random(winners.shape))
        return np.eye(winners.shape[1])[scores.argmax(axis=1)]


MODEL = ModelInfo(
    name="hard-mv",
    title="Hard majority vote, then a classifier",
    model=HardMV,
    source="Mena and Nanculef 2019, section 4 (hardMV)",
    needs=frozenset({"features"}),
    supports=frozenset({"votes", "soft_answers"}),
    space={
        "learning_rate": {"values": [3e-4, 1e-3, 3e-3]},
        "dropout": {"values": [0.0, 0.2, 0.5]},
        "epochs": {"values": [10, 20, 50]},
    },
    cost=training_cost,
    label_symmetric=False,
)
