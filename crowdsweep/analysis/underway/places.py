"""Hosts and devices on which the trials of a sweep ran, from its record."""

from collections.abc import Iterable
from dataclasses import dataclass

from crowdsweep.record.shown import ShownTrial, one_each
from crowdsweep.record.state import JournalState


@dataclass(kw_only=True)
class PlaceOfTrials:
    """Trials that ran on one device of one host.

    Attributes:
        seconds: total seconds of the trials, where each counts with its share of its batch.
        peak_bytes: highest peak memory of a process.
    """

    host: str
    device: str
    ended: int = 0
    failed: int = 0
    seconds: float = 0.0
    peak_bytes: int = 0


def places_of_trials(state: JournalState, trials: Iterable[ShownTrial]) -> list[PlaceOfTrials]:
    """Returns each host and device with its trials, the one with most trials first."""
    found: dict[tuple[str, str], PlaceOfTrials] = {}
    for key in one_each(trials):
        result = state.results.get(key)
        if result is not None and result.host:
            place = found.setdefault(
                (result.host, result.device), PlaceOfTrials(host=result.host, device=result.device)
            )
            place.ended += 1
            place.failed += result.failure is not None
            place.seconds += result.wall_s
            place.peak_bytes = max(place.peak_bytes, result.peak_bytes)
    return sorted(found.values(), key=lambda place: -place.ended)
