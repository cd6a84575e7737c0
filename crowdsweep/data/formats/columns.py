"""Tables with a row an answer: any CSV by mapping (`csv`), and crowd-kit's, whose columns are known (`crowd-kit`).

picture,user,answer,expert        data import csv FILE --item picture --annotator user --label answer --gold expert
p1,ann,cat,cat
p1,bob,dog,cat
"""

from collections.abc import Iterator
from pathlib import Path

from crowdsweep.data.formats.delimited import header_of, records
from crowdsweep.data.formats.rows import Asked, Gathering, ImportedRows, is_missing
from crowdsweep.errors import DataError

_GOLD_COLUMNS = ("gold", "truth", "label")  # of a file of gold, in the order in which they are looked for


def read_csv(path: Path, asked: Asked) -> ImportedRows:
    """Reads a table whose columns a person names; gold stands in one of its columns or in a file of its own.

    Raises:
        DataError: a column was not named, is not there, or holds nothing in some row; gold contradicts itself.
    """
    named = {"--item": asked.item, "--annotator": asked.annotator, "--label": asked.label}
    if None in named.values():
        lacking = ", ".join(f"{option} COLUMN" for option, column in named.items() if column is None)
        header = ", ".join(header_of(path)) or "an empty file"
        raise DataError(f"{path}: expected {lacking}; the columns are {header}")
    return _read(path, asked)


def read_crowd_kit(path: Path, asked: Asked) -> ImportedRows:
    """Reads a table with the columns task, worker, label; a missing label is refused with its line."""
    del asked
    return _read(path, Asked(item="task", annotator="worker", label="label"))


def _read(path: Path, asked: Asked) -> ImportedRows:
    gathered, gold = Gathering(path), _Gold()
    header = header_of(path)
    gold_file = None if asked.gold is None or asked.gold in header else Path(asked.gold)
    if gold_file is not None and not gold_file.is_file():
        raise DataError(
            f"--gold {asked.gold}: expected a column of {path} ({', '.join(header)}) or a file, found neither"
        )
    inside = [asked.gold] if asked.gold is not None and gold_file is None else []
    named = [name for name in (asked.item, asked.annotator, asked.label, asked.weight, *inside) if name is not None]
    for where, record in records(path, named):
        item = gathered.item(record[str(asked.item)], f"{where}, column {asked.item}")
        weight = "" if asked.weight is None else record[asked.weight].strip()
        if weight and not _is_positive(weight):
            raise DataError(f"{where}, column {asked.weight}: expected a positive finite number, got {weight!r}")
        gathered.answer(
            item,
            record[str(asked.annotator)],
            [record[str(asked.label)]],
            where,
            key=f"column {asked.label}",
            weight=weight,
        )
        if inside:
            gold.add(item, record[str(asked.gold)], f"{where}, column {asked.gold}")
    if gold_file is not None:
        for where, item, label in _gold_rows(gold_file, str(asked.item), str(asked.label)):
            gold.add(gathered.item(item, where), label, where)
    return gathered.imported(multilabel=False, gold=gold.found)


class _Gold:
    """Trusted classes by item, one each."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[str, ...]] = {}

    def add(self, item: str, label: str, where: str) -> None:
        """Adds the class of an item; nothing where the cell is empty."""
        if is_missing(label):
            return
        if self.found.setdefault(item, (label,)) != (label,):
            raise DataError(
                f"{where}: expected one gold class for item {item!r}, got {label!r} after {self.found[item][0]!r}; "
                f"correct one of them"
            )


def _gold_rows(path: Path, item: str, label: str) -> Iterator[tuple[str, str, str]]:
    """Yields (where, item, class) of a file of gold: the column of items, and the one of classes."""
    header = header_of(path)
    item_column = next((name for name in (item, "item", "task") if name in header), None)
    rest = [name for name in header if name != item_column]
    gold_column = next((name for name in (*_GOLD_COLUMNS, label) if name in rest), rest[0] if len(rest) == 1 else None)
    if item_column is None or gold_column is None:
        raise DataError(
            f"{path}: expected the columns {item} (or item, task) and gold, got {', '.join(header) or 'an empty file'}"
        )
    for where, record in records(path, [item_column, gold_column]):
        yield f"{where}, column {gold_column}", record[item_column], record[gold_column]


def _is_positive(text: str) -> bool:
    try:
        return 0 < float(text) < float("inf")
    except ValueError:
        return False
