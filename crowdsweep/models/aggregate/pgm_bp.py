"""PGM by belief propagation: items and annotators both fall into clusters, each pair with a label distribution.

An answer's distribution depends on the cluster of the item and on that of the annotator. An item's label distribution
is then the average over the crowd's mix of annotator clusters, whoever happened to label it. EM alternates between
loopy belief propagation (E-step) and counting (M-step).

Weerasooriya, Ororbia and Homan, algorithm 3 and equation 1.

    K, L               numbers of clusters                       item_clusters, annotator_clusters
    w, z               clusters of items and annotators          PropagationState.items, PropagationState.annotators
    psi, Omega         cluster shares                            item_shares, annotator_shares
    Theta              label distributions [K, L, classes]       labels
    alpha, gamma, tau  Dirichlets over Theta, psi, Omega         alpha, gamma, tau (pseudo-counts are one less)

Deviations: the stop rule compares items with items and annotators with annotators (equation 5 swaps the indices);
products of messages are sums of logarithms; messages go on from where the last E-step left them. The M-step multiplies
node beliefs, as the listing does (`edge_marginals` uses the edges' own). Restarts begin at random label distributions:
those that random memberships make are all but equal, and belief propagation then forgets the memberships before it has
learned anything (annotators who contradict each other were never separated). They race: most are abandoned on the way
(`restarts`), as their arithmetic fills a core and ten to the end cost ten times one. Kept is the one with the best
objective, which is Bethe's approximation of the log evidence plus the log prior (the log joint at the node beliefs,
without their entropy, prefers the falsely sure). An answer's weight is a power of its messages: much as if the answer
were repeated, but repeats would pass messages to each other. Soft answers count by their label alone. What a cluster of
items is labelled with, and what an annotator without answers would say, mixes the clusters as the annotators have them,
not by Omega. Items and annotators without answers take no part. The classifier around it is `pgm-bp-guided`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Annotated, final

import numpy as np
from annotated_types import Ge
from jaxtyping import Float64

from crowdsweep.arrays import floored_log, normalised_rows
from crowdsweep.data.dataset import TrainingData
from crowdsweep.errors import BadInput
from crowdsweep.models.aggregate._active import ActiveCrowd
from crowdsweep.models.aggregate._bipartite import (
    ClusterParameters,
    Edges,
    PairLabels,
    PropagationState,
    edge_counts,
    propagate,
)
from crowdsweep.models.aggregate._clustered import GRAPH_SPACE, FittedClusters, GraphPrior, RestartReporter
from crowdsweep.models.clusters import Snap
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo
from crowdsweep.seeds import SeedStream

START_CONCENTRATION = 0.3  # of the Dirichlet that random memberships are drawn from
# Pseudo-answers per class, on average, of the Dirichlet around the crowd's label distribution that Theta is drawn from.
START_LABELS = 2.0
_RACE = ((0.15, 0.4), (1 / 3, 0.2))  # after which share of the steps, which share of the restarts goes on


@final
@dataclass(frozen=True, kw_only=True)
class PgmBp:
    """Hyper-parameters of the graph model.

    Attributes:
        graph: the model, of which this is one way to fit it.
        restarts: fits from random label distributions, of which the one with the best objective is kept; after 15 % of
            the steps the better two fifths go on, after a third of them the best fifth.
        iterations: limit of EM steps.
        tolerance: stop once the objective moves by less than this share of itself; else it has not converged.
        sweeps: limit of belief propagation's sweeps in one E-step.
        sweep_tolerance: mean KL divergence between a node's beliefs in two sweeps that ends an E-step.
        edge_marginals: count with the edges' own marginals in the M-step.
        snap: an item is labelled with the distribution of its best cluster, or with the mixture of all.
    """

    graph: GraphPrior = GraphPrior()
    restarts: Annotated[int, Ge(1)] = 5
    iterations: Annotated[int, Ge(1)] = 60
    tolerance: Annotated[float, Ge(0)] = 1e-5
    sweeps: Annotated[int, Ge(1)] = 10
    sweep_tolerance: Annotated[float, Ge(0)] = 1e-4
    edge_marginals: bool = False
    snap: Snap = "hard"

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Fits one graph after the other: their arithmetic fills a core."""
        return [one.result for one in self.fit_clusters(data, contexts)]

    def fit_clusters(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FittedClusters]:
        """Returns the clusters of each data set.

        Raises:
            BadInput: marginals of edges are asked for, of answers with weights.
        """
        if self.edge_marginals and any(part.annotations.weight is not None for part in data):
            raise BadInput(
                "pgm-bp, edge_marginals: expected answers without weights, for which alone marginals of edges are "
                "defined, got answers with weights; leave edge_marginals at false, or the weights out"
            )
        return [self._fit_graph(part, context) for part, context in zip(data, contexts, strict=True)]

    def _fit_graph(self, data: TrainingData, context: FitContext) -> FittedClusters:
        """Races the restarts. Each keeps annotations * annotator_clusters floats while it waits."""
        active = ActiveCrowd.of(data.annotations)
        edges = active.edges
        reporter = RestartReporter(context.report)
        running = [self._start(edges, context.seeds.child(f"restart {restart}")) for restart in range(self.restarts)]
        for until, kept in race(self.restarts, self.iterations):
            for run in running:
                self._advance(run, edges, until, reporter)
            running = sorted(running, key=lambda run: -run.value)[:kept]
        best = running[0]
        return FittedClusters.of(
            active.clustered(best.parameters, best.beliefs.items, best.beliefs.annotators),
            reporter,
            objective=np.array(best.objective),
            converged=best.converged,
            snap=self.snap,
        )

    def _start(self, edges: Edges, seeds: SeedStream) -> "GraphRun":
        """Returns random memberships and random label distributions."""
        n_item_clusters, n_annotator_clusters = self.graph.item_clusters, self.graph.annotator_clusters
        annotators = _random_memberships(seeds.numpy("annotators"), edges.n_annotators, n_annotator_clusters)
        items = _random_memberships(seeds.numpy("items"), edges.n_items, n_item_clusters)
        # One more of each label, as a Dirichlet takes no parameter of 0.
        answers = np.bincount(edges.label, weights=edges.weight, minlength=edges.n_classes) + 1.0
        labels = seeds.numpy("labels").dirichlet(
            START_LABELS * edges.n_classes * answers / answers.sum(), size=(n_item_clusters, n_annotator_clusters)
        )
        return GraphRun(
            parameters=ClusterParameters(
                item_shares=np.full(n_item_clusters, 1 / n_item_clusters),
                annotator_shares=np.full(n_annotator_clusters, 1 / n_annotator_clusters),
                labels=labels,
            ),
            beliefs=PropagationState.start(edges, items, annotators),
        )

    def _advance(self, run: "GraphRun", edges: Edges, until: int, reporter: RestartReporter) -> None:
        """Runs EM to this step, unless it converges or is told to stop before."""
        while reporter.goes_on and len(run.objective) < until and not run.converged:
            run.beliefs = propagate(
                edges, run.parameters, run.beliefs, sweeps=self.sweeps, tolerance=self.sweep_tolerance
            )
            counts = (
                edge_counts(edges, run.parameters, run.beliefs)
                if self.edge_marginals
                else edges.product_counts(run.beliefs.items, run.beliefs.annotators)
            )
            run.beliefs = replace(run.beliefs, item_cavities=None)  # made anew in the next sweep
            value = run.beliefs.log_evidence + self._log_prior(run.parameters)
            run.converged = bool(run.objective) and abs(value - run.value) <= self.tolerance * abs(value)
            run.parameters = self._maximisation(run.beliefs, counts)
            run.objective.append(value)
            reporter.note(value)

    def _maximisation(self, beliefs: PropagationState, counts: PairLabels) -> ClusterParameters:
        """M-step: expected counts plus pseudo-counts, normalised."""
        return ClusterParameters(
            item_shares=normalised_rows(beliefs.items.sum(axis=0) + (self.graph.gamma - 1)),
            annotator_shares=normalised_rows(beliefs.annotators.sum(axis=0) + (self.graph.tau - 1)),
            labels=normalised_rows(counts + (self.graph.alpha - 1)),
        )

    def _log_prior(self, parameters: ClusterParameters) -> float:
        """Returns the log density of the parameters, up to a constant."""
        return float(
            (self.graph.gamma - 1) * floored_log(parameters.item_shares).sum()
            + (self.graph.tau - 1) * floored_log(parameters.annotator_shares).sum()
            + (self.graph.alpha - 1) * floored_log(parameters.labels).sum()
        )


@dataclass(kw_only=True, eq=False)
class GraphRun:
    """The state of one restart; the objective has a value for each EM step."""

    parameters: ClusterParameters
    beliefs: PropagationState
    objective: list[float] = field(default_factory=list[float])
    converged: bool = False

    @property
    def value(self) -> float:
        """The objective as it is; -inf before any step."""
        return self.objective[-1] if self.objective else -np.inf


def race(restarts: int, iterations: int) -> list[tuple[int, int]]:
    """Returns to which step restarts run, and how many then go on, stage after stage."""
    stages = [(ceil(share * iterations), ceil(kept * restarts)) for share, kept in _RACE]
    return [*stages, (iterations, 1)]


def _steps(restarts: int, iterations: int) -> int:
    """Returns the number of EM steps of all restarts together, at most."""
    done, running, total = 0, restarts, 0
    for until, kept in race(restarts, iterations):
        total += running * (until - done)
        done, running = until, kept
    return total


def _random_memberships(rng: np.random.Generator, n_rows: int, n_clusters: int) -> Float64[np.ndarray, "rows clusters"]:
    return rng.dirichlet(np.full(n_clusters, START_CONCENTRATION), size=n_rows)


MODEL = ModelInfo(
    name="pgm-bp",
    title="PGM by belief propagation: clusters of items and of annotators",
    model=PgmBp,
    steps="iterations",
    predicts_labels=True,
    source="Weerasooriya, Ororbia and Homan, algorithm 3",
    space=GRAPH_SPACE,
    cost=lambda shape, params: (
        6.0
        * _steps(params["restarts"], params["iterations"])
        * shape.n_annotations
        * params["item_clusters"]
        * params["annotator_clusters"]
    ),
    version=6,
    label_symmetric=False,
)
