"""Every error that crowdsweep raises on purpose.

CrowdsweepError
├── BadInput (also ValueError)            input from a user that cannot be used
│   ├── DataError                         a dataset, its files or its rows
│   ├── ForeignFile                           a file or folder that crowdsweep does not own and will not overwrite
│   ├── SweepFileError                    a sweep file or a `--set`
│   │   └── SeveralMistakes                   several mistakes in one file, told together (`Mistakes`)
│   ├── SpaceError                        a search space
│   └── UnknownName (also LookupError)    an unknown model, dataset, template, metric or parameter
├── FitFailed (also RuntimeError)         a model could not be fitted: the trial fails, the sweep goes on
├── InfeasibleRequest (also RuntimeError) resources that the cluster does not have and never will
├── SlotLost (also RuntimeError)          an actor or its node died more often than the limit allows
├── WriteFailed (also OSError)             a report, table or other file derived from the record
└── JournalError (also OSError)           the record of a sweep
    ├── JournalLocked                     another driver is writing it
    └── JournalDamaged                    rows that cannot be read, or are not where they were written

A message says what was expected, what was given, where (`Where`), and what to do.

`Interrupted` is not an error: somebody asked a command to end.
"""

import errno
import re
import signal
from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
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
)  # messages of Python, torch and other libraries
_NO_ERROR = "without exception set"  # Python's message if C code failed without an exception: it got no memory
_LONGEST_MESSAGE = 4000
_MOST_MISTAKES = 12  # of about 320 characters each, so that they fit into the longest message
_LONGEST_OF_SEVERAL = 320
_ENDLESS = re.compile(r"\S{400,}")
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ud800-\udfff]"
)

Key = str | int
KeyPath = tuple[Key, ...]


@dataclass(frozen=True)
class Where:
    """The position of a value in its source; as text, `file:line: key.path`.

    Attributes:
        origins: key path → the `file:line` or the `--set` that a value came from; the nearest enclosing path counts.
        path: keys and list indices that lead to the value.
        files: key path → the file that a value came from, empty for no file; the nearest enclosing path counts.
    """

    origins: Mapping[KeyPath, str] = field(default_factory=dict, repr=False)
    path: KeyPath = ()
    files: Mapping[KeyPath, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, where: "str | Where") -> "Where":
        """Returns a `Where` unchanged, or a new one with the given text as the value's origin."""
        return where if isinstance(where, Where) else cls({(): where} if where else {})

    def at(self, *keys: Key) -> "Where":
        """Returns the position of a value nested in this one."""
        return Where(self.origins, (*self.path, *keys), self.files)

    def says(self, message: str) -> str:
        """Returns the message, prefixed with the position."""
        return ": ".join(part for part in (str(self), message) if part)

    @property
    def file(self) -> str:
        """The file that the value came from; empty if it came from no file."""
        return next((self.files[path] for path in self._above() if path in self.files), "")

    @property
    def folder(self) -> Path:
        """The base of relative paths in the value: the file's folder, or the working directory if there is no file."""
        return Path(self.file).parent

    def _above(self) -> Iterator[KeyPath]:
        return (self.path[:length] for length in range(len(self.path), -1, -1))

    def __str__(self) -> str:
        origin = next((self.origins[path] for path in self._above() if path in self.origins), "")
        return ": ".join(part for part in (origin, ".".join(shortened(str(key)) for key in self.path)) if part)


def plain(text: str) -> str:
    """Returns text that is safe for terminals and files.

    Characters that move the cursor, hide or reorder text, or cannot be encoded are replaced by escapes.
    """
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def shortened(text: str, most: int = LONGEST_SHOWN) -> str:
    """Returns text, cut after `most` characters."""
    return text if len(text) <= most else text[:most] + " …"


def shown(value: object) -> str:
    """Returns a value as text for a message: `null`, `an object`, `a list`, or its repr of at most 60 characters."""
    if value is None:
        return "null"
    if isinstance(value, str):
        value = value[:61]
    text = repr(value) if not isinstance(value, dict | list) else {dict: "an object", list: "a list"}[type(value)]
    return text if len(text) <= 60 else text[:57] + "…"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of any library means that memory ran out, for data, processes or threads."""
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or (isinstance(error, RuntimeError) and any(words in str(error) for words in _NO_MEMORY))
        or (isinstance(error, SystemError) and _NO_ERROR in str(error))
    )


def error_words(error: BaseException) -> str:
    """Returns the message of a library's error, shortened and on one line."""
    return shortened(" ".join(str(getattr(error, "strerror", None) or error).split()) or type(error).__name__)


def place_words(error: OSError) -> str:
    """Returns an operating system's error with the path that it is about, where that is known."""
    where = "" if error.filename is None else f"{plain(shortened(str(error.filename)))}: "
    return f"{where}{error_words(error)}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Returns a question with the most similar known name, or a list of all known names if none is similar.

    Names that differ in case and punctuation only are similar, and so are initials and parts: `ds` is dawid-skene.
    """
    names, asked = sorted(known), _letters(name[:LONGEST_SHOWN])
    near = [one for one in names if asked and asked in (_letters(one), _initials(one))]
    near = near or get_close_matches(name[:LONGEST_SHOWN], names, n=1)
    near = near or [one for one in names if len(asked) > 1 and asked in _letters(one)]
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names) or 'none'}"


def _letters(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()


def _initials(name: str) -> str:
    words = re.findall(r"[^\W_]+", name.lower())
    return "".join(word[0] for word in words) if len(words) > 1 else ""


ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A user's Ctrl-C, or another signal that asks the process to end; models never raise it."""


def counts_as_press(number: int, presses: int) -> bool:
    """Whether a signal counts as another press of Ctrl-C.

    SIGHUP counts only as the first press, because closing a terminal may send it twice.

    Args:
        number: of the signal.
        presses: number of presses before this signal.
    """
    return number in ENDING_SIGNALS and (number != signal.SIGHUP or not presses)


class CrowdsweepError(Exception):
    """Base class of the errors that crowdsweep raises on purpose."""

    def __str__(self) -> str:
        """Returns the message, cut at 4,000 characters; a word of 400 or more, as files may contain, is cut at 200."""
        return shortened(_ENDLESS.sub(lambda found: shortened(found[0]), super().__str__()), _LONGEST_MESSAGE)


class BadInput(CrowdsweepError, ValueError):
    """Input from a user cannot be used."""


class DataError(BadInput):
    """A dataset, its files or its rows cannot be used."""


class ForeignFile(BadInput):
    """A file or folder in the way was not written by crowdsweep, or was changed since; it is kept."""


class SweepFileError(BadInput):
    """A sweep file, or a value given by `--set`, cannot be used."""


class SeveralMistakes(SweepFileError):
    """Several independent mistakes in one input.

    Attributes:
        mistakes: the errors, in the order in which they were found; the message has a line for each.
    """

    def __init__(self, mistakes: Sequence[BadInput]) -> None:
        self.mistakes = tuple(mistakes)
        lines = [shortened(str(one), _LONGEST_OF_SEVERAL) for one in mistakes[:_MOST_MISTAKES]]
        if len(mistakes) > _MOST_MISTAKES:
            lines.append(f"… and {len(mistakes) - _MOST_MISTAKES} more")
        super().__init__("\n".join([f"{len(mistakes)} mistakes:", *lines]))


class Mistakes(AbstractContextManager["Mistakes"]):
    """Collects mistakes in independent parts of an input. They are raised together at the end of its `with` block: a
    single one as it is, several as `SeveralMistakes`."""

    def __init__(self) -> None:
        self._found: dict[str, BadInput] = {}
        self._once: set[Hashable] = set()

    @property
    def found(self) -> list[BadInput]:
        """The mistakes so far."""
        return list(self._found.values())

    @contextmanager
    def apart(self, once: Hashable = None) -> Generator[None]:
        """Keeps a mistake that is found in this block, so that what follows the block is checked as well.

        Args:
            once: of several blocks with the same value, only the first mistake is kept.
        """
        try:
            yield
        except BadInput as error:
            if once is None or once not in self._once:
                self._once.add(once)
                self.keep(error)

    def keep(self, error: BadInput) -> None:
        """Adds a mistake, unless the same one is known."""
        for one in error.mistakes if isinstance(error, SeveralMistakes) else (error,):
            self._found.setdefault(str(one), one)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, BadInput):
            self.keep(error)
        elif error is not None:
            return
        if len(self.found) > 1:
            raise SeveralMistakes(self.found) from None
        if self.found and self.found[0] is not error:
            raise self.found[0]


class SpaceError(BadInput):
    """A search space is invalid, or does not fit its model."""


class UnknownName(BadInput, LookupError):
    """A name is unknown; the message suggests the most similar known name."""

    def __init__(self, kind: str, name: str, known: Iterable[str], where: str = "") -> None:
        super().__init__(
            f"{where + ': ' if where else ''}unknown {kind} {shortened(name)!r}; {suggestion(name, known)}"
        )


class FitFailed(CrowdsweepError, RuntimeError):
    """A model could not be fitted, for example because its objective is not finite."""


class ConvergenceWarning(UserWarning):
    """A fit is used although its objective was still clearly improving when it ended."""


class InfeasibleRequest(CrowdsweepError, RuntimeError):
    """The requested resources exceed what the cluster has."""


class SlotLost(CrowdsweepError, RuntimeError):
    """An actor or its node died more often than the limit allows."""


class WriteFailed(CrowdsweepError, OSError):
    """A file derived from the record could not be written; the previous file is kept."""


class JournalError(CrowdsweepError, OSError):
    """The record of a sweep cannot be read or written."""


class JournalLocked(JournalError):
    """Another driver is writing this journal."""


class JournalDamaged(JournalError):
    """The journal contains something other than its rows in order and a torn tail."""
