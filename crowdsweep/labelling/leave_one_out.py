"""Leave-one-out posteriors: for each answer, the posterior of its question given the answers of all other annotators.

With prior p and the annotators' confusion matrices C, the posterior of a question follows from its answers y by the
E-step of Dawid and Skene. An annotator's own answers are one factor of it, which can be left out:

    others[k]  ~  p[k] * product over the other annotators' answers of C[k, y]

The matrices are the model's; the prior is the mean of the model's posteriors. The model's posterior of a single
question is of no use here: in an average of votes, or in a classifier's prediction, the answer is not a factor. Where a
model has no matrices, the others' answers are counted as votes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int, Int64
from scipy import sparse as sp
from scipy import special

from crowdsweep.arrays import ClassConfusions, Confusions, normalised_rows
from crowdsweep.labelling.questions import Questions
from crowdsweep.labelling.temperature import said_by

CHUNK_ENTRIES = 1 << 18  # numbers per chunk, which a core's cache holds
# Least probability of an answer: an infinite logarithm could not be subtracted again.
_LEAST_SAID = 1e-12

Codes = Int64[np.ndarray, " annotators"]
Matrices = Callable[[Codes], Confusions | ClassConfusions]
"""Returns the confusion matrices of annotators, whose rows are the true class; for multi-label data, a 2 × 2 matrix for
each class."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """The answers of some annotators, grouped by annotator.

    Attributes:
        code: the annotators, ascending.
        place: for each answer, the place of its annotator in `code`.
        answer: number of the answer.
        certainty: probability that the annotator gives to the answer (`Questions`).
        weight: weight of each answer.
        others: leave-one-out posterior of its question; rows sum to one.
    """

    code: Codes
    place: Int64[np.ndarray, " rows"]
    answer: Int[np.ndarray, " rows"]
    certainty: Float64[np.ndarray, " rows"]
    weight: Float64[np.ndarray, " rows"]
    others: Float64[np.ndarray, "rows answers"]

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Returns the sum over each annotator's rows; values are numbers or rows of numbers."""
        return np.add.reduceat(values, self._first, axis=0)

    @cached_property
    def _first(self) -> Int64[np.ndarray, " annotators"]:
        """The first row of each annotator."""
        return np.flatnonzero(np.diff(self.place, prepend=-1))

    @property
    def right(self) -> Float64[np.ndarray, " rows"]:
        """The leave-one-out posterior of each answer."""
        return said_by(self.certainty, self.others[np.arange(len(self.answer)), self.answer], self.others.shape[1])

    @property
    def shares(self) -> Float64[np.ndarray, "rows answers"]:
        """The distribution over the possible answers that each answer stands for: by its certainty."""
        given = np.eye(self.others.shape[1])[self.answer]
        return said_by(self.certainty[:, None], given, self.others.shape[1])

    def of_cells(self, matrices: Confusions) -> Float64[np.ndarray, "rows answers"]:
        """Returns for each answer its column of its annotator's confusion matrix."""
        return _by_answer(matrices).take(self._cell, axis=0)

    @cached_property
    def _cell(self) -> Int64[np.ndarray, " rows"]:
        """Number of each row's pair of annotator and answer."""
        return self.place * self.others.shape[1] + self.answer

    @cached_property
    def _cells(self) -> sp.csr_array:
        """Weights of the rows, by pair of annotator and answer: sparse [annotators * answers, rows]."""
        size, n_rows = self.others.shape[1], len(self.answer)
        return sp.csr_array((self.weight, (self._cell, np.arange(n_rows))), shape=(len(self.code) * size, n_rows))

    def counts(self, believed: Float64[np.ndarray, "rows answers"] | None = None) -> Confusions:
        """Returns expected numbers of answers, by annotator, true class and answer given.

        Args:
            believed: posterior of each answer's question; `others` where it is None.
        """
        believed = self.others if believed is None else believed
        if (self.certainty == 1.0).all():
            size = believed.shape[1]
            by_answer = (self._cells @ believed).reshape(len(self.code), size, size)
            return np.ascontiguousarray(by_answer.transpose(0, 2, 1))
        weighted = self.weight[:, None] * believed
        return np.stack([self.sums(weighted * share[:, None]) for share in self.shares.T], axis=2)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    """Rows of some annotators: `code` has the annotators, `place` each row's place in `code`, `own` its number in
    `Questions`."""

    code: Codes
    place: Int64[np.ndarray, " rows"]
    own: Int[np.ndarray, " rows"]


def leave_one_out_answers(questions: Questions, matrices: Matrices | None) -> Callable[[], Iterator[Answers]]:
    """Returns a function that yields the annotators' answers, in chunks of annotators, each time it is called.

    Args:
        questions: answers, at least one, and the model's posteriors.
        matrices: the model's confusion matrices; None where it has none.
    """
    total = _total(questions, matrices)

    def chunks() -> Iterator[Answers]:
        for rows in _chunks(questions):
            question = questions.question[rows.own]
            # Leaving one factor out of a product is subtracting its logarithm: nothing is computed again for each
            # answer.
            left = total[question] - _of_the_same(rows.place, question, _said(questions, rows, matrices))
            others = normalised_rows(np.maximum(left, 0.0)) if matrices is None else special.softmax(left, axis=1)
            answer, weight = questions.answer[rows.own], questions.weight[rows.own]
            yield Answers(
                code=rows.code,
                place=rows.place,
                answer=answer,
                certainty=questions.certainty[rows.own],
                weight=weight,
                others=others,
            )

    return chunks


def answers_alone(questions: Questions, matrices: Matrices) -> Float64[np.ndarray, "questions answers"]:
    """Returns the posterior of each question by these confusion matrices, from its answers alone."""
    return special.softmax(_total(questions, matrices), axis=1)


def _total(questions: Questions, matrices: Matrices | None) -> Float64[np.ndarray, "questions answers"]:
    """Returns the evidence of all answers for each class of each question: the log of a product, or a number of
    votes."""
    total = np.zeros(questions.posterior.shape)
    if matrices is not None:
        total += np.tile(np.log(np.maximum(questions.shares, _LEAST_SAID)), (len(total) // questions.kinds, 1))
    code, size = questions.by_annotator[1], questions.n_answers
    few = questions.plain and questions.kinds == 1 and len(code) * size**2 <= len(questions.answer)
    if few and matrices is not None:  # matrices no larger than the answers: the same sums at once
        return total + questions.sums_of_cells(_by_answer(np.log(np.maximum(matrices(code), _LEAST_SAID))))
    summed = np.zeros(total.shape[::-1])
    for rows in _chunks(questions):
        question, said = questions.question[rows.own], _said(questions, rows, matrices)
        for answer, one in enumerate(said.T):  # added one row after another, so that chunks change no sum
            np.add.at(summed[answer], question, np.ascontiguousarray(one))
    total += summed.T
    return total


def _chunks(questions: Questions) -> Iterator[_Rows]:
    order, code, ends = questions.by_annotator
    first = np.append(0, ends[:-1])
    most = max(CHUNK_ENTRIES // (questions.kinds * questions.n_answers**2), 1)  # annotators, by their matrices
    most_rows = CHUNK_ENTRIES // questions.n_answers
    start = 0
    while start < len(code):
        fitting = int(np.searchsorted(ends, first[start] + most_rows, side="right"))
        stop = max(min(fitting, start + most), start + 1)
        place = np.repeat(np.arange(stop - start), (ends - first)[start:stop])
        yield _Rows(code=code[start:stop], place=place, own=order[first[start] : ends[stop - 1]])
        start = stop


def _said(questions: Questions, rows: _Rows, matrices: Matrices | None) -> Float64[np.ndarray, "rows answers"]:
    """Returns the evidence of each answer for each class: the log of its probability given that class, or a vote for
    one class."""
    answer, size = questions.answer[rows.own], questions.n_answers
    weight = certainty = np.ones((1, 1))
    if not questions.plain:
        weight, certainty = questions.weight[rows.own, None], questions.certainty[rows.own, None]
    if matrices is None:
        return said_by(certainty, np.eye(size)[answer], size) * weight
    confusions = matrices(rows.code).reshape(len(rows.code), questions.kinds, size, -1)
    kind = questions.question[rows.own] % questions.kinds
    logs = np.log(np.maximum(confusions, _LEAST_SAID))
    said = _by_answer(logs).take((rows.place * questions.kinds + kind) * size + answer, axis=0)
    if (certainty < 1).any():  # an unsure answer counts as fractions of answers, as in the models
        said = certainty * said + (1.0 - certainty) / max(size - 1, 1) * (logs.sum(axis=3)[rows.place, kind] - said)
    return said * weight


def _by_answer(matrices: Float64[np.ndarray, "... true observed"]) -> Float64[np.ndarray, "rows true"]:
    """Returns the columns of all matrices as rows, so that an answer takes a whole row."""
    return np.ascontiguousarray(matrices.swapaxes(-1, -2)).reshape(-1, matrices.shape[-1])


def _of_the_same(
    place: Int64[np.ndarray, " rows"], question: Int[np.ndarray, " rows"], said: Float64[np.ndarray, "rows answers"]
) -> Float64[np.ndarray, "rows answers"]:
    """Returns for each answer the sum over all of its annotator's answers to its question: repeated answers are left
    out together."""
    key = place * (int(question.max()) + 1) + question
    if (key[1:] > key[:-1]).all():  # an annotator's rows ascend by question: nobody answers twice
        return said
    _, pair = np.unique(key, return_inverse=True)
    return np.stack([np.bincount(pair, column) for column in said.T], axis=1)[pair]
