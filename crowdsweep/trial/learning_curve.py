"""The learning curve of a fit: a metric of dev items every few steps, stored with at most `MOST_POINTS` points."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from crowdsweep.metrics.metric_table import ItemMetric, info_of
from crowdsweep.record.bar import Bar

MOST_POINTS = 100


@dataclass(frozen=True, kw_only=True)
class CurveSpec:
    """Settings of the learning curve of a batch's fits.

    The curve changes no result, so it is no part of a trial's key. Early stopping does: a trial that a bar may end says
    so in its spec (`TrialSpec.early_stop`).

    Attributes:
        metric: a metric of dev items (`dev_accuracy`, `dev_kl.snap`); any other metric, also one of dev items' single
            labels, is scored only at the end of the fit.
        every: epochs or EM steps between scores, at least 1.
        bars: bar of early stopping by trial key; trials without one are not stopped.
    """

    metric: str
    every: int
    bars: Mapping[str, Bar] = field(default_factory=dict[str, Bar], hash=False)

    def is_due(self, step: int) -> bool:
        """Whether the fit is scored after this step (steps count from 1)."""
        of_dev_items = self.metric.startswith("dev_") and isinstance(info_of(self.metric), ItemMetric)
        return of_dev_items and step % self.every == 0


NO_CURVE = CurveSpec(metric="", every=1)


def thinned_curve(curve: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Returns at most `MOST_POINTS` points, evenly spaced, the first and the last among them."""
    if len(curve) <= MOST_POINTS:
        return list(curve)
    last = len(curve) - 1
    return [curve[round(place * last / (MOST_POINTS - 1))] for place in range(MOST_POINTS)]
