"""What a model of clusters hands to whoever builds on its clusters, and how its restarts report."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.clusters import ClusteredCrowd
from crowdsweep.models.contract import FitContext, FitResult, Report


@dataclass
class RestartReporter:
    """Reports the best objective of a replica's restarts so far, step after step."""

    report: Report
    step: int = 0
    best: float = -np.inf
    goes_on: bool = True

    def note(self, objective: float) -> bool:
        """Reports one step; returns whether the fit goes on."""
        self.best = max(self.best, objective)
        self.step += 1
        self.goes_on = self.report(self.step, self.best)
        return self.goes_on


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedClusters:
    """A fitted model of clusters: its result, what it knows of clusters, and who reported its steps."""

    result: FitResult
    crowd: ClusteredCrowd
    reporter: RestartReporter


@runtime_checkable
class ClusterModel(Protocol):
    """A model of labels alone that finds clusters of items."""

    def fit_clusters(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FittedClusters]:
        """Returns the clusters of each data set."""
        ...
