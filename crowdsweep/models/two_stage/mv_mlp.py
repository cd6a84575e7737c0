"""MV+MLP: hard majority vote, then a classifier that may be trained as long as end-to-end models are.

The classifier f learns the class with the most votes, one of them at random where they tie. Baseline of Chen et al.
(2020), IJCAI, Tables 1 and 2. It is `hard-mv`, but how long it trains, which decides the result as much as what it
learns, is searched as for the models that it is compared with. The paper: on sentiment polarity 1,200 hidden units,
learning rate 1e-4, 200 epochs; on music genre `network: linear`, 1e-3, 5,000 epochs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.aggregate.majority_vote import MajorityVote
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.two_stage._pair import LONG_SPACE, Training, aggregated, hardened, two_stage


@final
@dataclass(frozen=True, kw_only=True)
class MVMLP:
    """Hyper-parameters: those of the classifier's training."""

    training: Training = Training()

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Counts votes and trains on their winners."""
        return self.training.fit(
            data, contexts, hardened(aggregated(MajorityVote(votes="hard"), data, contexts), contexts)
        )


TITLE = "MV+MLP: hard majority vote, then a classifier"
MODEL = two_stage("mv-mlp", TITLE, MVMLP, "Chen et al. 2020, section 4 (MV+MLP)", space=LONG_SPACE, version=3)
