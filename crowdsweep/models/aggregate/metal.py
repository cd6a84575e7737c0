"""MeTaL: rates of each annotator's labels given the class, fitted to how often pairs of annotators agree.

If annotators answer independently once the class is known, the rate at which two of them give two labels to the same
items is a sum over the classes of products of their own rates. Rates are fitted to all pairs of annotators by gradient
descent, without any posterior, and items are then labelled by Bayes' rule.

Ratner et al. (2019), "Training complex models with multi-task weak supervision", AAAI, as LabelModel does it.

    L          one-hot answers [items, columns]; a column is a label of an annotator        answers
    O          L'L / items: how often two columns occur together                            never made
    mu         p(annotator answers, with the label | class) [columns, classes]              rates
    P          class balance, uniform                                                       1 / classes
    loss       |O - mu P mu'|² between columns of different annotators, + |mu P 1 - diag O|²

Deviations: O, of size (annotators × classes)², is never formed. O mu is L'(L mu), from which, as from mu P mu', the
terms of one annotator with itself are subtracted, so that a step costs O(A K + T K²) at any size; a column with a label
that its annotator never used has rate 0 throughout. The objective is minus the loss without |O|², which is constant. If
the loss rises above its first value, the step size is halved and the descent started again (the authors' diverges with
500 annotators per item). Rates are floored at 0.01, or at a lower power of ten where there are more than a hundred
items, as in later versions: in the first ones, annotators of less than 1 % of the items carried no information. Rates
include missing answers; a reported confusion matrix is conditional on an answer.

Where most annotators answer few of the items, the loss is dominated by the missing answers, and rates stay near their
start: the result is a vote weighted by how often each annotator uses each label. It can then be far below the plain
vote (42 points on adult-content), so compare it with others by held-out log-likelihood before it labels anything.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, cast, final

import numpy as np
import scipy.sparse as sp
from annotated_types import Ge, Gt, Le
from jaxtyping import Float64

from crowdsweep.arrays import LOG_FLOOR, ItemProbs, floored_log, ratio
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import (
    ColumnProbs,
    ConfusionColumns,
    PerReplica,
    StackedCrowds,
    annotator_model,
    column_counts,
    em_results,
    evenly,
    normalised,
    stack,
)
from crowdsweep.models._steps import keeping, run_steps
from crowdsweep.models.aggregate._rows import AnswersByPair
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo

PerColumn = Float64[np.ndarray, " columns"]

_MOMENTUM = 0.9
_FLOOR = 0.01


@final
@dataclass(frozen=True, kw_only=True)
class Metal:
    """Hyper-parameters of MeTaL's label model.

    Attributes:
        step_size: step size of gradient descent with momentum 0.9.
        precision: the share of each annotator's answers that is right, to begin with.
        smoothing: pseudo-counts in each cell of the matrix of an annotator without answers; the item probabilities do
            not depend on it.
        iterations: limit of steps.
        tolerance: stop once no rate changes by more, and the loss does not fall.
    """

    step_size: Annotated[float, Gt(0)] = 0.01
    precision: Annotated[float, Gt(0), Le(1)] = 0.7
    smoothing: Annotated[float, Ge(0)] = 0.01
    iterations: Annotated[int, Ge(1)] = 100
    tolerance: Annotated[float, Ge(0)] = 1e-8

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Descends on all data sets side by side; each stops by itself."""
        crowds = stack([part.annotations for part in data])
        occurrences = CoOccurrences.of(crowds)
        begun = self._begun(crowds, occurrences)
        kept = keeping(
            crowds, rates="columns", velocity="columns", slope="columns", loss="replicas", step_size="replicas"
        )

        def step(descent: Descent) -> tuple[Descent, PerReplica]:
            velocity = _MOMENTUM * descent.velocity - occurrences.spread(descent.step_size) * descent.slope
            loss, slope = occurrences.loss(descent.rates + velocity)
            # Not `loss > begun.loss`: the NaN of a descent that overflowed has to count as a failure too.
            fails = ~(loss <= begun.loss)
            moved = Descent(
                rates=descent.rates + velocity, velocity=velocity, slope=slope, loss=loss, step_size=descent.step_size
            )
            again = replace(begun, step_size=0.5 * descent.step_size)
            updated = kept(~fails, moved, again)
            return updated, -updated.loss

        def change(before: Descent, after: Descent) -> PerReplica:
            largest = crowds.replica_maxima(np.abs(after.rates - before.rates).max(axis=1), crowds.column_replica)
            # A descent that starts again is back where it began, which must not look like convergence.
            return np.where(after.step_size < before.step_size, np.inf, largest)

        stepped = run_steps(
            begun,
            step,
            kept,
            iterations=self.iterations,
            tolerance=self.tolerance,
            reports=[context.report for context in contexts],
            change=change,
        )
        rates = occurrences.floored(stepped.state.rates)
        log_rates = floored_log(rates)
        posterior, _ = normalised(cast(np.ndarray, crowds.answers @ log_rates))
        columns = self._columns(crowds, rates, posterior)
        replicas = range(crowds.n_replicas)
        annotators = [annotator_model(crowds, columns, replica, smoothing=self.smoothing) for replica in replicas]
        extras = [{"rates": stepped.state.rates[crowds.columns_of(replica)]} for replica in replicas]
        return em_results(crowds, posterior, stepped, annotators, extras)

    def _begun(self, crowds: StackedCrowds, occurrences: "CoOccurrences") -> "Descent":
        """Every annotator's label is right in so many of the cases that it is given, and never given otherwise."""
        rates = np.zeros((len(occurrences.given), crowds.n_classes))
        own = np.minimum(self.precision * occurrences.given * crowds.n_classes, 1.0)
        rates[np.arange(len(own)), crowds.column_label] = own
        loss, slope = occurrences.loss(rates)
        step_size = np.full(crowds.n_replicas, self.step_size)
        return Descent(rates=rates, velocity=np.zeros_like(rates), slope=slope, loss=loss, step_size=step_size)

    def _columns(self, crowds: StackedCrowds, rates: ColumnProbs, posterior: ItemProbs) -> ConfusionColumns:
        """Returns how annotators answer, given that they do."""
        answered = crowds.annotator_sums(rates)[crowds.column_annotator]
        return ConfusionColumns(
            log_probs=floored_log(ratio(rates, answered, at_zero=1.0 / crowds.n_classes)),
            totals=np.maximum(crowds.annotator_sums(column_counts(crowds, posterior)), LOG_FLOOR),
            pseudo_answers=evenly(crowds, 0.0),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Descent:
    """The state of the descent: rates and their velocity, the loss and its slope there, each replica's step size."""

    rates: ColumnProbs
    velocity: ColumnProbs
    slope: ColumnProbs
    loss: PerReplica
    step_size: PerReplica


@dataclass(frozen=True, kw_only=True, eq=False)
class CoOccurrences:
    """How often columns occur together: on the same item (`crowds.answers`), and there by the same annotator (`pairs`).

    Attributes:
        pairs: sparse weights of the answers [pairs of item and annotator, columns].
        given: share of its replica's answered items that show each column: the diagonal of O.
        n_items: items with answers of each column's replica, at least 1.
    """

    crowds: StackedCrowds
    pairs: sp.csr_array
    given: PerColumn
    n_items: PerColumn

    @classmethod
    def of(cls, crowds: StackedCrowds) -> "CoOccurrences":
        n_items = np.maximum(crowds.replica_sums(crowds.answered), 1.0)[crowds.column_replica]
        pairs = AnswersByPair.of(crowds).weights
        return cls(crowds=crowds, pairs=pairs, given=crowds.answers_per_column / n_items, n_items=n_items)

    def spread(self, per_replica: PerReplica) -> Float64[np.ndarray, "columns 1"]:
        """Repeats a value of each replica over its columns."""
        return per_replica[self.crowds.column_replica][:, None]

    def floored(self, rates: ColumnProbs) -> ColumnProbs:
        """Returns the rates between a floor and one minus it."""
        # 0.01, or 1 / items where that is less, to the power of ten below.
        floor = np.minimum(_FLOOR, 10.0 ** -np.ceil(np.log10(self.n_items)))[:, None]
        return np.clip(rates, floor, 1.0 - floor)

    def loss(self, rates: ColumnProbs) -> tuple[PerReplica, ColumnProbs]:
        """Returns the loss of each replica, without its constant, and its slope. O(A K + T K²)."""
        crowds, share = self.crowds, 1.0 / self.crowds.n_classes
        met = crowds.answers.T @ (crowds.answers @ rates) - self.pairs.T @ (self.pairs @ rates)
        met /= self.n_items[:, None]
        explained, square = np.zeros_like(rates), np.zeros(crowds.n_replicas)
        for k in range(crowds.n_classes):  # rates' rates, one row at a time: of everybody, less each one's own
            own = crowds.annotator_sums(rates * rates[:, k : k + 1])
            everybody = crowds.replica_sums_of_annotators(own)
            explained += share * rates[:, k : k + 1] * (everybody[crowds.column_replica] - own[crowds.column_annotator])
            squares = crowds.replica_sums_of_annotators((own**2).sum(axis=1))
            square += share**2 * ((everybody**2).sum(axis=1) - squares)
        surplus = share * rates.sum(axis=1) - self.given
        apart = -2.0 * share * (rates * met).sum(axis=1) + surplus**2
        loss = square + crowds.replica_sums_of_annotators(crowds.annotator_sums(apart))
        return loss, -4.0 * share * (met - explained) + 2.0 * share * surplus[:, None]


MODEL = ModelInfo(
    name="metal",
    title="MeTaL: rates of answers fitted to how often annotators agree two by two; can be far below the vote",
    model=Metal,
    steps="iterations",
    predicts_labels=True,
    source="Ratner et al. 2019, the label model with known class balance",
    supports=frozenset({"votes", "soft_answers"}),
    space={
        "step_size": {"values": [0.001, 0.01, 0.1]},
        "precision": {"values": [0.6, 0.7, 0.8, 0.9]},
        "iterations": {"values": [100, 1000]},
    },
    cost=lambda shape, params: 8.0 * params["iterations"] * shape.n_annotations * shape.n_classes,
    deterministic=True,
)
