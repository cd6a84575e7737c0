"""Annotators who give the same answers more often than independent errors allow: copies, and judges of one family.

The answers of all other annotators are evidence of an item's class. Given this evidence, two annotators with confusion
matrices C and D agree with probability

    sum over k of others[k] * sum over y of C[k, y] D[k, y]

Where two agree far more often, either they make the same errors, or the annotators whom the model believes instead do:
one opinion that is counted twice may outvote two. Gold decides which: given the numbers of errors of two annotators,
the number of errors that they make together is hypergeometric.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Int, Int64
from scipy import special, stats

from crowdsweep.labelling.leave_one_out import Matrices, total_and_said
from crowdsweep.labelling.questions import Questions

_MOST = 80  # annotators who are compared: those with the most answers
_FEWEST = 20  # questions that both annotators of a pair have answered, at least
_EXCESS = 0.05  # least excess of a pair's share of agreement over the expected share
_CHANCE = 0.01
_CERTAIN = 0.99  # least certainty: two who are unsure of the same label have not said the same
_NAMED = 5


def correlated_errors(questions: Questions, truth: Int64[np.ndarray, " questions"], names: Sequence[str]) -> str | None:
    """Returns a message that names the pairs who are wrong on the same questions more often than by chance. It is empty
    where there are none, and None where no pair has answered enough of the same questions with gold.

    Args:
        truth: right answer of each question, -1 where it is not known.
    """
    most, own = _with_most(questions, truth[questions.question] >= 0)
    asked = [questions.question[rows] for rows in own]
    wrong = [questions.answer[rows] != truth[where] for rows, where in zip(own, asked, strict=True)]
    found: list[tuple[float, int, float, int, int, int]] = []
    compared = 0
    for one, other in combinations(range(len(most)), 2):
        shared, here, there = np.intersect1d(asked[one], asked[other], assume_unique=True, return_indices=True)
        if (n := len(shared)) < _FEWEST:
            continue
        compared += 1
        errs, errs_too = wrong[one][here], wrong[other][there]
        both, expected = int((errs & errs_too).sum()), float(errs.sum() * errs_too.sum() / n)
        p = float(stats.hypergeom.sf(both - 1, n, int(errs.sum()), int(errs_too.sum())))
        if both - expected > _EXCESS * n:
            found.append((p, both, expected, n, one, other))
    if not compared:
        return None
    sure = sorted(pair for pair in found if pair[0] < _CHANCE / compared)
    if not sure:
        return ""
    shown = ", ".join(
        f"{names[int(most[one])]} and {names[int(most[other])]} ({both} of {n}, expected {expected:.1f})"
        for _, both, expected, n, one, other in sure[:_NAMED]
    )
    more = ", …" if len(sure) > _NAMED else ""
    return (
        f"{len(sure)} of {compared} pairs of annotators are wrong on the same items with gold more often than "
        f"independent errors allow: {shown}{more}; their opinion counts twice, and their accuracies are too high"
    )


def excess_agreement(questions: Questions, matrices: Matrices, names: Sequence[str]) -> str:
    """Returns a message that names the pairs who agree more often than the model allows; empty where there are none."""
    most, alone = _with_most(questions, np.ones(len(questions.question), dtype=bool))
    total, said = total_and_said(questions, matrices, most, alone)
    confusion = matrices(most)
    found: list[tuple[float, float, float, int, int]] = []
    compared = 0
    for one, other in combinations(range(len(most)), 2):
        shared, here, there = np.intersect1d(
            questions.question[alone[one]], questions.question[alone[other]], assume_unique=True, return_indices=True
        )
        if len(shared) < _FEWEST:
            continue
        compared += 1
        rows, others = alone[one][here], alone[other][there]
        # All answers less those of the two: what the others say of the item.
        evidence = special.softmax(total[shared] - said[one][here] - said[other][there], axis=1)
        expected = evidence @ (confusion[one] * confusion[other]).sum(axis=1)
        agree = questions.answer[rows] == questions.answer[others]
        away = (agree.sum() - expected.sum()) / np.sqrt(max((expected * (1.0 - expected)).sum(), 1e-9))
        if agree.mean() - expected.mean() > _EXCESS:
            found.append((float(away), float(agree.mean()), float(expected.mean()), one, other))
    limit = stats.norm.isf(_CHANCE / max(compared, 1))
    sure = sorted((pair for pair in found if pair[0] > limit), reverse=True)
    if not sure:
        return ""
    shown = ", ".join(
        f"{names[int(most[one])]} and {names[int(most[other])]} ({agree:.0%}, expected {expected:.0%})"
        for _, agree, expected, one, other in sure[:_NAMED]
    )
    more = ", …" if len(sure) > _NAMED else ""
    return (
        f"{len(sure)} of {compared} pairs of annotators agree more often than independent errors allow: {shown}{more}; "
        f"either they make the same errors, or the others do; labels look surer than they are"
    )


def _with_most(
    questions: Questions, asked: Bool[np.ndarray, " rows"]
) -> tuple[Int64[np.ndarray, " annotators"], list[Int[np.ndarray, " _"]]]:
    """Returns the annotators with most of the rows in `asked` whose answers are certain, and for each of them the rows
    of first answers to questions."""
    asked = asked & (questions.certainty >= _CERTAIN)
    active, answers = np.unique(questions.annotator[asked], return_counts=True)
    most = np.sort(active[np.argsort(-answers, kind="stable")[:_MOST]]).astype(np.int64)
    own: list[Int[np.ndarray, " _"]] = []
    order, code, ends = questions.by_annotator
    for place in np.searchsorted(code, most):
        rows = order[ends[place - 1] if place else 0 : ends[place]]
        rows = rows[asked[rows]]
        own.append(rows[np.unique(questions.question[rows], return_index=True)[1]])
    return most, own
