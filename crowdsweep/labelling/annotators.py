"""The table of annotators: how many answers they gave, their accuracy, and whether they look at the items at all.

Everything is computed from an annotator's answers and from what the *other* annotators' answers say of the same items
(`others`). The others' answers only give probabilities of classes. So accuracies are posteriors (`accuracies`), and
confusion matrices are estimated by EM (`crowd`).

Spammers answer without regard to the item: all rows of their confusion matrix are equal. `score` is the spammer score
of Raykar and Yu (JMLR 2012, section 3.2), the mean squared difference of the rows: 0 for a pure spammer, 1 for a
perfect annotator. A permutation test (a linear statistic, with its exact mean and variance) says how certain that is.
It compares how much the others believe an annotator's answers with how much they would believe the same answers,
assigned to the same items at random. An annotator is a spammer where the answers look randomly assigned, and a
likelihood ratio says that fewer than half of them are given as the crowd gives its own (`_looks_p`). So an annotator
who is weak, but more often right than by chance, is hardly ever called one. Where it could be either, as with a few
answers, the verdict is `unclear`.

An annotator with a systematic error, such as a rater who is always two steps too strict, looks like a spammer in this
test although the answers depend on the items. So suspects take a second test: whether their answers and the others'
beliefs are associated in any way (`_association_p`).

`bits` is the information of one label about an item that has no other label: the mutual information of class and
answer. It is the value of an experiment by Lindley (1956, "On a measure of the information provided by an experiment",
Annals of Mathematical Statistics 27). Given the class, answers are independent. So n labels together give at most the
sum of their bits, and one label of b bits is worth at least b / c labels of c bits. Matrices that were estimated from
few answers overstate the information. So each row is shrunk by as many additional answers as there are classes. These
come from an annotator of the same accuracy who makes the errors of the pooled confusion matrix.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Float64, Int64
from scipy import stats

from crowdsweep.arrays import Confusions, ItemProbs, floored_log, normalised_rows, ratio
from crowdsweep.labelling.accuracies import accuracies
from crowdsweep.labelling.crowd import Crowd, learned_matrices
from crowdsweep.labelling.leave_one_out import Answers, Codes
from crowdsweep.labelling.next_items import gains

SURE = 0.005  # p below which answers count as dependent on the items: one of two hundred spammers slips through
_ROUNDING = 1e-9  # rounding error of the others' posterior of an item
_NO_DIRECTION = 0.05  # of the largest singular value; a direction that varies less rests on one or two answers
RARELY = 0.02  # how often an annotator who looks at half of the items may seem to look at fewer
_LOOKS = 0.5
_SHARES = np.linspace(0.0, 1.0, 11)  # of answers that are given as the crowd gives its own

Column = Float64[np.ndarray, " annotators"]


@dataclass(frozen=True, kw_only=True, eq=False)
class AnnotatorFacts:
    """Facts of the annotators who have answers, by ascending code.

    Attributes:
        code: int64 [annotators].
        answers: int64 [annotators], number of answers to questions.
        accuracy: posterior mean of the probability of a right answer, in [0, 1].
        low, high: its 95 % interval; the likelihood of each answer is raised to the power 1 / `Crowd.temperature`.
        consensus: share of answers that are the most probable class by the others' answers.
        bias: float64 [annotators, answers]: how much more often an answer is given than it is right, as a share of all
            answers, in [-1, 1].
        score: spammer score, 0 spammer … 1 perfect.
        bits: information of one label about an item's class, at least 0.
        p: p-value of the hypothesis that answers do not depend on the items; the smaller p-value where both tests were
            made.
        looks: p-value of the hypothesis that at least half of the answers are given as the crowd gives its own.
        cell: int64 [cells, 3]: annotator, true class, answer given; all cells of the confusion matrices with an answer.
        expected: float64 [cells], expected number of answers in each cell.
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
    looks: Column
    cell: Int64[np.ndarray, "cells 3"]
    expected: Float64[np.ndarray, " cells"]

    @property
    def spammer(self) -> list[str]:
        """`yes`, `no` or `unclear` for each annotator."""
        return np.where(self.p < SURE, "no", np.where(self.looks < RARELY, "yes", "unclear")).tolist()


def annotator_facts(chunks: Callable[[], Iterable[Answers]], crowd: Crowd, shares: ItemProbs) -> AnnotatorFacts:
    """Computes the facts of all annotators who have answers, one chunk of annotators at a time.

    Args:
        chunks: yields the chunks of their answers, at least one.
        crowd: how annotators answer on the whole.
        shares: mean posterior of each answer, by kind of question (`Questions.shares`).
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
    standing = _permutation_z(part, believed, part.sums(given_shares) / n_answers[:, None])
    matrices, expected = learned_matrices(part, crowd.matrix)
    wrong = ((part.others @ crowd.errors) * given_shares).sum(axis=1)
    accuracy, low, high = accuracies(part.place, believed, wrong, part.weight, 1.0 / crowd.temperature)
    p, looks = 2.0 * stats.norm.sf(np.abs(standing)), _looks_p(part, (as_crowd * given_shares).sum(axis=1))
    for doubted in np.flatnonzero((p >= SURE) & (looks < RARELY)):
        its = slice(*np.searchsorted(part.place, [doubted, doubted + 1]))
        p[doubted] = min(p[doubted], _association_p(part.others[its], given_shares[its]))
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
        looks=looks,
        cell=np.stack([part.code[place], true, given], axis=1),
        expected=expected[place, true, given],
    )


def _shrunk(expected: Confusions, accuracy: Column, crowd: Crowd) -> Confusions:
    """Returns confusion matrices of these expected answers, shrunk towards matrices that follow from the accuracies
    alone."""
    size = len(crowd.matrix)
    right = accuracy[:, None, None]
    return normalised_rows(expected + size * (right * np.eye(size) + (1.0 - right) * crowd.errors))


def spammer_scores(confusions: Confusions) -> Column:
    """Returns the mean over pairs of rows of half their squared difference (Raykar and Yu 2012), in [0, 1]."""
    size = confusions.shape[1]
    # The sum over pairs of rows of |r - s|² is n Σ|r|² - |Σ r|², so that no pair is formed.
    squares = (confusions**2).sum(axis=(1, 2))
    sums = (confusions.sum(axis=1) ** 2).sum(axis=1)
    return (size * squares - sums) / (size * (size - 1))


def _permutation_z(
    answers: Answers, believed: Float64[np.ndarray, " rows"], given: Float64[np.ndarray, "n answers"]
) -> Column:
    """Returns each annotator's z-score in the permutation test: by how many standard deviations the others believe the
    answers more than the same answers, assigned to the same items at random. It is 0 where no assignment could make a
    difference.

    Args:
        believed: how much the others believe each answer.
        given: shares of each annotator's answers.
    """
    n = answers.sums(np.ones(len(answers.place)))
    share = given[answers.place]
    by_item = (share * answers.others).sum(axis=1)  # mean belief in a random answer, for each item
    by_answer = answers.sums(answers.others) / n[:, None]  # mean belief in each answer, for a random item
    mean = (given * by_answer).sum(axis=1)
    # Assigning answers anew leaves sums over an item's and over an answer's beliefs as they are: only the rest can
    # vary.
    away = answers.others - by_item[:, None] - by_answer[answers.place] + mean[answers.place, None]
    variance = n / np.maximum(n - 1, 1) * answers.sums((share * away**2).sum(axis=1))
    variance[variance < n * _ROUNDING**2] = 0.0  # where no item has another's answer, all answers are believed alike
    return ratio(answers.sums(believed) - n * mean, np.sqrt(variance), at_zero=0.0)


def _looks_p(answers: Answers, by_crowd: Float64[np.ndarray, " rows"]) -> Column:
    """Returns the p-value of the hypothesis that each annotator gives at least half of the answers by the pooled
    matrix, and the others without looking at the items: a likelihood ratio, with its asymptotic distribution.

    Args:
        by_crowd: probability of each answer if it is given as the crowd gives its own.
    """
    own = answers.sums(answers.shares) / answers.sums(np.ones(len(answers.place)))[:, None]
    by_chance = (own[answers.place] * answers.shares).sum(axis=1)
    likelihood = np.stack(
        [answers.sums(floored_log(share * by_crowd + (1.0 - share) * by_chance)) for share in _SHARES], axis=1
    )
    half = likelihood[:, _SHARES >= _LOOKS].max(axis=1)
    return stats.norm.sf(np.sqrt(2.0 * (likelihood.max(axis=1) - half)))


def _association_p(believed: Float64[np.ndarray, "rows answers"], given: Float64[np.ndarray, "rows answers"]) -> float:
    """Returns the p-value of the test that answers are independent of the others' beliefs. The statistic is that of
    general association (Landis, Heyman and Koch 1978), whose permutation distribution is approximately chi-squared."""
    spaces: list[np.ndarray] = []
    for values in (believed, given):
        left, size, _ = np.linalg.svd(values - values.mean(axis=0), full_matrices=False)
        spaces.append(left[:, size > _NO_DIRECTION * max(size.max(initial=0.0), _ROUNDING)])
    one, other = spaces
    statistic = (len(given) - 1) * float(((one.T @ other) ** 2).sum())
    return float(stats.chi2.sf(statistic, one.shape[1] * other.shape[1])) if one.size and other.size else 1.0
