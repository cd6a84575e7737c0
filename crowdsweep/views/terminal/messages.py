"""Sentences for a terminal: lines break between words, and text to be copied stays in one piece."""

import logging
import os
import re
import sys
import unicodedata
from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from crowdsweep.errors import plain

_NARROWEST = 20
_WORDS = re.compile(r"\S*`[^`]*`\S*|\S+")


@runtime_checkable
class Stream(Protocol):
    """A file that text is written to, or a substitute for one."""

    def write(self, text: str, /) -> Any: ...
    def flush(self) -> Any: ...
    def isatty(self) -> bool: ...
    def fileno(self) -> int: ...


def wrapped(text: str, width: int | None) -> str:
    """Returns text whose long lines are broken between words; a terminal would break them in the middle of a word.
    Indented lines continue indented.

    `words in backticks` are one word, however long, because a command that is copied from a terminal must not contain a
    line break. A word that is longer than a line begins a line, and the terminal breaks it.

    Args:
        width: width of the terminal; None for no terminal, where lines are not broken.
    """
    if width is None:
        return text
    return "\n".join(piece for line in text.split("\n") for piece in _pieces(line, max(width, _NARROWEST)))


def columns_of(stream: Stream) -> int | None:
    """Returns the width of the terminal that a stream goes to, in columns; None where it goes to no terminal."""
    try:
        if not stream.isatty():
            return None
        width_text = os.environ.get("COLUMNS", "")
        columns = int(width_text) if width_text.isdecimal() else os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # it is closed, or a terminal of unknown size
        return None
    return columns or None


def print_message(text: str, stream: Stream | None = None) -> None:
    """Writes a message and ends its line.

    Args:
        text: the message; characters that could move a cursor are written as escapes.
        stream: standard error where it is None.

    Raises:
        OSError, ValueError: the stream is closed.
    """
    to: Stream = sys.stderr if stream is None else stream
    to.write(wrapped(plain(text), columns_of(to)) + "\n")
    to.flush()


class Warnings(logging.Handler):
    """Writes log messages to standard error as `print_message` does, the message alone."""

    def emit(self, record: logging.LogRecord) -> None:
        """Called by logging."""
        try:
            print_message(self.format(record))
        except Exception:  # noqa: BLE001 - logging's own rule: a handler raises nothing
            self.handleError(record)


def _cells(text: str) -> int:
    """Returns the columns that a text takes: two for an East Asian letter, none for a combining accent."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


def _pieces(line: str, width: int) -> Iterator[str]:
    if _cells(line) <= width:
        yield line
        return
    indent = line[: len(line) - len(line.lstrip())]
    piece = ""
    for word in _WORDS.findall(line):
        longer = f"{piece} {word}" if piece else indent + word
        if piece and _cells(longer) > width:
            yield piece
            longer = indent + word
        piece = longer
    yield piece
