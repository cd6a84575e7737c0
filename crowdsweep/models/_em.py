"""The arithmetic of EM over annotations, as pure functions on several data sets at once.

Everything is two products with the sparse matrix `answers` [items, columns] of `_stacked.py`, whose entry is the
weight of the answers that an item got in a column: an annotator together with a label that this annotator really used:

    answers.T @ posterior     [columns, classes]   expected counts of (annotator, label) for each true class   (M-step)
    answers @ log_probs       [items, classes]     log-likelihood of an item's answers for each true class     (E-step)

Nothing of size items × annotators, annotators × classes × classes or annotations × classes² exists.

**One EM step** of a model with confusion matrices and any prior over the classes of each item:

    columns = confusion_columns(crowds, posterior, pseudo_answers)        M-step
    log_joint = log_prior + log_answers(crowds, columns)                  [items, classes]
    posterior, log_evidence = normalised(log_joint)                       E-step
    objective = crowds.replica_sums(log_evidence) + log_confusion_prior(crowds, columns)      [replicas]

`log_prior` is `crowds.spread(log_class_shares(crowds, posterior))` for Dawid-Skene, the logarithm of a network's output
for models with a classifier. The objective is taken at the parameters of that M-step, so it never falls as long as
both M-steps are exact.

Weights multiply an answer's log-likelihood; a soft answer counts as fractions of an answer to each label.
Probabilities are float64; every logarithm is of max(p, LOG_FLOOR).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from jaxtyping import Float64, Int, Int32, Int64
from scipy.special import xlogy

from crowdsweep.arrays import (
    LOG_FLOOR,
    AnnotatorCodes,
    Confusion,
    Confusions,
    ItemCodes,
    ItemProbs,
    RowProbs,
    floored_log,
    normalised_rows,
    ratio,
)
from crowdsweep.models._stacked import StackedCrowds
from crowdsweep.models._stacked import one_hot as one_hot  # noqa: PLC0414 - one door to the arithmetic
from crowdsweep.models._stacked import pooled as pooled  # noqa: PLC0414
from crowdsweep.models._stacked import stack as stack  # noqa: PLC0414
from crowdsweep.models._steps import PerReplica, Stepped
from crowdsweep.models.contract import AnnotatorModel, FitResult, LabelProbs, Predictor

CHUNK = 1 << 20  # numbers of a temporary that are alive at once: 8 MB
IN_CACHE = 1 << 15  # numbers of a temporary that a core's cache holds between the operations on it: 256 KB

ColumnProbs = Float64[np.ndarray, "columns classes"]
AnnotatorTotals = Float64[np.ndarray, "annotators classes"]
ReplicaClasses = Float64[np.ndarray, "replicas classes"]
PseudoAnswers = Float64[np.ndarray, "replicas true observed"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ConfusionColumns:
    """All annotators' confusion matrices, by their observed columns.

    With a the pseudo-answers of its replica, the unobserved column l of annotator t and true class k holds
    a[k, l] / (totals[t, k] + sum of a[k]); a row without any mass is uniform.

    Attributes:
        log_probs: log p(label of the column | true class, annotator of the column), floored.
        totals: expected number of answers of each annotator for each true class.
        pseudo_answers: added to every annotator's counts, one matrix per replica.
    """

    log_probs: ColumnProbs
    totals: AnnotatorTotals
    pseudo_answers: PseudoAnswers


def soft_vote(crowds: StackedCrowds) -> ItemProbs:
    """Returns each item's share of answers; uniform where an item has none."""
    return normalised_rows(crowds.vote_sums(crowds.answers.data))


def winners(probs: ItemProbs) -> ItemProbs:
    """Returns one for the largest entry of each row, shared evenly where several tie (to 1e-9 relative)."""
    least = _largest(probs) * (1 - 1e-9)  # weighted votes that should tie differ in their last bits
    ties = (probs >= least[:, None]).astype(np.float64)
    return ties / (ties @ np.ones(probs.shape[1]))[:, None]


def _largest(rows: Float64[np.ndarray, "_ classes"]) -> Float64[np.ndarray, " _"]:
    """Returns the largest entry of each row; along so short an axis as classes are, numpy's own takes four times as
    long."""
    return np.ascontiguousarray(rows.T).max(axis=0)


def column_counts(crowds: StackedCrowds, posterior: ItemProbs) -> ColumnProbs:
    """Returns the expected number of answers of each column for each true class. O(A K)."""
    return cast(np.ndarray, crowds.answers_by_column @ posterior)


def evenly(crowds: StackedCrowds, smoothing: float | PerReplica) -> PseudoAnswers:
    """Returns so many pseudo-answers in every cell, of all replicas or of each."""
    each = np.broadcast_to(np.asarray(smoothing, np.float64), crowds.n_replicas)
    return np.tile(each[:, None, None], (1, crowds.n_classes, crowds.n_classes))


def confusion_columns(crowds: StackedCrowds, posterior: ItemProbs, pseudo_answers: PseudoAnswers) -> ConfusionColumns:
    """M-step of the confusion matrices: (expected count + pseudo-answers) / their sum over the row. O(A K).

    Args:
        pseudo_answers: at least 0. Where a row has neither these nor answers, it is uniform.
    """
    return columns_of_counts(crowds, column_counts(crowds, posterior), pseudo_answers)


def columns_of_counts(crowds: StackedCrowds, counts: ColumnProbs, pseudo_answers: PseudoAnswers) -> ConfusionColumns:
    """Returns the confusion matrices of these counts of answers; `counts` is overwritten."""
    totals, probs = crowds.annotator_sums(counts), counts
    # The sum of a whole row: observed columns, and every cell's pseudo-answers, which unobserved columns consist of.
    mass = totals + pseudo_answers.sum(axis=2)[crowds.annotator_replica]
    without, added = mass == 0, _by_replica_and_label(pseudo_answers)
    mass[without] = 1.0
    any_without, any_added = bool(without.any()), bool(added.any())
    # Part by part, so that the five operations on a part find it in the core's cache.
    for part in chunks(len(probs), crowds.n_classes, IN_CACHE):
        rows, annotator = probs[part], crowds.column_annotator[part]
        if any_added:
            rows += added.take(crowds.column_replica_label[part], axis=0, mode="clip")
        rows /= mass.take(annotator, axis=0, mode="clip")  # no place is outside: to clip is twice as fast as to look
        if any_without:
            rows[without[annotator]] = 1.0 / crowds.n_classes
        np.log(np.maximum(rows, LOG_FLOOR, out=rows), out=rows)
    return ConfusionColumns(log_probs=probs, totals=totals, pseudo_answers=pseudo_answers)


def log_answers(crowds: StackedCrowds, columns: ConfusionColumns) -> Float64[np.ndarray, "items classes"]:
    """Returns the log-likelihood of each item's answers for each true class; zero where it has none. O(A K)."""
    return cast(np.ndarray, crowds.answers @ columns.log_probs)


def normalised(
    log_joint: Float64[np.ndarray, "*rows classes"], *, in_place: bool = False
) -> tuple[Float64[np.ndarray, "*rows classes"], Float64[np.ndarray, "*rows"]]:
    """E-step: returns the posterior of each row of log p(class, answers), and log p(answers), its logsumexp.

    Args:
        in_place: whether the posterior is written over it: new memory costs as much as the arithmetic.
    """
    n_classes = log_joint.shape[-1]
    rows = log_joint.reshape(-1, n_classes)
    posterior, evidence = rows if in_place else np.empty_like(rows), np.empty(len(rows))
    for part in chunks(len(rows), n_classes, IN_CACHE):
        # log-sum-exp: with each row's largest entry moved to 0, exp cannot overflow, and no row sums to 0.
        largest = _largest(rows[part])
        own = np.subtract(rows[part], largest[:, None], out=posterior[part])
        mass = np.exp(own, out=own) @ np.ones(n_classes)
        own /= mass[:, None]
        evidence[part] = largest + np.log(mass)
    return posterior.reshape(log_joint.shape), evidence.reshape(log_joint.shape[:-1])


def log_class_shares(crowds: StackedCrowds, posterior: ItemProbs) -> ReplicaClasses:
    """M-step of the class shares: log of the mean posterior over the items that have answers, floored.

    Items without answers say nothing of the shares. A replica without any answer gets uniform ones.
    """
    return floored_log(normalised_rows(crowds.answered_sums(posterior)))


def log_confusion_prior(crowds: StackedCrowds, columns: ConfusionColumns) -> PerReplica:
    """Returns the sum of pseudo-answers * log probability over all cells of active annotators, up to a constant.

    The pseudo-answers are a Dirichlet prior; together with the log evidence this is what EM maximises.
    """
    pseudo = columns.pseudo_answers
    if not pseudo.any():
        return np.zeros(crowds.n_replicas)
    # A cell of an unobserved column is a / mass of its row. All columns of a label have the same pseudo-answers.
    of_column = _by_replica_and_label(pseudo)
    rows = pseudo.sum(axis=2)[crowds.annotator_replica]
    log_mass = floored_log(columns.totals + rows)
    observed = crowds.replica_label_indicator.T @ columns.log_probs + crowds.annotator_used.T @ log_mass
    used = np.bincount(crowds.column_replica_label, minlength=len(of_column))
    unused = np.repeat(np.diff(crowds.annotator_pointers), crowds.n_classes) - used
    per_label = of_column * observed + unused[:, None] * xlogy(of_column, of_column)
    prior = per_label.reshape(crowds.n_replicas, -1).sum(axis=1)
    return prior - crowds.replica_sums_of_annotators((rows * log_mass).sum(axis=1))


def _by_replica_and_label(pseudo_answers: PseudoAnswers) -> Float64[np.ndarray, "rows classes"]:
    """Returns pseudo-answers with a row for each replica and label (`StackedCrowds.column_replica_label`)."""
    return pseudo_answers.transpose(0, 2, 1).reshape(-1, pseudo_answers.shape[1])


def mean_relative_change(crowds: StackedCrowds, before: ConfusionColumns, after: ConfusionColumns) -> PerReplica:
    """Returns the mean of |after - before| / (before + 1e-7) over all cells of each replica's active annotators.

    The 1e-7 is that of the authors of dl-ds and dl-em: a cell that has all but died does not hold up the stop. Of
    unobserved cells it is exact where pseudo-answers are even.
    """
    old, new = np.exp(before.log_probs), np.exp(after.log_probs)
    changes = crowds.annotator_sums((np.abs(new - old) / (old + 1e-7)).sum(axis=1))
    observed = np.diff(crowds.annotator_column_pointers)
    rows = after.pseudo_answers.sum(axis=2)[crowds.annotator_replica]
    flat = [ratio(rows / crowds.n_classes, part.totals + rows, at_zero=0.0) for part in (before, after)]
    # With even pseudo-answers an annotator's unobserved columns are all the same: one stands for all of them.
    changes += (crowds.n_classes - observed) * (np.abs(flat[1] - flat[0]) / (flat[0] + 1e-7)).sum(axis=1)
    active = crowds.replica_sums_of_annotators(np.ones(crowds.n_annotators))
    return crowds.replica_sums_of_annotators(changes) / np.maximum(active * crowds.n_classes**2, 1.0)


def em_results(
    crowds: StackedCrowds,
    posterior: ItemProbs,
    stepped: Stepped[Any],
    annotators: Sequence[AnnotatorModel],
    extras: Sequence[Mapping[str, Float64[np.ndarray, "..."]]],
    predictors: Sequence[Predictor] | None = None,
) -> list[FitResult]:
    """Returns the result of each replica.

    Args:
        annotators, extras, predictors: of each; no predictors where unseen items are not labelled.
    """
    return [
        stepped.result(
            replica,
            item_probs=(item_probs := posterior[crowds.items_of(replica)]),
            annotators=own,
            label_probs=label_probs_of(item_probs, own),
            predictor=None if predictors is None else predictors[replica],
            extras=extra,
        )
        for replica, (own, extra) in enumerate(zip(annotators, extras, strict=True))
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class SparseConfusions:
    """An `AnnotatorModel` that keeps observed columns only and makes matrices when they are asked for.

    Attributes:
        probs: of the observed columns.
        code: codes of the annotators who answered anything, ascending.
        pointers: the columns of the annotator at place p of `code` are `pointers[p]:pointers[p + 1]`.
        totals: expected answers of each of them for each true class.
        pseudo_answers: in every cell of each annotator.
        crowd: pooled confusion matrix, which annotators without answers have.
        n_annotators: declared.
        shared: the model's own matrix of the whole crowd, if it has one.
    """

    probs: ColumnProbs
    label: Int32[np.ndarray, " columns"]
    code: Int32[np.ndarray, " annotators"]
    pointers: Int64[np.ndarray, " pointers"]
    totals: AnnotatorTotals
    pseudo_answers: Confusion
    crowd: Confusion
    n_annotators: int
    shared: Confusion | None = None

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> Confusions:
        """Returns the row-stochastic matrices of these annotators; idle ones have the pooled matrix."""
        n_classes = self.totals.shape[1]
        matrices = np.tile(self.crowd, (len(annotators), 1, 1))
        where = np.flatnonzero(np.isin(annotators, self.code))
        known = np.searchsorted(self.code, annotators[where])
        mass = self.totals[known] + self.pseudo_answers.sum(axis=1)
        matrices[where] = ratio(self.pseudo_answers, mass[:, :, None], at_zero=1.0 / n_classes)
        starts = self.pointers[known]
        lengths = self.pointers[known + 1] - starts
        place = np.repeat(where, lengths)
        # The ranges starts[p]:starts[p] + lengths[p], one behind the other: a running number, shifted in each range.
        columns = np.arange(len(place)) + np.repeat(starts - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
        matrices[place, :, self.label[columns]] = self.probs[columns]
        return matrices

    def global_confusion(self) -> Confusion | None:
        return self.shared

    def reordered(self, order: Int64[np.ndarray, " classes"]) -> "SparseConfusions":
        """Returns the same annotators, the true class k being what is `order[k]` here."""
        return replace(
            self,
            probs=self.probs[:, order],
            totals=self.totals[:, order],
            pseudo_answers=self.pseudo_answers[order],
            crowd=self.crowd[order],
            shared=None if self.shared is None else self.shared[order],
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedConfusion:
    """An `AnnotatorModel` in which all annotators share one confusion matrix."""

    matrix: Confusion
    n_annotators: int

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> Confusions:
        return np.tile(self.matrix, (len(annotators), 1, 1))

    def global_confusion(self) -> Confusion | None:
        return self.matrix


def annotator_model(
    crowds: StackedCrowds,
    columns: ConfusionColumns,
    replica: int = 0,
    *,
    smoothing: float | Confusion,
    shared: Confusion | None = None,
) -> SparseConfusions:
    """Returns the annotators of one replica, their codes counting from 0 again.

    Args:
        smoothing: pseudo-counts of the pooled matrix, which annotators without answers have: one number for all cells,
            or one for each.
        shared: the model's own matrix of the whole crowd, if it has one.
    """
    columns_here = crowds.columns_of(replica)
    mine, pseudo_answers = crowds.annotators_of(replica), columns.pseudo_answers[replica]
    probs, label = np.exp(columns.log_probs[columns_here]), crowds.column_label[columns_here]
    totals, annotator = columns.totals[mine], crowds.column_annotator[columns_here] - mine.start
    mass, labelled = totals + pseudo_answers.sum(axis=1), crowds.label_indicator[columns_here]
    answers = np.zeros((crowds.n_classes, crowds.n_classes))
    for part in chunks(len(label), crowds.n_classes):
        # Counts are recovered from probabilities, p × mass - pseudo-answers, so that no table of counts is kept beside
        # them; rounding can leave them just below 0.
        rows = mass.take(annotator[part], axis=0, mode="clip")
        rows *= probs[part]
        rows -= pseudo_answers.T.take(label[part], axis=0, mode="clip")
        answers += labelled[part].T @ np.maximum(rows, 0.0, out=rows)
    return SparseConfusions(
        probs=probs,
        label=label,
        code=crowds.annotator_code[mine],
        pointers=crowds.annotator_column_pointers[mine.start : mine.stop + 1] - columns_here.start,
        totals=totals,
        pseudo_answers=pseudo_answers,
        crowd=normalised_rows(answers.T + smoothing),
        n_annotators=crowds.declared_annotators[replica],
        shared=shared,
    )


def label_probs_of_items(expected: ItemProbs) -> LabelProbs:
    """Returns the function rows (item, annotator) -> expected[item]: every annotator is expected to label alike."""

    def label_probs(item: ItemCodes, _: AnnotatorCodes) -> RowProbs:
        return expected[item]

    return label_probs


def label_probs_of(posterior: ItemProbs, annotators: AnnotatorModel) -> LabelProbs:
    """Returns the function rows (item, annotator) -> sum over k of posterior[item, k] * confusion[annotator][k, :]."""
    n_classes = posterior.shape[1]

    def label_probs(item: ItemCodes, annotator: AnnotatorCodes) -> RowProbs:
        out = np.empty((len(item), n_classes))
        for part in chunks(len(item), n_classes * n_classes):
            out[part] = np.einsum("ak,akl->al", posterior[item[part]], annotators.confusion(annotator[part]))
        return out

    return label_probs


def chunks(n_rows: int, row_size: int, numbers: int = CHUNK) -> Iterator[slice]:
    """Yields slices that cut n_rows rows of row_size numbers into temporaries of about so many numbers."""
    step = max(1, numbers // max(row_size, 1))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))
