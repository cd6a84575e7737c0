"""Labels as arrays whose rows are those of the file: for Snorkel and other matrices, and for peerannot."""

import io
import json
import re
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float64, Int64

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.errors import BadInput, shown
from crowdsweep.labelling.fitted import Fitted
from crowdsweep.labelling.labelled import Labelled

_WHOLE = re.compile(r"0|[1-9][0-9]{0,8}")
_MOST_CLASSES = 10_000  # that numbers of classes may count to
_SPARSEST = 100  # times as many tasks as items that numbers of tasks may count to


def arrays(form: str) -> Callable[[Labelled, Fitted], dict[str, bytes]]:
    """Returns what writes the arrays of a form whose rows are the items.

    `FORM-labels.npy` is int64 [items], -1 of an item without a label; `FORM-probabilities.npy` is float64
    [items, classes], all classes being as probable for such an item. `FORM-items.json` says which item a row is: of a
    matrix without ids, the row of that number. `FORM-classes.json` says what a column is.
    """

    def write(labelled: Labelled, fitted: Fitted) -> dict[str, bytes]:
        dataset = fitted.dataset
        return _files(form, labelled, dataset, np.arange(dataset.items.n_items)) | {
            f"{form}-items.json": _list(dataset.item_names)
        }

    return write


def peerannot(labelled: Labelled, fitted: Fitted) -> dict[str, bytes]:
    """Returns what `peerannot aggregate` writes below `labels/` and `peerannot train --labels` reads: a row for each
    number of a task, counted from the lowest as there; hard labels and probabilities."""
    task = np.array([int(name) for name in fitted.dataset.item_names], dtype=np.int64)
    return _files("peerannot", labelled, fitted.dataset, task - task.min())


def check_numbered(dataset: CrowdDataset) -> None:
    """Checks that items are called by numbers, as peerannot's tasks are.

    Raises:
        BadInput: one is not, or the numbers leave out nearly all.
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
    """Returns an array as `numpy.load` reads it."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _files(form: str, labelled: Labelled, dataset: CrowdDataset, row: Int64[np.ndarray, " items"]) -> dict[str, bytes]:
    """Returns labels, probabilities and classes; `row` says where each item of the dataset stands."""
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
    """Returns the column of each class, and how many there are: classes that are numbers count themselves."""
    if all(map(_WHOLE.fullmatch, labels)) and max(map(int, labels), default=0) < _MOST_CLASSES:
        column = np.array([int(label) for label in labels], dtype=np.int64)
        return column, max(int(column.max(initial=0)) + 1, len(labels))
    return np.arange(len(labels), dtype=np.int64), len(labels)


def _list(names: Sequence[str]) -> bytes:
    return json.dumps(list(names), ensure_ascii=False).encode()
