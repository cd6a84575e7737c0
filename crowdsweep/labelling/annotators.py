"""The table of annotators: how many answers, their accuracy, and whether they look at the items at all.

All is told by an annotator's answers and what the *others'* answers make of the same items (`others`). That is soft
evidence, so accuracies are posteriors (`accuracies`) and matrices are found by EM (`crowd`).

Spammers answer whatever the item is: all rows of their matrix are the same. `score` is Raykar and Yu's (JMLR 2012,
section 3.2), the mean squared difference of the rows: 0 for a pure spammer, 1 for a perfect annotator. How sure that
is, says a permutation test (a linear statistic, its exact mean and variance): do the others believe in an annotator's
answers more, or less, than if these had been dealt out over the same items at random? A spammer is one whose answers
pass for such a deal, and hardly for those of somebody who answers these items as the crowd does. Where they pass for
both, as a few answers always do, it is `unclear`. Who is wrong in a way of their own, as a rater who is always two
steps too strict, passes for a spammer by that and looks at the items all the same: so of those it is also asked whether
what they answer and what the others believe hang together in any way (`_hang_together`).

`bits` is what one label tells of an item of which no other is known: the mutual information of class and answer, which
Lindley (1956, "On a measure of the information provided by an experiment", Annals of Mathematical Statistics 27) takes
for what an experiment is worth. Given the class, answers are independent; so what n labels tell together is at most the
sum, and one label of b bits is worth at least b / c labels of c bits. Matrices that few answers told look as if they
told more than they do. So each row of one has, beside its own answers, as many more as there are classes, by somebody
who is right as often as this annotator, with the errors of the pooled confusion matrix.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Float64, Int64
from scipy import stats

from crowdsweep.arrays import Confusions, ItemProbs, normalised_rows, ratio
from crowdsweep.labelling.accuracies import accuracies
from crowdsweep.labelling.crowd import Crowd, learned_matrices
from crowdsweep.labelling.next_items import gains
from crowdsweep.labelling.others import Answers, Codes

SURE = 0.005  # p below which answers depend on the items: of two hundred spammers one slips through
_ROUNDING = 1e-9  # of what others believe of an item
_NO_DIRECTION = 0.05  # beside the largest singular value: what hardly varies rests on one or two answers
RARELY = 0.02  # how often somebody who answers as the crowd does may look like a spammer

Column = Float64[np.ndarray, " annotators"]


@dataclass(frozen=True, kw_only=True, eq=False)
class AnnotatorFacts:
    """Facts of annotators with an answer, by ascending code.

    Attributes:
        code: int64 [annotators].
        answers: int64 [annotators], to questions.
        accuracy: the probability of a right answer, in [0, 1]: its posterior mean.
        low, high: its 95 % interval, an answer being worth 1 / `Crowd.temperature`.
        consensus: the share of answers that are what the others mostly believe.
        bias: float64 [annotators, answers]: how much more often an answer is given than it is right, as a share of all
            answers, in [-1, 1].
        score: spammer score, 0 spammer … 1 perfect.
        bits: what one label tells of an item's class, at least 0.
        p: of the test that answers do not depend on the items; the less of both tests where it takes both.
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
    bits: Column
    p: Column
    below_crowd: Column
    cell: Int64[np.ndarray, "cells 3"]
    expected: Float64[np.ndarray, " cells"]

    @property
    def spammer(self) -> list[str]:
        """`yes`, `no` or `unclear` for each."""
        return np.where(self.p < SURE, "no", np.where(self.below_crowd < RARELY, "yes", "unclear")).tolist()


def annotator_facts(chunks: Callable[[], Iterable[Answers]], crowd: Crowd, shares: ItemProbs) -> AnnotatorFacts:
    """Finds what is known of the annotators with answers, in chunks of them.

    Args:
        chunks: gives their answers, at least one.
        crowd: how they answer on the whole.
        shares: of the answers to each kind of question (`Questions.shares`).
    """
    parts = [_facts(part, crowd, shares) for part in chunks()]
    return AnnotatorFacts(
        **{
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(AnnotatorFacts)
        }
    )


def _facts(part: Answers, crowd: Crowd, shares: ItemProbs) -> AnnotatorFacts:
    believed, given_shares = part.right, part.shares
    n_answers = np.bincount(part.place, minlength=len(part.code))
    weight = part.sums(part.weight)
    as_crowd = part.others @ crowd.matrix
    by_crowd = _standing(part, (part.others * as_crowd).sum(axis=1), part.sums(as_crowd) / n_answers[:, None])
    standing = _standing(part, believed, part.sums(given_shares) / n_answers[:, None])
    matrices, expected = learned_matrices(part, crowd.matrix)
    wrong = ((part.others @ crowd.errors) * given_shares).sum(axis=1)
    accuracy, low, high = accuracies(part.place, believed, wrong, part.weight, 1.0 / crowd.temperature)
    p, below_crowd = 2.0 * stats.norm.sf(np.abs(standing)), stats.norm.sf(by_crowd - standing)
    for doubted in np.flatnonzero((p >= SURE) & (below_crowd < RARELY)):
        its = slice(*np.searchsorted(part.place, [doubted, doubted + 1]))
        p[doubted] = min(p[doubted], _hang_together(part.others[its], given_shares[its]))
    place, true, given = np.nonzero(expected)
    counted = part.counts()
    consensus = part.weight * (part.others.argmax(axis=1) == part.answer)
    return AnnotatorFacts(
        code=part.code,
        answers=n_answers,
        accuracy=accuracy,
        low=low,
        high=high,
        consensus=part.sums(consensus) / weight,
        bias=(counted.sum(axis=1) - counted.sum(axis=2)) / weight[:, None],
        score=spammer_scores(matrices),
        bits=gains(shares, _shrunk(expected, accuracy, crowd)).sum(axis=1),
        p=p,
        below_crowd=below_crowd,
        cell=np.stack([part.code[place], true, given], axis=1),
        expected=expected[place, true, given],
    )


def _shrunk(expected: Confusions, accuracy: Column, crowd: Crowd) -> Confusions:
    """Returns the matrices of these expected answers, drawn towards those of nothing but accuracies."""
    size = len(crowd.matrix)
    right = accuracy[:, None, None]
    return normalised_rows(expected + size * (right * np.eye(size) + (1.0 - right) * crowd.errors))


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
    variance[variance < n * _ROUNDING**2] = 0.0  # where no item has an answer of another, all are believed the same
    return ratio(answers.sums(believed) - n * mean, np.sqrt(variance), at_zero=0.0)


def _hang_together(believed: Float64[np.ndarray, "rows answers"], given: Float64[np.ndarray, "rows answers"]) -> float:
    """Returns p of the test that answers have nothing to do with what the others believe: the general association
    statistic (Landis, Heyman and Koch 1978), whose permutations have a chi-squared distribution about."""
    spaces: list[np.ndarray] = []
    for values in (believed, given):
        left, size, _ = np.linalg.svd(values - values.mean(axis=0), full_matrices=False)
        spaces.append(left[:, size > _NO_DIRECTION * max(size.max(initial=0.0), _ROUNDING)])
    one, other = spaces
    statistic = (len(given) - 1) * float(((one.T @ other) ** 2).sum())
    return float(stats.chi2.sf(statistic, one.shape[1] * other.shape[1])) if one.size and other.size else 1.0
