"""What is known of each annotator: how many answers, how good, and whether they look at the items at all.

All is counted from an annotator's answers against what the *others'* answers make of the same items (`others`).

Spammers answer whatever the item is: all rows of their matrix are the same. `score` is Raykar and Yu's (JMLR 2012,
section 3.2), the mean squared difference of the rows: 0 for a pure spammer, 1 for a perfect annotator. How sure that
is, says a permutation test (a linear statistic, its exact mean and variance): do the others believe in an annotator's
answers more, or less, than if these had been dealt out over the same items at random? A spammer is one whose answers
pass for such a deal, and hardly for those of somebody who answers these items as the crowd does. Where they pass for
both, as a few answers always do, it is `unclear`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Float64, Int64
from scipy import stats

from crowdsweep.arrays import Confusion, Confusions, normalised_rows, ratio
from crowdsweep.labelling.others import Answers, Codes

SURE = 0.005  # p below which answers depend on the items: of two hundred spammers one slips through
RARELY = 0.02  # how often somebody who answers as the crowd does may look like a spammer

Column = Float64[np.ndarray, " annotators"]


@dataclass(frozen=True, kw_only=True, eq=False)
class AnnotatorFacts:
    """Facts of annotators with an answer, by ascending code.

    Attributes:
        code: int64 [annotators].
        answers: int64 [annotators], to questions.
        accuracy: the expected share of right answers, in [0, 1].
        low, high: its 95 % interval (a beta distribution's, Jeffreys's prior).
        consensus: the share of answers that are what the others mostly believe.
        bias: float64 [annotators, answers]: how much more often an answer is given than it is right, as a share of all
            answers, in [-1, 1].
        score: spammer score, 0 spammer … 1 perfect.
        p: of the test that answers do not depend on the items.
        below_crowd: of the test that they depend on the items no less than the crowd's would.
        cell: int64 [cells, 3] annotator, true class, answer given, of all cells of their matrices with an answer.
        expected: float64 [cells], the expected number of such answers.
    """

    code: Codes
    answers: Codes
    accuracy: Column
    low: Column
    high: Column
    consensus: Column
    bias: Float64[np.ndarray, "annotators answers"]
    score: Column
    p: Column
    below_crowd: Column
    cell: Int64[np.ndarray, "cells 3"]
    expected: Float64[np.ndarray, " cells"]

    @property
    def spammer(self) -> list[str]:
        """`yes`, `no` or `unclear` for each."""
        return np.where(self.p < SURE, "no", np.where(self.below_crowd < RARELY, "yes", "unclear")).tolist()


def annotator_facts(chunks: Callable[[], Iterable[Answers]], crowd: Confusion) -> AnnotatorFacts:
    """Counts what is known of the annotators with answers, in chunks of them.

    Args:
        chunks: gives their answers, at least one.
        crowd: how the crowd answers (`crowd_matrix`).
    """
    parts = [_facts(part, crowd) for part in chunks()]
    return AnnotatorFacts(
        **{
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(AnnotatorFacts)
        }
    )


def crowd_matrix(chunks: Callable[[], Iterable[Answers]], n_answers: int) -> Confusion:
    """Returns how the crowd answers, counted from all answers; rows that nothing is known of are uniform."""
    return normalised_rows(sum((part.counts().sum(axis=0) for part in chunks()), np.zeros((n_answers, n_answers))))


def _facts(part: Answers, crowd: Confusion) -> AnnotatorFacts:
    counts, every = part.counts(), np.arange(len(part.place))
    n_answers = np.bincount(part.place, minlength=len(part.code))
    believed = part.others[every, part.answer]
    sums = part.sums(believed)
    given = part.sums(np.eye(len(crowd))[part.answer]) / n_answers[:, None]
    as_crowd = part.others @ crowd
    by_crowd = _standing(part, (part.others * as_crowd).sum(axis=1), part.sums(as_crowd) / n_answers[:, None])
    standing = _standing(part, believed, given)
    cell = np.argwhere(counts > 0)
    expected = counts[tuple(cell.T)]
    cell[:, 0] = part.code[cell[:, 0]]
    accuracy = sums / n_answers
    low, high = (stats.beta.ppf(end, 0.5 + sums, 0.5 + n_answers - sums) for end in (0.025, 0.975))
    return AnnotatorFacts(
        code=part.code,
        answers=n_answers,
        accuracy=accuracy,
        low=np.minimum(low, accuracy),  # at the ends of [0, 1] it may lie outside
        high=np.maximum(high, accuracy),
        consensus=part.sums((part.others.argmax(axis=1) == part.answer).astype(np.float64)) / n_answers,
        bias=ratio(counts.sum(axis=1) - counts.sum(axis=2), counts.sum(axis=(1, 2))[:, None], at_zero=0.0),
        score=spammer_scores(normalised_rows(counts + crowd)),
        p=2.0 * stats.norm.sf(np.abs(standing)),
        below_crowd=stats.norm.sf(by_crowd - standing),
        cell=cell,
        expected=expected,
    )


def spammer_scores(confusions: Confusions) -> Column:
    """Returns the mean over pairs of rows of half their squared difference (Raykar and Yu 2012), in [0, 1]."""
    size = confusions.shape[1]
    squares = (confusions**2).sum(axis=(1, 2))
    sums = (confusions.sum(axis=1) ** 2).sum(axis=1)
    return (size * squares - sums) / (size * (size - 1))


def _standing(
    answers: Answers, believed: Float64[np.ndarray, " rows"], given: Float64[np.ndarray, "n answers"]
) -> Column:
    """Returns by how many standard deviations the others believe more in answers than in the same answers dealt out
    over the same items at random; 0 where nothing could differ.

    Args:
        believed: how much the others believe in each answer.
        given: shares of each annotator's answers.
    """
    n = answers.sums(np.ones(len(answers.place)))
    share = given[answers.place]
    by_item = (share * answers.others).sum(axis=1)  # of a random answer, for each item
    by_answer = answers.sums(answers.others) / n[:, None]  # of each answer, for a random item
    mean = (given * by_answer).sum(axis=1)
    away = answers.others - by_item[:, None] - by_answer[answers.place] + mean[answers.place, None]
    variance = n / np.maximum(n - 1, 1) * answers.sums((share * away**2).sum(axis=1))
    return ratio(answers.sums(believed) - n * mean, np.sqrt(variance), at_zero=0.0)
