"""The probability that each single answer is right, given everything that is known of its item."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float64

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import choices_of
from crowdsweep.labelling.columns import coded_texts
from crowdsweep.labelling.fitted import Fitted
from crowdsweep.labelling.labelled import Labelled
from crowdsweep.labelling.tables import Chosen, named
from crowdsweep.labelling.temperature import said_by

DOUBTED = 0.2
"""Answers whose probability of being right is below this deserve a second look: the odds are four to one that they are
wrong."""


def answers_table(fitted: Fitted, labelled: Labelled) -> pa.Table:
    """Returns a table with a row per answer, the least probable answer first.

    Its columns are `item`, `annotator` (empty where annotators are not known), `label`, `probability` and `second_look`
    (yes or no). `probability` is that of being right, by the probabilities behind labels.csv. The column `name` is
    there where labels.csv has it. Texts are codes (`columns.with_texts`).

    A multi-label answer is right where it is right about every class; classes are taken to be independent. It deserves
    a second look where it is doubtful about one class. An unsure answer of one class is averaged over the classes by
    its certainty.
    """
    dataset = fitted.dataset
    rows = dataset.annotations.of_items(labelled.code)
    if labelled.multilabel:
        choices = choices_of(rows)
        item, annotator, chosen = choices.item, choices.annotator, choices.chosen.toarray() > 0.5
        probs = labelled.probs[item]
        right = np.where(chosen, probs, 1.0 - probs)
        probability, doubted = right.prod(axis=1), right.min(axis=1) < DOUBTED
    else:
        item, annotator, chosen = rows.item, rows.annotator, rows.label
        probability = _right(rows, labelled)
        doubted = probability < DOUBTED
    # Columns are made in this order, so that none is held twice.
    order = np.argsort(probability, kind="stable").astype(np.int32)
    labels = named if labelled.multilabel else _coded
    who = (dataset.annotator_names, annotator[order]) if not rows.anonymous else ([""], np.zeros_like(annotator))
    columns: dict[str, Any] = {
        "item": coded_texts(dataset.item_names, labelled.code.astype(np.int32)[item[order]]),
        "annotator": coded_texts(*who),
        "label": labels(chosen[order], dataset.class_labels),
        "probability": probability[order],
        "second_look": coded_texts(["no", "yes"], doubted[order]),
    }
    if dataset.class_names != dataset.class_labels:
        columns["name"] = labels(chosen[order], dataset.class_names)
    return pa.Table.from_pydict(columns)


def _right(rows: Annotations, labelled: Labelled) -> Float64[np.ndarray, " answers"]:
    """Returns the probability that each answer of single-label data is right."""
    right, ends = np.empty(len(rows)), rows.item_pointers
    for part in labelled.pieces():
        own = slice(ends[part.start], ends[part.stop])
        right[own] = labelled.at(part)[rows.item[own] - part.start, rows.label[own]]
    certainty = np.ones(1) if rows.probability is None else rows.probability.astype(np.float64)
    return said_by(certainty, right, rows.n_classes)


def _coded(chosen: Chosen, labels: Sequence[str]) -> Any:
    return coded_texts(labels, chosen)
