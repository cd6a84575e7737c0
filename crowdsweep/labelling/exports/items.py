"""The labelled items as other tools have them: with their texts, and everything that their file showed."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.data.on_disk.description import Description, read_description
from crowdsweep.data.on_disk.folder_files import JOIN
from crowdsweep.data.on_disk.shown import read_shown
from crowdsweep.labelling.labelled import Labelled
from crowdsweep.labelling.tables import chosen_of

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_DECIMAL = re.compile(r"-?[0-9]{1,18}\.[0-9]{1,18}")


class Item(NamedTuple):
    """An item with its label.

    Attributes:
        name: its id, as in labels.csv.
        text: its text; empty where it has none.
        data: what annotators saw of it, by the keys of its file; empty where nothing is known.
        kept: what else was kept of it at import (`shown.py`), such as `id` where the tool numbers its items.
        labels: its class, or the classes of a multi-label item; numbers where the file has numbers.
        probability: probability of exactly these classes.
        each: probability of each of these classes.
    """

    name: str
    text: str
    data: Mapping[str, Any]
    kept: Mapping[str, Any]
    labels: list[Any]
    probability: float
    each: list[float]

    @property
    def id(self) -> int | str:
        """Its id, as a number where it is one, for tools that number their items."""
        return int(self.name) if _WHOLE.fullmatch(self.name) else self.name

    @property
    def label(self) -> Any:
        """The class of a single-label item."""
        return self.labels[0]


def labelled_as_items(labelled: Labelled) -> Iterator[Item]:
    """Yields every item that has a label, in the order of labels.csv."""
    dataset = labelled.dataset
    multilabel = dataset.scale == "multilabel"
    classes, known = labels_of_file(dataset), shown_of(dataset)
    every = labelled.probs
    sure = chosen_of(every, multilabel=multilabel)[1].tolist()
    parts = {key: part for key, part in (("text", dataset.items.text), ("text_b", dataset.items.text_b)) if part}
    for code, probs, probability in zip(map(int, labelled.code), every, sure, strict=True):
        name = dataset.item_names[code]
        best = np.flatnonzero(probs > 0.5).tolist() if multilabel else [int(probs.argmax())]
        kept, own = known.get(name, {}), {key: part[code] for key, part in parts.items()}
        yield Item(
            name=name,
            text=own.get("text", ""),
            data=kept.get("data") or own,
            kept=kept,
            labels=[classes[one] for one in best],
            probability=probability,
            each=probs[best].tolist(),
        )


def labels_of_file(dataset: CrowdDataset) -> list[Any]:
    """Returns each class as the file writes it: a number where the file has numbers, else its label. In multi-label
    data, a class with a bar in its name is written by its name."""
    if described(dataset).numbers:
        return [_number(label) for label in dataset.class_labels]
    named = zip(dataset.class_labels, dataset.class_names, strict=True)
    return [name if dataset.scale == "multilabel" and JOIN in name else label for label, name in named]


def _number(label: str) -> int | float | str:
    """Returns the number that a label was; a label that is not a number, because a person added it, is returned as it
    is."""
    if _WHOLE.fullmatch(label):
        return int(label)
    return float(label) if _DECIMAL.fullmatch(label) else label


def json_lines(records: Iterable[Mapping[str, Any]]) -> bytes:
    """Returns a JSONL file with a record per line."""
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    return "".join(lines).encode(errors="backslashreplace")


def shown_of(dataset: CrowdDataset) -> dict[str, dict[str, Any]]:
    """Returns what a project showed of each item, by item name; empty where the dataset was imported without that."""
    return read_shown(Path(dataset.folder)) if dataset.folder else {}


def described(dataset: CrowdDataset) -> Description:
    """Returns what the dataset's folder says of the file that the dataset was made of."""
    return read_description(Path(dataset.folder)) if dataset.folder else Description(name=dataset.name)
