"""Labels as arrays with a row for each row of the file: for Snorkel and other matrices, and for peerannot."""

import io
import json
import re
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float64, Int64

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.errors import BadInput, shown
from crowdsweep.labelling.labelled import Labelled

_WHOLE = re.compile(r"0|[1-9][0-9]{0,8}")
_MOST_CLASSES = 10_000  # limit of classes that are numbers
_SPARSEST = 100  # largest ratio of the highest task number to the number of items


def arrays(form: str) -> Callable[[Labelled], dict[str, bytes]]:
    """Returns a function that writes the arrays of a form, with the items as rows.

    `FORM-labels.npy` is int64 [items], -1 for an item without a label. `FORM-probabilities.npy` is float64 [items,
    classes], uniform for an item without a label. `FORM-items.json` has the name of each row's item; for a matrix
    without ids, the number of its row. `FORM-classes.json` has the name of each column's class.
    """

    def write(labelled: Labelled) -> dict[str, bytes]:
        dataset = labelled.dataset
        return _files(form, labelled, dataset, np.arange(dataset.items.n_items)) | {
            f"{form}-items.json": _list(dataset.item_names)
        }

    return write


def peerannot(labelled: Labelled) -> dict[str, bytes]:
    """Returns the files that `peerannot aggregate` writes below `labels/` and `peerannot train --labels` reads: hard
    labels and probabilities. They have a row for each task number, counted from the lowest as peerannot does."""
    task = np.array([int(name) for name in labelled.dataset.item_names], dtype=np.int64)
    return _files("peerannot", labelled, labelled.dataset, task - task.min())


def check_numbered(dataset: CrowdDataset) -> None:
    """Checks that the names of items are whole numbers, as those of peerannot's tasks are.

    Raises:
        BadInput: a name is not a whole number, or the numbers leave nearly all tasks out.
    """
    wrong = next((name for name in dataset.item_names if not _WHOLE.fullmatch(name)), None)
    if wrong is not None:
        raise BadInput(
            f"--export peerannot: expected items called by whole numbers, as its tasks are, got {shown(wrong)}"
        )
    highest = max(map(int, dataset.item_names))
    if highest > _SPARSEST * len(dataset.item_names):
        raise BadInput(
            f"--export peerannot: expected items numbered one by one, as its tasks are, got numbers up to {highest:,} "
            f"of {len(dataset.item_names):,} items"
        )


def npy(array: np.ndarray) -> bytes:
    """Returns an array as a file that `numpy.load` reads."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _files(form: str, labelled: Labelled, dataset: CrowdDataset, row: Int64[np.ndarray, " items"]) -> dict[str, bytes]:
    """Returns the files of labels, probabilities and classes; `row` is the row of each item of the dataset."""
    column, n_columns = _columns(dataset.class_labels)
    n_rows = int(row.max(initial=-1)) + 1
    labels = np.full(n_rows, -1, dtype=np.int64)
    probabilities: Float64[np.ndarray, "rows columns"] = np.full((n_rows, n_columns), 1.0 / n_columns)
    place = row[labelled.code]
    probs = labelled.probs
    labels[place] = column[probs.argmax(axis=1)]
    probabilities[place] = 0.0
    probabilities[place[:, None], column] = probs
    names = [str(number) for number in range(n_columns)]
    for label, number in zip(dataset.class_labels, column.tolist(), strict=True):
        names[number] = label
    return {
        f"{form}-labels.npy": npy(labels),
        f"{form}-probabilities.npy": npy(probabilities),
        f"{form}-classes.json": _list(names),
    }


def _columns(labels: Sequence[str]) -> tuple[Int64[np.ndarray, " classes"], int]:
    """Returns the column of each class, and the number of columns. Classes that are whole numbers are their own
    columns."""
    if all(map(_WHOLE.fullmatch, labels)) and max(map(int, labels), default=0) < _MOST_CLASSES:
        column = np.array([int(label) for label in labels], dtype=np.int64)
        return column, max(int(column.max(initial=0)) + 1, len(labels))
    return np.arange(len(labels), dtype=np.int64), len(labels)


def _list(names: Sequence[str]) -> bytes:
    return json.dumps(list(names), ensure_ascii=False).encode()
