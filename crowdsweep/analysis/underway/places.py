"""Where the trials of a sweep ran, from its record."""

from collections.abc import Iterable
from dataclasses import dataclass

from crowdsweep.record.shown import ShownTrial, one_each
from crowdsweep.record.state import JournalState


@dataclass(kw_only=True)
class PlaceOfTrials:
    """A machine and a device, with what ran there.

    Attributes:
        ended, failed: trials; those that failed are among those that ended.
        seconds: of the trials, each its share of its batch.
        peak_bytes: the highest of a process.
    """

    host: str
    device: str
    ended: int = 0
    failed: int = 0
    seconds: float = 0.0
    peak_bytes: int = 0


def places_of_trials(state: JournalState, trials: Iterable[ShownTrial]) -> list[PlaceOfTrials]:
    """Returns each machine and device, those that ran most first."""
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
