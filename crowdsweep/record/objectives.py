"""The value of an objective of a search, as a trial's row has it."""

from crowdsweep.metrics.known import MEMORY, SECONDS
from crowdsweep.record.result import TrialResult


def objective_of(result: TrialResult, name: str) -> float | None:
    """Returns a metric of a trial, or what it cost: its share of the seconds of its batch, or the highest memory of
    that batch in MiB; None where it lacks the metric.

    Args:
        result: of a trial that did not fail.
        name: of the metric or cost.
    """
    if name == SECONDS:
        return result.wall_s
    return result.peak_bytes / 2**20 if name == MEMORY else result.metrics.get(name)
