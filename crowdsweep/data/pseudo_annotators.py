"""Splits each real annotator into several pseudo-annotators, who share that annotator's answers.

This shows on real answers what a model loses if its crowd grows but no label is added. The annotator with the largest
parts is split next, so that all pseudo-annotators have about equally many answers. In the end each has one answer, as
in the scenario `global`. All of an annotator's answers to one item (or to the items of one unit) stay together.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Int64

from crowdsweep.arrays import read_only
from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.data.thinning import pairs_of
from crowdsweep.errors import DataError

Counts = Int64[np.ndarray, " annotators"]


def with_annotators(dataset: CrowdDataset, number: int, draws: np.random.Generator) -> CrowdDataset:
    """Returns the dataset with its annotators split into `number` pseudo-annotators. O(A log A).

    Annotators without an answer are left out. The features of an annotator, and the true matrix of a simulated one,
    hold for all parts of the annotator.

    Args:
        number: number of pseudo-annotators: at least the number of annotators who have answered, at most one for each
            answered item (unit) of each annotator.
        draws: decides which answers go together.

    Raises:
        DataError: annotators are not known, or the number is out of its range.
    """
    rows, where = dataset.annotations, f"dataset {dataset.name}, parameter annotators"
    if rows.anonymous:
        raise DataError(f"{where}: expected known annotators, which can be split; these votes are anonymous")
    _, first, bundle = np.unique(pairs_of(rows, dataset.items.unit), return_index=True, return_inverse=True)
    active, whose, sizes = np.unique(rows.annotator[first], return_inverse=True, return_counts=True)
    if not len(active) <= number <= len(first):
        raise DataError(
            f"{where}: expected {len(active):,} (as many as have answered) to {len(first):,} (one for each answer), "
            f"since annotators are split and never joined; got {number:,}"
        )
    parts = _parts(sizes, number)
    order = np.lexsort((draws.random(len(whose)), whose))
    rank = np.empty(len(whose), dtype=np.int64)
    rank[order] = np.arange(len(whose)) - (np.cumsum(sizes) - sizes)[whose[order]]
    split = (np.cumsum(parts) - parts)[whose] + rank % parts[whose]
    source = np.repeat(active, parts)
    features, crowd = dataset.annotator_features, dataset.crowd
    # Pseudo-annotators are numbered by annotator, then part, so rows stay sorted by item and annotator.
    return replace(
        dataset,
        annotations=replace(rows, annotator=read_only(split[bundle].astype(np.int32)), n_annotators=number),
        annotator_names=tuple(
            f"{dataset.annotator_names[who]} ({part})"
            for who, own in zip(active.tolist(), parts.tolist(), strict=True)
            for part in range(1, own + 1)
        ),
        annotator_features=None if features is None else features[source],
        crowd=None if crowd is None else replace(crowd, group=crowd.group[source]),
    )


def _parts(sizes: Counts, number: int) -> Counts:
    """Returns the number of parts of each annotator.

    One by one, the annotator with the largest parts gets one more part; of equal ones, the first.
    """
    before = np.cumsum(sizes - 1) - (sizes - 1)
    whose = np.repeat(np.arange(len(sizes)), sizes - 1)
    made = np.arange(len(whose)) - before[whose] + 1  # parts of the annotator before each possible split
    next_ones = np.argsort(-(sizes[whose] / made), kind="stable")[: number - len(sizes)]
    return 1 + np.bincount(whose[next_ones], minlength=len(sizes))
