"""Plain supervised learning of label distributions (baseline PD of Weerasooriya, Ororbia and Homan).

The classifier h(x) learns each item's histogram of answers y_i by KL(y_i || h(x_i)): the whole distribution is wanted,
not a class behind it. The authors train a convolutional network on words, for a fixed number of epochs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import label_probs_of_anybody
from crowdsweep.models.classifier import WATCHED_SPACE, WatchedTraining
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.two_stage._pair import Aggregated, answered, fit_pairs, two_stage


@final
@dataclass(frozen=True, kw_only=True)
class PD:
    """Hyper-parameters: those of the classifier's training."""

    training: WatchedTraining = WatchedTraining()

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Trains on the histograms; an answer is drawn from its item's distribution, whoever gives it."""
        stages = [Aggregated(targets=answered(part, part.annotations.label_distribution())) for part in data]
        fitted = fit_pairs(self.training.classifier, self.training.schedule, data, contexts, stages)
        return [replace(one, label_probs=label_probs_of_anybody(one.item_probs)) for one in fitted]


TITLE = "Plain label-distribution learning: a classifier trained on histograms of answers"
MODEL = two_stage("pd", TITLE, PD, "Weerasooriya, Ororbia and Homan, baseline PD", space=WATCHED_SPACE, version=2)
