"""A classifier guided by the graph model pgm-bp: it learns what a whole crowd would say of each cluster of items.

The graph model takes the accident of who happened to answer out of an item's labels; the classifier learns from what is
left, and what it says of an unseen item snaps to the cluster that this fits best (`_guided.py`).

Weerasooriya, Ororbia and Homan, row PGM-BP of Table 3, whose printed accuracies are those of the most frequent class.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.aggregate import pgm_bp
from crowdsweep.models.aggregate.pgm_bp import PgmBp
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.two_stage._guided import Guided, guided


@final
@dataclass(frozen=True, kw_only=True)
class PgmBpGuided:
    """Hyper-parameters of the graph model and of the classifier around it."""

    clusters: PgmBp = PgmBp()
    guided: Guided = Guided()

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Fits the clusters, then the classifiers."""
        return self.guided.fit(self.clusters, data, contexts)


MODEL = guided(pgm_bp.MODEL, PgmBpGuided, version=5)
