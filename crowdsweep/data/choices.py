"""Multi-label answers: the set of classes that an annotator chose for an item.

Multi-label annotations have one row (item, annotator, class) for each chosen class. All rows of a pair (item,
annotator) form one answer; a class chosen twice counts once. A class without a row was not chosen. `probability` is
how sure the annotator is that the class applies, so a row of probability zero chooses nothing. An answer that chose no
class has one such row, of any class. Every class of an answer is informative: it was chosen, or it was not.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float64, Int32

from crowdsweep.arrays import ClassConfusion, ClassConfusions, ItemProbs, ratio
from crowdsweep.data.annotations import Annotations

CHUNK_ENTRIES = 4_000_000  # answers × classes at a time: 32 MB


@dataclass(frozen=True, kw_only=True, eq=False)
class Choices:
    """Multi-label answers, ordered by item and annotator.

    Attributes:
        item: ascending.
        weight: the largest weight of the answer's rows; one if rows have no weights.
        chosen: sparse float64 [answers, classes], in [0, 1]: how surely each class was chosen; zero if it was not.
    """

    item: Int32[np.ndarray, " answers"]
    annotator: Int32[np.ndarray, " answers"]
    weight: Float64[np.ndarray, " answers"]
    chosen: sp.csr_array
    n_items: int

    def __len__(self) -> int:
        return len(self.item)

    def shares(self) -> ItemProbs:
        """Returns the weighted share of each item's answers that chose each class; 0.5 for an item without answers."""
        answers = sp.csr_array((self.weight, (self.item, np.arange(len(self)))), shape=(self.n_items, len(self)))
        judged = np.bincount(self.item, weights=self.weight, minlength=self.n_items)
        return ratio((answers @ self.chosen).toarray(), judged[:, None], at_zero=0.5)

    def shares_of_others(self, answers: slice) -> ItemProbs:
        """Returns, for each of these answers, the weighted share of its item's *other* answers that chose each class.

        The shape is [answers, classes]; shares are 0.5 if there is no other answer.
        """
        by_item = sp.csr_array((self.weight, (self.item, np.arange(len(self)))), shape=(self.n_items, len(self)))
        of_item, own = self.item[answers], self.weight[answers, None] * self.chosen[answers].toarray()
        first, last = (int(of_item[0]), int(of_item[-1]) + 1) if len(of_item) else (0, 0)
        chosen = (by_item[first:last] @ self.chosen).toarray()[of_item - first] - own
        judged = np.bincount(self.item, weights=self.weight, minlength=self.n_items)[of_item] - self.weight[answers]
        alone = judged <= 1e-9 * self.weight[answers]
        return np.where(alone[:, None], 0.5, np.clip(ratio(chosen, judged[:, None], at_zero=0.5), 0.0, 1.0))


def choices_of(annotations: Annotations) -> Choices:
    """Returns the answers in multi-label annotations. O(A)."""
    n_answers, first = len(annotations.pair_starts), annotations.pair_starts
    answer = np.repeat(np.arange(n_answers), np.diff(np.append(first, len(annotations))))
    weight = np.ones(n_answers)
    if annotations.weight is not None:
        np.maximum.at(weight := np.zeros(n_answers), answer, annotations.weight.astype(np.float64))
    sure = np.ones(len(annotations)) if annotations.probability is None else annotations.probability.astype(np.float64)
    begins = np.ones(len(annotations), dtype=bool)
    begins[1:] = (np.diff(answer) != 0) | (np.diff(annotations.label) != 0)
    cell = np.cumsum(begins) - 1  # rows ascend by class within an answer, so repeats of a class are adjacent
    chosen = np.zeros(int(begins.sum()))
    np.maximum.at(chosen, cell, sure)
    table = sp.csr_array(
        (chosen, (answer[begins], annotations.label[begins])), shape=(n_answers, annotations.n_classes)
    )
    table.eliminate_zeros()
    return Choices(
        item=annotations.item[first],
        annotator=annotations.annotator[first],
        weight=weight,
        chosen=table,
        n_items=annotations.n_items,
    )


def chosen_rows(annotations: Annotations, scale: str) -> Annotations:
    """Returns the annotations without the rows of multi-label answers that choose nothing."""
    if scale != "multilabel" or annotations.probability is None:
        return annotations
    return annotations.take(annotations.probability > 0)


def annotations_of(
    chosen: np.ndarray, *, item: np.ndarray, annotator: np.ndarray, n_items: int, n_annotators: int
) -> Annotations:
    """Returns the annotation rows of answers that say for every class whether it was chosen.

    Raises:
        DataError: a code lies outside its declared size.
    """
    answer, label = np.nonzero(chosen)
    empty = np.flatnonzero(~chosen.any(axis=1))
    rows = np.concatenate([answer, empty])
    return Annotations.of(
        item=item[rows],
        annotator=annotator[rows],
        label=np.concatenate([label, np.zeros(len(empty), dtype=label.dtype)]),
        probability=np.repeat(np.array([1.0, 0.0], np.float32), [len(answer), len(empty)]) if len(empty) else None,
        n_items=n_items,
        n_annotators=n_annotators,
        n_classes=chosen.shape[1],
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class ChoiceCounts:
    """Counts of how often each annotator chose each class, apart for items that the class applies to and for others.

    Let w be an answer's weight, c how surely it chose a class, and p the probability that the class applies to the
    item. The counts of an annotator and a class are sums over the annotator's answers:

        applies, chosen            w p c            applies, not chosen            w p (1 - c)
        does not apply, chosen     w (1 - p) c      does not apply, not chosen     w (1 - p) (1 - c)

    Attributes:
        code: codes of the annotators who answered anything, ascending.
        answered: sum of w, [annotators].
        applies: sum of w p, [annotators, classes].
        chosen: sum of w c, sparse [annotators, classes].
        both: sum of w p c, sparse [annotators, classes].
    """

    code: Int32[np.ndarray, " annotators"]
    answered: Float64[np.ndarray, " annotators"]
    applies: Float64[np.ndarray, "annotators classes"]
    chosen: sp.csr_array
    both: sp.csr_array

    def of(self, annotators: np.ndarray) -> ClassConfusions:
        """Returns the counts of these annotators [n, classes, 2 (applies), 2 (chosen)]; zero for idle ones."""
        counts = np.zeros((len(annotators), self.applies.shape[1], 2, 2))
        where = np.flatnonzero(np.isin(annotators, self.code))
        known = np.searchsorted(self.code, annotators[where])
        sums = (self.applies[known], self.chosen[known].toarray(), self.both[known].toarray())
        counts[where] = _two_by_two(self.answered[known, None], *sums)
        return counts

    def pooled(self) -> ClassConfusion:
        """Returns the counts of all annotators together [classes, 2 (applies), 2 (chosen)]."""
        sums = (np.asarray(table.sum(axis=0)) for table in (self.applies, self.chosen, self.both))
        return _two_by_two(self.answered.sum(keepdims=True), *sums)


def choice_counts(choices: Choices, item_probs: ItemProbs) -> ChoiceCounts:
    """Counts choices, given the probability of each class for each item; see `counts_against`."""
    return counts_against(choices, lambda answers: item_probs[choices.item[answers]])


def counts_against(choices: Choices, applies_to: Callable[[slice], ItemProbs]) -> ChoiceCounts:
    """Counts choices, given the probability that each class applies to the item of each answer.

    Takes O(answers × classes) time, in chunks, and memory of active annotators × classes.

    Args:
        applies_to: for a slice of the answers, the probability of each class [answers, classes].
    """
    code, annotator = np.unique(choices.annotator, return_inverse=True)
    n_answers, n_classes = choices.chosen.shape
    answers = sp.csr_array((choices.weight, (annotator, np.arange(n_answers))), shape=(len(code), n_answers))
    applies, both = np.zeros((len(code), n_classes)), choices.chosen.copy()
    step = max(CHUNK_ENTRIES // n_classes, 1)
    for start in range(0, n_answers, step):
        part = slice(start, min(start + step, n_answers))
        probs = applies_to(part)
        applies += answers[:, part] @ probs
        chosen = slice(int(both.indptr[part.start]), int(both.indptr[part.stop]))
        row = np.repeat(np.arange(len(probs)), np.diff(both.indptr[part.start : part.stop + 1]))
        both.data[chosen] *= probs[row, both.indices[chosen]]
    return ChoiceCounts(
        code=code,
        answered=np.asarray(answers.sum(axis=1)),
        applies=applies,
        chosen=answers @ choices.chosen,
        both=answers @ both,
    )


def _two_by_two(answered: np.ndarray, applies: np.ndarray, chosen: np.ndarray, both: np.ndarray) -> np.ndarray:
    """Returns the four counts [..., applies, chosen] from their sums; values below zero by rounding become zero."""
    missed, wrong = applies - both, chosen - both
    neither = answered - applies - wrong
    cells = np.stack([np.stack([neither, wrong], axis=-1), np.stack([missed, both], axis=-1)], axis=-2)
    return np.maximum(cells, 0.0)
