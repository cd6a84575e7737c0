"""A journal as a file: its lines, and what of it can still be read after it was damaged."""

from collections import Counter
from pathlib import Path

from crowdsweep.errors import JournalError
from crowdsweep.record.codec import decode
from crowdsweep.record.events import Event, TrialFinished
from crowdsweep.record.result import TrialResult
from crowdsweep.record.rows import parse_row


def lines_of(journal: Path) -> list[bytes]:
    """Returns its lines with their ends; none where there is no file."""
    return journal.read_bytes().splitlines(keepends=True) if journal.exists() else []


def event_of(line: bytes) -> Event | None:
    """Returns what a line says; None where it cannot be read."""
    whole = parse_row(line)
    try:
        return None if whole is None else decode(whole.text)
    except JournalError:
        return None


def finishes(journal: Path) -> dict[str, TrialResult]:
    """Returns the results whose rows can be read, by key, whatever stands around them."""
    results: dict[str, TrialResult] = {}
    for line in lines_of(journal):
        event = event_of(line)
        if isinstance(event, TrialFinished) and not _is_lost(event.result):
            results.setdefault(event.result.key, event.result)
    return results


def times_finished(journal: Path) -> Counter[str]:
    """Returns how often each trial has an end of its own: a loss of its slot is none."""
    events = (event_of(line) for line in lines_of(journal))
    return Counter(e.result.key for e in events if isinstance(e, TrialFinished) and not _is_lost(e.result))


def _is_lost(result: TrialResult) -> bool:
    return result.failure is not None and result.failure.of_infrastructure
