"""One-coin: every annotator is right with one probability, whatever the class, and errs uniformly.

Dawid-Skene with confusion matrices of one parameter: accuracy on the diagonal, the rest spread evenly. It needs far
fewer labels per annotator than a full matrix, and cannot represent that an annotator confuses two particular classes.

Dawid and Skene (1979) with the "homogeneous" annotator of Raykar et al. (2010) and of crowd-kit's OneCoinDawidSkene.

    accuracy_t   probability that annotator t answers with the true class
    rho          class shares, as in `dawid_skene.py`

`shrinkage` draws annotators with few answers towards the crowd: so many pseudo-answers are added to theirs, right as
often as all annotators are if they share one accuracy, which is fitted first.

Deviations: `shrinkage` is ours; `smoothing` is a pseudo-count in each of an annotator's K cells, as in
`dawid_skene.py`, so that it draws towards chance (1 / K), not towards 1/2. Annotators without answers have the
pooled accuracy.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Ge
from jaxtyping import Float64

from crowdsweep.arrays import ItemProbs, add_rows, floored_log, normalised_rows, ratio, sparse_zeros
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import PerReplica, ReplicaClasses, StackedCrowds, em_results, normalised, pooled, stack
from crowdsweep.models._steps import Stepped, keeping, run_steps
from crowdsweep.models.aggregate._by_class import fit_by_class
from crowdsweep.models.aggregate._coins import Accuracies, RightAndAll, coins_of, error, pooled_accuracies
from crowdsweep.models.aggregate._rows import Piece, pieces, sums_of
from crowdsweep.models.aggregate.dawid_skene import CROWD_STEPS
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo, Report, no_op

_PIECE = 1 << 17  # numbers of a table of items and classes that are made at a time
_MANY, _NEGLIGIBLE = 1000, 1e-18
"""Of more classes than these, smaller probabilities are zero: their table then takes memory only at the others."""


@final
@dataclass(frozen=True, kw_only=True)
class OneCoin:
    """Hyper-parameters of one-coin.

    Attributes:
        smoothing: pseudo-counts of right answers, and of each kind of wrong ones.
        shrinkage: pseudo-answers of every annotator, right as often as the crowd's are. Without them, estimates from
            few answers are too extreme: of 10,000 simulated annotators with four labels each, the held-out
            log-likelihood per answer is then -1.17 (the vote's: -0.66), and -0.60 with ten pseudo-answers.
        iterations: limit of EM steps.
        tolerance: stop once the objective rises by less than this share of itself.
    """

    smoothing: Annotated[float, Ge(0)] = 0.01
    shrinkage: Annotated[float, Ge(0)] = 10.0
    iterations: Annotated[int, Ge(1)] = 100
    tolerance: Annotated[float, Ge(0)] = 1e-8

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        if data[0].scale == "multilabel":
            return fit_by_class(self, data, contexts)
        crowds = stack([part.annotations for part in data])
        pseudo = self._pseudo_answers(crowds)
        stepped = self._fit(crowds, pseudo, self.iterations, [context.report for context in contexts])
        end, answers = stepped.state, (stepped.state.right, crowds.answers_per_annotator)
        of_crowd = pooled_accuracies(crowds, answers, self.smoothing)
        annotators = coins_of(crowds, pseudo.accuracy(crowds, answers), of_crowd)
        extras = [
            {"class_shares": own, "annotator_accuracy": coin.accuracy}
            for own, coin in zip(np.exp(floored_log(normalised_rows(end.expected))), annotators, strict=True)
        ]
        return em_results(crowds, _table(crowds, end), stepped, annotators, extras)

    def _pseudo_answers(self, crowds: StackedCrowds) -> "PseudoCoins":
        """Returns what is added to every annotator's answers; the crowd's accuracy is by the same EM."""
        evenly = np.full(crowds.n_replicas, self.smoothing)
        smoothed = PseudoCoins(right=evenly, wrong=evenly)
        if self.shrinkage == 0:
            return smoothed
        crowd = pooled(crowds)
        end = self._fit(crowd, smoothed, CROWD_STEPS, [no_op] * crowds.n_replicas).state
        accuracy = smoothed.accuracy(crowd, (end.right, crowd.answers_per_annotator))
        return PseudoCoins(
            right=evenly + self.shrinkage * accuracy,
            wrong=evenly + self.shrinkage * error(accuracy, crowds.n_classes),
        )

    def _fit(
        self, crowds: StackedCrowds, pseudo: "PseudoCoins", iterations: int, reports: Sequence[Report]
    ) -> "Stepped[State]":
        def step(state: State) -> tuple[State, PerReplica]:
            accuracy = pseudo.accuracy(crowds, (state.right, crowds.answers_per_annotator))
            updated, log_evidence = _counted(crowds, accuracy, normalised_rows(state.expected))
            return updated, log_evidence + pseudo.log_prior(crowds, accuracy)

        return run_steps(
            _counted(crowds)[0],
            step,
            keeping(crowds, accuracy="annotators", class_shares="replicas", right="annotators", expected="replicas"),
            iterations=iterations,
            tolerance=self.tolerance,
            reports=reports,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """The state of EM. The posterior itself is not held: its table may take more room than the answers.

    Attributes:
        accuracy, class_shares: parameters that the posterior follows from.
        right: how many of each annotator's answers are right, by the posterior.
        expected: how many of the items with an answer have each class, by the posterior.
    """

    accuracy: Accuracies
    class_shares: ReplicaClasses
    right: Accuracies
    expected: ReplicaClasses


@dataclass(frozen=True, kw_only=True, eq=False)
class PseudoCoins:
    """Pseudo-answers of every annotator of each replica: right ones, and those of each wrong class."""

    right: PerReplica
    wrong: PerReplica

    def accuracy(self, crowds: StackedCrowds, answers: RightAndAll) -> Accuracies:
        """M-step: (expected right answers + pseudo-answers) / (answers + pseudo-answers); 1 / classes without any."""
        right, total = answers
        more, n_classes = self.right[crowds.annotator_replica], crowds.n_classes
        total = total + more + (n_classes - 1) * self.wrong[crowds.annotator_replica]
        return ratio(right + more, total, at_zero=1.0 / n_classes)

    def log_prior(self, crowds: StackedCrowds, accuracy: Accuracies) -> PerReplica:
        """Returns the sum of pseudo-answers * log probability; EM maximises its sum with the log evidence."""
        wrong = (crowds.n_classes - 1) * floored_log(error(accuracy, crowds.n_classes))
        sums = crowds.replica_sums_of_annotators
        return self.right * sums(floored_log(accuracy)) + self.wrong * sums(wrong)


def _by_label(piece: Piece, values: Float64[np.ndarray, " entries"], n_classes: int) -> ItemProbs:
    """Sums values of the answers, by item and label."""
    size = piece.items.stop - piece.items.start
    return sums_of(piece.row * n_classes + piece.label, values, size * n_classes).reshape(size, n_classes)


def _posteriors(
    crowds: StackedCrowds, accuracy: Accuracies, class_shares: ReplicaClasses
) -> Iterator[tuple[Piece, ItemProbs, Float64[np.ndarray, " items"]]]:
    """E-step: yields some items with their posterior and their log-evidence. O(A + items * classes).

    An answer is as probable under all classes but the one that it names.
    """
    wrong, log_shares = floored_log(error(accuracy, crowds.n_classes)), floored_log(class_shares)
    gain, replica = floored_log(accuracy) - wrong, crowds.spread(np.arange(crowds.n_replicas))
    for piece in pieces(crowds, crowds.n_classes, _PIECE):
        log_joint = _by_label(piece, piece.weight * gain[piece.annotator], crowds.n_classes)
        log_joint += np.bincount(piece.row, piece.weight * wrong[piece.annotator], len(log_joint))[:, None]
        log_joint += log_shares[replica[piece.items]]
        yield piece, *normalised(log_joint, in_place=True)


def _counted(
    crowds: StackedCrowds, accuracy: Accuracies | None = None, class_shares: ReplicaClasses | None = None
) -> tuple[State, PerReplica]:
    """Returns what is counted by the posterior of these parameters (without any: by the shares of votes), and the
    log-evidence of each replica."""
    right, log_evidence = np.zeros(crowds.n_annotators), np.zeros(crowds.n_replicas)
    expected, replica = np.zeros((crowds.n_replicas, crowds.n_classes)), crowds.spread(np.arange(crowds.n_replicas))
    if accuracy is None or class_shares is None:
        accuracy, class_shares = np.zeros_like(right), np.zeros_like(expected)  # there are none yet
        every = pieces(crowds, crowds.n_classes, _PIECE)
        found = ((one, normalised_rows(_by_label(one, one.weight, crowds.n_classes)), np.zeros(0)) for one in every)
    else:
        found = _posteriors(crowds, accuracy, class_shares)
    for piece, posterior, evidence in found:
        np.add.at(right, piece.annotator, piece.weight * posterior[piece.row, piece.label])
        own, answered = replica[piece.items], crowds.answered[piece.items] > 0
        add_rows(expected, own[answered], posterior[answered])
        np.add.at(log_evidence, own[: len(evidence)], evidence)
    return State(accuracy=accuracy, class_shares=class_shares, right=right, expected=expected), log_evidence


def _table(crowds: StackedCrowds, state: State) -> ItemProbs:
    """Returns the posterior of all items."""
    shape, many = (crowds.n_items, crowds.n_classes), crowds.n_classes > _MANY
    table = sparse_zeros(shape, crowds.n_items) if many else np.empty(shape)  # an item mostly has one likely class
    for piece, posterior, _ in _posteriors(crowds, state.accuracy, state.class_shares):
        if many:
            there = np.nonzero(posterior > _NEGLIGIBLE)
            table[piece.items][there] = posterior[there]
        else:
            table[piece.items] = posterior
    return table


MODEL = ModelInfo(
    name="one-coin",
    title="One-coin Dawid-Skene: one accuracy for each annotator",
    model=OneCoin,
    steps="iterations",
    predicts_labels=True,
    source="Dawid and Skene 1979 with one parameter an annotator",
    supports=frozenset({"votes", "multilabel", "soft_answers"}),
    space={"smoothing": {"values": [0.01, 1]}, "shrinkage": {"values": [0, 3, 10, 30]}},
    cost=lambda shape, params: 1.0 * params["iterations"] * shape.n_annotations * shape.n_classes,
    version=3,
    deterministic=True,
    monotone_objective=True,
)
