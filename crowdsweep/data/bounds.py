"""Limits on what may be made of a file, checked before it is made.

What a file holds takes room in it; but a count, a run length, a header or a packed stream says in a few bytes how much
should be made of them. So what is asked for is compared with the size of what asks: up to a floor, which every machine
can hold, anything goes, and beyond it a file stands for one row per byte and unpacks to 200 times its size at most.
Real data stay far below: a row of plain text takes five bytes, and text packs ten times, features a few.
"""

import math
from collections.abc import Sequence
from pathlib import Path

from crowdsweep.errors import DataError

MOST_ROWS = 20_000_000  # held in arrays
MOST_RECORDS = 1_000_000  # rows that are read one by one into Python's objects: some microseconds and hundred bytes
MOST_CLASSES = 10_000  # that nobody declared: a table of classes × classes still fits into memory
MOST_DECLARED = 100_000  # classes
MOST_NUMBERS = 1 << 27  # of eight bytes: a gigabyte
LONGEST_NAME = 10_000  # characters of an id or a label, which stand in every table, message and figure
LONGEST_LINE = 1 << 26  # characters of a line, or of a row of a table
_FIT_NUMBERS, _NUMBERS_PER_LABEL = 40_000_000, 1000  # of the tables of a fit
_OF_VOTES = 4  # times as many, where a fit holds hardly more than one of items × classes
_SOFT_NUMBERS = 25_000_000
_TIGHTEST = 200  # how often a file may stand for itself
_FLOOR = 1 << 24  # bytes that the smallest file may unpack to
_MOST_TEXT = 1 << 30


def size_on_disk(path: Path) -> int:
    """Returns the bytes of a file, of the files in a folder, or of the archive that a file stands in; of a file that is
    nearly all holes, those that take room."""
    if path.is_dir():
        return sum(size_on_disk(file) for file in path.iterdir() if file.is_file())
    while not path.is_file() and path != path.parent:
        path = path.parent
    if not path.is_file():
        return 0
    found = path.stat()
    taken = getattr(found, "st_blocks", 0) * 512  # 0 where nobody counts
    return taken if 0 < taken * _TIGHTEST < found.st_size else found.st_size


def check_rows(n_rows: int, path: Path, *, floor: int = MOST_ROWS, what: str = "rows") -> None:
    """Refuses more rows than a file of that size can hold.

    Args:
        n_rows: that are asked for, or that came so far.
        path: the file, or the folder of several.
        floor: so many are let pass in any case.
        what: they are called.

    Raises:
        DataError: there are more than the floor and than the file's bytes.
    """
    if n_rows <= floor:
        return
    size = size_on_disk(path)
    if n_rows > size:
        raise DataError(
            f"{path}: expected at most {max(floor, size):,} {what} in a file of {size:,} bytes, got {n_rows:,}; where "
            f"they are meant, write them as plain CSV, not packed"
        )


def check_table(n_rows: int, n_bytes: int, what: str) -> None:
    """Refuses a table in memory that stands for more rows than it holds bytes: by run lengths, or by nothing but nulls.

    Args:
        n_rows: of the table.
        n_bytes: that it holds.
        what: messages call it.

    Raises:
        DataError: there are more than `MOST_ROWS`, and than its bytes.
    """
    if n_rows > max(MOST_ROWS, n_bytes):
        raise DataError(
            f"{what}: expected at most {max(MOST_ROWS, n_bytes):,} rows in a table of {n_bytes:,} bytes, got "
            f"{n_rows:,}; give it without run lengths"
        )


def most_unpacked(packed: int) -> int:
    """Returns how many bytes may be unpacked of so many."""
    return max(_FLOOR, _TIGHTEST * packed)


def most_text(packed: int) -> int:
    """Returns how many bytes of text may be unpacked of so many."""
    return min(_MOST_TEXT, most_unpacked(packed))


def check_unpacked(n_bytes: int, packed: int, where: str, remedy: str) -> None:
    """Refuses what unpacks to far more than it is.

    Args:
        n_bytes: unpacked.
        packed: bytes that it is packed into.
        where: it stands.
        remedy: what to do where it is meant.

    Raises:
        DataError: the content is larger than `most_unpacked` of what is packed.
    """
    if n_bytes > most_unpacked(packed):
        raise DataError(
            f"{where}: expected at most {most_unpacked(packed) >> 20} MB, got {n_bytes >> 20} MB packed into "
            f"{packed >> 10} kB; {remedy}, if it is meant"
        )


def check_votes(total: float, n_rows: int, where: str) -> None:
    """Refuses counts of votes that add up to more labels than can be held: each becomes a row.

    Args:
        total: of the counts.
        n_rows: that have them.
        where: they stand.

    Raises:
        DataError: they add up to more than `MOST_ROWS`, and than 20 per row.
    """
    if total > (most := max(MOST_ROWS, 20 * n_rows)):
        raise DataError(
            f"{where}, count: expected counts that add up to at most {most:,}, got {total:,.0f}; "
            f"each counts labels, and every label becomes a row: are these shares or other numbers?"
        )


def check_fit(
    n_items: int, n_classes: int, n_labels: int, dataset: str, *, multilabel: bool = False, of_votes: bool = False
) -> None:
    """Refuses data whose fit would need tables far larger than they are: of items × classes and of classes × classes.

    Args:
        n_items, n_classes, n_labels: of the data.
        dataset: messages call it.
        multilabel: then a class is a question of its own, and there is no table of classes × classes.
        of_votes: whether the model supports `many_classes`.

    Raises:
        DataError: the tables hold more than 40 million numbers, and than 1,000 per label (of votes 4,000).
    """
    numbers = n_classes * (n_items if multilabel else n_items + n_classes)
    if numbers > (most := max(_FIT_NUMBERS, (_OF_VOTES if of_votes else 1) * _NUMBERS_PER_LABEL * n_labels)):
        raise DataError(
            f"dataset {dataset}: expected at most {most:,} numbers in the tables of a fit, got {numbers:,} of "
            f"{n_items:,} items, {n_classes:,} classes and {n_labels:,} labels ({8 * numbers / 1e9:,.1f} GB each); "
            f"join rare classes, or leave out those that nobody chose{'' if of_votes else ', or take majority-vote'}"
        )


def check_soft_rows(n_rows: int, n_classes: int) -> None:
    """Refuses probabilities of answers over so many classes that their table would be far larger than they are.

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
        sizes: of its axes.
        what: it is and where it comes from, in words.
        remedy: what to do.

    Raises:
        DataError: it holds more than `MOST_NUMBERS`.
    """
    if (numbers := math.prod(sizes)) > MOST_NUMBERS:
        shape = " × ".join(f"{size:,}" for size in sizes)
        raise DataError(
            f"{what}: expected at most {MOST_NUMBERS:,} numbers in one table, got {shape} "
            f"({numbers * 8 / 1e9:,.1f} GB); {remedy}"
        )
