"""Groups of models that are compared along labels per item, and the numbers of labels that their items had.

A group has one dataset and one metric. The labels that were bought are the annotations of the training items, including
those that a fit held out. `competitors` are the models of a group that saw no gold.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any

import numpy as np

from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.metric_table import HELDOUT
from crowdsweep.metrics.shown import show_with_interval
from crowdsweep.studies.axis import AxisPoint, ModelsAlong, along_axis
from crowdsweep.studies.contract import StudyNumber, StudyResults

AXIS = "redundancy"
SIZE = "n_annotations"
# Report trials have a held-out likelihood only where their accuracy could only be against the votes that trained.
_QUALITY = ("test_accuracy", HELDOUT, "dev_accuracy", "train_accuracy")
_EXACT = 1e-6

Points = Mapping[int | None, AxisPoint]
"""Labels per item (None: all) → the results of a model."""
Labels = int | float
"""Number of labels per item; infinite for all labels, where items have more than any number tried."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Models of one dataset that have the same metric.

    Attributes:
        dataset: its name, with its other parameters.
        models: the results of the models. Where a tried number of labels keeps all annotations, only the results with
            all labels are kept.
        all_labels: the number of labels per item that all labels are; None where items differ in it.
        heldout: as for `AxisPoint.estimate`.
        why: why these models have a metric of their own; empty for the first group of a dataset.
        all_mean: the mean number of labels per item that all labels are; None where it is not known.
    """

    dataset: str
    metric: str
    models: ModelsAlong
    all_labels: int | None
    heldout: float
    why: str
    all_mean: float | None = None

    def number(self, labels: int | None) -> float:
        """Returns a number of labels per item that can be ordered: infinite for all labels of unknown number."""
        return float(labels or self.all_labels or inf)

    def told(self, labels: Labels) -> Labels | None:
        """Returns a number of labels per item for programs: for all labels their number, else their mean."""
        return labels if isfinite(labels) else self.all_labels or self.all_mean

    @property
    def all_words(self) -> str:
        """Name of all labels: `all (10)`, or `all (about 6.0)` where items differ."""
        if self.all_labels is not None:
            return f"all ({self.all_labels})"
        return "all" if self.all_mean is None else f"all (about {self.all_mean:.1f})"

    def study_number(self, model: str, quantity: str, **rest: Any) -> StudyNumber:
        """Returns a number about one of the models."""
        return StudyNumber(dataset=self.dataset, model=model, metric=self.metric, quantity=quantity, **rest)

    def shown(self, found: Estimate | None) -> str | None:
        """Returns a mean with its interval in the usual format; None for None."""
        return None if found is None else show_with_interval(found, self.metric)


def groups_of(results: StudyResults) -> Iterator[Group]:
    """Yields the models of each dataset in groups, by the first metric of `_QUALITY` that each model has.

    So models that label test items come first. Models that label training items only have a group where these have
    gold.
    """
    for dataset, models in along_axis(results.table, AXIS, [*_QUALITY, SIZE], results.item_scores).items():
        by = results.scored_by(dataset)
        copy = _all_labels(models)
        every = Group(dataset=dataset, metric="", models=models, all_labels=copy, heldout=by.heldout, why="")
        every, why = _with_mean(every), ""
        left = {name: _without_copies(points, copy) for name, points in models.items()}
        for metric in _QUALITY:
            able = {n: points for n, points in left.items() if any(p.by_seed.get(metric) for p in points.values())}
            if not able or (metric.startswith("train_") and not by.training_gold):
                continue
            yield replace(every, metric=metric, models=able, why=why)
            left = {name: points for name, points in left.items() if name not in able}
            why = "training items against gold, as it labels no others"


def _all_labels(models: ModelsAlong) -> int | None:
    """Returns the smallest tried number of labels per item that keeps every annotation; None where none does."""
    kept = [
        labels
        for points in models.values()
        if None in points
        for labels, point in points.items()
        if labels is not None and _same(point.by_seed.get(SIZE, {}), points[None].by_seed.get(SIZE, {}))
    ]
    return min(kept, default=None)


def _with_mean(group: Group) -> Group:
    """Returns a group with its number of all labels, where no tried number keeps them all.

    That is the number that every item has, else the mean over the items.
    """
    sizes = labels_per_item(group.models, group)
    mean, tried = sizes.get(None), [labels for labels in sizes if labels is not None]
    if group.all_labels is not None or mean is None or not tried:
        return group
    whole = round(mean)
    even = all(abs(sizes[labels] - labels) < _EXACT for labels in tried)
    if even and abs(mean - whole) < _EXACT and whole > max(tried):
        return replace(group, all_labels=whole)
    return replace(group, all_mean=mean)


def _same(some: Mapping[int, float], whole: Mapping[int, float]) -> bool:
    common = some.keys() & whole.keys()
    return bool(common) and all(some[seed] == whole[seed] for seed in common)


def _without_copies(points: Mapping[int | None, AxisPoint], all_labels: int | None) -> dict[int | None, AxisPoint]:
    if all_labels is None:
        return dict(points)
    return {labels: point for labels, point in points.items() if labels is None or labels < all_labels}


def bought(point: AxisPoint, heldout: float) -> float | None:
    """Returns the number of labels in all, held-out ones included, averaged over the seeds; None where unknown."""
    sizes = point.by_seed.get(SIZE)
    return float(np.mean(list(sizes.values()))) / (1.0 - heldout) if sizes else None


def n_items_of(models: ModelsAlong, group: Group) -> float | None:
    """Returns how many items have labels; None where it is not known.

    At r labels per item there are at most r times as many labels as items, and exactly so many where no item has fewer.
    """
    found = [
        size / labels
        for points in models.values()
        for labels, point in points.items()
        if labels is not None and (size := bought(point, group.heldout)) is not None
    ]
    return max(found, default=None)


def labels_per_item(models: ModelsAlong, group: Group) -> dict[int | None, float]:
    """Returns requested number of labels per item (None: all) → mean number of labels that the items have.

    Items that have fewer labels keep what they have. Where the mean is not known, the requested number stands for it;
    then all labels are left out unless their number is known.
    """
    known: dict[int | None, float] = {}
    for points in models.values():
        for labels, point in points.items():
            if (size := bought(point, group.heldout)) is not None:
                known.setdefault(labels, size)
    n_items = n_items_of(models, group)
    if n_items is None:
        numbers = {labels for points in models.values() for labels in points}
        return {labels: number for labels in numbers if isfinite(number := group.number(labels))}
    return {labels: size / n_items for labels, size in known.items()}
