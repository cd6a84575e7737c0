"""The probability that each single answer is right, given all that is known of its item."""

from typing import Any

import numpy as np
import pyarrow as pa

from crowdsweep.data.choices import choices_of
from crowdsweep.labelling.columns import coded_texts
from crowdsweep.labelling.fitted import Fitted
from crowdsweep.labelling.labelled import Labelled
from crowdsweep.labelling.tables import JOIN, escaped
from crowdsweep.labelling.temperature import said_by

DOUBTED = 0.2
"""An answer that is less probable to be right deserves a second look: four to one that it is wrong."""


def answers_table(fitted: Fitted, labelled: Labelled) -> pa.Table:
    """Returns a row per answer, the least probable first: `item`, `annotator` (empty where nobody knows who), `label`,
    `probability` of being right by what labels.csv is made of, and `second_look`, yes or no. `name` as there. Texts
    are codes (`columns.with_texts`).

    A multi-label answer is right where all of its classes are, which are independent; it deserves a second look where
    one class is doubtful. Of an unsure answer it counts what it gives to each class.
    """
    dataset = fitted.dataset
    rows, probs = dataset.annotations.of_items(labelled.code), labelled.probs
    if dataset.scale == "multilabel":
        choices = choices_of(rows)
        item, annotator = choices.item, choices.annotator
        chosen = choices.chosen.toarray() > 0.5
        right = np.where(chosen, probs[item], 1.0 - probs[item])
        probability, doubted = right.prod(axis=1), right.min(axis=1) < DOUBTED
        labels, names = (
            [JOIN.join(escaped(every[code]) for code in np.flatnonzero(row)) for row in chosen]
            for every in (dataset.class_labels, dataset.class_names)
        )
    else:
        item, annotator = rows.item, rows.annotator
        certainty = np.ones(len(rows)) if rows.probability is None else rows.probability.astype(np.float64)
        probability = said_by(certainty, probs[item, rows.label], dataset.n_classes)
        doubted = probability < DOUBTED
        labels, names = (coded_texts(every, rows.label) for every in (dataset.class_labels, dataset.class_names))
    who = (dataset.annotator_names, annotator) if not rows.anonymous else ([""], np.zeros(len(annotator), np.int32))
    columns: dict[str, Any] = {
        "item": coded_texts(dataset.item_names, labelled.code[item]),
        "annotator": coded_texts(*who),
        "label": labels,
        "probability": probability,
        "second_look": coded_texts(["no", "yes"], doubted),
    }
    if dataset.class_names != dataset.class_labels:
        columns["name"] = names
    order: Any = pa.array(np.argsort(probability, kind="stable"))
    return pa.Table.from_pydict(columns).take(order)
