"""Texts that stand for a missing value: one rule for folders, tables, imports, arrays, gold and features.

An empty value (also one of only spaces, a null, a NaN) is missing everywhere. Other missing values are the words that
programs write, matched with their exact spelling: Python's `None` is missing, but `none` is a class that a person may
have chosen. If a class has such a name, or if another word stands for a missing value, the user declares it once: by
`--missing` at an import, by the key `missing` of dataset.yaml, or by the parameter `missing` in Python. A class that
classes.csv declares is always a class.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool

from crowdsweep.data.on_disk.tables import Column, Names
from crowdsweep.errors import BadInput, shortened

WORDS = ("NA", "N/A", "n/a", "<NA>", "#N/A", "#NA", "NaN", "nan", "NAN", "NaT", "NULL", "null", "None")
"""Words for a missing value as R and spreadsheets, Python and its tables, databases and JSON write them."""
OF_MATRICES = ("-1", "-1.0")
"""Further words for a missing answer in a matrix, whose cells cannot be left out."""
ASK_TO_BE_SURE = (
    *("na", "none", "missing", "?", "-", ".", "-1", "-9", "-99", "-999", "unknown", "unsure", "not sure", "uncertain"),
    *("don't know", "dont know", "do not know", "i don't know", "dk", "idk", "can't tell", "cannot tell", "can't say"),
    *("skip", "skipped", "no answer", "abstain", "abstained", "undecided", "n.a.", "not applicable"),
)
"""Lower-case words that may stand for a missing value; they are classes until the user says otherwise."""
_CODES = {8, 9, 77, 88, 97, 98, 99, 777, 888, 997, 998, 999}  # of surveys, where they are beyond the scale's end


@dataclass(frozen=True)
class MissingValues:
    """Rule that decides which texts are missing values.

    Attributes:
        words: texts that are missing values, besides the empty text.
        told: whether the user declared these words.
    """

    words: frozenset[str] = frozenset(WORDS)
    told: bool = False

    @classmethod
    def of(cls, words: Iterable[Any] | None) -> "MissingValues":
        """Returns the rule with these words (texts or numbers, empty ones ignored); None gives the default words.

        Raises:
            BadInput: a word is neither a text nor a number.
        """
        if words is None:
            return cls()
        given: list[Any] = [words] if isinstance(words, str) else list(words)
        for word in given:
            if isinstance(word, bool) or not isinstance(word, str | int | float | np.number):
                raise BadInput(f"missing: expected texts that mean a missing value, got {shortened(repr(word))}")
        return cls(words=frozenset(str(word).strip() for word in given) - {""}, told=True)

    def __call__(self, text: str) -> bool:
        """Returns whether a text stands for a missing value."""
        plain = text.strip()
        return not plain or plain in self.words

    def without(self, classes: Iterable[str]) -> "MissingValues":
        """Returns the rule without the words that are declared classes."""
        return MissingValues(words=self.words.difference(classes), told=self.told)

    def in_matrices(self) -> "MissingValues":
        """Returns the rule for cells of a matrix: -1 is missing as well, unless the user declared the words."""
        return self if self.told else MissingValues(words=self.words.union(OF_MATRICES))

    def among(self, names: Names) -> Bool[np.ndarray, " names"]:
        """Returns a mask of the texts that stand for a missing value."""
        plain: Any = pc.utf8_trim_whitespace(names.array)  # pyright: ignore[reportAttributeAccessIssue]
        found: Any = pc.is_in(plain, value_set=pa.array(["", *sorted(self.words)], pa.string()))
        return found.to_numpy(zero_copy_only=False)

    def emptied(self, column: Column) -> Column:
        """Returns the column with every missing value replaced by the empty text."""
        missing = self.among(column.texts)
        if not (missing & (np.array(list(map(len, column.texts))) > 0)).any():
            return column
        texts = pc.if_else(pa.array(missing), "", column.texts.array)
        return Column(
            pa.DictionaryArray.from_arrays(column.array.indices, texts).dictionary_decode().dictionary_encode()
        )


USUAL = MissingValues()


@dataclass(frozen=True)
class MissingLabels:
    """Labels that were missing values, grouped by their text.

    Attributes:
        counts: number of labels with each text.
        first: place of the first label with each text, `annotations.csv, row 3`.
    """

    counts: Counter[str] = field(default_factory=Counter[str])
    first: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, text: str, where: str, count: int = 1) -> None:
        """Counts `count` missing labels with this text, the first of which stands at `where`."""
        self.counts[text] += count
        self.first.setdefault(text, where)

    def words(self) -> list[str]:
        """Returns them in words for a message, most frequent first: `NA (3, first: row 2)`, `empty (1: row 7)`."""
        counts, first = Counter(dict[str, int]()), dict[str, str]()
        for text, count in self.counts.items():
            word = text.strip() or "empty"
            counts[word] += count
            first.setdefault(word, self.first[text])
        return [
            f"{word} ({count:,}{', first' if count > 1 else ''}: {first[word]})" for word, count in counts.most_common()
        ]

    def has_words(self) -> bool:
        """Returns whether any of the texts may be the name of a class; an empty field cannot."""
        return any(text.strip() for text in self.counts)


def likely_missing(labels: Sequence[str]) -> list[str]:
    """Returns the classes whose names people also write for a missing answer: words, and codes of survey tools."""
    numbers = {int(label) for label in labels if label.isdecimal() and len(label) < 4}
    end = max(numbers - _CODES, default=0)
    while end + 1 in numbers:  # 8 and 9 may also be steps
        end += 1
    codes = {str(number) for number in numbers if end > 0 and number > end}
    return [label for label in labels if _plainly(label) in ASK_TO_BE_SURE or label in codes]


def _plainly(label: str) -> str:
    return " ".join(label.lower().replace("’", "'").replace("_", " ").split())
