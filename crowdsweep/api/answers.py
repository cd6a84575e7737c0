"""Conversion of a matrix of answers, items × annotators, to a dataset."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64, Shaped

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import CrowdDataset, Gold, Items, NumberedNames
from crowdsweep.data.missing import OF_MATRICES, USUAL, MissingValues
from crowdsweep.errors import DataError

Matrix = Shaped[np.ndarray, "items annotators"]
Given = Bool[np.ndarray, "items annotators"]


def dataset_of_answers(
    answers: Matrix,
    items: Items,
    *,
    annotators: Sequence[str] | None = None,
    all_given: bool = False,
    missing: MissingValues = USUAL,
) -> tuple[CrowdDataset, Shaped[np.ndarray, " classes"]]:
    """Returns a dataset of these answers, and its classes as values of the matrix, ascending.

    Args:
        answers: labels, texts or numbers.
        items: what else is known of the items, one per row.
        annotators: names of the annotators, one per column; their numbers where it is None.
        all_given: whether every cell is an answer, whatever its value.
        missing: values that mean no answer, besides NaN and None.

    Raises:
        DataError: the number of rows is not that of the items, labels are of several types or cannot be classes, or
            there are fewer than two classes.
    """
    if len(answers) != items.n_items:
        raise DataError(f"y: expected a row of answers for each of {items.n_items} items, got {len(answers)} rows")
    given = np.ones(answers.shape, dtype=bool) if all_given else given_answers(answers, missing.in_matrices())
    classes, label = _classes(answers[given], "" if all_given else f"; {no_answers(missing)}")
    item, annotator = np.nonzero(given)
    n_items, n_annotators = answers.shape
    none = np.empty(0, np.int32)
    dataset = CrowdDataset(
        name="answers",
        annotations=Annotations.of(
            item=item,
            annotator=annotator,
            label=label,
            n_items=n_items,
            n_annotators=n_annotators,
            n_classes=len(classes),
        ),
        items=items,
        split=np.zeros(n_items, dtype=np.int8),
        gold=Gold(item=none, label=none),
        item_names=NumberedNames("", n_items),
        annotator_names=NumberedNames("", n_annotators) if annotators is None else tuple(annotators),
        class_names=tuple(map(str, classes.tolist())),
    )
    return dataset, classes


def no_answers(missing: MissingValues) -> str:
    """Returns in words which cells of a matrix are no answers by this rule."""
    words = missing.words if missing.told else OF_MATRICES[:1]
    return f"{', '.join([*sorted(words), 'NaN', 'None'])} and empty cells mean no answer"


def given_answers(answers: Matrix, missing: MissingValues) -> Given:
    """Returns a mask of the cells that hold an answer; `missing` lists values for none, besides NaN and None."""
    if answers.dtype.kind in "fiu":
        numbers = [value for word in missing.words if (value := _number(word)) is not None]
        return ~(np.isnan(answers) | np.isin(answers, numbers))
    if answers.dtype.kind == "b":
        return np.ones(answers.shape, dtype=bool)
    return np.array([[_is_given(cell, missing) for cell in row] for row in answers.tolist()], dtype=bool)


def _is_given(cell: Any, missing: MissingValues) -> bool:
    """Whether a cell of any type holds an answer; None, NaN, and pandas' NA and NaT never do."""
    if isinstance(cell, str):
        return not missing(cell)
    return cell is not None and str(cell) not in ("nan", "<NA>", "NaT") and not missing(str(cell))


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _classes(
    values: Shaped[np.ndarray, " answers"], no_answers: str
) -> tuple[Shaped[np.ndarray, " classes"], Int64[np.ndarray, " answers"]]:
    """Returns the distinct values, ascending, and the index of each answer among them; `no_answers` ends a message."""
    if values.dtype.kind == "O":
        values = _of_one_type(values.tolist())
    if values.dtype.kind not in "fiubUS":
        raise DataError(f"y: expected labels that are texts or numbers, got {values.dtype}")
    if values.dtype.kind == "f":
        whole = values.astype(np.int64)
        if not (whole == values).all():
            raise DataError(
                f"y: Unknown label type: expected classes, got the number {values[whole != values].tolist()[0]!r}"
            )
        values = whole  # integers became floats where a value of the matrix is missing
    classes, label = np.unique(values, return_inverse=True)
    if len(classes) < 2:
        got = f"one class, {classes.tolist()[0]!r}" if len(classes) else "no answer"
        raise DataError(f"y: expected answers of at least two classes, got {got}{no_answers}")
    return classes, label.astype(np.int64)


def _of_one_type(values: list[Any]) -> np.ndarray:
    if values and not all(isinstance(value, str) for value in values):
        kinds = sorted({type(value).__name__ for value in values})
        if "str" in kinds:
            raise DataError(f"y: expected labels of one type, got {' and '.join(kinds)}")
    return np.array(values)
