"""Shared by cluster models: their result, the reports of their restarts, the graph model's hyper-parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, final, runtime_checkable

import numpy as np
from annotated_types import Ge

from crowdsweep.arrays import Objective
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.clusters import ClusteredCrowd, Snap, projected
from crowdsweep.models.contract import FitContext, FitResult, Report


@final
@dataclass(frozen=True, kw_only=True)
class GraphPrior:
    """Hyper-parameters of the model of clusters of items and of annotators, whichever way it is fitted.

    Attributes:
        item_clusters: K, number of clusters of items.
        annotator_clusters: L, number of clusters of annotators.
        alpha: Dirichlet parameter of the label distributions, Theta; at 1 it adds nothing.
        gamma: Dirichlet parameter of the shares of the items' clusters, psi; at 1 it adds nothing.
        tau: Dirichlet parameter of the shares of the annotators' clusters, Omega; at 1 it adds nothing.
    """

    item_clusters: Annotated[int, Ge(1)] = 10
    annotator_clusters: Annotated[int, Ge(1)] = 10
    alpha: Annotated[float, Ge(1)] = 2.0
    gamma: Annotated[float, Ge(1)] = 2.0
    tau: Annotated[float, Ge(1)] = 2.0


GRAPH_SPACE: Mapping[str, Any] = {
    "item_clusters": {"min": 3, "max": 20},
    "annotator_clusters": {"min": 3, "max": 20},
    "alpha": {"values": [1.01, 1.1, 1.5, 2, 5]},
    "gamma": {"values": [1.01, 2, 5]},
    "tau": {"values": [1.01, 2, 5]},
}
"""What is searched of it by default."""


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
    """A fitted cluster model: its result, its clusters, and the reporter of its steps."""

    result: FitResult
    crowd: ClusteredCrowd
    reporter: RestartReporter

    @classmethod
    def of(
        cls, crowd: ClusteredCrowd, reporter: RestartReporter, *, objective: Objective, converged: bool, snap: Snap
    ) -> "FittedClusters":
        """Returns the result of a fit whose items are labelled with the distributions of their clusters.

        Args:
            snap: an item has the distribution of its best cluster, or the mixture of all.
        """
        result = FitResult(
            item_probs=projected(crowd.items, crowd.clusters.distributions, snap),
            label_probs=crowd.label_probs,
            objective=objective,
            converged=converged,
            iterations=len(objective),
            extras=crowd.extras,
        )
        return cls(result=result, crowd=crowd, reporter=reporter)


@runtime_checkable
class ClusterModel(Protocol):
    """A model of labels alone that finds clusters of items."""

    def fit_clusters(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FittedClusters]:
        """Returns the clusters of each data set."""
        ...
