"""Limits on the size of what is made from a file, checked before it is made.

Normally a file takes about as much room as its content. But a count, a run length, a header or a packed stream can ask
for a huge content in a few bytes. So the content asked for is compared with the size of the file. Up to a floor, which
every machine can hold, anything is allowed. Beyond the floor, a file may give at most one row per byte and unpack to
at most 200 times its size. Real data stay far below: a row of plain text takes five bytes; packing shrinks text
tenfold, and features a few times.
"""

import math
from collections.abc import Sequence
from pathlib import Path

from crowdsweep.errors import DataError

MOST_ROWS = 20_000_000  # held in arrays
MOST_RECORDS = 1_000_000  # rows read one by one into Python objects, each some microseconds and hundred bytes
MOST_COLUMNS = 50_000  # of a table that is imported; what each may be is guessed, in about 0.2 ms
MOST_CLASSES = 10_000  # classes that nobody declared; a table of classes × classes still fits into memory
MOST_DECLARED = 100_000  # classes that are declared
MOST_NUMBERS = 1 << 27  # numbers of eight bytes: a gigabyte
LONGEST_NAME = 10_000  # characters of an id or a label, which appears in every table, message and figure
LONGEST_LINE = 1 << 26  # characters of a line, or of a row of a table
_FIT_NUMBERS, _NUMBERS_PER_LABEL = 40_000_000, 1000  # limits on the tables of a fit
_OF_VOTES = 4  # times as many for a fit that holds little more than one table of items × classes
_SOFT_NUMBERS = 25_000_000
_TIGHTEST = 200  # largest ratio of unpacked to packed size
_FLOOR = 1 << 24  # bytes that the smallest file may unpack to
_MOST_TEXT = 1 << 30


def size_on_disk(path: Path) -> int:
    """Returns the bytes of a file, of the files in a folder, or of the archive that contains a file.

    For a file that is nearly all holes, returns the bytes that take room on the disk. Returns 0 if nothing is found.
    """
    if path.is_dir():
        return sum(size_on_disk(file) for file in path.iterdir() if file.is_file())
    while not path.is_file() and path != path.parent:
        path = path.parent
    if not path.is_file():
        return 0
    found = path.stat()
    taken = getattr(found, "st_blocks", 0) * 512  # 0 where the system does not count blocks
    return taken if 0 < taken * _TIGHTEST < found.st_size else found.st_size


def check_rows(n_rows: int, path: Path, *, floor: int = MOST_ROWS, what: str = "rows") -> None:
    """Refuses more rows than a file of that size can hold.

    Args:
        floor: number of rows that is always allowed.

    Raises:
        DataError: there are more rows than the floor and more than the file has bytes.
    """
    if n_rows <= floor:
        return
    size = size_on_disk(path)
    if n_rows > size:
        raise DataError(
            f"{path}: expected at most {max(floor, size):,} {what} in a file of {size:,} bytes, got {n_rows:,}; where "
            f"they are meant, write them as plain CSV, not packed"
        )


def check_columns(n_columns: int, path: Path) -> None:
    """Refuses a table of more than `MOST_COLUMNS` columns.

    Raises:
        DataError: there are more.
    """
    if n_columns > MOST_COLUMNS:
        raise DataError(
            f"{path}: expected a table of at most {MOST_COLUMNS:,} columns, got {n_columns:,}; write a row for each "
            f"answer: item, annotator, label"
        )


def check_table(n_rows: int, n_bytes: int, what: str) -> None:
    """Refuses a table in memory that stands for more rows than it holds bytes, through run lengths or only nulls.

    Raises:
        DataError: the table has more than `MOST_ROWS` rows and more rows than bytes.
    """
    if n_rows > max(MOST_ROWS, n_bytes):
        raise DataError(
            f"{what}: expected at most {max(MOST_ROWS, n_bytes):,} rows in a table of {n_bytes:,} bytes, got "
            f"{n_rows:,}; give it without run lengths"
        )


def most_unpacked(packed: int) -> int:
    """Returns the most bytes that a number of packed bytes may unpack to."""
    return max(_FLOOR, _TIGHTEST * packed)


def most_text(packed: int) -> int:
    """Returns the most bytes of text that a number of packed bytes may unpack to."""
    return min(_MOST_TEXT, most_unpacked(packed))


def check_unpacked(n_bytes: int, packed: int, where: str, remedy: str) -> None:
    """Refuses content that unpacks to far more than its packed size.

    Args:
        remedy: what to do if so much content is intended, for the message.

    Raises:
        DataError: the content is larger than `most_unpacked(packed)`.
    """
    if n_bytes > most_unpacked(packed):
        raise DataError(
            f"{where}: expected at most {most_unpacked(packed) >> 20} MB, got {n_bytes >> 20} MB packed into "
            f"{packed >> 10} kB; {remedy}, if it is meant"
        )


def check_votes(total: float, n_rows: int, where: str) -> None:
    """Refuses counts of votes that add up to more labels than can be held, since each label becomes a row.

    Raises:
        DataError: the counts add up to more than `MOST_ROWS` and to more than 20 per row.
    """
    if total > (most := max(MOST_ROWS, 20 * n_rows)):
        raise DataError(
            f"{where}, count: expected counts that add up to at most {most:,}, got {total:,.0f}; "
            f"each counts labels, and every label becomes a row: are these shares or other numbers?"
        )


def check_fit(
    n_items: int, n_classes: int, n_labels: int, dataset: str, *, multilabel: bool = False, of_votes: bool = False
) -> None:
    """Refuses data whose fit would need tables far larger than the data: items × classes and classes × classes.

    Args:
        multilabel: whether each class is a question of its own, so that there is no table of classes × classes.
        of_votes: whether the model supports `many_classes`.

    Raises:
        DataError: the tables hold more than 40 million numbers and more than 1,000 per label (4,000 if `of_votes`).
    """
    numbers = n_classes * (n_items if multilabel else n_items + n_classes)
    if numbers > (most := max(_FIT_NUMBERS, (_OF_VOTES if of_votes else 1) * _NUMBERS_PER_LABEL * n_labels)):
        raise DataError(
            f"dataset {dataset}: expected at most {most:,} numbers in the tables of a fit, got {numbers:,} of "
            f"{n_items:,} items, {n_classes:,} classes and {n_labels:,} labels ({8 * numbers / 1e9:,.1f} GB each); "
            f"merge rare classes, or leave out those that no annotator "
            f"chose{'' if of_votes else ', or take majority-vote'}"
        )


def check_soft_rows(n_rows: int, n_classes: int) -> None:
    """Refuses probabilities of answers over so many classes that their table would be far larger than the data.

    Raises:
        DataError: rows × classes are more than 25 million, and there are more than 200 classes.
    """
    numbers = n_rows * n_classes
    if numbers > max(_SOFT_NUMBERS, 200 * n_rows):
        raise DataError(
            f"probabilities of answers: expected at most {_SOFT_NUMBERS:,} numbers in their table, got {n_rows:,} "
            f"answers × {n_classes:,} classes ({numbers * 8 / 1e9:,.1f} GB); declare fewer classes, or leave them out"
        )


def check_numbers(sizes: Sequence[int], what: str, remedy: str) -> None:
    """Refuses a table of numbers that does not fit into memory.

    Args:
        sizes: lengths of the table's axes.

    Raises:
        DataError: the table holds more than `MOST_NUMBERS` numbers.
    """
    if (numbers := math.prod(sizes)) > MOST_NUMBERS:
        shape = " × ".join(f"{size:,}" for size in sizes)
        raise DataError(
            f"{what}: expected at most {MOST_NUMBERS:,} numbers in one table, got {shape} "
            f"({numbers * 8 / 1e9:,.1f} GB); {remedy}"
        )
