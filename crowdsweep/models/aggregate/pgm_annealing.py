"""PGM by simulated annealing: items and annotators in clusters, each pair of clusters with a label distribution.

The graph model of `pgm-bp`, of which the best hard clusters and distributions are looked for by random changes: what
raises the joint is taken, what lowers it now and then, ever less often as the temperature falls. An item is labelled
with what a whole crowd, with its mix of annotator clusters, would say of items of its cluster (the mean of its
annotators' clusters: of few, Omega's pseudo-counts would give much of it to clusters that nobody is in).

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
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._annotator_order import annotator_order
from crowdsweep.models._em import CHUNK, normalised
from crowdsweep.models.aggregate._annealing import Annealing, Proposal, Solution, Target
from crowdsweep.models.aggregate._bipartite import Edges
from crowdsweep.models.aggregate._clustered import GRAPH_SPACE, FittedClusters, RestartReporter
from crowdsweep.models.clusters import ClusteredCrowd, Clusters, Snap, snapped
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo
from crowdsweep.seeds import SeedStream

_PLACES = 4 * CHUNK  # answers times fits side by side

# Of several restarts only the best quarter goes on after this share of the sweeps. On jobs-q1..3 the best joint of ten
# restarts that all go on is higher by at most 1 %, that of a single restart lower by up to 2.3 %.
_TRIED, _KEPT = 0.15, 0.25


@final
@dataclass(frozen=True, kw_only=True)
class PgmAnnealing:
    """Hyper-parameters of the graph model and its annealing.

    Attributes:
        item_clusters, annotator_clusters: numbers of clusters.
        alpha, gamma, tau: Dirichlet parameters of label distributions, item and annotator shares; at 1 no pseudo-count.
        proposal: distributions are proposed near the current ones (`local`), or from their Dirichlets (`prior`).
        kappa: how near; the larger, the nearer.
        restarts: fits from random states, of which the one with the best joint is kept; after 15 % of the sweeps only
            the best quarter goes on.
        iterations: limit of sweeps.
        stop_after: stop after so many sweeps without a better joint.
        snap: an item is labelled with the distribution of its best cluster, or with the mixture of all.
    """

    item_clusters: Annotated[int, Ge(1)] = 10
    annotator_clusters: Annotated[int, Ge(1)] = 10
    alpha: Annotated[float, Ge(1)] = 2.0
    gamma: Annotated[float, Ge(1)] = 2.0
    tau: Annotated[float, Ge(1)] = 2.0
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
        """Returns the clusters of each data set."""
        alike: dict[str, list[int]] = {}
        for replica, part in enumerate(data):
            alike.setdefault(part.annotations.fingerprint(), []).append(replica)
        fitted: dict[int, FittedClusters] = {}
        for members in alike.values():
            crowd = ActiveCrowd.of(data[members[0]].annotations)
            together = max(1, _PLACES // (self.restarts * max(1, len(crowd.edges.item))))
            for begin in range(0, len(members), together):
                part = members[begin : begin + together]
                found = self._anneal(crowd, [contexts[replica] for replica in part])
                fitted.update(zip(part, found, strict=True))
        return [fitted[replica] for replica in range(len(data))]

    def _anneal(self, crowd: "ActiveCrowd", contexts: Sequence[FitContext]) -> list[FittedClusters]:
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
            best, value, waited = (
                best.replaced(better, state.solution),
                np.where(better, joint, value),
                np.where(better, 0, waited + 1),
            )
            for owner in np.unique(owners):
                runs[owner].note(float(value[owners == owner].max()))
            rests, told = waited >= self.stop_after, np.array([runs[owner].reporter.goes_on for owner in owners])
            leaves = rests | ~told | (number == self.iterations)
            if number == int(_TRIED * self.iterations):
                leaves |= self._is_behind(value, owners)
            if leaves.any():
                for column in np.flatnonzero(leaves):
                    runs[owners[column]].end(best, value, int(column), rests=bool(rests[column]))
                stays = ~leaves
                if not stays.any():
                    break
                owners, value, waited, best = owners[stays], value[stays], waited[stays], best.take(stays)
                generators = [one for one, kept in zip(generators, stays, strict=True) if kept]
                state = annealing.state(state.solution.take(stays))
        return [self._result(crowd, run, annealing.settled(run.best)) for run in runs]

    def _is_behind(
        self, value: Float64[np.ndarray, " columns"], owners: Int64[np.ndarray, " columns"]
    ) -> Bool[np.ndarray, " columns"]:
        """Tells which restarts are not among the best quarter of their seed's."""
        kept = int(np.ceil(_KEPT * self.restarts))
        return np.array(
            [(value[owners == owner] > own).sum() >= kept for own, owner in zip(value, owners, strict=True)]
        )

    def _target(self, edges: Edges) -> Target:
        return Target(
            clusters=self.item_clusters,
            annotator_clusters=self.annotator_clusters,
            classes=edges.n_classes,
            alpha=self.alpha,
            gamma=self.gamma,
            tau=self.tau,
            proposal=self.proposal,
            kappa=self.kappa,
        )

    def _result(self, active: "ActiveCrowd", run: "Run", found: Solution) -> FittedClusters:
        crowd = active.crowd(found)
        result = FitResult(
            item_probs=snapped(crowd.items, crowd.clusters.distributions, self.snap),
            label_probs=crowd.label_probs,
            objective=np.array(run.objective),
            converged=run.converged,
            iterations=len(run.objective),
            extras=crowd.extras,
        )
        return FittedClusters(result=result, crowd=crowd, reporter=run.reporter)


@dataclass(kw_only=True, eq=False)
class Run:
    """What has come of the restarts of one seed; `best` is of those that ended, a single column."""

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


@dataclass(frozen=True, kw_only=True, eq=False)
class ActiveCrowd:
    """The items and annotators with answers, which alone take part, in an order that their codes do not decide.

    Attributes:
        edges: the answers, between their places in the two lists.
        items, annotators: their codes.
        n_items, n_annotators: declared sizes.
    """

    edges: Edges
    items: Int64[np.ndarray, " active_items"]
    annotators: Int64[np.ndarray, " active_annotators"]
    n_items: int
    n_annotators: int

    @classmethod
    def of(cls, annotations: Annotations) -> "ActiveCrowd":
        """Lays out the answers. O(A log A + N K + T log T)."""
        items = np.flatnonzero(annotations.labels_per_item > 0)
        order = annotator_order(annotations, SeedStream(0).numpy("order"))  # the same for all seeds, which share it
        annotators = order[annotations.labels_per_annotator[order] > 0]
        item_place, annotator_place = (
            np.empty(size, np.int64) for size in (annotations.n_items, annotations.n_annotators)
        )
        item_place[items], annotator_place[annotators] = np.arange(len(items)), np.arange(len(annotators))
        active = Annotations.of(
            item=item_place[annotations.item],
            annotator=annotator_place[annotations.annotator],
            label=annotations.label,
            weight=annotations.weight,
            n_items=len(items),
            n_annotators=len(annotators),
            n_classes=annotations.n_classes,
        )
        return cls(
            edges=Edges.of(active),
            items=items,
            annotators=annotators,
            n_items=annotations.n_items,
            n_annotators=annotations.n_annotators,
        )

    def crowd(self, found: Solution) -> ClusteredCrowd:
        """Returns what a solution of one column says of everybody: each item's clusters given the annotators', and the
        other way round. O(A (G + L))."""
        edges, log_labels = self.edges, found.log_labels[..., 0]
        item, annotator = edges.item, edges.annotator
        w, z = found.items[:, 0], found.annotators[:, 0]
        of_items = [edges.sums_by_item(row[z[annotator], edges.label][:, None]) for row in log_labels]
        by_annotator = log_labels.transpose(1, 0, 2)
        of_annotators = [edges.sums_by_annotator(row[w[item], edges.label][:, None]) for row in by_annotator]
        labels = normalised_rows(np.exp(log_labels))
        shares = normalised_rows(np.exp(found.log_annotator_shares[:, 0]))
        active = normalised(found.log_annotator_shares[:, 0] + np.concatenate(of_annotators, axis=1))[0]
        mix = active.mean(axis=0) if len(active) else shares
        return ClusteredCrowd(
            clusters=Clusters(
                item_shares=normalised_rows(np.exp(found.log_item_shares[:, 0])),
                annotator_shares=shares,
                annotator_mix=mix,
                labels=labels,
                distributions=np.einsum("l,glk->gk", mix, labels),
            ),
            items=self._of_all_items(found, of_items),
            annotators=self._of_all_annotators(active, mix),
        )

    def _of_all_items(
        self, found: Solution, log_answers: Sequence[Float64[np.ndarray, "active 1"]]
    ) -> Float64[np.ndarray, "items clusters"]:
        """Returns each item's probability of each cluster; the shares where it has no answers."""
        log_joint = np.repeat(found.log_item_shares[:, 0][None], self.n_items, axis=0)
        log_joint[self.items] += np.concatenate(log_answers, axis=1)
        return normalised(log_joint)[0]

    def _of_all_annotators(
        self,
        active: Float64[np.ndarray, "active annotator_clusters"],
        mix: Float64[np.ndarray, " annotator_clusters"],
    ) -> Float64[np.ndarray, "annotators annotator_clusters"]:
        """Returns each annotator's probability of each cluster; where one has no answers, the others' mean, by how many
        they gave."""
        given = np.bincount(self.edges.annotator, minlength=len(active))
        mean = given @ active / given.sum() if len(active) else mix
        memberships = np.repeat(mean[None], self.n_annotators, axis=0)
        memberships[self.annotators] = active
        return memberships


MODEL = ModelInfo(
    name="pgm-annealing",
    title="PGM by simulated annealing: clusters of items and of annotators",
    model=PgmAnnealing,
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
