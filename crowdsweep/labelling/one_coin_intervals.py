"""A second interval of each annotator's accuracy, from a one-coin model that has fewer parameters than confusion
matrices.

A model's confusion matrices have a number for each class and answer. Matrices of annotators with few answers have
estimation errors, which make the others' answers surer than they are. Annotators who never err then look as if they
did, because the evidence against them is the others' estimation error. With one accuracy per annotator, and the errors
that the crowd makes, the same answers tell less about the others, but more reliably. Where annotators do treat classes
differently, the matrices are right. No answer shows which of the two holds, so intervals cover both.

Accuracies are estimated by EM, which starts from those that the matrices give (one-coin: Zhou et al., Regularized
Minimax Conditional Entropy for Crowdsourcing, 2015, section 6).
"""

import numpy as np
from jaxtyping import Float64

from crowdsweep.arrays import ClassConfusions, Confusion, Confusions
from crowdsweep.labelling.accuracies import accuracies
from crowdsweep.labelling.crowd import Crowd
from crowdsweep.labelling.leave_one_out import Codes, Matrices, answers_alone, leave_one_out_answers
from crowdsweep.labelling.questions import Questions
from crowdsweep.labelling.temperature import said_by
from crowdsweep.models._em import chunks

_STEPS = 10  # of EM, which starts near its solution
_AS_IF = 0.5  # right pseudo-answers, and as many wrong ones, added to an annotator's own

Column = Float64[np.ndarray, " annotators"]


def one_coin_intervals(
    questions: Questions, crowd: Crowd, code: Codes, accuracy: Column
) -> tuple[Float64[np.ndarray, " annotators"], Float64[np.ndarray, " annotators"]]:
    """Returns the ends of the 95 % intervals of annotators' accuracies under the one-coin model.

    Args:
        code: numbers of all annotators with an answer, ascending.
        accuracy: their accuracies, from which EM starts.
    """
    of_all = np.zeros(int(code.max()) + 1)
    of_all[code] = accuracy
    for _ in range(_STEPS):
        of_all[code] = _learned(questions, _by_accuracy(of_all, crowd.errors, questions.kinds), code)
    low: list[np.ndarray] = []
    high: list[np.ndarray] = []
    for part in leave_one_out_answers(questions, _by_accuracy(of_all, crowd.errors, questions.kinds))():
        wrong = ((part.others @ crowd.errors) * part.shares).sum(axis=1)
        ends = accuracies(part.place, part.right, wrong, part.weight, 1.0 / crowd.temperature)[1:]
        low.append(ends[0])
        high.append(ends[1])
    return np.concatenate(low), np.concatenate(high)


def _learned(questions: Questions, matrices: Matrices, code: Codes) -> Column:
    alone = answers_alone(questions, matrices)
    n, right = np.zeros((2, int(code.max()) + 1))
    for part in chunks(len(questions.question), 1):
        believed = alone[questions.question[part], questions.answer[part]]
        said = said_by(questions.certainty[part], believed, questions.n_answers)
        np.add.at(n, questions.annotator[part], questions.weight[part])
        np.add.at(right, questions.annotator[part], questions.weight[part] * said)
    return (right[code] + _AS_IF) / (n[code] + 2 * _AS_IF)


def _by_accuracy(accuracy: Column, errors: Confusion, kinds: int) -> Matrices:
    size = len(errors)

    def matrices(annotators: Codes) -> Confusions | ClassConfusions:
        right = accuracy[annotators][:, None, None]
        found = right * np.eye(size) + (1.0 - right) * errors
        return found if kinds == 1 else np.repeat(found[:, None], kinds, axis=1)

    return matrices
