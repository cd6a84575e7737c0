"""Labels in the forms of other tools: Label Studio's predictions, crowd-kit's results, cleanlab's inputs."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.errors import BadInput
from crowdsweep.labelling.columns import class_columns
from crowdsweep.labelling.fitted import Fitted
from crowdsweep.labelling.label_studio import Interface, check_shown, check_written, label_studio, read_interface
from crowdsweep.labelling.labelled import Labelled
from crowdsweep.labelling.many_classes import MANY_CLASSES

_MOST_CELLS = 50_000_000  # of cleanlab's matrix of items × annotators


@dataclass(frozen=True, kw_only=True)
class Exports:
    """What is to be written for other tools.

    Attributes:
        forms: `label-studio`, `crowd-kit`, `cleanlab`.
        interface: of the Label Studio project that predictions are for; None for a new one.
    """

    forms: Sequence[str] = ()
    interface: Path | None = None

    @property
    def words(self) -> list[str]:
        """The options of `crowdsweep label` that ask for this."""
        interface = [] if self.interface is None else ["--interface", str(self.interface)]
        return [*(part for form in self.forms for part in ("--export", form)), *interface]

    def check(self, dataset: CrowdDataset) -> None:
        """Checks that the forms can hold labels of a dataset, before anything is fitted to it.

        Raises:
            BadInput: one cannot.
        """
        if self.interface is not None and "label-studio" not in self.forms:
            raise BadInput("--interface: it is of a Label Studio project; add --export label-studio")
        for form in ("crowd-kit", "cleanlab"):
            if form in self.forms and dataset.scale == "multilabel":
                raise BadInput(f"--export {form}: it wants one class of each item, and these items may have several")
        if "crowd-kit" in self.forms and dataset.n_classes > MANY_CLASSES:
            raise BadInput(
                f"--export crowd-kit: it wants a column for each of {dataset.n_classes:,} classes, more than "
                f"{MANY_CLASSES:,}; labels.parquet and probabilities.parquet have the same"
            )
        if "cleanlab" in self.forms:
            _check_matrix(dataset.annotations)
        if self._interface(dataset) is None and "label-studio" in self.forms:
            check_written(dataset.class_labels, multilabel=dataset.scale == "multilabel")

    def files(self, labelled: Labelled, fitted: Fitted) -> dict[str, bytes]:
        """Returns files by name.

        Args:
            labelled: what is said of items.
            fitted: by what.

        Raises:
            BadInput: a form cannot hold these labels.
        """
        files: dict[str, bytes] = {}
        if "label-studio" in self.forms:
            files |= label_studio(labelled, fitted, self._interface(fitted.dataset))
        if "crowd-kit" in self.forms:
            files |= crowd_kit(labelled, fitted)
        if "cleanlab" in self.forms:
            files |= cleanlab(labelled, fitted)
        return files

    def _interface(self, dataset: CrowdDataset) -> Interface | None:
        if self.interface is None:
            return None
        found = read_interface(self.interface, dataset.class_labels, multilabel=dataset.scale == "multilabel")
        check_shown(found, dataset, self.interface)
        return found


NOTHING = Exports()


def crowd_kit(labelled: Labelled, fitted: Fitted) -> dict[str, bytes]:
    """Returns what crowd-kit's `fit_predict` and `fit_predict_proba` give: `pandas.read_parquet` reads a frame indexed
    by `task` with the column `agg_label`, and one with a column of probabilities for each label."""
    dataset = fitted.dataset
    tasks = [dataset.item_names[int(code)] for code in labelled.code]
    best = [dataset.class_labels[code] for code in labelled.probs.argmax(axis=1)]
    columns = class_columns(dataset.class_labels, ["task"])
    probabilities = {name: labelled.probs[:, place] for place, name in enumerate(columns)}
    return {
        "crowd-kit-labels.parquet": _indexed("task", tasks, {"agg_label": best}),
        "crowd-kit-probabilities.parquet": _indexed("task", tasks, probabilities),
    }


def cleanlab(labelled: Labelled, fitted: Fitted) -> dict[str, bytes]:
    """Returns what cleanlab's functions of several annotators take, of the items with annotations:
    `labels_multiannotator` (items × annotators, numbers of classes, empty where there is no answer) and `pred_probs`
    (items × classes, in that order: the model's own, not gold's), and the classes' labels. Of an annotator's repeated
    answers to one item the last stands."""
    dataset, annotations = fitted.dataset, fitted.dataset.annotations
    kept = np.flatnonzero(np.isin(labelled.code, fitted.code))
    code = labelled.code[kept]
    rows = annotations.of_items(code)
    active = np.unique(rows.annotator)
    columns = _matrix(rows, active, len(code))
    names = [dataset.annotator_names[int(one)] for one in active]
    items = [dataset.item_names[int(one)] for one in code]
    probabilities = io.BytesIO()
    np.save(probabilities, labelled.model[kept], allow_pickle=False)
    return {
        "cleanlab-labels.parquet": _indexed("item", items, dict(zip(names, columns, strict=True))),
        "cleanlab-pred-probs.npy": probabilities.getvalue(),
        "cleanlab-classes.json": json.dumps(list(dataset.class_labels), ensure_ascii=False).encode(),
    }


def _matrix(rows: Annotations, active: np.ndarray, n_items: int) -> list[Any]:
    """Returns a column of Arrow for each of these annotators."""
    matrix = np.full((n_items, len(active)), -1, dtype=np.int64)
    matrix[rows.item, np.searchsorted(active, rows.annotator)] = rows.label
    return [pa.array(column, mask=column < 0) for column in matrix.T]


def _check_matrix(annotations: Annotations) -> None:
    if annotations.anonymous:
        raise BadInput("--export cleanlab: it wants answers by annotator, and nobody knows who gave these")
    items, annotators = len(np.unique(annotations.item)), len(np.unique(annotations.annotator))
    if items * annotators > _MOST_CELLS:
        raise BadInput(
            f"--export cleanlab: its matrix has a cell for each of {items:,} items × {annotators:,} annotators, more "
            f"than {_MOST_CELLS:,}"
        )


def _indexed(index: str, names: Sequence[str], columns: Mapping[str, Any]) -> bytes:
    """Returns a Parquet file that pandas reads as a frame with this index."""
    if index in columns:
        raise BadInput(f"expected other names than {index!r}, which the column of items has")
    table = pa.Table.from_pydict({index: pa.array(names, pa.string()), **columns})
    told: dict[str, Any] = {"index_columns": [index], "column_indexes": [], "columns": []}
    for name in table.column_names:
        told["columns"].append(
            {"name": name, "field_name": name, "pandas_type": "unicode", "numpy_type": "object", "metadata": None}
        )
    file = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(told)}), file)
    return file.getvalue()
