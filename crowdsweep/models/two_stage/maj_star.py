"""MAJ⋆: majority vote, of whose winners LIA's network of items then learns to tell them from the features.

It trusts all annotators alike and corrects them only where features say otherwise. Baseline of Platanios, Al-Shedivat,
Xing and Mitchell (2020), "Learning from Imperfect Annotations".

    MAJ       `majority-vote`, of soft answers their mean       targets, its winners
    h_theta   the network of items                              classifier

Deviations: the network's defaults are those of every network here, the paper's stand in `lia`; the authors train their
LIA code with one pseudo-annotator, whose difficulty and competence change nothing of h's loss; ours leaves them out,
and the entropy term (.01) of their code with them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.aggregate.majority_vote import MajorityVote
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.two_stage._pair import Training, two_stage
from crowdsweep.models.two_stage._star import SOURCE, STAR_SPACE, STAR_TRAINING, Ties, taught


@final
@dataclass(frozen=True, kw_only=True)
class MajStar:
    """Hyper-parameters of MAJ⋆.

    Attributes:
        ties: an item whose votes tie is taken for one of the tied classes, drawn; or for the first.
        training: of the network.
    """

    ties: Ties = "random"
    training: Training = STAR_TRAINING

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Counts votes and trains on their winners."""
        return self.training.fit(data, contexts, taught(MajorityVote(), data, contexts, self.ties))


MODEL = two_stage(
    "maj-star", "MAJ⋆: majority vote, then LIA's network of items", MajStar, SOURCE, space=STAR_SPACE, version=3
)
