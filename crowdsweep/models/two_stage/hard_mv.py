"""Hard majority vote, then a classifier: it learns the class that got the most votes.

Baseline of Mena and Nanculef (CIARP 2019), there hardMV: targets argmax r_i, classifier f(x). Their code takes the
first of tied classes; here `equal_budget` trains all epochs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.aggregate.majority_vote import MajorityVote
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.two_stage._pair import Training, aggregated, one_hot, two_stage


@final
@dataclass(frozen=True, kw_only=True)
class HardMV:
    """Hyper-parameters of hard majority vote with a classifier.

    Attributes:
        ties: an item whose votes tie is taken for one of the tied classes, drawn; or for the first, which favours it.
    """

    training: Training = Training()
    ties: Literal["random", "first"] = "random"

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Counts votes and trains on their winners."""
        voted = zip(aggregated(MajorityVote(votes="hard"), data, contexts), contexts, strict=True)
        draw = self.ties == "random"
        stages = [replace(vote, targets=one_hot(vote.targets, context, draw=draw)) for vote, context in voted]
        return self.training.fit(data, contexts, stages)


MODEL = two_stage(
    "hard-mv", "Hard majority vote, then a classifier", HardMV, "Mena and Nanculef 2019, section 4 (hardMV)", version=3
)
