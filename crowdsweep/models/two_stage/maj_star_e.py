"""MAJ⋆-E: majority vote, of whose winners a network then learns a vector for each item.

There are no features: it can but repeat the vote, with ties broken, and shows what LIA-E's network adds by itself,
which is nothing. Baseline of Platanios, Al-Shedivat, Xing and Mitchell (2020), "Learning from Imperfect Annotations".

    MAJ       `majority-vote`, of soft answers their mean       targets, its winners
    h_theta   the network of items, on vectors of 16 numbers    classifier, item_embedding

Deviations: as `maj-star`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.aggregate.majority_vote import MajorityVote
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.two_stage._star import STAR_SPACE, EmbeddedTraining, Ties, embedded, taught


@final
@dataclass(frozen=True, kw_only=True)
class MajStarE:
    """Hyper-parameters of MAJ⋆-E.

    Attributes:
        ties: an item whose votes tie is taken for one of the tied classes, drawn; or for the first.
        training: of the network.
    """

    ties: Ties = "random"
    training: EmbeddedTraining = EmbeddedTraining()

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Counts votes and trains on their winners."""
        return self.training.fit(data, contexts, taught(MajorityVote(), data, contexts, self.ties))


MODEL = embedded("maj-star-e", "MAJ⋆-E: majority vote, then a vector for each item", MajStarE, STAR_SPACE, version=2)
