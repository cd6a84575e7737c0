"""Ids of the records of an export: some tools give each record an id, others give none."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crowdsweep.data.missing import MissingValues
from crowdsweep.errors import DataError, shown
from crowdsweep.importing.rows import text_of


class Ids:
    """Ids of the records of a file; if no record has an id, records are called by their position."""

    def __init__(self, path: Path, kind: str, missing: MissingValues) -> None:
        self._path, self._kind, self._missing = path, kind, missing
        self._named: bool | None = None  # not known before the first record
        self._seen: set[str] = set()

    def of(self, record: Mapping[str, Any], keys: Sequence[str], position: int) -> str:
        """Returns the id under the first of these keys that has a value.

        Raises:
            DataError: some records have one and others have none.
        """
        given = next((record[key] for key in keys if record.get(key) is not None), None)
        where = f"{self._path}, {self._kind} {position}, {keys[0]}"
        if self._named is None:
            self._named = given is not None
        if self._named != (given is not None):
            raise DataError(
                f"{where}: expected an id in each record or in none, got {shown(given)}; give each one an id"
            )
        return text_of(given, "an id", where, self._missing) if self._named else str(position)

    def once(self, record: Mapping[str, Any], keys: Sequence[str], position: int) -> str:
        """Returns the same id as `of`, for records that must have distinct ids.

        Raises:
            DataError: as `of`, or an earlier record has this id.
        """
        name = self.of(record, keys, position)
        if name in self._seen:
            raise DataError(
                f"{self._path}, {self._kind} {position}, {keys[0]}: expected distinct ids, got {name!r} again; import "
                f"exports of several projects one by one"
            )
        self._seen.add(name)
        return name
