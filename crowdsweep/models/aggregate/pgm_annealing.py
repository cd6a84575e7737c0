"""PGM by simulated annealing: items and annotators in clusters, each pair of clusters with a label distribution.

The graph model of `pgm-bp`, whose best hard clusters and distributions are searched for by random changes: one that
raises the joint is accepted, one that lowers it sometimes, less and less often as the temperature falls. An item's
label distribution is that of its cluster, averaged over the crowd's mix of annotator clusters (the annotators' mean
membership, not Omega, whose pseudo-counts give much to clusters without members where annotators are few).

Weerasooriya, Ororbia and Homan, algorithm 2 and equations 1 and 3.

    K, L               numbers of clusters                  item_clusters, annotator_clusters
    w, z               clusters of items and annotators     State.items, State.annotators
    psi, Omega         cluster shares                       item_shares, annotator_shares
    Theta              label distributions                  labels [K, L, classes]
    alpha, gamma, tau  Dirichlets over Theta, psi, Omega    alpha, gamma, tau (pseudo-counts are one less)
    temperature        1 / (t + 1) in sweep t               the same

Deviations: the paper does not say what is proposed or when it ends. Clusters are proposed evenly among the others;
distributions from Dirichlet(kappa * current + 1) (`proposal: prior` draws them from their priors, which are all but
never taken once it is cold). All items are judged at once, then all annotators, which is exact (`_annealing.py`). The
best state is kept by the joint with the answers, which the listing leaves out, instead of a queue of states; in the end
its distributions become the best ones given its clusters, which only raises the joint and leaves no trace of chance in
clusters without answers. Items and annotators without answers take no part; an item then has the clusters' shares, an
annotator those of all answers. Probabilities of clusters are those of each item or annotator given all others in that
state. Weighted answers count as repeats, soft ones by their label alone. The classifier around it is
`pgm-annealing-guided`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, final

import numpy as np
from annotated_types import Ge, Gt
from jaxtyping import Bool, Float64, Int64

from crowdsweep.arrays import normalised_rows
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import CHUNK, chunks, normalised
from crowdsweep.models.aggregate._active import ActiveCrowd
from crowdsweep.models.aggregate._annealing import Annealing, Proposal, Solution, Target
from crowdsweep.models.aggregate._bipartite import ClusterParameters, Edges
from crowdsweep.models.aggregate._clustered import GRAPH_SPACE, FittedClusters, GraphPrior, RestartReporter
from crowdsweep.models.clusters import ClusteredCrowd, Snap
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo

_PLACES = 4 * CHUNK  # answers times fits side by side

# Of several restarts only the best quarter goes on after this share of the sweeps. On jobs-q1..3 the best joint of ten
# restarts that all go on is higher by at most 1 %, that of a single restart lower by up to 2.3 %.
_TRIED, _KEPT = 0.15, 0.25


@final
@dataclass(frozen=True, kw_only=True)
class PgmAnnealing:
    """Hyper-parameters of the graph model and its annealing.

    Attributes:
        graph: the model, of which this is one way to fit it.
        proposal: distributions are proposed near the current ones (`local`), or from their Dirichlets (`prior`).
        kappa: how near a `local` proposal is; the larger, the nearer.
        restarts: fits from random states, of which the one with the best joint is kept; after 15 % of the sweeps only
            the best quarter goes on.
        iterations: limit of sweeps.
        stop_after: stop after so many sweeps without a better joint.
        snap: an item is labelled with the distribution of its best cluster, or with the mixture of all.
    """

    graph: GraphPrior = GraphPrior()
    proposal: Proposal = "local"
    kappa: Annotated[float, Gt(0)] = 100.0
    restarts: Annotated[int, Ge(1)] = 5
    iterations: Annotated[int, Ge(1)] = 500
    stop_after: Annotated[int, Ge(1)] = 50
    snap: Snap = "hard"

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Fits all restarts of all seeds on the same answers side by side."""
        return [one.result for one in self.fit_clusters(data, contexts)]

    def fit_clusters(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FittedClusters]:
        alike: dict[str, list[int]] = {}
        for replica, part in enumerate(data):
            alike.setdefault(part.annotations.fingerprint(), []).append(replica)
        fitted: dict[int, FittedClusters] = {}
        for members in alike.values():
            crowd = ActiveCrowd.of(data[members[0]].annotations)
            for part in chunks(len(members), self.restarts * len(crowd.edges.item), _PLACES):
                found = self._anneal(crowd, [contexts[replica] for replica in members[part]])
                fitted.update(zip(members[part], found, strict=True))
        return [fitted[replica] for replica in range(len(data))]

    def _anneal(self, crowd: ActiveCrowd, contexts: Sequence[FitContext]) -> list[FittedClusters]:
        """Anneals all restarts of some seeds, each a column."""
        annealing = Annealing(edges=crowd.edges, target=self._target(crowd.edges))
        owners = np.repeat(np.arange(len(contexts)), self.restarts)
        seeds = [context.seeds.child(f"restart {restart}") for context in contexts for restart in range(self.restarts)]
        generators = [one.numpy("annealing") for one in seeds]
        state = annealing.start(generators)
        best, value = state.solution, state.log_joint(annealing.target)
        runs = [Run(reporter=RestartReporter(context.report), best=best) for context in contexts]
        waited = np.zeros(len(owners), np.int64)
        for number in range(1, self.iterations + 1):
            state = annealing.sweep(state, 1.0 / number, generators)
            joint = state.log_joint(annealing.target)
            better = joint > value
            best, value = best.replaced(better, state.solution), np.where(better, joint, value)
            waited = np.where(better, 0, waited + 1)
            for owner in np.unique(owners):
                runs[owner].note(float(value[owners == owner].max()))
            rests, wanted = waited >= self.stop_after, np.array([runs[owner].reporter.goes_on for owner in owners])
            leaves = rests | ~wanted | (number == self.iterations)
            if number == int(_TRIED * self.iterations):
                leaves |= self._is_behind(value, owners)
            if leaves.any():
                for column in np.flatnonzero(leaves):
                    runs[owners[column]].end(best, value, int(column), rests=bool(rests[column]))
                stays = ~leaves
                if not stays.any():
                    break
                # Each column draws from a generator of its own, so the others do not notice that some have left.
                owners, value, waited, best = owners[stays], value[stays], waited[stays], best.take(stays)
                generators = [one for one, kept in zip(generators, stays, strict=True) if kept]
                state = annealing.state(state.solution.take(stays))
        return [self._result(crowd, run, annealing.settled(run.best)) for run in runs]

    def _is_behind(
        self, value: Float64[np.ndarray, " columns"], owners: Int64[np.ndarray, " columns"]
    ) -> Bool[np.ndarray, " columns"]:
        """Returns which restarts are not among the best quarter of their seed's."""
        kept = int(np.ceil(_KEPT * self.restarts))
        return np.array(
            [(value[owners == owner] > own).sum() >= kept for own, owner in zip(value, owners, strict=True)]
        )

    def _target(self, edges: Edges) -> Target:
        return Target(
            clusters=self.graph.item_clusters,
            annotator_clusters=self.graph.annotator_clusters,
            classes=edges.n_classes,
            alpha=self.graph.alpha,
            gamma=self.graph.gamma,
            tau=self.graph.tau,
            proposal=self.proposal,
            kappa=self.kappa,
        )

    def _result(self, active: ActiveCrowd, run: "Run", found: Solution) -> FittedClusters:
        return FittedClusters.of(
            clustered(active, found),
            run.reporter,
            objective=np.array(run.objective),
            converged=run.converged,
            snap=self.snap,
        )


@dataclass(kw_only=True, eq=False)
class Run:
    """The restarts of one seed so far; `best` is the best of those that ended, a single column."""

    reporter: RestartReporter
    best: Solution
    objective: list[float] = field(default_factory=list[float])
    value: float = -np.inf
    converged: bool = False

    def note(self, value: float) -> None:
        """Takes the best joint after one more sweep, and reports it."""
        self.reporter.note(value)
        self.objective.append(self.reporter.best)

    def end(self, best: Solution, values: Float64[np.ndarray, " columns"], column: int, *, rests: bool) -> None:
        """Takes a restart that ends."""
        if values[column] > self.value:
            chosen = np.arange(len(values)) == column
            self.best, self.value, self.converged = best.take(chosen), float(values[column]), rests


def clustered(active: ActiveCrowd, found: Solution) -> ClusteredCrowd:
    """Returns each item's clusters given those of the annotators, and each annotator's given those of the items, in a
    solution of one column. O(A (G + L)).

    An annotator without answers has the mean of the others' probabilities, each weighted by how many answers it gave.
    """
    edges, log_labels = active.edges, found.log_labels[..., 0]
    w, z = found.items[:, 0], found.annotators[:, 0]
    log_item_shares, log_annotator_shares = found.log_item_shares[:, 0], found.log_annotator_shares[:, 0]
    by_annotator = log_labels.transpose(1, 0, 2)
    of_items = [edges.sums_by_item(row[z[edges.annotator], edges.label][:, None]) for row in log_labels]
    of_annotators = [edges.sums_by_annotator(row[w[edges.item], edges.label][:, None]) for row in by_annotator]
    items = normalised(log_item_shares + np.concatenate(of_items, axis=1))[0]
    annotators = normalised(log_annotator_shares + np.concatenate(of_annotators, axis=1))[0]
    given = np.bincount(edges.annotator, minlength=len(annotators))
    parameters = ClusterParameters(
        item_shares=normalised_rows(np.exp(log_item_shares)),
        annotator_shares=normalised_rows(np.exp(log_annotator_shares)),
        labels=normalised_rows(np.exp(log_labels)),
    )
    unknown = given @ annotators / given.sum() if len(annotators) else None
    return active.clustered(parameters, items, annotators, unknown)


MODEL = ModelInfo(
    name="pgm-annealing",
    title="PGM by simulated annealing: clusters of items and of annotators",
    model=PgmAnnealing,
    steps="iterations",
    predicts_labels=True,
    source="Weerasooriya, Ororbia and Homan, algorithm 2",
    space={**GRAPH_SPACE, "kappa": {"values": [20, 100, 500]}},
    cost=lambda shape, params: (
        params["restarts"]
        * params["iterations"]
        * (30.0 * shape.n_annotations + 80.0 * shape.n_classes * params["item_clusters"] * params["annotator_clusters"])
    ),
    version=2,
    monotone_objective=True,
    label_symmetric=False,
)
