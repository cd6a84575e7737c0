"""Columns of the tables that `label` writes: texts as codes, and column names of classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from crowdsweep.data.on_disk.tables import Names


def texts_at(names: Sequence[str], codes: np.ndarray) -> Any:
    """Returns the names with these codes, as a column of texts."""
    return Names.of(names).take(codes).array


def coded_texts(names: Sequence[str], codes: np.ndarray) -> Any:
    """Returns the same as a column of codes, one to four bytes per row; `with_texts` turns them into texts."""
    indices: Any = pa.array(codes.astype(np.min_scalar_type(-max(len(names), 1)), copy=False))
    return pa.DictionaryArray.from_arrays(indices, Names.of(names).array)


def with_texts(table: pa.Table) -> pa.Table:
    """Returns a table with texts in place of codes."""
    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(place, name, column.cast(pa.string()))
    return table


def class_columns(labels: Sequence[str], others: Sequence[str]) -> list[str]:
    """Returns a distinct column name for each class: its label, or a form such as `p(item)` where another column of the
    table has that name.

    Args:
        labels: labels of the classes, all different.
        others: names of the table's other columns.
    """
    taken = {*labels, *others}
    names: list[str] = []
    for label in labels:
        name = label
        while name in others or (name != label and name in taken):
            name = f"p({name})"
        taken.add(name)
        names.append(name)
    return names
