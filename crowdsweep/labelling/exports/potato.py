"""Labels for Potato: items with predictions, which it fills in as answers before annotators see the items.

    {"text": "…", "id": "1", "predictions": {"mood": "happy"}, "probability": 0.93}

The file is a data file (`data_files`). It is also the file that `pre_annotation` reads for items that a task has
already:

    pre_annotation:
      enabled: true
      predictions_file: potato.jsonl

`mood` is the name of the annotation scheme; a scheme of several choices takes a list.
"""

from crowdsweep.labelling.exports.argilla import QUESTION
from crowdsweep.labelling.exports.items import described, json_lines, labelled_as_items
from crowdsweep.labelling.labelled import Labelled


def potato(labelled: Labelled) -> dict[str, bytes]:
    """Returns a JSONL file with an item per line; its label is under the name of the scheme in the original file."""
    scheme = described(labelled.dataset).question or QUESTION
    several = labelled.dataset.scale == "multilabel"
    records = (
        {
            **(item.data or {"text": item.name}),
            "id": item.name,
            "predictions": {scheme: list(map(str, item.labels)) if several else str(item.label)},
            "probability": item.probability,
        }
        for item in labelled_as_items(labelled)
    )
    return {"potato.jsonl": json_lines(records)}
