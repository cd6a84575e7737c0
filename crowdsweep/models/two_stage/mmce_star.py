"""MMCE⋆: minimax conditional entropy, of whose classes LIA's network of items then learns to tell them from features.

Annotators and items have confusions of their own in the first stage; the second corrects it where features say
otherwise. Baseline of Platanios, Al-Shedivat, Xing and Mitchell (2020), "Learning from Imperfect Annotations".

    MMCE      `mmce` with gamma 1/4            targets, its likeliest classes
    h_theta   the network of items             classifier

Deviations: MMCE is that of Zhou et al. (`mmce`), which the authors' own minibatch version (far weaker) is not; else as
`maj-star`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.aggregate.mmce import Mmce
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.two_stage._pair import Training, two_stage
from crowdsweep.models.two_stage._star import SOURCE, STAR_SPACE, STAR_TRAINING, Ties, taught


@final
@dataclass(frozen=True, kw_only=True)
class MmceStar:
    """Hyper-parameters of MMCE⋆.

    Attributes:
        mmce: of the first stage.
        ties: an item whose classes tie is taken for one of them, drawn; or for the first.
        training: of the network.
    """

    mmce: Mmce = Mmce()
    ties: Ties = "random"
    training: Training = STAR_TRAINING

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Runs MMCE and trains on its classes."""
        return self.training.fit(data, contexts, taught(self.mmce, data, contexts, self.ties))


MODEL = two_stage(
    "mmce-star",
    "MMCE⋆: minimax conditional entropy, then LIA's network of items",
    MmceStar,
    SOURCE,
    space={"regularisation": {"values": [0.25, 1, 4]}, **STAR_SPACE},
    version=3,
)
