"""MMCE⋆-E: minimax conditional entropy, of whose classes a network then learns a vector for each item.

There are no features: it can but repeat what MMCE says. Baseline of Platanios, Al-Shedivat, Xing and Mitchell (2020),
"Learning from Imperfect Annotations".

    MMCE      `mmce` with gamma 1/4                             targets, its likeliest classes
    h_theta   the network of items, on vectors of 16 numbers    classifier, item_embedding

Deviations: as `mmce-star`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.aggregate.mmce import Mmce
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.two_stage._star import STAR_SPACE, EmbeddedTraining, Ties, embedded, taught


@final
@dataclass(frozen=True, kw_only=True)
class MmceStarE:
    """Hyper-parameters of MMCE⋆-E.

    Attributes:
        mmce: of the first stage.
        ties: an item whose classes tie is taken for one of them, drawn; or for the first.
        training: of the network.
    """

    mmce: Mmce = Mmce()
    ties: Ties = "random"
    training: EmbeddedTraining = EmbeddedTraining()

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Runs MMCE and trains on its classes."""
        return self.training.fit(data, contexts, taught(self.mmce, data, contexts, self.ties))


MODEL = embedded(
    "mmce-star-e",
    "MMCE⋆-E: minimax conditional entropy, then a vector for each item",
    MmceStarE,
    {"regularisation": {"values": [0.25, 1, 4]}, **STAR_SPACE},
    version=2,
)
