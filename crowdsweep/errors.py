"""Every error that crowdsweep raises on purpose.

CrowdsweepError
├── BadInput (also ValueError)            what a person gave cannot be used
│   ├── DataError                         a dataset, its files or its rows
│   ├── NotOurs                           a file or folder in the way that crowdsweep did not write
│   ├── SweepFileError                    a sweep file or a `--set`
│   ├── SpaceError                        a search space
│   └── UnknownName (also LookupError)    a model, dataset, template, metric or parameter that is not known
├── FitFailed (also RuntimeError)         a model could not be fitted: the trial fails, the sweep goes on
├── InfeasibleRequest (also RuntimeError) resources that the cluster does not have and never will
├── SlotLost (also RuntimeError)          an actor or its node died more often than the limit allows
├── NotWritten (also OSError)             a report, a table or another file that is made of the record
└── JournalError (also OSError)           the record of a sweep
    ├── JournalLocked                     another driver is writing it
    └── JournalDamaged                    rows that cannot be read, or that do not stand where they were written

A message says what was expected, what came, where (`Where`), and what to do.

`Interrupted` is no error: somebody asked a command to end.
"""

import errno
import re
import signal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

LONGEST_SHOWN = 200
_NO_MEMORY = (
    "can't start new thread",
    "can't allocate memory",
    "Cannot allocate memory",
    "out of memory",
    "ALLOC_FAILED",
)  # of Python, torch, libraries
_NO_ERROR = "without exception set"  # what Python says of C code that failed and did not say why: it got no memory
_LONGEST_MESSAGE = 4000
_ENDLESS = re.compile(r"\S{400,}")
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ud800-\udfff]"
)

Key = str | int
KeyPath = tuple[Key, ...]


@dataclass(frozen=True)
class Where:
    """Where a value stands; as text, `file:line: key.path`.

    Attributes:
        origins: `file:line`, or the `--set` a value came from, by key path; the nearest one above counts.
        path: keys and list positions that lead to the value.
        files: the file a value came from, empty where it is none, by key path; the nearest one above counts.
    """

    origins: Mapping[KeyPath, str] = field(default_factory=dict, repr=False)
    path: KeyPath = ()
    files: Mapping[KeyPath, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, where: "str | Where") -> "Where":
        """Returns a place as it is, and plain text as the origin of a value."""
        return where if isinstance(where, Where) else cls({(): where} if where else {})

    def at(self, *keys: Key) -> "Where":
        """Returns the place of something inside."""
        return Where(self.origins, (*self.path, *keys), self.files)

    def says(self, message: str) -> str:
        """Returns the message with the place before it."""
        return ": ".join(part for part in (str(self), message) if part)

    @property
    def file(self) -> str:
        """The file the value came from; empty where it is none."""
        return next((self.files[path] for path in self._above() if path in self.files), "")

    @property
    def folder(self) -> Path:
        """Where a relative path in the value begins: beside the file, else where this process stands."""
        return Path(self.file).parent

    def _above(self) -> Iterator[KeyPath]:
        return (self.path[:length] for length in range(len(self.path), -1, -1))

    def __str__(self) -> str:
        origin = next((self.origins[path] for path in self._above() if path in self.origins), "")
        return ": ".join(part for part in (origin, ".".join(shortened(str(key)) for key in self.path)) if part)


def plain(text: str) -> str:
    """Returns text that does nothing to a terminal or a file: what moves, hides, reorders or cannot be encoded is
    written as an escape."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def shortened(text: str, most: int = LONGEST_SHOWN) -> str:
    """Returns text, cut where it is long."""
    return text if len(text) <= most else text[:most] + " …"


def shown(value: object) -> str:
    """Returns a value as a message says it."""
    if value is None:
        return "null"
    if isinstance(value, str):
        value = value[:61]
    text = repr(value) if not isinstance(value, dict | list) else {dict: "an object", list: "a list"}[type(value)]
    return text if len(text) <= 60 else text[:57] + "…"


def is_want_of_memory(error: BaseException) -> bool:
    """Whether an error of any library says that a process gets no more memory, for values, processes or threads."""
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or (isinstance(error, RuntimeError) and any(words in str(error) for words in _NO_MEMORY))
        or (isinstance(error, SystemError) and _NO_ERROR in str(error))
    )


def error_words(error: BaseException) -> str:
    """Returns what a library said, on one line and not at length."""
    return shortened(" ".join(str(getattr(error, "strerror", None) or error).split()) or type(error).__name__)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Returns the nearest known name as a question, or all of them where none is near."""
    names = sorted(known)
    near = get_close_matches(name[:LONGEST_SHOWN], names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names) or 'none'}"


ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or another signal that asks a process to end: a person's, and never raised by a model."""


def counts_as_press(number: int, presses: int) -> bool:
    """Whether a signal is one more press of Ctrl-C; a terminal that is closed may say SIGHUP twice and means it once.

    Args:
        number: of the signal.
        presses: before it.
    """
    return number in ENDING_SIGNALS and (number != signal.SIGHUP or not presses)


class CrowdsweepError(Exception):
    """Root of the errors that crowdsweep raises on purpose."""

    def __str__(self) -> str:
        """Returns the message; a word in it that nobody reads, as a file can hold for a name or a number, is cut."""
        return shortened(_ENDLESS.sub(lambda found: shortened(found[0]), super().__str__()), _LONGEST_MESSAGE)


class BadInput(CrowdsweepError, ValueError):
    """Input from a person cannot be used."""


class DataError(BadInput):
    """A dataset, its files or its rows cannot be used."""


class NotOurs(BadInput):
    """A file or a folder is in the way that crowdsweep did not write, or that was changed since; it is kept."""


class SweepFileError(BadInput):
    """A sweep file, or a value given by `--set`, cannot be used."""


class SpaceError(BadInput):
    """A search space is not one, or not this model's."""


class UnknownName(BadInput, LookupError):
    """A name that is not known; the message offers the nearest one that is."""

    def __init__(self, kind: str, name: str, known: Iterable[str], where: str = "") -> None:
        super().__init__(
            f"{where + ': ' if where else ''}unknown {kind} {shortened(name)!r}; {suggestion(name, known)}"
        )


class FitFailed(CrowdsweepError, RuntimeError):
    """A model could not be fitted, for example because its objective is not finite."""


class ConvergenceWarning(UserWarning):
    """A fit was used that ended while its objective still clearly improved."""


class InfeasibleRequest(CrowdsweepError, RuntimeError):
    """Resources were asked for that the cluster does not have."""


class SlotLost(CrowdsweepError, RuntimeError):
    """An actor or its node died more often than the limit allows."""


class NotWritten(CrowdsweepError, OSError):
    """A file that is made of the record could not be written; what stood in its place stands."""


class JournalError(CrowdsweepError, OSError):
    """The record of a sweep cannot be read or written."""


class JournalLocked(JournalError):
    """Another driver is writing this journal."""


class JournalDamaged(JournalError):
    """The journal holds something else than its rows, each in its place, and a torn tail."""
