"""Features of items in the table of answers: columns of numbers with one number per item."""

import math
from collections.abc import Mapping, Sequence

from crowdsweep.data.missing import MissingValues
from crowdsweep.errors import DataError, shown


class FeaturesOfItems:
    """Gathers the numbers in these columns, by item."""

    def __init__(self, columns: Sequence[str], missing: MissingValues) -> None:
        self.columns = tuple(columns)
        self.found: dict[str, tuple[float, ...]] = {}
        self._missing = missing

    def add(self, item: str, record: Mapping[str, str], where: str) -> None:
        """Adds the features that a row has of its item.

        Raises:
            DataError: a cell is no finite number, or an earlier row has another number for the item.
        """
        if not self.columns:
            return
        given = tuple(self._number(record[name], f"{where}, column {name}") for name in self.columns)
        if self.found.setdefault(item, given) != given:
            name = next(n for n, old, new in zip(self.columns, self.found[item], given, strict=True) if old != new)
            raise DataError(
                f"{where}, column {name}: expected one number for each item, got another for {shown(item)}; a feature "
                f"describes the item, and not an answer: leave --features {name} out"
            )

    def _number(self, cell: str, where: str) -> float:
        try:
            value = float("nan") if self._missing(cell) else float(cell)
        except ValueError:
            value = float("nan")
        if not math.isfinite(value):
            raise DataError(
                f"{where}: expected a finite number as a feature, got {shown(cell)}; fill it in, or leave it out"
            )
        return value
