"""Soft majority vote, then a classifier: it learns each item's share of votes.

The targets are the shares n_ik / n_i, so that an item on which annotators disagree teaches that it is unclear. Trusts
all annotators alike. Baseline of Mena and Nanculef (CIARP 2019), where it is called softMV.

    r_i / sum r_i   targets          f(x)   the classifier

Deviations: none in the method; under `protocol: equal_budget` all epochs are trained instead of stopping early.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.aggregate.majority_vote import MajorityVote
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.two_stage._pair import Training, aggregated, two_stage


@final
@dataclass(frozen=True, kw_only=True)
class SoftMV:
    """Hyper-parameters: those of the classifier's training."""

    training: Training = Training()

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Counts votes and trains on their shares."""
        return self.training.fit(data, contexts, aggregated(MajorityVote(votes="soft"), data, contexts))


MODEL = two_stage(
    "soft-mv", "Soft majority vote, then a classifier", SoftMV, "Mena and Nanculef 2019, section 4 (softMV)", version=3
)
