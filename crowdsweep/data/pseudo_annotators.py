"""The same answers by more annotators: each real one is split into several who share out what that one answered.

What a model loses when its crowd grows and no label is added can so be seen on real answers. Whoever's parts are the
largest is split next, so that pseudo-annotators have answered about equally much; in the end each has one answer, as in
the scenario `global`. All answers to one item (or to the items of one unit) stay together.
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
    """Returns the dataset as so many annotators would have answered it. O(A log A).

    Those who have not answered are left out. What is known of an annotator (features, the true matrix of a simulated
    one) holds for all of its parts.

    Args:
        dataset: with known annotators.
        number: of pseudo-annotators: at least as many as have answered, at most one for each answered item (unit) of
            each.
        draws: decides which answers go together.

    Raises:
        DataError: annotators are not known, or so many cannot be made.
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
    # Numbered by annotator, then part: rows that were sorted by item and annotator still are.
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
    """Returns into how many each is split: one by one, whoever's parts are the largest, the first of those alike."""
    before = np.cumsum(sizes - 1) - (sizes - 1)
    whose = np.repeat(np.arange(len(sizes)), sizes - 1)
    made = np.arange(len(whose)) - before[whose] + 1  # parts that it has, each time that it can be split
    next_ones = np.argsort(-(sizes[whose] / made), kind="stable")[: number - len(sizes)]
    return 1 + np.bincount(whose[next_ones], minlength=len(sizes))
