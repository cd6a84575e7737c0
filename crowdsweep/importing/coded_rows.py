"""Answers as codes: a row takes 12 bytes besides the distinct names, however long these are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np
from jaxtyping import Int32

from crowdsweep.data.on_disk.tables import Column, coded

_PIECE = 1 << 16  # rows that are turned into objects at a time


class Row(NamedTuple):
    """One answer.

    Attributes:
        item, annotator: ids.
        labels: the class, or the classes of a multi-label answer, in order; empty if it chose none.
        weight: how much the answer counts, as written in the file; empty means one.
    """

    item: str
    annotator: str
    labels: tuple[str, ...]
    weight: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class CodedRows(Sequence[Row]):
    """Answers as coded columns, in the order of their file.

    Attributes:
        item, annotator: ids; every distinct text of these columns occurs in some row.
        label: int32 [rows], codes into `labels`.
        labels: the distinct answers, each with its classes.
        weight: weights as written in the file; None if no row has one.
    """

    item: Column
    annotator: Column
    label: Int32[np.ndarray, " rows"]
    labels: Sequence[tuple[str, ...]]
    weight: Column | None = None

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "CodedRows":
        """Returns these answers as codes, in this order."""
        if isinstance(rows, CodedRows):
            return rows
        code: dict[tuple[str, ...], int] = {}
        label = np.fromiter((code.setdefault(row.labels, len(code)) for row in rows), np.int32, len(rows))
        return cls(
            item=coded([row.item for row in rows]),
            annotator=coded([row.annotator for row in rows]),
            label=label,
            labels=list(code),
            weight=coded([row.weight for row in rows]) if any(row.weight for row in rows) else None,
        )

    def __len__(self) -> int:
        return len(self.label)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        return self._rows(slice(*index.indices(len(self)))) if isinstance(index, slice) else self._row(index)

    def __iter__(self) -> Iterator[Row]:
        for start in range(0, len(self), _PIECE):
            yield from self._rows(slice(start, start + _PIECE))

    def _row(self, index: int) -> Row:
        place = range(len(self))[index]  # raises for an index out of range; -1 is the last row
        return self._rows(slice(place, place + 1))[0]

    def _rows(self, some: slice) -> list[Row]:
        items, annotators = (column.array[some].to_pylist() for column in (self.item, self.annotator))
        labels = [self.labels[code] for code in self.label[some].tolist()]
        weights = [""] * len(labels) if self.weight is None else self.weight.array[some].to_pylist()
        return [Row(*row) for row in zip(items, annotators, labels, weights, strict=True)]
