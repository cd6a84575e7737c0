"""Labels for Prodigy: answered tasks, which `prodigy db-in DATASET prodigy.jsonl` adds to a dataset.

    {"text": "…", "_input_hash": 7, "options": [{"id": "happy", "text": "happy"}], "accept": ["happy"],
     "answer": "accept", "_view_id": "choice", "_annotator_id": "crowdsweep", "meta": {"probability": 0.93}}
    {"text": "…", "_input_hash": 7, "label": "happy", "answer": "reject", "_view_id": "classification", …}

https://prodi.gy/docs/api-interfaces describes both interfaces. https://prodi.gy/docs/review describes how `review`
shows the answers to one `_input_hash` side by side. `db-in` computes hashes that are missing.
"""

from typing import Any

from crowdsweep.labelling.exports.items import Item, described, json_lines, labelled_as_items, labels_of_file
from crowdsweep.labelling.labelled import Labelled

ANNOTATOR = "crowdsweep"
_BINARY = {"accept", "reject"}


def prodigy(labelled: Labelled) -> dict[str, bytes]:
    """Returns a task for each item: accepting or rejecting a label where the file asked for that, else a choice."""
    about, dataset = described(labelled.dataset), labelled.dataset
    own = about.form == "prodigy"
    binary = own and about.question and set(dataset.class_labels) <= _BINARY
    named = zip(labels_of_file(dataset), dataset.class_names, strict=True)
    options = [{"id": label, "text": name} for label, name in named]
    tasks = (
        _task(item, _decision(item, about.question) if binary else _choice(item, options), own=own)
        for item in labelled_as_items(labelled)
    )
    return {"prodigy.jsonl": json_lines(tasks)}


def _task(item: Item, answer: dict[str, Any], *, own: bool) -> dict[str, Any]:
    number = {"_input_hash": item.id} if own else {}
    shown = item.data or {"text": item.name}
    metadata = {"item": item.name, "probability": item.probability}
    return {**shown, **number, **answer, "_annotator_id": ANNOTATOR, "_session_id": ANNOTATOR, "meta": metadata}


def _decision(item: Item, label: str) -> dict[str, Any]:
    return {"label": label, "answer": item.label, "_view_id": "classification"}


def _choice(item: Item, options: list[dict[str, Any]]) -> dict[str, Any]:
    return {"options": options, "accept": item.labels, "answer": "accept", "_view_id": "choice"}
