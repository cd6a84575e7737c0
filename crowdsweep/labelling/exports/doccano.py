"""Labels for doccano: JSONL that it imports into a project of text classification.

    {"id": 1, "text": "…", "label": ["happy"], "probability": 0.93}

Its import asks for the columns `text` and `label` (https://doccano.github.io/doccano/tutorial); other columns become
the example's metadata. It always makes new examples, so a new project is the place for them.
"""

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.errors import BadInput
from crowdsweep.labelling.exports.items import json_lines, labelled_as_items
from crowdsweep.labelling.labelled import Labelled


def check_texts(dataset: CrowdDataset) -> None:
    """Checks that every item has a text: doccano only imports labels of texts, and no example without one.

    Raises:
        BadInput: an item has none.
    """
    texts = dataset.items.text or [""]
    lacking = next((place for place, text in enumerate(texts) if not text.strip()), None)
    if lacking is not None:
        raise BadInput(
            f"--export doccano: expected a text of each item, as doccano imports no labels of anything else; item "
            f"{dataset.item_names[lacking]!r} has none: put the column text into items.csv"
        )


def doccano(labelled: Labelled) -> dict[str, bytes]:
    """Returns a JSONL file with an example for each item."""
    records = (
        {
            "id": item.id,
            "text": item.text,
            "label": [str(label) for label in item.labels],
            "probability": item.probability,
        }
        for item in labelled_as_items(labelled)
    )
    return {"doccano.jsonl": json_lines(records)}
