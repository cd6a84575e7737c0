"""Flags of possible faults of a fit, as the record keeps them; `trial.flags` detects them."""

from collections.abc import Iterable
from enum import StrEnum


class Flag(StrEnum):
    """A possible fault of a fit."""

    PERMUTED = "permuted"
    COLLAPSED = "collapsed"
    WORSE_THAN_VOTE = "worse_than_vote"


_WORDS = {
    Flag.PERMUTED: "its classes are those of the votes, permuted",
    Flag.COLLAPSED: "it agrees with the votes no better than the same class for every item would",
    Flag.WORSE_THAN_VOTE: "it is right far less often than majority vote, on gold or on held-out answers",
}


def flag_words(flags: Iterable[str]) -> str:
    """Returns flags with their explanations: `permuted (its classes are …)`; empty for none."""
    return "; ".join(f"{flag.replace('_', ' ')} ({_WORDS[Flag(flag)]})" for flag in flags)
