"""Labels in the forms of other tools: Label Studio's predictions, crowd-kit's results, cleanlab's inputs."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crowdsweep.data.annotations import Annotations
from crowdsweep.errors import BadInput
from crowdsweep.labelling.fitted import Fitted
from crowdsweep.labelling.tables import Labelled, decided

QUESTION, SHOWN = "label", "text"
"""What Label Studio calls the question and the text that it is about, as in `label-studio.xml`."""
_MOST_CELLS = 50_000_000  # of cleanlab's matrix of items × annotators

Files = dict[str, bytes]
Write = Callable[[Labelled, Fitted], Files]


def exported(labelled: Labelled, fitted: Fitted, forms: Sequence[str]) -> Files:
    """Returns files by name.

    Args:
        labelled: what is said of items.
        fitted: by what.
        forms: names of `FORMS`.

    Raises:
        BadInput: a form cannot hold these labels.
    """
    return {name: content for form in dict.fromkeys(forms) for name, content in FORMS[form](labelled, fitted).items()}


def label_studio(labelled: Labelled, fitted: Fitted) -> Files:
    """Returns tasks with predictions, and the labelling interface that shows them; import both into a project.

    https://labelstud.io/guide/predictions: a prediction is the answer to one question (`from_name`) about one thing
    that is shown (`to_name`), with a score and the model's name.
    """
    dataset = fitted.dataset
    multilabel = dataset.scale == "multilabel"
    texts = dataset.items.text
    tasks: list[dict[str, Any]] = []
    scores = decided(labelled.probs, dataset.class_names, multilabel=multilabel)["probability"]
    for code, probs, score in zip(labelled.code, labelled.probs, scores.tolist(), strict=True):
        name = dataset.item_names[int(code)]
        best = np.flatnonzero(probs > 0.5) if multilabel else [probs.argmax()]
        labels = [dataset.class_names[one] for one in best]
        answer = {"from_name": QUESTION, "to_name": SHOWN, "type": "choices", "value": {"choices": labels}}
        prediction = {"model_version": fitted.model, "score": score, "result": [answer]}
        shown = name if texts is None else texts[int(code)]
        tasks.append({"data": {"item": name, SHOWN: shown}, "predictions": [prediction]})
    choice = "multiple" if multilabel else "single"
    choices = "".join(f"    <Choice value={quoteattr(name)}/>\n" for name in dataset.class_names)
    interface = (
        f'<View>\n  <Text name="{SHOWN}" value="${SHOWN}"/>\n'
        f'  <Choices name="{QUESTION}" toName="{SHOWN}" choice="{choice}">\n{choices}  </Choices>\n</View>\n'
    )
    text = json.dumps(tasks, ensure_ascii=False, indent=1)
    return {"label-studio.json": text.encode(errors="backslashreplace"), "label-studio.xml": interface.encode()}


def crowd_kit(labelled: Labelled, fitted: Fitted) -> Files:
    """Returns what crowd-kit's `fit_predict` and `fit_predict_proba` give: `pandas.read_parquet` reads a frame indexed
    by `task` with the column `agg_label`, and one with a column of probabilities for each label."""
    dataset = fitted.dataset
    _one_class_each(fitted, "crowd-kit")
    tasks = [dataset.item_names[int(code)] for code in labelled.code]
    best = [dataset.class_names[code] for code in labelled.probs.argmax(axis=1)]
    probabilities = {name: labelled.probs[:, place] for place, name in enumerate(dataset.class_names)}
    return {
        "crowd-kit-labels.parquet": _indexed("task", tasks, {"agg_label": best}),
        "crowd-kit-probabilities.parquet": _indexed("task", tasks, probabilities),
    }


def cleanlab(labelled: Labelled, fitted: Fitted) -> Files:
    """Returns what cleanlab's functions of several annotators take, of the items with annotations:
    `labels_multiannotator` (items × annotators, numbers of classes, empty where there is no answer) and `pred_probs`
    (items × classes, in that order), and the classes' names. Of an annotator's repeated answers to one item the last
    stands."""
    dataset, annotations = fitted.dataset, fitted.dataset.annotations
    _one_class_each(fitted, "cleanlab")
    if annotations.anonymous:
        raise BadInput("--export cleanlab: it wants answers by annotator, and nobody knows who gave these")
    kept = np.flatnonzero([by == "annotations" for by in labelled.by])
    code = labelled.code[kept]
    rows = annotations.of_items(code)
    active = np.unique(rows.annotator)
    if len(code) * len(active) > _MOST_CELLS:
        raise BadInput(
            f"--export cleanlab: its matrix has a cell for each of {len(code):,} items × {len(active):,} annotators, "
            f"more than {_MOST_CELLS:,}"
        )
    columns = _matrix(rows, active, len(code))
    names = [dataset.annotator_names[int(one)] for one in active]
    items = [dataset.item_names[int(one)] for one in code]
    probabilities = io.BytesIO()
    np.save(probabilities, labelled.probs[kept], allow_pickle=False)
    return {
        "cleanlab-labels.parquet": _indexed("item", items, dict(zip(names, columns, strict=True))),
        "cleanlab-pred-probs.npy": probabilities.getvalue(),
        "cleanlab-classes.json": json.dumps(list(dataset.class_names), ensure_ascii=False).encode(),
    }


FORMS: Mapping[str, Write] = {"label-studio": label_studio, "crowd-kit": crowd_kit, "cleanlab": cleanlab}


def _matrix(rows: Annotations, active: np.ndarray, n_items: int) -> list[Any]:
    """Returns a column of Arrow for each of these annotators."""
    matrix = np.full((n_items, len(active)), -1, dtype=np.int64)
    matrix[rows.item, np.searchsorted(active, rows.annotator)] = rows.label
    return [pa.array(column, mask=column < 0) for column in matrix.T]


def _one_class_each(fitted: Fitted, form: str) -> None:
    if fitted.dataset.scale == "multilabel":
        raise BadInput(f"--export {form}: it wants one class of each item, and these items may have several")


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
