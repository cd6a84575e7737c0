"""Labels for Argilla: records with suggestions, which `dataset.records.from_json("argilla.json")` logs.

    [{"id": "r1", "fields": {"text": "…"}, "metadata": {}, "responses": {}, "vectors": {},
      "suggestions": {"mood": {"value": "happy", "score": 0.93, "agent": "dawid-skene"}}}]

Argilla updates records whose ids the dataset already has, and keeps their responses. Argilla 2 itself writes records in
this form (`to_json`).
"""

import json
from typing import Any

from crowdsweep.labelling.exports.items import Item, described, labelled_as_items
from crowdsweep.labelling.labelled import Labelled

QUESTION = "label"  # name of the question, where the file had none


def argilla(labelled: Labelled) -> dict[str, bytes]:
    """Returns a record for each item, with its label as a suggestion for the file's question. An item with several
    classes gets a list of them, with a score each, as Argilla's multi-label questions do."""
    question = described(labelled.dataset).question or QUESTION
    several = labelled.dataset.scale == "multilabel"
    records = [_record(item, question, labelled.fitted.model, several) for item in labelled_as_items(labelled)]
    text = json.dumps(records, ensure_ascii=False, indent=1)
    return {"argilla.json": text.encode(errors="backslashreplace")}


def _record(item: Item, question: str, model: str, several: bool) -> dict[str, Any]:
    said = (item.labels, item.each) if several else (item.label, item.probability)
    suggestion = dict(zip(("value", "score", "agent"), (*said, model), strict=True))
    fields = item.data or {"text": item.name}  # a record needs a field
    suggestions = {question: suggestion} if item.labels else {}
    return {
        "id": item.name,
        "fields": fields,
        "metadata": {},
        "suggestions": suggestions,
        "responses": {},
        "vectors": {},
    }
