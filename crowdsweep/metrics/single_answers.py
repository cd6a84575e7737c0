"""Errors of predicted single answers: the answer predicted for an annotator against the one given.

So the third LeWiDi shared task scores systems that know annotators (Leonardelli et al. 2025, LeWiDi-2025 at
NLPerspectives, perspectivist evaluation; its scoring program is public). With p_it predicted and t_it given,

    average error rate                      mean over items i of the mean over their annotators t of [p_it != t_it]
    the same of several classes             of each class, chosen or not; then the mean over the classes
    average normalised absolute distance    mean over items i of the mean over their annotators t of |p_it - t_it| / s

where s is how many values the scale has (6 of its sarcasm, 11 of its paraphrases), so that the largest distance is
(s - 1) / s. Means over annotators of the mean over their items count those with many answers no more than others.

Three answers on a scale of four values, by hand. To item 0 ann says 0 and bob 3, to item 1 ann says 2; the model
predicts 0, 1 and 3. Error rates: (0/1 + 1/1) / 2 = 0.5 of item 0 and 1 of item 1, on average 0.75; of ann (0 + 1) / 2,
of bob 1, on average 0.75. Distances: (0 + 2) / 2 / 4 = 0.25 and 1 / 4, on average 0.25; of ann 0.125, of bob 0.5, on
average 0.3125.

What is predicted is the most probable class; ties count what they are worth on average. For a distance it is the
median of the distribution, which errs least; where two values halve it, each with probability one half. A soft answer
counts as its label; weights weigh the mean over an item's or an annotator's answers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float64

from crowdsweep.arrays import AnnotatorCodes, ItemCodes, RowProbs
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import choices_of
from crowdsweep.metrics.heldout import CHUNK_ENTRIES, LabelProbs
from crowdsweep.metrics.items import TIE_TOLERANCE, accuracy_of_each, as_binary

Scores = Float64[np.ndarray, " answers"]


@dataclass(frozen=True, kw_only=True, eq=False)
class AnswerErrors:
    """How wrong a model is about each of some answers.

    Attributes:
        item, annotator: codes.
        weight: how much each counts.
        error: of each, at least 0.
    """

    item: ItemCodes
    annotator: AnnotatorCodes
    weight: Scores
    error: Scores

    def mean(self, by: Literal["item", "annotator"]) -> float:
        """Returns the plain mean over items, or annotators, of the weighted mean of their answers.

        Raises:
            ValueError: there is no answer.
        """
        if not len(self.error):
            raise ValueError("no answer is scored")
        _, member = np.unique(self.item if by == "item" else self.annotator, return_inverse=True)
        return float((np.bincount(member, self.weight * self.error) / np.bincount(member, self.weight)).mean())


def wrong_answers(label_probs: LabelProbs, answers: Annotations) -> AnswerErrors:
    """Returns the probability that each answer is predicted wrongly: 0 or 1, between them where classes tie."""

    def errors(rows: slice) -> Scores:
        said = np.eye(answers.n_classes)[answers.label[rows]]
        return 1.0 - accuracy_of_each(said, label_probs(answers.item[rows], answers.annotator[rows]))

    return _of_rows(answers, errors)


def wrong_choices(label_probs: LabelProbs, answers: Annotations) -> AnswerErrors:
    """Returns the share of the classes of which each multi-label answer is predicted wrongly."""
    choices = choices_of(answers)

    def errors(rows: slice) -> Scores:
        probs: RowProbs = label_probs(choices.item[rows], choices.annotator[rows])
        right = accuracy_of_each(as_binary(choices.chosen[rows].toarray()), as_binary(probs))
        return 1.0 - right.reshape(probs.shape).mean(axis=1)

    found = _in_parts(errors, len(choices), answers.n_classes)
    return AnswerErrors(item=choices.item, annotator=choices.annotator, weight=choices.weight, error=found)


def distances(label_probs: LabelProbs, answers: Annotations) -> AnswerErrors:
    """Returns how many values of an ordinal scale each answer is from what is predicted, divided by how many it has."""

    def errors(rows: slice) -> Scores:
        below = np.cumsum(label_probs(answers.item[rows], answers.annotator[rows]), axis=1)
        half, said = 0.5 * below[:, -1:], answers.label[rows]
        low = (below < half - TIE_TOLERANCE).sum(axis=1)
        high = np.minimum((below <= half + TIE_TOLERANCE).sum(axis=1), answers.n_classes - 1)
        off = 0.5 * (np.abs(low - said) + np.abs(high - said)) / answers.n_classes
        return np.where(np.isfinite(half[:, 0]), off, np.nan)

    return _of_rows(answers, errors)


def _of_rows(answers: Annotations, errors: Callable[[slice], Scores]) -> AnswerErrors:
    return AnswerErrors(
        item=answers.item,
        annotator=answers.annotator,
        weight=np.ones(len(answers)) if answers.weight is None else answers.weight.astype(np.float64),
        error=_in_parts(errors, len(answers), answers.n_classes),
    )


def _in_parts(errors: Callable[[slice], Scores], n_answers: int, n_classes: int) -> Scores:
    found, step = np.empty(n_answers), max(CHUNK_ENTRIES // n_classes, 1)
    with np.errstate(invalid="ignore"):  # what is not a number stays so, and fails its trial
        for start in range(0, n_answers, step):
            found[start : start + step] = errors(slice(start, start + step))
    return found
