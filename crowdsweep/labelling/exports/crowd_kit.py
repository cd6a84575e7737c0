"""Labels for crowd-kit: what its `fit_predict` and `fit_predict_proba` give."""

from crowdsweep.labelling.columns import class_columns
from crowdsweep.labelling.exports.indexed import indexed
from crowdsweep.labelling.fitted import Fitted
from crowdsweep.labelling.labelled import Labelled


def crowd_kit(labelled: Labelled, fitted: Fitted) -> dict[str, bytes]:
    """Returns two files that `pandas.read_parquet` reads as frames indexed by `task`: one with the column `agg_label`,
    and one with a column of probabilities for each label."""
    dataset = fitted.dataset
    tasks = [dataset.item_names[int(code)] for code in labelled.code]
    best = [dataset.class_labels[code] for code in labelled.probs.argmax(axis=1)]
    columns = class_columns(dataset.class_labels, ["task"])
    probabilities = {name: labelled.probs[:, place] for place, name in enumerate(columns)}
    return {
        "crowd-kit-labels.parquet": indexed("task", tasks, {"agg_label": best}),
        "crowd-kit-probabilities.parquet": indexed("task", tasks, probabilities),
    }
