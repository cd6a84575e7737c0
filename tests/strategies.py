"""Hypothesis strategies for annotations and small datasets, with what tends to break things in them.

Repeated pairs, idle annotators, items without labels, classes nobody used, a single item, weights and soft answers all
occur; so do splits with nothing in them, answers that chose no class, and units that are annotated in parts.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import SPLITS, CrowdDataset, Gold, Items, NumberedNames, Scale

# Hypothesis's own DrawFn is a protocol that cannot be checked at run time.
Draw = Callable[..., Any]


@st.composite
def annotations(
    draw: Draw, *, min_rows: int = 0, max_rows: int = 40, max_size: int = 12, extras: bool = True
) -> Annotations:
    """Draws annotations of up to `max_size` items and annotators and 2 to 5 classes.

    Args:
        draw: given by hypothesis.
        min_rows: fewest rows.
        max_rows: most rows.
        max_size: most items, and most annotators.
        extras: whether rows may have weights or probabilities.
    """
    n_items, n_annotators = draw(st.integers(1, max_size)), draw(st.integers(1, max_size))
    n_classes = draw(st.integers(2, 5))
    n_rows = draw(st.integers(min_rows, max_rows))

    def column(size: int) -> np.ndarray:
        return np.array(draw(st.lists(st.integers(0, size - 1), min_size=n_rows, max_size=n_rows)), dtype=np.int32)

    def numbers(low: float, high: float) -> np.ndarray:
        value = st.floats(low, high, width=32)
        return np.array(draw(st.lists(value, min_size=n_rows, max_size=n_rows)), dtype=np.float32)

    return Annotations.of(
        item=column(n_items),
        annotator=column(n_annotators),
        label=column(n_classes),
        weight=numbers(0.125, 4.0) if extras and draw(st.booleans()) else None,
        probability=numbers(0.0, 1.0) if extras and draw(st.booleans()) else None,
        n_items=n_items,
        n_annotators=n_annotators,
        n_classes=n_classes,
    )


@st.composite
def datasets(
    draw: Draw, *, scale: Scale | None = None, extras: bool = True, min_rows: int = 1, max_rows: int = 40
) -> CrowdDataset:
    """Draws a small dataset: any split, gold for some items, features or none, units or none.

    Args:
        draw: given by hypothesis.
        scale: nominal, ordinal or multilabel; any of them by default.
        extras: whether rows may have weights or probabilities.
        min_rows: fewest annotations.
        max_rows: most annotations.
    """
    rows = draw(annotations(min_rows=min_rows, max_rows=max_rows, extras=extras))
    n_items = rows.n_items
    drawn_scale: Scale = scale or draw(st.sampled_from(("nominal", "ordinal", "multilabel")))
    label = st.integers(0, rows.n_classes - 1)
    answer = st.sets(label, min_size=1) if drawn_scale == "multilabel" else st.sets(label, min_size=1, max_size=1)
    gold = draw(st.dictionaries(st.integers(0, n_items - 1), answer))
    pairs = sorted((item, code) for item, codes in gold.items() for code in codes)
    n_features = draw(st.integers(0, 3))
    features = np.arange(n_items * n_features, dtype=np.float32).reshape(n_items, n_features)
    split = np.array(draw(st.lists(st.integers(0, len(SPLITS) - 1), min_size=n_items, max_size=n_items)), dtype=np.int8)
    unit = None
    if draw(st.booleans()):
        begins = draw(st.lists(st.booleans(), min_size=n_items - 1, max_size=n_items - 1))
        unit = np.cumsum([False, *begins]).astype(np.int32)
        split = np.sort(split)[np.unique(unit, return_index=True)[1]][unit]  # units of one split stand together
    return CrowdDataset(
        name="drawn",
        scale=drawn_scale,
        annotations=rows,
        items=Items(n_items=n_items, features=features if n_features else None, unit=unit),
        split=split,
        gold=Gold(
            item=np.array([item for item, _ in pairs], dtype=np.int32),
            label=np.array([code for _, code in pairs], dtype=np.int32),
        ),
        item_names=NumberedNames("item", n_items),
        annotator_names=NumberedNames("annotator", rows.n_annotators),
        class_names=tuple(f"class {code}" for code in range(rows.n_classes)),
    )
