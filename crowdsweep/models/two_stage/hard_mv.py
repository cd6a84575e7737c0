"""Hard majority vote, then a classifier: it learns the class that got the most votes.

Baseline of Mena and Nanculef (CIARP 2019), there hardMV: targets argmax r_i, classifier f(x). Their code takes the
first of tied classes; here `equal_budget` trains all epochs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.aggregate.majority_vote import MajorityVote
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.two_stage._pair import Training, aggregated, hardened, two_stage


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
        voted = aggregated(MajorityVote(votes="hard"), data, contexts)
        return self.training.fit(data, contexts, hardened(voted, contexts, draw=self.ties == "random"))


MODEL = two_stage(
    "hard-mv", "Hard majority vote, then a classifier", HardMV, "Mena and Nanculef 2019, section 4 (hardMV)", version=4
)
