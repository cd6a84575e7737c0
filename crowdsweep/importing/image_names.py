"""Images of items, from a column of a table that names their files relative to the table's folder."""

from collections.abc import Mapping
from pathlib import Path, PurePath

from crowdsweep.data.missing import MissingValues
from crowdsweep.errors import DataError, shown
from crowdsweep.importing.rows import RowCollector
from crowdsweep.paths import is_file, leads_out


class ImagesOfItems:
    """Gathers the image file of each item; gathers nothing if no column names image files.

    Attributes:
        found: image file of each item, relative to the table's folder.
    """

    def __init__(self, source: Path, column: str | None, missing: MissingValues) -> None:
        self._folder, self._column, self._missing = source.resolve().parent, column, missing
        self.found: dict[str, str] = {}

    def add(self, item: str, record: Mapping[str, str], where: str) -> None:
        """Adds the image of one answer's item.

        Raises:
            DataError: the image's name does not lead below the table's folder, or the item has another image.
        """
        if self._column is None or self._missing(name := record[self._column].strip()):
            return
        there = f"{where}, column {self._column}"
        if "://" in name:
            raise DataError(
                f"{there}: expected the name of a file, got an address, {shown(name)}; download the images first"
            )
        path = PurePath(name)
        if path.is_absolute() and path.is_relative_to(self._folder):
            name = str(path.relative_to(self._folder))
        if leads_out(name):
            raise DataError(
                f"{there}: expected a file below {self._folder}, where the table lies, got {shown(name)}; put the "
                f"table into a folder above the images"
            )
        if self.found.setdefault(item, name) != name:
            raise DataError(
                f"{there}: expected one image for item {item!r}, got {shown(self.found[item])} and {shown(name)}; two "
                f"items have one id: give each its own"
            )

    def note(self, gathered: RowCollector) -> None:
        """Adds a note on how many of the files do not exist."""
        lacking = [name for name in self.found.values() if not is_file(self._folder / name)]
        if lacking:
            gathered.notes.append(
                f"{len(lacking):,} of the {len(self.found):,} images are not in {self._folder}, such as "
                f"{shown(lacking[0])}; put them there before features of them are asked for"
            )
