"""The value of a search's objective in the result of a trial."""

from crowdsweep.metrics.metric_table import MEMORY, SECONDS
from crowdsweep.record.result import TrialResult


def objective_of(result: TrialResult, name: str) -> float | None:
    """Returns a metric or a cost of a trial that did not fail; None if the trial lacks the metric.

    The costs are the trial's share of its batch's seconds, and the peak memory of that batch in MiB.
    """
    if name == SECONDS:
        return result.wall_s
    return result.peak_bytes / 2**20 if name == MEMORY else result.metrics.get(name)
