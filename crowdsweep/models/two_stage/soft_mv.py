"""Soft majority vote, then a classifier: it learns each item's share of votes.

The targets are the shares n_ik / n_i, so that an item on which annotators disagree teaches that it is unclear. Trusts
all annotators alike. Baseline of Mena and Nanculef (CIARP 2019), where it is called softMV.

    r_i / sum r_i   targets          f(x)   the classifier

Deviations: none in the method; under `protocol: equal_budget` all epochs are trained instead of stopping early.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

from annotated_types import Ge, Gt, Lt

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
class SoftMV:
    """Hyper-parameters of soft majority vote with a classifier.

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
        """Counts votes and trains on their shares."""
        voted = MajorityVote(votes="soft").fit_batch(data, contexts)
        aggregated = [
            Aggregated(targets=answered(part, vote.item_probs), annotators=vote.annotators)
            for part, vote in zip(data, voted, strict=True)
        ]
        return fit_two_stage(self, data, contexts, aggregated)


MODEL = ModelInfo(
    name="soft-mv",
    title="Soft majority vote, then a classifier",
    model=SoftMV,
    source="Mena and Nanculef 2019, section 4 (softMV)",
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
