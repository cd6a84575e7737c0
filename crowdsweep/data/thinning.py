"""Leaves annotations out: to a number of labels an item, of some annotators, or to score a fit by them.

Each function returns a mask over the rows. A sample of a smaller size lies inside that of a larger one that was drawn
with the same generator. Rows of one `bundle` are kept or left out together: all rows of an annotator on one item, or on
one unit (`pairs_of`).
"""

import numpy as np
from jaxtyping import Bool, Int32, Int64

from crowdsweep.data.annotations import Annotations

RowMask = Bool[np.ndarray, " annotations"]
Bundles = Int64[np.ndarray, " annotations"]  # a number for each row, equal for rows that stay together
UnitOfItem = Int32[np.ndarray, " items"]


def pairs_of(annotations: Annotations, unit: UnitOfItem | None = None) -> Bundles:
    """Returns bundles of the rows of one annotator on one item; with `unit`, on all items of one unit. O(A log A)."""
    place = annotations.item if unit is None else unit[annotations.item]
    return place.astype(np.int64) * annotations.n_annotators + annotations.annotator


def keep_labels(
    annotations: Annotations,
    labels: int,
    draws: np.random.Generator,
    *,
    bundles: Bundles | None = None,
    unit: UnitOfItem | None = None,
) -> RowMask:
    """Keeps at most that many labels (bundles) of each item (unit), drawn evenly; where there are fewer, all stay.

    Args:
        annotations: what is thinned.
        labels: how many are kept, at least 1.
        draws: decides which ones.
        bundles: rows that stay together and count once; every row by itself where there are none.
        unit: of each item; every item by itself where there are none. A bundle has rows of one unit only.
    """
    bundle, first = _first_rows(annotations, bundles)
    item = annotations.item[first]
    rank = _rank_within(item if unit is None else unit[item], draws)
    return (rank < labels)[bundle]


def keep_annotators(annotations: Annotations, dropped: int | float, draws: np.random.Generator) -> RowMask:
    """Drops all rows of a share of the active annotators (rounded down), drawn evenly.

    Args:
        annotations: what is thinned.
        dropped: the share, in [0, 1).
        draws: decides which ones.
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
        annotations: what is parted.
        heldout: share to hold out, in [0, 1); fewer where too many items have but one.
        draws: decides which ones.
        bundles: rows that stay together and count once; every row by itself where there are none.

    Returns:
        The rows that stay; the others are held out.
    """
    bundle, first = _first_rows(annotations, bundles)
    draw = draws.integers(1 << 32, size=len(first))
    # Of each item the bundle with the lowest number stays: items of one unit mostly agree on which that is.
    of_row = draw[bundle]
    answered = np.flatnonzero(annotations.labels_per_item)
    least = np.minimum.reduceat(of_row, annotations.item_pointers[answered]) if len(of_row) else of_row
    lowest = np.flatnonzero(of_row == np.repeat(least, annotations.labels_per_item[answered]))
    lowest = lowest[np.diff(annotations.item[lowest], prepend=-1) != 0]  # of several, the first
    spare = np.ones(len(first), dtype=bool)
    spare[bundle[lowest]] = False
    kept = np.ones(len(first), dtype=bool)
    kept[draws.permutation(np.flatnonzero(spare))[: round(heldout * len(first))]] = False
    return kept[bundle]


def _first_rows(annotations: Annotations, bundles: Bundles | None) -> tuple[Bundles, Int64[np.ndarray, " bundles"]]:
    """Returns the bundle of each row, numbered 0, 1, … in the order of their first rows, and those rows."""
    if bundles is None:
        return np.arange(len(annotations)), np.arange(len(annotations))
    if (bundles[1:] >= bundles[:-1]).all():  # as rows are sorted by item and annotator, most are
        begins = np.diff(bundles, prepend=-1) != 0
        return np.cumsum(begins) - 1, np.flatnonzero(begins)
    _, first, code = np.unique(bundles, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[code], np.sort(first)


def _rank_within(group: Int32[np.ndarray, " bundles"], draws: np.random.Generator) -> Int64[np.ndarray, " bundles"]:
    """Returns each bundle's place, from 0, in a random order of those of its group; groups ascend."""
    # Group and draw in one integer: a fraction of the time of a sort by two columns.
    order = np.argsort((group.astype(np.int64) << 32) | draws.integers(1 << 32, size=len(group)), kind="stable")
    sizes = np.bincount(group)
    first = np.cumsum(sizes) - sizes
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - first[group[order]]
    return rank
