"""The finding on one thing that sweeps need, in plain words."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "note", "problem"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        what: it is.
        verdict: `problem` where no sweep would run, `note` where one would, and something else would not.
        words: what was found.
        then: what to do about it; empty where there is nothing to do.
    """

    what: str
    verdict: Verdict
    words: str
    then: str = ""

    def __str__(self) -> str:
        return f"{self.words}; {self.then}" if self.then else self.words
