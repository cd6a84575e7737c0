"""The result of one check of what sweeps need, in plain words."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "note", "problem"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Result of one check.

    Attributes:
        what: name of the thing that was checked.
        verdict: `problem` where no sweep would run, `note` where a sweep would run, but something else would not.
        words: what was found.
        then: what to do about it; empty where there is nothing to do.
    """

    what: str
    verdict: Verdict
    words: str
    then: str = ""

    def __str__(self) -> str:
        return f"{self.words}; {self.then}" if self.then else self.words
