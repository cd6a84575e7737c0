"""Labels for cleanlab: the arguments of its functions for several annotators."""

import json
from typing import Any

import numpy as np
import pyarrow as pa

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.errors import BadInput
from crowdsweep.labelling.exports.arrays import npy
from crowdsweep.labelling.exports.indexed import indexed
from crowdsweep.labelling.labelled import Labelled

_MOST_CELLS = 50_000_000  # of its matrix of items × annotators


def cleanlab(labelled: Labelled) -> dict[str, bytes]:
    """Returns the files for cleanlab, of the items with annotations.

    `labels_multiannotator` is items × annotators, with numbers of classes, and empty where there is no answer.
    `pred_probs` is items × classes in that order: the model's own probabilities, not gold's. A third file has the
    classes' labels. If an annotator answered an item repeatedly, the last answer counts.
    """
    dataset, annotations = labelled.dataset, labelled.dataset.annotations
    kept = np.flatnonzero(np.isin(labelled.code, labelled.fitted.code))
    code = labelled.code[kept]
    rows = annotations.of_items(code)
    active = np.unique(rows.annotator)
    columns = _matrix(rows, active, len(code))
    names = [dataset.annotator_names[int(one)] for one in active]
    items = [dataset.item_names[int(one)] for one in code]
    return {
        "cleanlab-labels.parquet": indexed("item", items, dict(zip(names, columns, strict=True))),
        "cleanlab-pred-probs.npy": npy(labelled.model_at(kept)),
        "cleanlab-classes.json": json.dumps(list(dataset.class_labels), ensure_ascii=False).encode(),
    }


def check_matrix(dataset: CrowdDataset) -> None:
    """Checks that a matrix of items × annotators can be written.

    Raises:
        BadInput: the matrix is too large, the annotators are not known, or one of them is called `item`.
    """
    annotations = dataset.annotations
    if annotations.anonymous:
        raise BadInput("--export cleanlab: it needs answers with annotators, and these votes are anonymous")
    if "item" in dataset.annotator_names:
        raise BadInput("--export cleanlab: its column of items is called item, and so is an annotator; rename that one")
    items, annotators = len(np.unique(annotations.item)), len(np.unique(annotations.annotator))
    if items * annotators > _MOST_CELLS:
        raise BadInput(
            f"--export cleanlab: its matrix has a cell for each of {items:,} items × {annotators:,} annotators, more "
            f"than {_MOST_CELLS:,}"
        )


def _matrix(rows: Annotations, active: np.ndarray, n_items: int) -> list[Any]:
    """Returns an Arrow column of class numbers for each of these annotators."""
    matrix = np.full((n_items, len(active)), -1, dtype=np.int64)
    matrix[rows.item, np.searchsorted(active, rows.annotator)] = rows.label
    return [pa.array(column, mask=column < 0) for column in matrix.T]
