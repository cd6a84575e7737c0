"""The annotations of several data sets, one behind the other, as one sparse matrix.

Item i of replica r (a seed, a restart) is the flat item `item_pointers[r] + i`. Annotators likewise, but only those who
answered anything: with a million declared and ten thousand active, nothing here grows with the million.

An annotator's confusion matrix is never held whole: of its K columns (one for each label) only those with a label
that the annotator really used exist, as flat *columns* ordered by (annotator, label). So there are at most as many
columns as annotations (a soft answer has one for each label that it does not exclude).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float64, Int, Int32, Int64, Shaped

from crowdsweep.data.annotations import Annotations, summed_by_item


@dataclass(frozen=True, kw_only=True, eq=False)
class StackedCrowds:
    """The annotations of several replicas, one behind the other. Built by `stack`.

    Attributes:
        answers: float64 CSR [items, columns]; repeats of a pair and weights are summed.
        annotator_code: the data set's code of each flat annotator.
        column_annotator: flat annotator of each column, ascending.
        item_pointers, annotator_pointers, column_pointers: where each replica begins, and the last ends.
        declared_annotators: of each replica, idle ones among them.
        n_classes: the same in all replicas.
    """

    answers: sp.csr_array
    annotator_code: Int32[np.ndarray, " annotators"]
    column_annotator: Int32[np.ndarray, " columns"]
    column_label: Int32[np.ndarray, " columns"]
    item_pointers: Int64[np.ndarray, " ends"]
    annotator_pointers: Int64[np.ndarray, " ends"]
    column_pointers: Int64[np.ndarray, " ends"]
    declared_annotators: tuple[int, ...]
    n_classes: int

    @property
    def n_replicas(self) -> int:
        return len(self.item_pointers) - 1

    @property
    def n_items(self) -> int:
        """Flat items, of all replicas together."""
        return int(self.item_pointers[-1])

    @property
    def n_annotators(self) -> int:
        """Flat annotators (active ones), of all replicas together."""
        return int(self.annotator_pointers[-1])

    def items_of(self, replica: int) -> slice:
        """Returns where this replica's items lie in flat arrays."""
        return slice(int(self.item_pointers[replica]), int(self.item_pointers[replica + 1]))

    def annotators_of(self, replica: int) -> slice:
        """Returns where this replica's annotators lie in flat arrays."""
        return slice(int(self.annotator_pointers[replica]), int(self.annotator_pointers[replica + 1]))

    def columns_of(self, replica: int) -> slice:
        """Returns where this replica's columns lie in flat arrays."""
        return slice(int(self.column_pointers[replica]), int(self.column_pointers[replica + 1]))

    def spread(self, per_replica: Shaped[np.ndarray, " replicas *shape"]) -> Shaped[np.ndarray, " items *shape"]:
        """Repeats a value (or row) of each replica over its items."""
        if self.n_replicas == 1:  # nothing need be copied
            return np.broadcast_to(per_replica, (self.n_items, *per_replica.shape[1:]))
        return np.repeat(per_replica, np.diff(self.item_pointers), axis=0)

    def replica_sums(self, per_item: Float64[np.ndarray, " items *shape"]) -> Float64[np.ndarray, " replicas *shape"]:
        """Sums over the items of each replica."""
        return self._replica_items @ per_item

    def answered_sums(self, per_item: Float64[np.ndarray, " items *shape"]) -> Float64[np.ndarray, " replicas *shape"]:
        """Sums over the items of each replica that have an answer."""
        return self._replica_answered @ per_item

    def annotator_sums(
        self, per_column: Float64[np.ndarray, " columns *shape"]
    ) -> Float64[np.ndarray, " annotators *shape"]:
        """Sums over the columns of each annotator."""
        return self._annotator_columns @ per_column

    def replica_sums_of_annotators(
        self, per_annotator: Float64[np.ndarray, " annotators *shape"]
    ) -> Float64[np.ndarray, " replicas *shape"]:
        """Sums over the annotators of each replica."""
        return self._replica_annotators @ per_annotator

    def replica_maxima(
        self, values: Float64[np.ndarray, " rows"], replica: Int64[np.ndarray, " rows"]
    ) -> Float64[np.ndarray, " replicas"]:
        """Returns the largest of each replica's values, which are at least 0; 0 where it has none."""
        largest = np.zeros(self.n_replicas)
        np.maximum.at(largest, replica, values)
        return largest

    def vote_sums(self, per_entry: Float64[np.ndarray, " entries"]) -> Float64[np.ndarray, "items classes"]:
        """Sums over the answers to each item that name each label, of a number for each entry of `answers`."""
        entries = (per_entry, self.column_label[self.answers.indices], self.answers.indptr)
        return sp.csr_array(entries, shape=(self.n_items, self.n_classes)).toarray()

    @cached_property
    def answers_per_column(self) -> Float64[np.ndarray, " columns"]:
        """How many answers each column has, weighted."""
        return np.asarray(self.answers.sum(axis=0))

    @cached_property
    def answers_per_annotator(self) -> Float64[np.ndarray, " annotators"]:
        """How many answers each annotator gave, weighted."""
        return self.annotator_sums(self.answers_per_column)

    @cached_property
    def label_indicator(self) -> sp.csr_array:
        """The 0/1 matrix [columns, classes] of each column's label."""
        return one_hot(self.column_label, self.n_classes)

    @cached_property
    def replica_label_indicator(self) -> sp.csr_array:
        """The 0/1 matrix [columns, replicas * classes] of `column_replica_label`."""
        return one_hot(self.column_replica_label, self.n_replicas * self.n_classes)

    @cached_property
    def annotator_used(self) -> sp.csr_array:
        """The 0/1 matrix [annotators, replicas * classes] of the labels that each used."""
        return self._annotator_columns @ self.replica_label_indicator

    @cached_property
    def answers_by_column(self) -> sp.csr_array:
        """`answers` the other way round [columns, items]: a product with it writes each of its rows once."""
        return self.answers.T.tocsr()

    @cached_property
    def _replica_answered(self) -> sp.csr_array:
        items = _segments(self.item_pointers)
        return sp.csr_array((self.answered, items.indices, items.indptr), shape=items.shape)

    @cached_property
    def answered(self) -> Float64[np.ndarray, " items"]:
        """One for each item with an answer, else zero."""
        return np.asarray(np.diff(self.answers.indptr) > 0, dtype=np.float64)

    @cached_property
    def annotator_column_pointers(self) -> Int64[np.ndarray, " ends"]:
        """The columns of annotator t are `[t]:[t + 1]`. Length annotators + 1."""
        return _pointers(np.bincount(self.column_annotator, minlength=self.n_annotators))

    @cached_property
    def annotator_replica(self) -> Int64[np.ndarray, " annotators"]:
        """The replica of each flat annotator."""
        return np.repeat(np.arange(self.n_replicas), np.diff(self.annotator_pointers))

    @cached_property
    def column_replica(self) -> Int64[np.ndarray, " columns"]:
        """The replica of each column."""
        return self.annotator_replica[self.column_annotator]

    @cached_property
    def column_replica_label(self) -> Int64[np.ndarray, " columns"]:
        """Replica * classes + label of each column: its row in a table that has one for each replica and label."""
        return self.column_replica * self.n_classes + self.column_label

    @cached_property
    def _replica_items(self) -> sp.csr_array:
        return _segments(self.item_pointers)

    @cached_property
    def _replica_annotators(self) -> sp.csr_array:
        return _segments(self.annotator_pointers)

    @cached_property
    def _annotator_columns(self) -> sp.csr_array:
        return _segments(self.annotator_column_pointers)


def stack(parts: Sequence[Annotations]) -> StackedCrowds:
    """Stacks data sets with the same number of classes. A part that comes twice (restarts) is sorted once. O(A log A).

    Soft answers become fractions of an answer; fractions of zero are left out.
    """
    by_identity = {id(part): part for part in parts}
    built = {key: _one_crowd(part) for key, part in by_identity.items()}
    crowds = [built[id(part)] for part in parts]
    if len(crowds) == 1:
        return crowds[0]
    items, columns = (_pointers([crowd.answers.shape[axis] for crowd in crowds]) for axis in range(2))
    annotators = _pointers([crowd.n_annotators for crowd in crowds])
    entries = _pointers([crowd.answers.nnz for crowd in crowds])
    indices = [crowd.answers.indices + start for crowd, start in zip(crowds, columns, strict=False)]
    ends = [crowd.answers.indptr[1:] + start for crowd, start in zip(crowds, entries, strict=False)]
    answers = sp.csr_array(
        (
            np.concatenate([crowd.answers.data for crowd in crowds]),
            np.concatenate(indices),
            np.concatenate([np.zeros(1, dtype=np.int64), *ends]),
        ),
        shape=(int(items[-1]), int(columns[-1])),
    )
    return StackedCrowds(
        answers=answers,
        annotator_code=np.concatenate([crowd.annotator_code for crowd in crowds]),
        column_annotator=np.concatenate(
            [crowd.column_annotator + start for crowd, start in zip(crowds, annotators, strict=False)]
        ).astype(np.int32),
        column_label=np.concatenate([crowd.column_label for crowd in crowds]),
        item_pointers=items,
        annotator_pointers=annotators,
        column_pointers=columns,
        declared_annotators=tuple(crowd.declared_annotators[0] for crowd in crowds),
        n_classes=crowds[0].n_classes,
    )


def pooled(crowds: StackedCrowds) -> StackedCrowds:
    """Returns the same answers as if one annotator had given all those of a replica. O(A + replicas * classes)."""
    n_replicas, n_classes = crowds.n_replicas, crowds.n_classes
    return StackedCrowds(
        answers=crowds.answers @ crowds.replica_label_indicator,
        annotator_code=np.zeros(n_replicas, dtype=np.int32),
        column_annotator=np.repeat(np.arange(n_replicas, dtype=np.int32), n_classes),
        column_label=np.tile(np.arange(n_classes, dtype=np.int32), n_replicas),
        item_pointers=crowds.item_pointers,
        annotator_pointers=np.arange(n_replicas + 1),
        column_pointers=np.arange(n_replicas + 1) * n_classes,
        declared_annotators=(1,) * n_replicas,
        n_classes=n_classes,
    )


def weights_of(part: Annotations) -> Float64[np.ndarray, " annotations"]:
    """Returns how much each row counts: one where no weights are given."""
    return np.ones(len(part)) if part.weight is None else part.weight.astype(np.float64)


def _one_crowd(part: Annotations) -> StackedCrowds:
    n_classes = part.n_classes
    weight = weights_of(part)
    ends = part.item_pointers
    code = part.annotator.astype(np.int32 if part.n_annotators * n_classes < 2**31 else np.int64)
    code *= n_classes
    if part.soft_labels is None:
        code += part.label
    else:
        weight = (weight[:, None] * part.soft_labels).ravel()
        code, kept = (code[:, None] + np.arange(n_classes)).ravel(), weight > 0
        # Each annotation became n_classes entries, of which some are left out: an item's entries end after the kept
        # ones.
        ends = np.append(0, np.cumsum(kept))[ends * n_classes]
        weight, code = weight[kept], code[kept]
    codes, column = _distinct(code, part.n_annotators * n_classes)
    whose = codes // n_classes  # ascending, as the codes are
    begins = np.diff(whose, prepend=-1) != 0
    active, column_annotator = whose[begins], np.cumsum(begins) - 1
    return StackedCrowds(
        answers=summed_by_item(weight, column, ends, len(codes)),
        annotator_code=active.astype(np.int32),
        column_annotator=column_annotator.astype(np.int32),
        column_label=(codes % n_classes).astype(np.int32),
        item_pointers=np.array([0, part.n_items], dtype=np.int64),
        annotator_pointers=np.array([0, len(active)], dtype=np.int64),
        column_pointers=np.array([0, len(codes)], dtype=np.int64),
        declared_annotators=(part.n_annotators,),
        n_classes=n_classes,
    )


def _distinct(
    codes: Int[np.ndarray, " rows"], size: int
) -> tuple[Int[np.ndarray, " distinct"], Int32[np.ndarray, " rows"]]:
    """Returns the distinct codes, ascending, and which of them each row has. By a table of all possible codes, which
    takes an eighth of the time of `np.unique`, where it has at most a few times as many entries as there are rows.
    """
    if size > 4 * len(codes):
        found, place = np.unique(codes, return_inverse=True)
        return found, place.astype(np.int32)
    there = np.zeros(size, dtype=bool)
    there[codes] = True
    return np.flatnonzero(there), (np.cumsum(there, dtype=np.int32) - 1)[codes]


def one_hot(codes: Int32[np.ndarray, " rows"] | Int64[np.ndarray, " rows"], n_codes: int) -> sp.csr_array:
    """Returns the 0/1 matrix [rows, codes] of each row's code."""
    n_rows = len(codes)
    return sp.csr_array((np.ones(n_rows), codes, np.arange(n_rows + 1)), shape=(n_rows, n_codes))


def _pointers(counts: Sequence[int] | Int64[np.ndarray, " parts"]) -> Int64[np.ndarray, " ends"]:
    return np.append(0, np.cumsum(counts, dtype=np.int64))


def _segments(pointers: Int64[np.ndarray, " ends"]) -> sp.csr_array:
    """Returns the 0/1 matrix [segments, rows] that sums consecutive rows; empty segments are legal."""
    n_rows = int(pointers[-1])
    # A product reads the indices once per row: 32 bits are half the memory traffic.
    index = np.int32 if n_rows < np.iinfo(np.int32).max else np.int64
    return sp.csr_array(
        (np.ones(n_rows), np.arange(n_rows, dtype=index), pointers.astype(index)), shape=(len(pointers) - 1, n_rows)
    )
