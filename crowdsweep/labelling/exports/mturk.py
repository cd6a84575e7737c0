"""Labels for Mechanical Turk: the input of a new batch, in which workers see the label and may correct it.

    id,text,label,probability
    h1,good film,happy,0.93

A project's page shows `${text}` and `${label}`. Results then have `Input.id`, by which `crowdsweep add` assigns the new
answers to their items, whichever HITs they are in. Texts are written unchanged, even those that a spreadsheet takes for
formulas: `crowdsweep add` would refuse an item whose text has changed.
"""

import io
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.errors import BadInput, shown
from crowdsweep.labelling.exports.items import Item, labelled_as_items, shown_of
from crowdsweep.labelling.labelled import Labelled
from crowdsweep.labelling.tables import decided

_HIGHEST = "\uffff"  # characters of four UTF-8 bytes are refused when a batch is published


def check_characters(dataset: CrowdDataset) -> None:
    """Checks that Mechanical Turk takes all names and texts: it refuses a file with emoji and similar characters.

    Raises:
        BadInput: Mechanical Turk would refuse a name or a text.
    """
    data = shown_of(dataset)
    texts = dataset.items.text or [""] * len(dataset.item_names)
    for name, text in zip(dataset.item_names, texts, strict=True):
        every = [name, text, *map(str, data.get(name, {}).get("data", {}).values())]
        found = next((letter for part in every for letter in part if letter > _HIGHEST), None)
        if found is not None:
            raise BadInput(
                f"--export mturk: expected characters of at most three bytes, as Mechanical Turk takes no file with "
                f"others; item {shown(name)} has {found!r}: take such characters out of the texts of a copy"
            )
    for label in dataset.class_labels:
        if max(label, default="") > _HIGHEST:
            raise BadInput(f"--export mturk: expected characters of at most three bytes, got the class {shown(label)}")


def mturk(labelled: Labelled) -> dict[str, bytes]:
    """Returns a CSV file with a row for each item: its id, all that workers saw of it, its label as in labels.csv, and
    the label's probability."""
    dataset = labelled.dataset
    items = list(labelled_as_items(labelled))
    said = decided(labelled.probs, dataset.class_labels, multilabel=dataset.scale == "multilabel")
    columns: dict[str, Any] = {"id": [item.name for item in items]}
    for key in dict.fromkeys(key for item in items for key in item.data):
        name = key
        while name in columns or name in said:
            name += "_shown"
        columns[name] = [_text(item, key) for item in items]
    columns |= said
    file = io.BytesIO()
    pa_csv.write_csv(pa.Table.from_pydict(columns), file, pa_csv.WriteOptions(quoting_style="needed"))
    return {"mturk.csv": file.getvalue()}


def _text(item: Item, key: str) -> str:
    value = item.data.get(key, "")
    return "" if value is None else str(value)
