"""Annotations as questions with one answer each, so that single-label and multi-label data are treated alike.

In single-label data a question is an item, and its possible answers are the classes. In multi-label data each pair of
item and class is a question with the answers 0 (not chosen) and 1 (chosen). An annotator who answered the item answered
all of its questions.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int
from scipy import sparse as sp

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.annotations import Annotations, grouped
from crowdsweep.data.choices import choices_of
from crowdsweep.metrics.items import as_binary
from crowdsweep.models._em import chunks

Order = Int[np.ndarray, " _"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Questions:
    """Rows (question, annotator, answer), and the model's posterior of each question.

    Attributes:
        question, annotator, answer: for single-label data, the annotations' own arrays.
        certainty: probability that the annotator gives to the answer; the rest is spread evenly over the others.
        posterior: rows sum to one.
        kinds: number of kinds of questions, which alternate: one for each class of multi-label data, else one.
    """

    question: Int[np.ndarray, " rows"]
    annotator: Int[np.ndarray, " rows"]
    answer: Int[np.ndarray, " rows"]
    weight: Float64[np.ndarray, " rows"]
    certainty: Float64[np.ndarray, " rows"]
    posterior: ItemProbs
    kinds: int = 1

    @cached_property
    def by_annotator(self) -> tuple[Order, Order, Order]:
        """The rows sorted by annotator, otherwise in their order; the annotators who have rows, ascending; the end of
        each one's rows."""
        order, pointers = grouped(self.annotator, int(self.annotator.max(initial=-1)) + 1)
        code = np.flatnonzero(np.diff(pointers))
        return order, code, pointers[1:][code]

    def sums_of_cells(self, table: Float64[np.ndarray, "cells answers"]) -> Float64[np.ndarray, "questions answers"]:
        """Returns for each question of single-label data the sum over its rows of the table's row for their annotator
        and answer. The table has `n_answers` rows for each annotator of `by_annotator`.

        The sparse matrix of that product would take as much room as the answers, so it is made some questions at a
        time."""
        code = self.by_annotator[1]
        place = np.zeros(int(code[-1]) + 1, dtype=np.int32)
        place[code] = np.arange(len(code)) * self.n_answers
        sums = np.empty((len(self.posterior), table.shape[1]))
        for part in chunks(len(sums), self.n_answers):
            ends = np.searchsorted(self.question, np.arange(part.start, part.stop + 1, dtype=self.question.dtype))
            rows = slice(ends[0], ends[-1])
            cells = (np.ones(ends[-1] - ends[0]), place[self.annotator[rows]] + self.answer[rows], ends - ends[0])
            sums[part] = sp.csr_array(cells, shape=(len(ends) - 1, len(table))) @ table
        return sums

    @property
    def plain(self) -> bool:
        """Whether rows have neither weights nor certainties of their own."""
        return self.weight.strides == self.certainty.strides == (0,)

    @property
    def n_answers(self) -> int:
        return self.posterior.shape[1]

    @property
    def shares(self) -> Float64[np.ndarray, "kinds answers"]:
        """The mean posterior of each answer, by kind of question."""
        return self.posterior.reshape(-1, self.kinds, self.n_answers).mean(axis=0)


def questions_of(annotations: Annotations, item_probs: ItemProbs, *, multilabel: bool) -> Questions:
    """Returns the questions of a dataset.

    Args:
        item_probs: a model's probabilities of the items; independent ones of multi-label classes.
    """
    if not multilabel:
        carried = (annotations.weight, annotations.probability)
        ones = np.broadcast_to(1.0, len(annotations))  # takes no memory
        weight, certainty = (ones if one is None else one.astype(np.float64) for one in carried)
        return Questions(
            question=annotations.item,
            annotator=annotations.annotator,
            answer=annotations.label,
            weight=weight,
            certainty=certainty,
            posterior=item_probs,
        )
    choices, n_classes = choices_of(annotations), annotations.n_classes
    sure = choices.chosen.toarray()
    chosen = (sure > 0.5).astype(np.int64)
    return Questions(
        question=(choices.item.astype(np.int64)[:, None] * n_classes + np.arange(n_classes)).reshape(-1),
        annotator=np.repeat(choices.annotator.astype(np.int64), n_classes),
        answer=chosen.reshape(-1),
        weight=np.repeat(choices.weight, n_classes),
        certainty=np.where(chosen == 1, sure, 1.0 - sure).reshape(-1),
        posterior=as_binary(item_probs),
        kinds=n_classes,
    )
