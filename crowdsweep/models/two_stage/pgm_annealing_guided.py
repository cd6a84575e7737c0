"""A classifier guided by the graph model pgm-annealing: it learns what a whole crowd would say of clusters of items.

As `pgm-bp-guided`, around the graph model whose clusters are looked for by simulated annealing; what the classifier
says of an unseen item snaps to the cluster that this fits best (`_guided.py`).

Weerasooriya, Ororbia and Homan, row PGM-A of Table 3, which prints a divergence and an accuracy that a constant beats.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.aggregate import pgm_annealing
from crowdsweep.models.aggregate.pgm_annealing import PgmAnnealing
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.two_stage._guided import Guided, guided


@final
@dataclass(frozen=True, kw_only=True)
class PgmAnnealingGuided:
    """Hyper-parameters of the graph model and of the classifier around it."""

    clusters: PgmAnnealing = PgmAnnealing()
    guided: Guided = Guided()

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Fits the clusters, then the classifiers."""
        return self.guided.fit(self.clusters, data, contexts)


MODEL = guided(pgm_annealing.MODEL, PgmAnnealingGuided, version=3)
