"""Simulated annealing of hard clusters of items and annotators, several fits of one data set side by side.

The log joint that is maximised, with Dirichlet priors over the parameters, clusters of items w and of annotators z, and
answers y:

    (alpha - 1) sum log Theta + (gamma - 1) sum log psi + (tau - 1) sum log Omega
    + sum over items of log psi[w_i] + sum over annotators of log Omega[z_t]
    + sum over answers of log Theta[w_i, z_t, y]

A sweep proposes each distribution of Theta, then psi, then Omega, then another cluster for every item, then for every
annotator. Given z and Theta, items do not touch each other's terms (nor does one distribution of Theta another's), so
that all proposals of a kind are exact when they are judged at once: one look-up an answer, and one sum over the answers
of each item. A proposal that changes the joint by delta is taken with probability min(1, exp(delta / temperature)).

The last axis of every array are columns: fits on the same answers, each with random numbers of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64, Int64

from crowdsweep.arrays import floored_log, normalised_rows
from crowdsweep.models.aggregate._bipartite import Edges

Proposal = Literal["local", "prior"]
Codes = Int64[np.ndarray, "_ columns"]  # of clusters: of items, or of annotators
LabelTable = Float64[np.ndarray, "clusters annotator_clusters classes columns"]
Shares = Float64[np.ndarray, "_ columns"]
EdgePlaces = Int64[np.ndarray, "edges columns"]
PerColumn = Float64[np.ndarray, " columns"]


@dataclass(frozen=True, kw_only=True)
class Target:
    """Sizes, priors and proposals of the model that is annealed.

    Attributes:
        clusters, annotator_clusters, classes: sizes of Theta.
        alpha, gamma, tau: Dirichlet parameters of Theta, psi and Omega.
        proposal: distributions are proposed near the current ones, or from their Dirichlets.
        kappa: how near: from Dirichlet(kappa * current + 1).
    """

    clusters: int
    annotator_clusters: int
    classes: int
    alpha: float
    gamma: float
    tau: float
    proposal: Proposal
    kappa: float

    @property
    def n_labels(self) -> int:
        """How many numbers Theta has."""
        return self.clusters * self.annotator_clusters * self.classes

    @property
    def prior_shapes(self) -> Float64[np.ndarray, " numbers"]:
        """The Dirichlet parameters of Theta, psi and Omega, one after the other."""
        return np.repeat([self.alpha, self.gamma, self.tau], [self.n_labels, self.clusters, self.annotator_clusters])

    def proposal_shapes(self, now: "Solution") -> Float64[np.ndarray, "numbers columns"]:
        """Returns the Dirichlet parameters of the next proposals."""
        if self.proposal == "prior":
            return np.repeat(self.prior_shapes[:, None], now.n_columns, axis=1)
        parts = (now.log_labels.reshape(self.n_labels, -1), now.log_item_shares, now.log_annotator_shares)
        return self.kappa * np.exp(np.concatenate(parts)) + 1.0

    def log_distributions(self, gammas: Float64[np.ndarray, "numbers columns"]) -> tuple[LabelTable, Shares, Shares]:
        """Returns the floored logarithms of Theta, psi and Omega, which are these draws normalised."""
        of_pairs = gammas[: self.n_labels].reshape(self.clusters, self.annotator_clusters, self.classes, -1)
        of_items, of_annotators = np.split(gammas[self.n_labels :], [self.clusters])
        return (
            floored_log(of_pairs / of_pairs.sum(axis=2, keepdims=True)),
            floored_log(of_items / of_items.sum(axis=0)),
            floored_log(of_annotators / of_annotators.sum(axis=0)),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """A value of all unknowns, in each column.

    Attributes:
        items, annotators: w and z.
        log_labels, log_item_shares, log_annotator_shares: logarithms of Theta, psi and Omega.
    """

    items: Codes
    annotators: Codes
    log_labels: LabelTable
    log_item_shares: Shares
    log_annotator_shares: Shares

    @property
    def n_columns(self) -> int:
        return self.items.shape[1]

    def take(self, columns: Bool[np.ndarray, " columns"]) -> "Solution":
        """Returns a copy of some of the columns."""
        return Solution(**{name: np.ascontiguousarray(array[..., columns]) for name, array in vars(self).items()})

    def replaced(self, columns: Bool[np.ndarray, " columns"], other: "Solution") -> "Solution":
        """Returns these columns of the other one, and its own elsewhere."""
        return Solution(**{name: np.where(columns, vars(other)[name], array) for name, array in vars(self).items()})


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """The state of the fits.

    Attributes:
        places: where in the flat `log_labels` the answers are looked up.
        counts: how many answers each pair of clusters has of each label.
        item_sizes, annotator_sizes: of the clusters.
    """

    solution: Solution
    places: EdgePlaces
    counts: LabelTable
    item_sizes: Shares
    annotator_sizes: Shares

    def weights(self, target: Target) -> tuple[LabelTable, Shares, Shares]:
        """Returns what log Theta, log psi and log Omega are multiplied by in the joint: counts and pseudo-counts."""
        of_items, of_annotators = self.item_sizes + (target.gamma - 1), self.annotator_sizes + (target.tau - 1)
        return self.counts + (target.alpha - 1), of_items, of_annotators

    def log_joint(self, target: Target) -> PerColumn:
        """Returns the log joint of each fit."""
        at, (of_labels, of_items, of_annotators) = self.solution, self.weights(target)
        log_labels = (of_labels * at.log_labels).sum(axis=(0, 1, 2))
        log_shares = (of_items * at.log_item_shares).sum(axis=0)
        return log_labels + log_shares + (of_annotators * at.log_annotator_shares).sum(axis=0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Draws:
    """The random numbers of one sweep.

    Attributes:
        gammas: for the proposals of Theta, psi and Omega, normalised.
        patience: exponential, of mean 1: at temperature h a change of the joint above -h * patience is taken. One for
            each pair of clusters, for psi, for Omega, then for each item and each annotator.
        steps: in [0, 1): where in the circle of clusters each item, then each annotator, is proposed to go.
    """

    gammas: Float64[np.ndarray, "numbers columns"]
    patience: Float64[np.ndarray, "_ columns"]
    steps: Float64[np.ndarray, "_ columns"]

    @classmethod
    def of(
        cls,
        generators: Sequence[np.random.Generator],
        shapes: Float64[np.ndarray, "numbers columns"],
        sizes: Sequence[int],
    ) -> "Draws":
        """Draws for each column from its own generator.

        Args:
            shapes: of the gamma distributions.
            sizes: how many numbers `patience` and `steps` have.
        """
        gammas, patience, steps = (np.empty((size, len(generators))) for size in (len(shapes), *sizes))
        for column, generator in enumerate(generators):
            gammas[:, column] = generator.standard_gamma(shapes[:, column])
            patience[:, column] = generator.standard_exponential(sizes[0])
            steps[:, column] = generator.random(sizes[1])
        return cls(gammas=gammas, patience=patience, steps=steps)


@dataclass(frozen=True, kw_only=True, eq=False)
class Annealing:
    """The moves on one data set.

    Attributes:
        edges: the answers; every item and every annotator has one.
    """

    edges: Edges
    target: Target

    def start(self, generators: Sequence[np.random.Generator]) -> State:
        """Draws distributions from their Dirichlets, and clusters evenly."""
        target, n_items, n_annotators = self.target, self.edges.n_items, self.edges.n_annotators
        shapes = np.repeat(target.prior_shapes[:, None], len(generators), axis=1)
        draws = Draws.of(generators, shapes, (0, n_items + n_annotators))
        items, annotators = np.split(draws.steps, [n_items])
        log_labels, log_item_shares, log_annotator_shares = target.log_distributions(draws.gammas)
        return self.state(
            Solution(
                items=(items * target.clusters).astype(np.int64),
                annotators=(annotators * target.annotator_clusters).astype(np.int64),
                log_labels=log_labels,
                log_item_shares=log_item_shares,
                log_annotator_shares=log_annotator_shares,
            )
        )

    def sweep(self, state: State, temperature: float, generators: Sequence[np.random.Generator]) -> State:
        """Returns the state after one sweep of proposals. O(A + N + T + G L K) a column."""
        edges, target, before = self.edges, self.target, state.solution
        n_nodes, n_distributions = edges.n_items + edges.n_annotators, target.clusters * target.annotator_clusters + 2
        draws = Draws.of(generators, target.proposal_shapes(before), (n_distributions + n_nodes, n_nodes))
        # u < exp(delta / temperature) is delta > temperature × log u, and -log u is exponential with mean 1: proposals
        # are compared with a drawn limit, and nothing is exponentiated.
        limits = np.split(-temperature * draws.patience, [n_distributions, n_distributions + edges.n_items])
        steps = np.split(draws.steps, [edges.n_items])
        after = self._distributions(state, target.log_distributions(draws.gammas), limits[0])

        proposed = another_cluster(before.items, target.clusters, steps[0])
        delta, moves = self.item_deltas(after, state.places, proposed)
        taken = delta > limits[1]
        after = replace(after, items=np.where(taken, proposed, before.items))
        places = state.places + (moves * taken).take(edges.item, axis=0)

        proposed = another_cluster(before.annotators, target.annotator_clusters, steps[1])
        delta, moves = self.annotator_deltas(after, places, proposed)
        taken = delta > limits[2]
        after = replace(after, annotators=np.where(taken, proposed, before.annotators))
        places += (moves * taken).take(edges.annotator, axis=0)
        return self.state(after, places)

    def item_deltas(
        self, now: Solution, places: EdgePlaces, proposed: Codes
    ) -> tuple[Float64[np.ndarray, "items columns"], Codes]:
        """Returns the change of the log joint if one item alone moved to its proposed cluster, and how far that moves
        the places of its answers.
        """
        # In the flat table [clusters, annotator clusters, classes, columns] a cluster of items is that many entries
        # long.
        moves = (proposed - now.items) * (self.target.annotator_clusters * self.target.classes * now.n_columns)
        gains = _gains(now.log_labels, places, moves.take(self.edges.item, axis=0))
        return self.edges.sums_by_item(gains) + _share_gains(now.log_item_shares, now.items, proposed), moves

    def annotator_deltas(
        self, now: Solution, places: EdgePlaces, proposed: Codes
    ) -> tuple[Float64[np.ndarray, "annotators columns"], Codes]:
        """Returns the change of the log joint if one annotator alone moved to the proposed cluster, and how far that
        moves the places of the answers.
        """
        moves = (proposed - now.annotators) * (self.target.classes * now.n_columns)
        gains = _gains(now.log_labels, places, moves.take(self.edges.annotator, axis=0))
        sums = self.edges.sums_by_annotator(gains)
        return sums + _share_gains(now.log_annotator_shares, now.annotators, proposed), moves

    def distribution_deltas(
        self, state: State, proposed: tuple[LabelTable, Shares, Shares]
    ) -> tuple[Float64[np.ndarray, "clusters annotator_clusters columns"], PerColumn, PerColumn]:
        """Returns the change of the log joint if one distribution of Theta, or psi, or Omega, were the proposed one."""
        now, (of_labels, of_items, of_annotators) = state.solution, state.weights(self.target)
        log_labels, log_item_shares, log_annotator_shares = proposed
        return (
            (of_labels * (log_labels - now.log_labels)).sum(axis=2),
            (of_items * (log_item_shares - now.log_item_shares)).sum(axis=0),
            (of_annotators * (log_annotator_shares - now.log_annotator_shares)).sum(axis=0),
        )

    def _distributions(
        self, state: State, proposed: tuple[LabelTable, Shares, Shares], limits: Float64[np.ndarray, "_ columns"]
    ) -> Solution:
        """Returns the solution with Theta, psi and Omega as proposed where the log joint changes by more than the
        limits.
        """
        now = state.solution
        of_pairs, of_items, of_annotators = self.distribution_deltas(state, proposed)
        taken = of_pairs > limits[:-2].reshape(of_pairs.shape)
        return replace(
            now,
            log_labels=np.where(taken[:, :, None], proposed[0], now.log_labels),
            log_item_shares=np.where(of_items > limits[-2], proposed[1], now.log_item_shares),
            log_annotator_shares=np.where(of_annotators > limits[-1], proposed[2], now.log_annotator_shares),
        )

    def state(self, solution: Solution, places: EdgePlaces | None = None) -> State:
        """Returns the state at this solution; the places are worked out where they are not known."""
        target, n_columns = self.target, solution.n_columns
        if places is None:
            places = self._places(solution)
        weight = self.edges.weight
        weights = None if weight is None else np.repeat(weight, n_columns)
        # A place is an answer's cell of Theta in its own column, so one count serves all fits.
        counts = np.bincount(places.reshape(-1), weights, minlength=solution.log_labels.size)
        return State(
            solution=solution,
            places=places,
            counts=counts.astype(np.float64).reshape(solution.log_labels.shape),
            item_sizes=_sizes(solution.items, target.clusters),
            annotator_sizes=_sizes(solution.annotators, target.annotator_clusters),
        )

    def settled(self, solution: Solution) -> Solution:
        """Returns the solution with the most probable distributions given its clusters: counts plus pseudo-counts,
        normalised; uniform where there are neither.
        """
        of_labels, of_items, of_annotators = self.state(solution).weights(self.target)
        return replace(
            solution,
            log_labels=_log_normalised(of_labels, axis=2),
            log_item_shares=_log_normalised(of_items, axis=0),
            log_annotator_shares=_log_normalised(of_annotators, axis=0),
        )

    def _places(self, at: Solution) -> EdgePlaces:
        edges, target, n_columns = self.edges, self.target, at.n_columns
        places = (at.items * (target.annotator_clusters * target.classes * n_columns)).take(edges.item, axis=0)
        places += (at.annotators * (target.classes * n_columns) + np.arange(n_columns)).take(edges.annotator, axis=0)
        places += (edges.label * n_columns)[:, None]
        return places


def another_cluster(now: Codes, n_clusters: int, steps: Float64[np.ndarray, "_ columns"]) -> Codes:
    """Returns another cluster for each node, all others equally likely; the same where there is no other."""
    # 1 to n - 1 places further around a circle of n clusters never ends at the cluster that it started from.
    return (now + 1 + (steps * (n_clusters - 1)).astype(np.int64)) % n_clusters


def _log_normalised(table: Float64[np.ndarray, "*shape"], axis: int) -> Float64[np.ndarray, "*shape"]:
    return floored_log(np.moveaxis(normalised_rows(np.moveaxis(table, axis, -1)), -1, axis))


def _gains(log_labels: LabelTable, places: EdgePlaces, moves: EdgePlaces) -> Float64[np.ndarray, "edges columns"]:
    """Returns by how much log Theta of each answer changes."""
    table = log_labels.reshape(-1)
    gains = table.take(places + moves)
    gains -= table.take(places)
    return gains


def _share_gains(log_shares: Shares, now: Codes, proposed: Codes) -> Float64[np.ndarray, "_ columns"]:
    return np.take_along_axis(log_shares, proposed, axis=0) - np.take_along_axis(log_shares, now, axis=0)


def _sizes(codes: Codes, n_clusters: int) -> Shares:
    n_columns = codes.shape[1]
    places = codes * n_columns + np.arange(n_columns)
    return np.bincount(places.ravel(), minlength=n_clusters * n_columns).astype(np.float64).reshape(n_clusters, -1)
