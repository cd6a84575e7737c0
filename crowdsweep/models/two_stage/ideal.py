"""Ideal: the classifier trained on gold, which no crowd model may see: a bound, marked in every report.

Items without gold are left out; annotations are not looked at. Mena and Nanculef (CIARP 2019): targets z_i (gold).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from crowdsweep.data.dataset import TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.two_stage._pair import Aggregated, Training, two_stage


@final
@dataclass(frozen=True, kw_only=True)
class Ideal:
    """Hyper-parameters: those of the classifier's training."""

    training: Training = Training()

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Trains on gold; raises FitFailed where a context brings none."""
        targets = [np.zeros((part.n_items, part.n_classes)) for part in data]
        for own, context in zip(targets, contexts, strict=True):
            if context.gold is None:
                raise FitFailed("expected gold of the training items, got none: only a dataset with gold can train it")
            own[context.gold.item, context.gold.label] = 1.0
        return self.training.fit(data, contexts, [Aggregated(targets=own, dev_targets=None) for own in targets])


TITLE = "Ideal: a classifier trained on gold, an upper bound"
SOURCE = "Mena and Nanculef 2019, section 4 (Ideal)"
MODEL = two_stage("ideal", TITLE, Ideal, SOURCE, needs=frozenset({"gold"}), predicts_labels=False, version=3)
