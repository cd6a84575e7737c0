"""A classifier guided by a finite multinomial mixture: it learns the label distributions of clusters of items.

The mixture pools the few answers of each item with those of items that look alike; the classifier learns from the
pooled distributions, and what it says of an unseen item snaps to the cluster that this fits best (`_guided.py`).

Weerasooriya, Ororbia and Homan, row FMM of Table 3. The printed accuracies are reached only where an item's own labels
choose its cluster, and no model here does that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.aggregate import fmm
from crowdsweep.models.aggregate.fmm import FiniteMultinomialMixture
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.two_stage._guided import Guided, guided


@final
@dataclass(frozen=True, kw_only=True)
class FmmGuided:
    """Hyper-parameters of the mixture and of the classifier around it."""

    clusters: FiniteMultinomialMixture = FiniteMultinomialMixture()
    guided: Guided = Guided()

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Fits the clusters, then the classifiers."""
        return self.guided.fit(self.clusters, data, contexts)


MODEL = guided(fmm.MODEL, FmmGuided, version=3)
