"""Results of a study along its axis, by dataset, model and value of the axis."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from crowdsweep.metrics.intervals import Estimate, estimate
from crowdsweep.metrics.metric_table import by_held_out
from crowdsweep.metrics.shown import show_with_interval, unsound_words
from crowdsweep.metrics.wording import is_share, readable
from crowdsweep.record.array_names import ItemScores, no_item_scores
from crowdsweep.studies.contract import Curve, CurveLine


@dataclass(frozen=True, kw_only=True)
class AxisPoint:
    """The results of one model at one value of the axis.

    Attributes:
        by_item: metric → seed → the scores of the items that the value is the mean of, where they are known. Items and
            order are the same at every seed and for every model of a dataset.
        wall_s: seconds of each successful trial.
        peak_bytes: the highest resident memory of the process that ran each trial, where it was measured.
        flags: for each successful trial, what is wrong with its fit (`trial.flags`); empty where nothing is.
    """

    by_seed: dict[str, dict[int, float]] = field(default_factory=dict)
    by_item: dict[str, dict[int, np.ndarray]] = field(default_factory=dict[str, dict[int, np.ndarray]])
    wall_s: list[float] = field(default_factory=list)
    peak_bytes: list[int] = field(default_factory=list[int])
    flags: list[str] = field(default_factory=list[str])

    def estimate(self, metric: str, heldout: float = 0.0) -> Estimate | None:
        """Returns the mean of a metric over the seeds, with its interval; None where no trial has the metric.

        Args:
            heldout: share of the annotations that report trials held out.
        """
        values = self.by_seed.get(metric)
        if not values:
            return None
        overlapping, items = heldout if by_held_out(metric) else 0.0, self.by_item.get(metric, {})
        return estimate(
            [values[seed] for seed in sorted(values)],
            metric=metric,
            heldout=overlapping,
            item_scores=np.stack([items[seed] for seed in sorted(values)]) if items.keys() >= values.keys() else None,
        )

    def unsound(self, metric: str) -> str:
        """Returns why no mean may represent the model here; empty where one may.

        Examples are `2 of 10 seeds collapsed` and `3 of 10 trials are flagged`.
        """
        return unsound_words(self.estimate(metric), sum(map(bool, self.flags)), len(self.flags))


ModelsAlong = dict[str, dict[int | None, AxisPoint]]
"""Model → value of the axis (None: the parameter is left out) → results."""


def along_axis(
    table: pa.Table, axis: str, metrics: Sequence[str], item_scores: ItemScores = no_item_scores
) -> dict[str, ModelsAlong]:
    """Returns the successful report trials by dataset, model and value of the axis.

    The name of a dataset includes its other parameters. Where several points of a model were re-scored, only the one
    planned first counts: the search's best.

    Args:
        axis: the dataset parameter that the study varies.
        metrics: the metrics to collect from each trial.
    """
    found: dict[str, ModelsAlong] = {}
    trials: dict[str, list[tuple[AxisPoint, int, str]]] = {}
    points: dict[tuple[str, str, int | None], str] = {}
    for row in table.to_pylist():
        if row["phase"] != "report" or row["status"] != "ok":
            continue
        params: dict[str, Any] = json.loads(row["dataset_params"])
        value = params.pop(axis, None)
        rest = ", ".join(f"{name}: {setting}" for name, setting in params.items())
        dataset = f"{row['dataset']} ({rest})" if rest else row["dataset"]
        if points.setdefault((dataset, row["model"], value), row["point"]) != row["point"]:
            continue
        cell = found.setdefault(dataset, {}).setdefault(row["model"], {}).setdefault(value, AxisPoint())
        cell.wall_s.append(row["wall_s"])
        if row.get("peak_bytes"):
            cell.peak_bytes.append(row["peak_bytes"])
        cell.flags.append(row.get("flags") or "")
        trials.setdefault(dataset, []).append((cell, row["seed"], row.get("key") or ""))
        for metric in metrics:
            if row.get(metric) is not None:
                cell.by_seed.setdefault(metric, {})[row["seed"]] = row[metric]
    for places in trials.values():
        for metric in metrics:
            having = [(cell, seed, key) for cell, seed, key in places if seed in cell.by_seed.get(metric, {})]
            known = item_scores([key for _, _, key in having], metric)
            for cell, seed, key in having:
                if key in known:
                    cell.by_item.setdefault(metric, {})[seed] = known[key]
    return found


def first_metric(table: pa.Table, names: Sequence[str]) -> str | None:
    """Returns the first of these metrics that any trial has; None where no trial has any."""
    return next((n for n in names if n in table.column_names and table[n].null_count < len(table)), None)


def _line(
    model: str, points: Mapping[int | None, AxisPoint], metric: str, x_of_none: float, saw_gold: bool, heldout: float
) -> CurveLine | None:
    """Returns a model's line; None where it lacks the metric everywhere."""
    placed = sorted(
        ((x_of_none if value is None else float(value), cell) for value, cell in points.items()),
        key=lambda pair: pair[0],
    )
    known = [(x, found) for x, cell in placed if (found := cell.estimate(metric, heldout)) is not None]
    if not known:
        return None
    return CurveLine(
        label=f"{model} (saw gold)" if saw_gold else model,
        x=[x for x, _ in known],
        y=[found.mean for _, found in known],
        low=[found.low for _, found in known],
        high=[found.high for _, found in known],
        reference=saw_gold,
    )


def curve_over(
    models: ModelsAlong,
    metric: str,
    *,
    gold: frozenset[str],
    title: str,
    x_label: str,
    log_x: bool = False,
    x_ticks: Mapping[float, str] | None = None,
    x_of_none: float = 0.0,
    heldout: float = 0.0,
) -> Curve:
    """Returns the curve of a metric over the axis, with a line for each model that has the metric.

    Args:
        gold: names of the models that saw gold.
        x_of_none: position of the points that leave the parameter out.
        heldout: as for `AxisPoint.estimate`.
    """
    found = [_line(model, models[model], metric, x_of_none, model in gold, heldout) for model in sorted(models)]
    return Curve(
        title=title,
        x_label=x_label,
        y_label=readable(metric),
        lines=[line for line in found if line is not None],
        log_x=log_x,
        x_ticks=x_ticks or {},
        percent=is_share(metric),
    )


def log_spaced(values: Sequence[int | float]) -> bool:
    """Whether a logarithmic axis suits ascending, positive numbers, which would crowd at one end of a linear axis.

    It does if their widest gap takes up far more of a linear axis than of a logarithmic one.
    """
    if len(values) < 3 or values[0] <= 0:
        return False
    logs = [math.log(value) for value in values]
    return _widest_gap(values) > 1.6 * _widest_gap(logs)


def _widest_gap(values: Sequence[int | float]) -> float:
    return max(after - before for before, after in pairwise(values)) / (values[-1] - values[0])


def shown(metric: str, found: Estimate | None) -> str | None:
    """Returns a mean with its interval in the usual format, `91.2 ± 0.4`; None for None."""
    return None if found is None else show_with_interval(found, metric)


def change_words(change: Estimate, metric: str) -> str:
    """Returns a difference of a metric with its interval: `+1.2 points [+0.4, +2.0]`, `-0.012`."""
    scale, unit, digits = (100.0, " points", 1) if is_share(metric) else (1.0, "", 3)
    text = f"{scale * change.mean:+.{digits}f}{unit}"
    if change.low is None or change.high is None:
        return text
    return f"{text} [{scale * change.low:+.{digits}f}, {scale * change.high:+.{digits}f}]"
