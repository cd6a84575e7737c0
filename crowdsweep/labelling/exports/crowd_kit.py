"""Labels for crowd-kit: what its `fit_predict` and `fit_predict_proba` return."""

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.errors import BadInput
from crowdsweep.labelling.exports.indexed import indexed
from crowdsweep.labelling.labelled import Labelled
from crowdsweep.labelling.many_classes import MANY_CLASSES
from crowdsweep.labelling.tables import class_columns


def check_columns(dataset: CrowdDataset) -> None:
    """Checks that a table with a column for each class can be written.

    Raises:
        BadInput: there are too many classes.
    """
    if dataset.n_classes > MANY_CLASSES:
        raise BadInput(
            f"--export crowd-kit: it needs a column for each of {dataset.n_classes:,} classes, more than "
            f"{MANY_CLASSES:,}; labels.parquet and probabilities.parquet have the same"
        )


def crowd_kit(labelled: Labelled) -> dict[str, bytes]:
    """Returns two files that `pandas.read_parquet` reads as frames indexed by `task`: one with the column `agg_label`,
    and one with a column of probabilities for each class."""
    dataset = labelled.dataset
    tasks = [dataset.item_names[int(code)] for code in labelled.code]
    probs = labelled.probs
    best = [dataset.class_labels[code] for code in probs.argmax(axis=1)]
    columns = class_columns(dataset.class_labels, ["task"])
    probabilities = {name: probs[:, place] for place, name in enumerate(columns)}
    return {
        "crowd-kit-labels.parquet": indexed("task", tasks, {"agg_label": best}),
        "crowd-kit-probabilities.parquet": indexed("task", tasks, probabilities),
    }
