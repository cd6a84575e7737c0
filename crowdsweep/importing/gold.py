"""Gold classes that come with labels: in a column of the table, or in a table of their own, such as:

picture,gold
p1,cat
"""

from collections.abc import Sequence
from pathlib import Path

from crowdsweep.data.missing import MissingValues
from crowdsweep.errors import DataError, shown
from crowdsweep.importing.delimited import header_of, records
from crowdsweep.importing.rows import RowCollector
from crowdsweep.paths import is_file

_ITEM_COLUMNS = ("item", "task")  # in a gold file, besides the name in the file of labels
_GOLD_COLUMNS = ("gold", "truth", "label")  # in order of preference
_NAMED = 5  # items named in a note


class GoldClasses:
    """Gathers the gold class of each item."""

    def __init__(self, missing: MissingValues) -> None:
        self._missing = missing
        self._several: dict[str, None] = {}
        self.found: dict[str, tuple[str, ...]] = {}

    def add(self, item: str, label: str, where: str) -> None:
        """Adds the class of an item; adds none if the cell is empty or lists several classes, one per line.

        Raises:
            DataError: the item has another class already.
        """
        if self._missing(label):
            return
        if len([line for line in label.splitlines() if not self._missing(line)]) > 1:
            self._several[item] = None
            return
        if self.found.setdefault(item, (label,)) != (label,):
            raise DataError(
                f"{where}: expected one gold class for item {shown(item)}, got {shown(label)} after "
                f"{shown(self.found[item][0])}; correct one of them"
            )

    def note(self, gathered: RowCollector) -> None:
        """Adds a note on the items with several classes in one cell: any of them is right, and none is the gold."""
        if self._several:
            examples = ", ".join(map(shown, list(self._several)[:_NAMED])) + (
                ", …" if len(self._several) > _NAMED else ""
            )
            gathered.notes.append(
                f"{len(self._several)} items have several gold classes, a line each in one cell, and are left without "
                f"gold, as any of them is right ({examples}); to have one, leave one line"
            )

    def add_file(self, gathered: RowCollector, path: Path, item: str, label: str = "gold") -> None:
        """Adds the classes in a gold file, and a note on its items without an answer.

        Args:
            gathered: the answers.
            path: the gold file.
            item, label: names of the item and label columns in the file of labels; the gold file may use them too.

        Raises:
            DataError: the file lacks these columns, or has an item without an id or with two classes.
        """
        answered = gathered.items
        item_column, gold_column = _columns(path, item, label)
        for where, record in records(path, [item_column, gold_column]):
            name = gathered.item(record[item_column], f"{where}, column {item_column}")
            self.add(name, record[gold_column], f"{where}, column {gold_column}")
        added = [name for name in gathered.items if name not in answered]
        if added:
            examples = ", ".join(map(shown, added[:_NAMED])) + (", …" if len(added) > _NAMED else "")
            gathered.notes.append(
                f"{path}: {len(added)} of its items have no answer and are added without one ({examples}); if they "
                f"were answered, their ids are spelled differently there"
            )


def gold_file(asked: str | None, header: Sequence[str], path: Path) -> Path | None:
    """Returns the file that `--gold` names; None if it names a column or is not given.

    Args:
        asked: value of `--gold`.
        header: header of the table of labels.
        path: path of the table of labels, for the message.

    Raises:
        DataError: there is neither such a column nor such a file.
    """
    if asked is None or asked in header:
        return None
    if not is_file(Path(asked)):
        raise DataError(f"--gold {asked}: expected a column of {path} ({', '.join(header)}) or a file, found neither")
    return Path(asked)


def _columns(path: Path, item: str, label: str) -> tuple[str, str]:
    """Returns the columns of items and of classes in a gold file."""
    header = header_of(path)
    item_column = next((name for name in (item, *_ITEM_COLUMNS) if name in header), None)
    rest = [name for name in header if name != item_column]
    gold_column = next((name for name in (*_GOLD_COLUMNS, label) if name in rest), rest[0] if len(rest) == 1 else None)
    if item_column is None or gold_column is None:
        raise DataError(
            f"{path}: expected the columns {item} (or item, task) and gold, got {', '.join(header) or 'an empty file'}"
        )
    return item_column, gold_column
