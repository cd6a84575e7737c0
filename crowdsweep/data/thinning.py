"""Leaves annotations out: to limit the labels per item, to drop annotators, or to score a fit by held-out labels.

Each `keep_…` function returns a mask over the rows. With the same generator, a smaller sample lies inside a larger one.
Rows of one bundle are kept or left out together: all rows of an annotator on one item, or on one unit (`pairs_of`).
"""

import numpy as np
from jaxtyping import Bool, Int32, Int64

from crowdsweep.data.annotations import Annotations

RowMask = Bool[np.ndarray, " annotations"]
Bundles = Int32[np.ndarray, " annotations"] | Int64[np.ndarray, " annotations"]
"""A number for each row, equal for rows that stay together."""
UnitOfItem = Int32[np.ndarray, " items"]


def pairs_of(annotations: Annotations, unit: UnitOfItem | None = None) -> Bundles:
    """Returns the bundle of each row: one for each pair of annotator and item (with `unit`: unit). O(A log A)."""
    if unit is None:
        begins = np.zeros(len(annotations), dtype=bool)
        begins[annotations.pair_starts] = True
        return np.cumsum(begins, dtype=np.int32)
    return unit[annotations.item].astype(np.int64) * annotations.n_annotators + annotations.annotator


def keep_labels(
    annotations: Annotations,
    labels: int,
    draws: np.random.Generator,
    *,
    bundles: Bundles | None = None,
    unit: UnitOfItem | None = None,
) -> RowMask:
    """Keeps at most that many labels (bundles) per item (unit), drawn evenly; all, if there are fewer.

    Args:
        labels: number of labels to keep, at least 1.
        bundles: rows with the same bundle stay together and count once; None: each row is its own bundle.
        unit: unit of each item; None: each item is its own unit. A bundle must have rows of one unit only.
    """
    bundle, first = _first_rows(annotations, bundles)
    item = annotations.item[first]
    rank = _rank_within(item if unit is None else unit[item], draws)
    return (rank < labels)[bundle]


def keep_annotators(annotations: Annotations, dropped: int | float, draws: np.random.Generator) -> RowMask:
    """Drops all rows of a share of the active annotators (rounded down), drawn evenly.

    Args:
        dropped: share of the annotators to drop, in [0, 1).
    """
    active = draws.permutation(np.flatnonzero(annotations.labels_per_annotator))
    kept = np.ones(annotations.n_annotators, dtype=bool)
    kept[active[: int(dropped * len(active))]] = False
    return kept[annotations.annotator]


def keep_for_fit(
    annotations: Annotations, heldout: int | float, draws: np.random.Generator, bundles: Bundles | None = None
) -> RowMask:
    """Holds out a share of the rows (bundles), drawn evenly, so that every item keeps at least one. O(A log A).

    Args:
        heldout: share to hold out, in [0, 1); fewer are held out if too many items have only one.
        bundles: rows with the same bundle stay together and count once; None: each row is its own bundle.

    Returns:
        Mask of the rows to keep; the others are held out.
    """
    bundle, first = _first_rows(annotations, bundles)
    n_bundles = len(first)
    del first  # takes as much room as the two columns that are drawn by
    # Each item keeps the bundle with its lowest draw: for the items of one unit this is mostly the same bundle.
    of_row = draws.integers(1 << 32, size=n_bundles, dtype=np.uint32)[bundle]
    # Items with rows only: of an empty group reduceat would return the next item's first draw.
    answered = np.flatnonzero(annotations.labels_per_item)
    least = np.minimum.reduceat(of_row, annotations.item_pointers[answered]) if len(of_row) else of_row
    lowest = np.flatnonzero(of_row == np.repeat(least, annotations.labels_per_item[answered]))
    lowest = lowest[np.diff(annotations.item[lowest], prepend=-1) != 0]  # of equal draws, the first
    spare = np.ones(n_bundles, dtype=bool)
    spare[bundle[lowest]] = False
    kept, order = np.ones(n_bundles, dtype=bool), np.flatnonzero(spare).astype(np.int32)
    draws.shuffle(order)
    kept[order[: round(heldout * n_bundles)]] = False
    return kept[bundle]


def _first_rows(annotations: Annotations, bundles: Bundles | None) -> tuple[Bundles, Int64[np.ndarray, " bundles"]]:
    """Returns the bundle of each row, numbered 0, 1, … by first rows, and the first row of each bundle."""
    if bundles is None:
        return np.arange(len(annotations)), np.arange(len(annotations))
    if (bundles[1:] >= bundles[:-1]).all():  # mostly so, as rows are sorted by item and annotator
        begins = np.diff(bundles, prepend=-1) != 0
        return np.cumsum(begins, dtype=np.int32) - 1, np.flatnonzero(begins)
    _, first, code = np.unique(bundles, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[code], np.sort(first)


def _rank_within(group: Int32[np.ndarray, " bundles"], draws: np.random.Generator) -> Int64[np.ndarray, " bundles"]:
    """Returns each bundle's rank, from 0, in a random order within its group; groups must ascend."""
    # Group and draw are packed into one integer: this sorts in a fraction of the time of two columns.
    order = np.argsort((group.astype(np.int64) << 32) | draws.integers(1 << 32, size=len(group)), kind="stable")
    sizes = np.bincount(group)
    first = np.cumsum(sizes) - sizes
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - first[group[order]]
    return rank
