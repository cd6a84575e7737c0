"""Leaves annotations out: to a number of labels an item, of some annotators, or to score a fit by them.

Each function returns a mask over the rows. A sample of a smaller size lies inside that of a larger one that was drawn
with the same generator. In multi-label data, what is kept or left out is a whole answer: all rows of one annotator on
one item.
"""

import numpy as np
from jaxtyping import Bool, Int64

from crowdsweep.data.annotations import Annotations

RowMask = Bool[np.ndarray, " annotations"]


def keep_labels_per_item(
    annotations: Annotations, labels: int, draws: np.random.Generator, *, whole_answers: bool = False
) -> RowMask:
    """Keeps at most that many labels of each item, drawn evenly; items with fewer keep all. O(A log A).

    Args:
        annotations: what is thinned.
        labels: how many are kept, at least 1.
        draws: decides which ones.
        whole_answers: count answers (the rows of one pair), not rows.
    """
    unit, item_of_unit = _units(annotations, whole_answers)
    rank = _rank_in_item(item_of_unit, annotations.n_items, draws)
    return (rank < labels)[unit]


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
    annotations: Annotations, heldout: int | float, draws: np.random.Generator, *, whole_answers: bool = False
) -> RowMask:
    """Sets a share of the rows aside, drawn evenly, so that every item keeps at least one. O(A log A).

    Args:
        annotations: what is parted.
        heldout: share of all rows (answers) to set aside, in [0, 1); fewer where too many items have but one.
        draws: decides which ones.
        whole_answers: count answers (the rows of one pair), not rows.

    Returns:
        The rows that stay; the others are held out.
    """
    unit, item_of_unit = _units(annotations, whole_answers)
    spare = np.flatnonzero(_rank_in_item(item_of_unit, annotations.n_items, draws) > 0)
    kept = np.ones(len(item_of_unit), dtype=bool)
    kept[draws.permutation(spare)[: round(heldout * len(item_of_unit))]] = False
    return kept[unit]


def _units(
    annotations: Annotations, whole_answers: bool
) -> tuple[Int64[np.ndarray, " annotations"], Int64[np.ndarray, " units"]]:
    """Returns the unit of each row, and the item of each unit; both ascend."""
    item = annotations.item.astype(np.int64)
    if not whole_answers:
        return np.arange(len(item)), item
    starts = np.ones(len(item), dtype=bool)
    starts[1:] = (item[1:] != item[:-1]) | (annotations.annotator[1:] != annotations.annotator[:-1])
    return np.cumsum(starts) - 1, item[starts]


def _rank_in_item(
    item: Int64[np.ndarray, " units"], n_items: int, draws: np.random.Generator
) -> Int64[np.ndarray, " units"]:
    """Returns each unit's place, from 0, in a random order of its item's units."""
    # Item and draw in one integer: a fraction of the time of a sort by two columns.
    order = np.argsort((item << 32) | draws.integers(1 << 32, size=len(item)), kind="stable")
    sizes = np.bincount(item, minlength=n_items)
    first = np.cumsum(sizes) - sizes
    rank = np.empty(len(item), dtype=np.int64)
    rank[order] = np.arange(len(item)) - first[item[order]]
    return rank
