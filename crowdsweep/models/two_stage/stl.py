"""Single-task learning: a classifier on each item's one class, gold or silver.

Silver is the class that most annotators chose. It is what `mtl` is compared with: the same network and training without
the second head. Reference: Fornaciari, Uma, Paun, Plank, Hovy and Poesio (NAACL 2021), there STL.

    y_i        targets, one-hot     `labels`

Deviations: an item whose silver votes tie is left out (`ties`), as the authors do for word stems; batches are drawn
anew each epoch; with patience (they train ten epochs and keep the best) the loss on the dev items' votes is watched,
gold of dev items being out of reach.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._cost import training_cost
from crowdsweep.models._em import label_probs_of_anybody
from crowdsweep.models.classifier import WatchedTraining
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo
from crowdsweep.models.lessons import Lesson, train_classifiers
from crowdsweep.models.two_stage._hard_and_soft import SPACE, TRAINING, HardLabels


@final
@dataclass(frozen=True, kw_only=True)
class STL:
    """Hyper-parameters: the labels, and those of the classifier's training."""

    hard: HardLabels = HardLabels()
    training: WatchedTraining = TRAINING

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Trains on one-hot targets; an answer is drawn from its item's probabilities, whoever gives it."""
        lessons = [
            Lesson(
                data=part,
                targets=self.hard.of(part, context),
                seeds=context.seeds.child("classifier"),
                report=context.report,
                dev_targets=lambda annotations, context=context: self.hard.silver(annotations, context),
            )
            for part, context in zip(data, contexts, strict=True)
        ]
        training = self.training
        trained = train_classifiers(training.classifier, lessons, training.schedule, contexts[0].device)
        return [
            FitResult(
                item_probs=one.probs,
                label_probs=label_probs_of_anybody(one.probs),
                predictor=one.predictor,
                objective=-one.losses,
                converged=one.converged,
                iterations=len(one.losses),
            )
            for one in trained
        ]


MODEL = ModelInfo(
    name="stl",
    title="Single-task learning: a classifier on gold or silver labels (with gold: an upper bound)",
    model=STL,
    steps="epochs",
    predicts_labels=True,
    source="Fornaciari et al. 2021, NAACL, STL",
    needs=frozenset({"features"}),
    supports=frozenset({"votes", "soft_answers"}),
    space=SPACE,
    cost=training_cost,
    label_symmetric=False,
    version=2,
)
