"""The accuracy of annotators once more, where each of them is known by it alone: fewer numbers than matrices have.

A model's matrices have a number for each class and answer. Of annotators with few answers these are found with errors,
which make the others' answers surer than they are, and somebody who never errs look as if he did: what the others say
against him is their errors'. Each by one accuracy, with the errors that the crowd makes, the same answers tell less
about each of the others, and what they tell is more nearly so. Where annotators do differ in how they treat classes it
is the matrices that are right. No answer shows which of both holds, so intervals reach over both.

Accuracies are found by EM, from those that matrices tell on (one-coin: Zhou et al., Regularized Minimax Conditional
Entropy for Crowdsourcing, 2015, section 6).
"""

import numpy as np
from jaxtyping import Float64

from crowdsweep.arrays import ClassConfusions, Confusion, Confusions
from crowdsweep.labelling.accuracies import accuracies
from crowdsweep.labelling.crowd import Crowd
from crowdsweep.labelling.others import Codes, Matrices, answers_alone, answers_and_others
from crowdsweep.labelling.questions import Questions
from crowdsweep.labelling.temperature import said_by

_STEPS = 10  # of EM, which begins near its end
_AS_IF = 0.5  # right answers, and as many wrong ones, beside an annotator's own

Column = Float64[np.ndarray, " annotators"]


def ends_by_accuracy(
    questions: Questions, crowd: Crowd, code: Codes, accuracy: Column
) -> tuple[Float64[np.ndarray, " annotators"], Float64[np.ndarray, " annotators"]]:
    """Returns the ends of the 95 % intervals of annotators' accuracies, nothing but accuracies being known of them.

    Args:
        questions: with their answers.
        crowd: how annotators err.
        code: all annotators with an answer, ascending.
        accuracy: of these, to begin with.
    """
    of_all = np.zeros(int(code.max()) + 1)
    of_all[code] = accuracy
    for _ in range(_STEPS):
        of_all[code] = _learned(questions, _by_accuracy(of_all, crowd.errors, questions.kinds), code)
    low: list[np.ndarray] = []
    high: list[np.ndarray] = []
    for part in answers_and_others(questions, _by_accuracy(of_all, crowd.errors, questions.kinds))():
        wrong = ((part.others @ crowd.errors) * part.shares).sum(axis=1)
        ends = accuracies(part.place, part.right, wrong, part.weight, 1.0 / crowd.temperature)[1:]
        low.append(ends[0])
        high.append(ends[1])
    return np.concatenate(low), np.concatenate(high)


def _learned(questions: Questions, matrices: Matrices, code: Codes) -> Column:
    believed = answers_alone(questions, matrices)[questions.question, questions.answer]
    right = questions.weight * said_by(questions.certainty, believed, questions.n_answers)
    n = np.bincount(questions.annotator, weights=questions.weight)[code]
    return (np.bincount(questions.annotator, weights=right)[code] + _AS_IF) / (n + 2 * _AS_IF)


def _by_accuracy(accuracy: Column, errors: Confusion, kinds: int) -> Matrices:
    size = len(errors)

    def matrices(annotators: Codes) -> Confusions | ClassConfusions:
        right = accuracy[annotators][:, None, None]
        found = right * np.eye(size) + (1.0 - right) * errors
        return found if kinds == 1 else np.repeat(found[:, None], kinds, axis=1)

    return matrices
