"""Reads JSON documents and JSONL one value at a time, so that an export may be larger than memory."""

import json
import re
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from crowdsweep.data import bounds
from crowdsweep.data.on_disk.text_files import LONGEST_FIELD, check_packed_text, opened_text, reading
from crowdsweep.errors import DataError, shown

_CHUNK = 1 << 16
_SPACE = re.compile(r"[ \t\r\n]*")


@contextmanager
def _opened(path: Path) -> Generator[TextIOWrapper]:
    with opened_text(path) as file:
        check_packed_text(path)
        yield file


def document(path: Path) -> Any:
    """Returns the only value of a JSON document.

    Raises:
        DataError: the file is not JSON, or has text after the value; the message says line and column.
    """
    with reading(path, "JSON"), _opened(path) as file:
        scanner = _Scanner(path, file)
        value = scanner.value()
        scanner.end()
        return value


def objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (position from 0, object) for each object of a JSON list or of JSONL, gzipped or not.

    Raises:
        DataError: the file is neither.
    """
    with reading(path, "JSON"), _opened(path) as file:
        yield from objects_of(path, file)


def objects_of(path: Path, file: TextIOWrapper) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields what `objects` yields, from a file that is open."""
    with reading(path, "JSON"):
        scanner = _Scanner(path, file)
        listed = scanner.take("[")
        position, most = 0, max(bounds.MOST_RECORDS, bounds.size_on_disk(path))
        while not (scanner.take("]") if listed else scanner.peek() == ""):
            if listed and position and not scanner.take(","):
                scanner.fail("expected a comma between two objects, or the end of the list")
            value = scanner.value()
            if not isinstance(value, dict):
                raise DataError(f"{path}, entry {position}: expected an object, got {shown(value)}; export it again")
            yield position, value
            position += 1
            if position > most:
                bounds.check_rows(position, path, floor=most, what="objects")
        scanner.end()


class _Scanner:
    """Reads JSON values one after another, and holds only the current one."""

    def __init__(self, path: Path, file: TextIOWrapper) -> None:
        self._path, self._file = path, file
        self._buffer, self._at, self._line = "", 0, 1
        self._decoder = json.JSONDecoder(object_pairs_hook=self._distinct)

    def peek(self) -> str:
        """Returns the next character that is not white space; an empty text at the end."""
        while True:
            space = _SPACE.match(self._buffer, self._at)
            self._at = self._at if space is None else space.end()
            if self._at < len(self._buffer) or not self._more():
                return self._buffer[self._at : self._at + 1]

    def take(self, character: str) -> bool:
        """Moves past that character if it comes next; returns whether it did."""
        if self.peek() != character:
            return False
        self._at += 1
        return True

    def value(self) -> Any:
        """Returns the next value."""
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._at)
            except json.JSONDecodeError as error:
                if not self._more():
                    self.fail(error.msg, error.pos)
                continue
            if end == len(self._buffer) and self._more():  # a number may continue in the next chunk
                continue
            self._at = end
            return value

    def end(self) -> None:
        """Raises a DataError if anything follows the last value."""
        if self.peek():
            self.fail("expected the end of the document")

    def fail(self, message: str, at: int | None = None) -> None:
        """Raises a DataError with line and column."""
        place = self._at if at is None else at
        line = self._line + self._buffer.count("\n", 0, place)
        column = place - self._buffer.rfind("\n", 0, place)
        raise DataError(f"{self._path}, line {line}, column {column}: expected JSON: {message}; export it again")

    def _more(self) -> bool:
        """Drops the text that was taken and reads on; returns whether there was more.

        It reads as much as it still holds, so that a long value is not parsed too often.
        """
        self._line += self._buffer.count("\n", 0, self._at)
        held = self._buffer[self._at :]
        if len(held) > LONGEST_FIELD:
            self.fail("a value without an end; a bracket or a quote is missing")
        read = self._file.read(max(_CHUNK, len(held)))
        self._buffer, self._at = held + read, 0
        return bool(read)

    def _distinct(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            twice = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
            raise DataError(f"{self._path}: expected distinct keys in an object, got {twice!r} twice; rename one")
        return made


def part(value: Any, kind: type, where: str) -> Any:
    """Returns a part of a record that must be an object or a list; an empty one for null.

    Raises:
        DataError: the part is something else.
    """
    if value is None:
        return kind()
    if not isinstance(value, kind):
        expected = "an object" if kind is dict else "a list"
        raise DataError(f"{where}: expected {expected}, got {shown(value)}; export it in full, not as ids or a summary")
    return value


def an_object(value: Any, where: str) -> dict[str, Any]:
    """Returns an entry of a list of objects after a check that it is an object.

    Raises:
        DataError: the entry is something else, or null.
    """
    if value is None:
        raise DataError(f"{where}: expected an object, got null; take it out of the file")
    return part(value, dict, where)
