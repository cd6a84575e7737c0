"""GLAD+MLP: the classes that GLAD finds, then a classifier that may be trained as long as end-to-end models are.

GLAD weighs each label by its annotator's ability and its item's easiness; the classifier learns the likeliest class.
Baseline of Chen et al. (2020), IJCAI, Tables 1 and 2. It is `mv-mlp` with `glad` for the vote.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.aggregate.glad import Glad
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.two_stage._pair import LONG_SPACE, Training, aggregated, hardened, two_stage


@final
@dataclass(frozen=True, kw_only=True)
class GladMLP:
    """Hyper-parameters of GLAD with a classifier.

    Attributes:
        glad: what makes the targets.
        training: of the classifier.
    """

    glad: Glad = Glad()
    training: Training = Training()

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Runs GLAD and trains on the likeliest classes."""
        return self.training.fit(data, contexts, hardened(aggregated(self.glad, data, contexts), contexts))


TITLE = "GLAD+MLP: the classes that GLAD finds, then a classifier"
MODEL = two_stage("glad-mlp", TITLE, GladMLP, "Chen et al. 2020, section 4 (GLAD+MLP)", space=LONG_SPACE, version=3)
