"""Finite multinomial mixture: items fall into clusters, and a cluster is a label distribution.

All answers to an item are drawn from the distribution of its cluster, whoever gives them, so only label counts matter
and the cost does not depend on the number of annotators. An item's label distribution is then that of its cluster: few
answers per item are pooled with those of items that look alike.

Weerasooriya, Ororbia and Homan, the FMM baseline (there: variational Bayes of bnpy).

    pi       cluster shares                       item_shares
    theta    label distribution of each cluster   labels
    w_i      cluster of item i                    memberships (posterior)
    lambda   Dirichlet over labels                label_pseudocount (added to counts; variational: its parameter)
    gamma    Dirichlet over clusters              cluster_pseudocount (likewise)

Deviations: MAP-EM, variational Bayes being an option (`method`); the restart with the best objective instead of the one
with the median training KL. As in the paper's code, what a cluster predicts is the summed counts of the items assigned
to it by argmax. An item without answers has memberships pi and does not count in the M-step. Restarts begin at random
training items, each mixed with a second one so that equal items do not begin as equal clusters. The classifier around
it is `fmm-guided`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, final

import numpy as np
from annotated_types import Ge
from jaxtyping import Float64, Int64
from scipy.special import digamma, gammaln

from crowdsweep.arrays import floored_log, normalised_rows
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import chunks, normalised, winners
from crowdsweep.models.aggregate._clustered import FittedClusters, RestartReporter
from crowdsweep.models.clusters import ClusteredCrowd, Clusters, Snap
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo

Method = Literal["map", "variational"]
Counts = Float64[np.ndarray, "fits rows classes"]
Times = Float64[np.ndarray, "fits rows"]
Memberships = Float64[np.ndarray, "fits rows clusters"]
Shares = Float64[np.ndarray, "fits clusters"]
Distributions = Float64[np.ndarray, "fits clusters classes"]


@final
@dataclass(frozen=True, kw_only=True)
class FiniteMultinomialMixture:
    """Hyper-parameters of the mixture.

    Attributes:
        item_clusters: number of clusters of items.
        method: the most probable shares and distributions (`map`), or a Dirichlet over each (`variational`, which
            takes pseudo-counts above 0): small clusters then fade.
        label_pseudocount: added to each cluster's count of each label.
        cluster_pseudocount: added to each cluster's number of items.
        restarts: fits from different random items, of which the one with the best objective is kept.
        iterations: limit of EM steps.
        tolerance: stop once the objective rises by less than this share of itself.
        snap: an item is labelled with the distribution of its best cluster, or with the mixture of all.
    """

    item_clusters: Annotated[int, Ge(1)] = 10
    method: Method = "map"
    label_pseudocount: Annotated[float, Ge(0)] = 0.1
    cluster_pseudocount: Annotated[float, Ge(0)] = 0.5
    restarts: Annotated[int, Ge(1)] = 5
    iterations: Annotated[int, Ge(1)] = 200
    tolerance: Annotated[float, Ge(0)] = 1e-6
    snap: Snap = "hard"

    def __post_init__(self) -> None:
        """Raises ValueError: variational Bayes is asked for with a prior that is none."""
        if self.method == "variational" and min(self.label_pseudocount, self.cluster_pseudocount) <= 0:
            raise ValueError(
                "method: variational needs label_pseudocount and cluster_pseudocount above 0, the parameters of its "
                f"Dirichlets; got {self.label_pseudocount} and {self.cluster_pseudocount}"
            )

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        return [one.result for one in self.fit_clusters(data, contexts)]

    def fit_clusters(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FittedClusters]:
        # Seeds that share their data share what is made of them.
        table_of = {key: part.annotations.counts.toarray() for key, part in {id(part): part for part in data}.items()}
        tables = [table_of[id(part)] for part in data]
        answered = {id(table): normalised_rows(table[table.any(axis=1)]) for table in table_of.values()}
        alike = AlikeItems.of(tables)
        fits = [(replica, restart) for replica in range(len(data)) for restart in range(self.restarts)]
        best: dict[int, Mixture] = {}
        reporters = [RestartReporter(context.report) for context in contexts]
        # The memberships of those that run together stay small.
        for part in chunks(len(fits), 4 * max(alike.n_rows, 1) * self.item_clusters):
            members = [(replica, restart) for replica, restart in fits[part] if reporters[replica].goes_on]
            if not members:
                continue
            replicas = np.array([replica for replica, _ in members])
            starts = np.stack(
                [
                    self._start(answered[id(tables[replica])], contexts[replica].seeds.numpy(f"restart {restart}"))
                    for replica, restart in members
                ]
            )
            for replica, mixture in zip(replicas.tolist(), self._run(alike, replicas, starts, reporters), strict=True):
                if replica not in best or mixture.objective[-1] > best[replica].objective[-1]:
                    best[replica] = mixture
        return [self._result(best[replica], counts, reporters[replica]) for replica, counts in enumerate(tables)]

    def _start(
        self, shares: Float64[np.ndarray, "answered classes"], rng: np.random.Generator
    ) -> Float64[np.ndarray, "clusters classes"]:
        """Draws label distributions to begin with: a random answered item each, mixed with a second one."""
        if not len(shares):
            return np.full((self.item_clusters, shares.shape[1]), 1.0 / shares.shape[1])
        rounds = -(-self.item_clusters // len(shares))
        first = np.concatenate([rng.permutation(len(shares)) for _ in range(rounds)])[: self.item_clusters]
        second = rng.integers(len(shares), size=self.item_clusters)
        mixing = rng.uniform(0, 0.5, size=(self.item_clusters, 1))
        start = (1 - mixing) * shares[first] + mixing * shares[second]
        return 0.9 * start + 0.1 * shares.mean(axis=0)  # no label is impossible in a cluster to begin with

    def _run(
        self,
        alike: "AlikeItems",
        replicas: Int64[np.ndarray, " fits"],
        start: Distributions,
        reporters: Sequence[RestartReporter],
    ) -> list["Mixture"]:
        """Runs EM on several fits at once, each on the counts of its replica; each stops by itself."""
        n_fits, n_clusters = len(replicas), self.item_clusters
        shares, labels = np.full((n_fits, n_clusters), 1.0 / n_clusters), start
        if self.method == "variational":  # as if the answers were spread over the clusters evenly
            n_items, n_answers = alike.times.sum(axis=1), (alike.counts.sum(axis=2) * alike.times).sum(axis=1)
            shares = self.cluster_pseudocount + shares * n_items[replicas][:, None]
            labels = self.label_pseudocount + start * (n_answers[replicas] / n_clusters)[:, None, None]
        done: dict[int, Mixture] = {}
        history = np.full((n_fits, self.iterations + 1), -np.inf)  # the first column stands before the first step
        active, first = np.arange(n_fits), _firsts(replicas)
        mine, times = alike.counts[replicas], alike.times[replicas]
        for number in range(self.iterations):
            log_shares, log_labels = self._logarithms(shares), self._logarithms(labels)
            memberships, evidence = expectation(mine, times, log_shares, log_labels)
            objective = evidence + self._log_prior(shares, labels)
            history[active, number + 1] = objective
            # The fits of a replica are neighbours, and those that ended are gone from `first`: no segment is empty, for
            # which reduceat would return a neighbour's value.
            best = zip(replicas[active[first]].tolist(), np.maximum.reduceat(objective, first).tolist(), strict=True)
            ended = [replica for replica, value in best if not reporters[replica].note(value)]
            converged = objective - history[active, number] <= self.tolerance * np.abs(objective)
            stops = converged | (number == self.iterations - 1)
            if ended:
                stops |= np.isin(replicas[active], ended)
            for place in np.flatnonzero(stops).tolist():
                done[int(active[place])] = Mixture(
                    shares=normalised_rows(shares[place]),
                    labels=normalised_rows(labels[place]),
                    log_shares=log_shares[place],
                    log_labels=log_labels[place],
                    objective=history[active[place], 1 : number + 2],
                    converged=bool(converged[place]),
                )
            if stops.any():
                active, mine, times, memberships = active[~stops], mine[~stops], times[~stops], memberships[~stops]
                if not len(active):
                    break
                first = _firsts(replicas[active])
            shares, labels = self.maximisation(mine, memberships)
        return [done[fit] for fit in range(n_fits)]

    def maximisation(self, counts: Counts, memberships: Memberships) -> tuple[Shares, Distributions]:
        """M-step: counts plus pseudo-counts, normalised; uniform where there is no mass at all. Variational: not
        normalised, the parameters of the Dirichlets."""
        shares = memberships.sum(axis=1) + self.cluster_pseudocount
        labels = memberships.transpose(0, 2, 1) @ counts + self.label_pseudocount
        return (shares, labels) if self.method == "variational" else (normalised_rows(shares), normalised_rows(labels))

    def _logarithms(self, table: Float64[np.ndarray, "*rows"]) -> Float64[np.ndarray, "*rows"]:
        """Returns log of the probabilities along the last axis; variational: their expectation under the Dirichlet."""
        return expected_logs(table) if self.method == "variational" else floored_log(table)

    def _log_prior(self, shares: Shares, labels: Distributions) -> Float64[np.ndarray, " fits"]:
        """Returns what the prior adds to the objective; variational: minus the divergences of the Dirichlets from it,
        which makes of the objective the evidence lower bound."""
        if self.method == "variational":
            of_labels = divergence_from(labels, self.label_pseudocount).sum(axis=1)
            return -of_labels - divergence_from(shares, self.cluster_pseudocount)
        of_labels = self.label_pseudocount * floored_log(labels).sum(axis=(1, 2))
        return of_labels + self.cluster_pseudocount * floored_log(shares).sum(axis=1)

    def _result(
        self, mixture: "Mixture", counts: Float64[np.ndarray, "items classes"], reporter: RestartReporter
    ) -> FittedClusters:
        memberships, _ = normalised(mixture.log_shares + counts @ mixture.log_labels.T)
        members = winners(memberships) * (counts.sum(axis=1, keepdims=True) > 0)
        distributions = normalised_rows(members.T @ counts, at_zero=mixture.labels)
        crowd = ClusteredCrowd(
            clusters=Clusters(
                item_shares=mixture.shares,
                annotator_shares=np.ones(1),
                annotator_mix=np.ones(1),
                labels=mixture.labels[:, None, :],
                distributions=distributions,
            ),
            items=memberships,
        )
        return FittedClusters.of(
            crowd, reporter, objective=mixture.objective, converged=mixture.converged, snap=self.snap
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class AlikeItems:
    """The distinct rows of label counts of each replica, and how many items have them: with few answers per item these
    are far fewer than items, whose memberships are the same.

    Attributes:
        counts: of each label, in ascending order; padded with zeros.
        times: how many items have such counts; 0 for counts of zero, whose items have no cluster of their own.
    """

    counts: Float64[np.ndarray, "replicas rows classes"]
    times: Float64[np.ndarray, "replicas rows"]

    @property
    def n_rows(self) -> int:
        return self.counts.shape[1]

    @classmethod
    def of(cls, tables: Sequence[Float64[np.ndarray, "_ classes"]]) -> "AlikeItems":
        """Takes each replica's items [items, classes]. O(N log N K)."""
        own = {id(table): table for table in tables}
        kinds = {key: np.unique(table, axis=0, return_counts=True) for key, table in own.items()}
        found = [kinds[id(table)] for table in tables]
        n_rows, n_classes = max(len(rows) for rows, _ in found), tables[0].shape[1]
        counts, times = np.zeros((len(found), n_rows, n_classes)), np.zeros((len(found), n_rows))
        for replica, (rows, number) in enumerate(found):
            counts[replica, : len(rows)], times[replica, : len(rows)] = rows, number * rows.any(axis=1)
        return cls(counts=counts, times=times)


@dataclass(frozen=True, kw_only=True, eq=False)
class Mixture:
    """A fitted mixture: its shares, each cluster's label distribution, what stood for their logarithms in the last
    E-step, the objective of each step."""

    shares: Float64[np.ndarray, " clusters"]
    labels: Float64[np.ndarray, "clusters classes"]
    log_shares: Float64[np.ndarray, " clusters"]
    log_labels: Float64[np.ndarray, "clusters classes"]
    objective: Float64[np.ndarray, " steps"]
    converged: bool


def _firsts(replicas: Int64[np.ndarray, " fits"]) -> Int64[np.ndarray, " replicas"]:
    """Returns where the fits of each replica begin, those of one standing together."""
    return np.flatnonzero(np.diff(replicas, prepend=-1))


def expectation(
    counts: Counts, times: Times, log_shares: Shares, log_labels: Distributions
) -> tuple[Memberships, Float64[np.ndarray, " fits"]]:
    """E-step of several fits: memberships times the items that have them, and the log-likelihood of all counts.

    The multinomial coefficients, which no parameter changes, are left out of the likelihood. O(rows G K) per fit.
    """
    memberships, evidence = normalised(counts @ log_labels.transpose(0, 2, 1) + log_shares[:, None, :], in_place=True)
    memberships *= times[:, :, None]
    return memberships, (evidence * times).sum(axis=1)


def expected_logs(parameters: Float64[np.ndarray, "*rows"]) -> Float64[np.ndarray, "*rows"]:
    """Returns E[log p] of p drawn from a Dirichlet with these parameters, along the last axis."""
    return digamma(parameters) - digamma(parameters.sum(axis=-1, keepdims=True))


def divergence_from(parameters: Float64[np.ndarray, "*rows _"], prior: float) -> Float64[np.ndarray, "*rows"]:
    """Returns KL(Dirichlet(parameters) || Dirichlet(prior, prior, ...)) along the last axis, in nats."""
    size = parameters.shape[-1]
    normalisers = gammaln(parameters.sum(axis=-1)) - gammaln(parameters).sum(axis=-1)
    normalisers -= gammaln(size * prior) - size * gammaln(prior)
    return normalisers + ((parameters - prior) * expected_logs(parameters)).sum(axis=-1)


MODEL = ModelInfo(
    name="fmm",
    title="Finite multinomial mixture: clusters of items with one label distribution each",
    model=FiniteMultinomialMixture,
    steps="iterations",
    predicts_labels=True,
    source="Weerasooriya, Ororbia and Homan, FMM",
    supports=frozenset({"votes", "soft_answers"}),
    space={
        "item_clusters": {"min": 2, "max": 40},
        "label_pseudocount": {"values": [0.01, 0.1, 1]},
        "cluster_pseudocount": {"values": [0.5, 1, 2]},
    },
    cost=lambda shape, params: (
        0.5 * params["restarts"] * params["iterations"] * shape.n_items * shape.n_classes * params["item_clusters"]
    ),
    version=3,
    monotone_objective=True,
)
