"""Sparse container of labels: which annotator gave which label to which item.

One row is one observed label. No array is dense over items × annotators, and no value stands for "missing": an answer
that was not given has no row. Rows are sorted by (item, annotator, label), so their original order never changes a
result.
"""

from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int, Int32

from crowdsweep.arrays import (
    AnnotatorCodes,
    ItemCodes,
    ItemProbs,
    LabelCodes,
    Pointers,
    RowProbs,
    RowWeights,
    read_only,
    sparse_zeros,
)
from crowdsweep.data import bounds
from crowdsweep.errors import DataError

AnonymousRows = tuple[Pointers, AnnotatorCodes]
_PIECE = 1 << 16  # rows at a time, whose temporaries a core's cache holds


@dataclass(frozen=True, kw_only=True, eq=False)
class Annotations:
    """Sorted rows (item, annotator, label) with declared sizes.

    Build it with `Annotations.of` or `Annotations.from_votes`; both sort and check. A pair (item, annotator) may have
    several rows, and each counts. Sizes are declared, never inferred, so annotators without rows and unused classes
    are possible.

    Attributes:
        item: code of the item of each row, in [0, n_items), ascending.
        annotator: code of the annotator of each row, in [0, n_annotators).
        label: code of the class of each row, in [0, n_classes).
        weight: how much each row counts, positive and finite; None means that each counts one.
        probability: probability that the annotator gives to `label`, in [0, 1]; the rest is spread evenly over the
            other classes. None means one. For multi-label rows, `data.choices` defines its meaning.
        anonymous: whether annotators are unknown; each row (multi-label: each answer) then has its own
            pseudo-annotator.
    """

    item: ItemCodes
    annotator: AnnotatorCodes
    label: LabelCodes
    weight: RowWeights | None = None
    probability: RowWeights | None = None
    n_items: int
    n_annotators: int
    n_classes: int
    anonymous: bool = False

    @classmethod
    def of(
        cls,
        *,
        item: np.ndarray,
        annotator: np.ndarray,
        label: np.ndarray,
        n_items: int,
        n_annotators: int,
        n_classes: int,
        weight: np.ndarray | None = None,
        probability: np.ndarray | None = None,
        anonymous: bool = False,
    ) -> "Annotations":
        """Checks the rows, sorts them and freezes the arrays. O(A log A).

        Of rows that are sorted already, columns of int32 are kept, not copied: do not write to them afterwards.

        Raises:
            DataError: the arrays differ in length, a code lies outside its declared size, a weight is not positive
                and finite, or a probability lies outside [0, 1].
        """
        keys = [np.asarray(column) for column in (item, annotator, label)]
        del item, annotator, label  # what the caller does not hold either goes when the sort has no need of it
        sizes = {"item": n_items, "annotator": n_annotators, "label": n_classes}
        lengths = {name: len(codes) for name, codes in zip(sizes, keys, strict=True)}
        for name, extra in (("weight", weight), ("probability", probability)):
            if extra is not None:
                lengths[name] = len(extra)
        if len(set(lengths.values())) > 1:
            raise DataError(f"annotations: expected columns of one length, got {lengths}")
        _check_codes(keys, sizes)
        if weight is not None and not (np.isfinite(weight).all() and (weight > 0).all()):
            bad = int(np.flatnonzero(~(np.isfinite(weight) & (weight > 0)))[0])
            raise DataError(f"annotations, row {bad}: expected a positive finite weight, got {weight[bad]}")
        if probability is not None and not ((probability >= 0) & (probability <= 1)).all():
            bad = int(np.flatnonzero(~((probability >= 0) & (probability <= 1)))[0])
            raise DataError(f"annotations, row {bad}: expected a probability in [0, 1], got {probability[bad]}")
        extras = [extra for extra in (weight, probability) if extra is not None]
        # Parts of a sorted container are sorted already: this check is O(A), whereas sorting would dominate loading.
        if _is_sorted([*keys, *extras]):
            keys = [column.astype(np.int32, copy=False) for column in keys]
        elif extras or n_items * n_annotators * n_classes >= 2**63:
            order = np.lexsort([*keys, *extras][::-1])
            keys = [column[order].astype(np.int32, copy=False) for column in keys]
            weight, probability = (None if extra is None else extra[order] for extra in (weight, probability))
        else:
            keys = _sorted_codes(keys, n_annotators, n_classes)
        return cls(
            item=read_only(keys[0]),
            annotator=read_only(keys[1]),
            label=read_only(keys[2]),
            weight=None if weight is None else read_only(weight.astype(np.float32)),
            probability=None if probability is None else read_only(probability.astype(np.float32)),
            n_items=n_items,
            n_annotators=n_annotators,
            n_classes=n_classes,
            anonymous=anonymous,
        )

    @classmethod
    def from_votes(
        cls, *, item: np.ndarray, label: np.ndarray, count: np.ndarray, n_items: int, n_classes: int
    ) -> "Annotations":
        """Builds anonymous annotations: `count[j]` rows (item[j], label[j]), each with its own pseudo-annotator.

        Raises:
            DataError: a count is negative, the counts add up to more rows than can be held, or a code lies outside its
                declared size.
        """
        if (count < 0).any():
            bad = int(np.flatnonzero(count < 0)[0])
            raise DataError(f"votes, row {bad}: expected a count of at least 0, got {count[bad]}")
        total = float(count.sum(dtype=np.float64))
        bounds.check_votes(total, len(count), "votes")
        order = np.lexsort((label, item))
        return cls.of(
            item=np.repeat(item[order], count[order]),
            annotator=np.arange(total, dtype=np.int32),
            label=np.repeat(label[order], count[order]),
            n_items=n_items,
            n_annotators=int(total),
            n_classes=n_classes,
            anonymous=True,
        )

    def __len__(self) -> int:
        return len(self.item)

    @cached_property
    def item_pointers(self) -> Pointers:
        """CSR pointers: the rows of item i are `item_pointers[i]:item_pointers[i + 1]`. Length n_items + 1."""
        return read_only(np.searchsorted(self.item, np.arange(self.n_items + 1, dtype=np.int32)))

    @cached_property
    def by_annotator(self) -> Int32[np.ndarray, " annotations"]:
        """Row numbers ordered by annotator (stable): the CSC view. Length A."""
        return read_only(grouped(self.annotator, self.n_annotators)[0])

    @cached_property
    def annotator_pointers(self) -> Pointers:
        """CSC pointers into `by_annotator`. Length n_annotators + 1."""
        counts = np.zeros(self.n_annotators + 1, dtype=np.int64)
        step = max(_PIECE, self.n_annotators)
        for start in range(0, len(self), step):  # counting makes copies in eight bytes
            counts[1:] += np.bincount(self.annotator[start : start + step], minlength=self.n_annotators)
        return read_only(np.cumsum(counts))

    @cached_property
    def pair_starts(self) -> Pointers:
        """Number of the first row of each (item, annotator) pair, ascending."""
        begins = np.ones(len(self), dtype=bool)
        begins[1:] = (self.item[1:] != self.item[:-1]) | (self.annotator[1:] != self.annotator[:-1])
        return read_only(np.flatnonzero(begins).astype(np.int64))

    @property
    def labels_per_item(self) -> Pointers:
        """Number of rows of each item. Length n_items."""
        return np.diff(self.item_pointers)

    @property
    def labels_per_annotator(self) -> Pointers:
        """Number of rows of each annotator. Length n_annotators."""
        return np.diff(self.annotator_pointers)

    @property
    def n_active_annotators(self) -> int:
        """Number of annotators with at least one row; averages over annotators cover only these."""
        return int(np.count_nonzero(self.labels_per_annotator))

    @cached_property
    def soft_labels(self) -> RowProbs | None:
        """Probability of each class in each row [annotations, classes]; None if every row is certain of its label."""
        if self.probability is None:
            return None
        bounds.check_soft_rows(len(self), self.n_classes)
        certain = self.probability.astype(np.float64)
        spread = (1.0 - certain) / max(self.n_classes - 1, 1)
        rows = np.repeat(spread[:, None], self.n_classes, axis=1)
        rows[np.arange(len(self)), self.label] = certain
        return read_only(rows)

    @cached_property
    def counts(self) -> sp.csr_array:
        """Weighted label counts, sparse float64 [items, classes]; soft rows add their probabilities. O(A)."""
        weight = np.ones(len(self)) if self.weight is None else self.weight.astype(np.float64)
        label, ends = self.label.copy(), self.item_pointers
        if self.soft_labels is not None:
            weight, ends = (weight[:, None] * self.soft_labels).ravel(), ends * self.n_classes
            label = np.tile(np.arange(self.n_classes, dtype=np.int32), len(self))
        return summed_by_item(weight, label, ends, self.n_classes)

    @cached_property
    def agreement(self) -> float:
        """Share of pairs of answers to the same item that agree, averaged over items with two answers; 0 if none."""
        given = np.asarray(self.counts.sum(axis=1))
        several = given > 1
        # A class with c of an item's n answers has c (c - 1) of the n (n - 1) ordered pairs: no pair has to be formed.
        same = np.asarray((self.counts * self.counts).sum(axis=1)) - given
        return float((same[several] / (given[several] * (given[several] - 1))).mean()) if several.any() else 0.0

    def label_distribution(self) -> ItemProbs:
        """Returns each item's share of votes per class [items, classes]; the row is uniform for an item without votes.

        With many classes most shares are zero and take no memory, because only votes are written.
        """
        counts = self.counts
        total = np.asarray(counts.sum(axis=1)).ravel()
        item = np.repeat(np.arange(self.n_items), np.diff(counts.indptr))
        shares = sparse_zeros((self.n_items, self.n_classes), counts.nnz)
        shares[item, counts.indices] = counts.data / total[item]
        shares[total == 0] = 1.0 / self.n_classes
        return shares

    def take(self, rows: np.ndarray) -> "Annotations":
        """Returns the container with only these rows (a mask or row numbers); declared sizes stay the same."""
        if rows.dtype == bool and rows.all():
            return self
        return self._of(rows)

    def of_items(self, items: np.ndarray) -> "Annotations":
        """Returns the rows of these items, renumbered 0, 1, … in the order given; annotators keep their codes.

        Args:
            items: distinct item codes, int [n].
        """
        if np.array_equal(items, np.arange(self.n_items)):
            return self
        new_code = np.full(self.n_items, -1, dtype=np.int32)
        new_code[items] = np.arange(len(items))
        item = new_code[self.item]
        kept = item >= 0
        return self._of(kept, item=item[kept], n_items=len(items))

    def _of(self, rows: np.ndarray, **changed: Any) -> "Annotations":
        """Returns some rows; `changed` replaces columns and sizes by name."""
        old: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        kept = {name: part for name, part in old.items() if isinstance(part, np.ndarray) and name not in changed}
        picked: dict[str, Any] = {name: column[rows] for name, column in kept.items()}
        return Annotations.of(**(old | picked | changed))

    @cached_property
    def anonymous_rows(self) -> AnonymousRows:
        """Row numbers in an order that does not reveal the annotators, and one pseudo-annotator for each row.

        The order is by item, label, weight and probability.
        """
        keys = [key for key in (self.probability, self.weight, self.label, self.item) if key is not None]
        return read_only(np.lexsort(keys).astype(np.int64)), read_only(np.arange(len(self), dtype=np.int32))

    @cached_property
    def anonymous_answers(self) -> AnonymousRows:
        """Like `anonymous_rows`, with one pseudo-annotator for all rows of a pair: they are one multi-label answer."""
        first = self.pair_starts
        answer = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(self))))
        place = np.arange(len(self)) - first[answer]
        # Each answer is one line of a table: the values of its first row, of its second, …; -1 where a row is missing.
        says = [column for column in (self.probability, self.weight, self.label) if column is not None]
        table = np.full((len(first), int(place.max(initial=0)) + 1, len(says)), -1.0)
        table[answer, place] = np.stack(says, axis=1)
        order = np.lexsort([*table.reshape(len(first), -1).T, self.item[first]])
        code = np.empty(len(first), dtype=np.int32)
        code[order] = np.arange(len(first))
        rows = np.argsort(code[answer], kind="stable")
        return read_only(rows), read_only(code[answer[rows]])

    def anonymised(self, *, whole_answers: bool = False) -> "Annotations":
        """Returns the annotations as the `global` scenario sees them: each row has its own pseudo-annotator.

        The number of annotators T becomes the number of rows.

        Args:
            whole_answers: whether all rows of a pair are one answer (multi-label data) and share a pseudo-annotator.
        """
        rows, annotator = self.anonymous_answers if whole_answers else self.anonymous_rows
        n_annotators = len(self.pair_starts) if whole_answers else len(self)
        return self._of(rows, annotator=annotator, n_annotators=n_annotators, anonymous=True)

    def fingerprint(self) -> str:
        """Returns a hash of the canonical bytes; equal rows, in any order, and equal sizes give equal fingerprints."""
        digest = blake2b(digest_size=16)
        digest.update(repr((self.n_items, self.n_annotators, self.n_classes, self.anonymous)).encode())
        # Rows were sorted when the container was made, so the order in which they came does not count.
        for name in ("item", "annotator", "label", "weight", "probability"):
            column = getattr(self, name)
            digest.update(name.encode())
            digest.update(b"-" if column is None else column)
        return digest.hexdigest()


def grouped(
    codes: Int[np.ndarray, " rows"], n_codes: int
) -> tuple[Int[np.ndarray, " rows"], Int[np.ndarray, " pointers"]]:
    """Returns the row numbers ordered by code, equal codes in their order, and where the rows of each code begin and
    the last end. By counting: O(rows + codes)."""
    entries = (np.ones(len(codes), dtype=np.int8), codes, np.arange(len(codes) + 1, dtype=np.int32))
    table = sp.csr_array(entries, shape=(len(codes), n_codes)).tocsc()
    return table.indices, table.indptr


def summed_by_item(weight: np.ndarray, column: np.ndarray, ends: Pointers, n_columns: int) -> sp.csr_array:
    """Returns the sparse table [items, columns] of summed weights, without further copies of the entries.

    Args:
        weight, column: weight and column of each entry, ordered by item; both arrays are overwritten.
        ends: CSR pointers: where the entries of each item begin, and where the last item's end.
    """
    index = np.int32 if len(weight) < 2**31 else np.int64
    entries = (weight, column.astype(index, copy=False), ends.astype(index))
    table = sp.csr_array(entries, shape=(len(ends) - 1, n_columns))
    table.sum_duplicates()
    return table


def _check_codes(keys: list[np.ndarray], sizes: dict[str, int]) -> None:
    for codes, (name, size) in zip(keys, sizes.items(), strict=True):
        if codes.ndim != 1 or codes.dtype.kind not in "iu":
            raise DataError(f"annotations, {name}: expected a vector of integer codes, got {codes.dtype} {codes.shape}")
        if len(codes) and not 0 <= codes.min() <= codes.max() < size:
            row = int(np.flatnonzero((codes < 0) | (codes >= size))[0])
            raise DataError(f"annotations, row {row}: expected {name} codes in [0, {size}), got {codes[row]}")


def _is_sorted(keys: list[np.ndarray]) -> bool:
    """Returns whether rows ascend by these columns, the first column being the most significant."""
    tied = np.ones(max(len(keys[0]) - 1, 0), dtype=bool)
    for key in keys:
        if (tied & (key[:-1] > key[1:])).any():
            return False
        tied &= key[:-1] == key[1:]
    return True


def _sorted_codes(keys: list[np.ndarray], n_annotators: int, n_classes: int) -> list[Int32[np.ndarray, " annotations"]]:
    """Returns the rows sorted by item, annotator and label; each row is packed into one integer to sort it.

    `keys` is emptied, so that of the columns and their sorted copies only one are held.
    """
    joined = keys.pop(0).astype(np.int64)
    for size in (n_annotators, n_classes):
        joined *= size
        joined += keys.pop(0)
    joined.sort()
    item, annotator, label = (np.empty(len(joined), dtype=np.int32) for _ in range(3))
    for start in range(0, len(joined), _PIECE):
        part = slice(start, start + _PIECE)
        pair, label[part] = np.divmod(joined[part], n_classes)
        item[part], annotator[part] = np.divmod(pair, n_annotators)
    return [item, annotator, label]
