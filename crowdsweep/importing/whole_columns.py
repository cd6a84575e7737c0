"""Reads a table with a row per answer column by column: ten million rows in seconds, not minutes.

Only tables without problems are read in this way: rows have the header's length, and names are present and not too
long. If anything must be refused or reported by its line, this module returns None, and the table is read row by row
(`delimited`), which knows the lines. Both ways give exactly the same answers.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crowdsweep.data import bounds
from crowdsweep.data.missing import MissingLabels, MissingValues
from crowdsweep.data.on_disk import tables
from crowdsweep.data.on_disk.tables import Column
from crowdsweep.data.on_disk.text_files import opened_text, separator_of
from crowdsweep.errors import DataError
from crowdsweep.importing.coded_rows import CodedRows
from crowdsweep.importing.delimited import header_of, kind_of
from crowdsweep.importing.rows import FileOptions, ImportedRows, note_chose_nothing, note_not_given

_BLOCK_BYTES = 1 << 24
_QUOTE, _BYTE_ORDER_MARK, _GZIP = ord('"'), b"\xef\xbb\xbf", b"\x1f\x8b"


def read_whole_columns(path: Path, asked: FileOptions) -> ImportedRows | None:
    """Returns the answers of a table; None if the table has to be read row by row.

    Args:
        path: a table, as CSV or Parquet.
        asked: its columns; a table with gold, texts, images or features is read row by row.
    """
    roles = {role: getattr(asked, role) for role in ("item", "annotator", "label", "weight")}
    columns = {role: str(name) for role, name in roles.items() if name is not None}
    beside = any(one is not None for one in (asked.gold, asked.text, asked.image)) or bool(asked.features)
    if beside or len(set(columns.values())) < len(columns):
        return None
    try:
        kind = kind_of(path)
        plain = kind != "json" and tables.column_names(path) == header_of(path)
        n_lines = _plain_lines(path) if plain and kind == "csv" else None
        if not plain or (kind == "csv" and n_lines is None):
            return None
        parts = {role: tables.Stacking() for role in columns}
        for _, batch in tables.batches(path, list(columns.values()), most=bounds.MOST_RECORDS, blanks=True):
            for role, name in columns.items():
                parts[role].add(batch[name])
    except DataError:  # reading row by row reports the place more precisely
        return None
    whole = tables.whole(parts)
    if all(whole[role].texts.find(name) >= 0 for role, name in columns.items()):  # perhaps the header once more
        return None
    first_line = ("line", 2) if n_lines is not None else ("row", 1)
    lines_known = n_lines is None or n_lines == len(whole["label"].codes) + 1
    return _taken(path, whole, asked, first_line if lines_known else None)


def _taken(
    path: Path, whole: dict[str, Column], asked: FileOptions, first: tuple[str, int] | None
) -> ImportedRows | None:
    """Returns the answers in these columns; None if any of them must be refused or reported by its line.

    Args:
        path: path of the table.
        whole: columns by role.
        asked: what the user says of the file, such as missing values and the scale.
        first: what messages call a row, and the number of the first row; None if the number is not known.
    """
    missing = asked.missing
    item, annotator, label = (whole[role] for role in ("item", "annotator", "label"))
    for column in (item, annotator, label):
        if (column.texts.lengths() > bounds.LONGEST_NAME).any():
            return None
    if any(missing.among(column.texts).any() for column in (item, annotator)):
        return None
    weight = _weights(whole["weight"], missing) if "weight" in whole else None
    if "weight" in whole and weight is None:
        return None
    items, not_given = item.texts, MissingLabels()
    empty = np.array([asked.chose_nothing(text) for text in label.texts], dtype=bool)
    nothing = missing.among(label.texts) & ~empty
    chose_nothing = note_chose_nothing(int(empty[label.codes].sum()))
    if nothing.any():
        gone = nothing[label.codes]
        if first is None or gone.all():
            return None
        counts = np.bincount(label.codes, minlength=len(nothing))
        for code in np.flatnonzero(nothing).tolist():
            not_given.add(label.texts[code], f"{first[0]} {first[1] + label.first_row(code)}", int(counts[code]))
        item, annotator, label = (column.keep(~gone) for column in (item, annotator, label))
        weight = None if weight is None else weight.keep(~gone)
    if not len(label.codes):
        return None
    if weight is not None and list(weight.texts) == [""]:
        weight = None
    labels = [() if asked.chose_nothing(text) else (text,) for text in label.texts]
    return ImportedRows(
        source=path,
        rows=CodedRows(item=item, annotator=annotator, label=label.codes, labels=labels, weight=weight),
        items=items,
        notes=[*chose_nothing, *note_not_given(not_given)],
        missing=missing,
    )


def _weights(column: Column, missing: MissingValues) -> Column | None:
    """Returns weights without surrounding spaces, empty if missing; None if any is not a valid weight."""
    texts = ["" if missing(text) else text.strip() for text in column.texts]
    if not all(is_positive(text) for text in texts if text):
        return None
    distinct = tables.coded(texts)  # "1" and " 1" are one
    codes: Any = pa.array(distinct.codes[column.codes])
    return Column(pa.DictionaryArray.from_arrays(codes, distinct.texts.array))


def is_positive(text: str) -> bool:
    """Returns whether a text is a positive finite number."""
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False


def _plain_lines(path: Path) -> int | None:
    """Returns the number of lines of a CSV; None if it is gzipped or its quotes are ambiguous.

    Readers of CSV differ on a quote within a cell that does not begin with it, and on text after the quote that ends
    a cell.
    """
    with opened_text(path) as file:
        separator = ord(separator_of(file) or ",")
    around = np.zeros(256, dtype=bool)  # bytes allowed before an opening quote, and after a closing one
    around[[separator, ord("\n"), ord("\r"), _QUOTE]] = True
    n_quotes = n_lines = 0
    last, open_end = ord("\n"), False  # the byte before the block, and whether it was a closing quote
    with path.open("rb") as file:
        block = file.read(_BLOCK_BYTES)
        if block.startswith(_GZIP):
            return None
        block = block.removeprefix(_BYTE_ORDER_MARK)
        while block:
            codes = np.frombuffer(block, np.uint8)
            if open_end and not around[codes[0]]:
                return None
            quotes = np.flatnonzero(codes == _QUOTE)
            opening, closing = quotes[n_quotes % 2 :: 2], quotes[1 - n_quotes % 2 :: 2]
            before = np.where(opening > 0, codes[opening - 1], last)
            # For a quote at the end of the block this is the quote itself, which is allowed.
            behind = codes[np.minimum(closing + 1, len(codes) - 1)]
            if not (around[before].all() and around[behind].all()):
                return None
            n_quotes += len(quotes)
            n_lines += block.count(b"\n")
            last, open_end = int(codes[-1]), bool(len(closing)) and int(closing[-1]) == len(codes) - 1
            block = file.read(_BLOCK_BYTES)
    return None if n_quotes % 2 else n_lines + (last != ord("\n"))
