"""The tables of labels, of probabilities, and of single answers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float64, Int32, Int64

from crowdsweep.arrays import LOG_FLOOR, ItemProbs, ratio
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import choices_of
from crowdsweep.data.dataset import SPLITS
from crowdsweep.data.on_disk.tables import Names
from crowdsweep.labelling.labelled import Labelled
from crowdsweep.labelling.many_classes import MANY_CLASSES, likeliest
from crowdsweep.labelling.temperature import said_by

JOIN = "|"  # between the classes of a multi-label label
DOUBTED = 0.2
"""Answers whose probability of being right is below this deserve a second look: the odds are four to one that they are
wrong."""

Chosen = Int32[np.ndarray, " items"] | Bool[np.ndarray, "items classes"]
"""The class of each item; for multi-label data, a mask of the item's classes."""


def labels_table(labelled: Labelled) -> pa.Table:
    """Returns a table with a row per item.

    The column `entropy` is in nats, `answers` is the number of answers, and `agreement` the share of them that agree
    with the label. `labelled_by` says what gave the label, and `fits_agree` is the share of the fits that give the same
    label. `name` has the names of classes, where some differ from their labels. `gold` is there where the dataset has
    gold.

    The label of a multi-label item joins all classes that are more probable than not. Its probability is that of
    exactly these classes, which are taken to be independent. Agreement is then that of single classes.
    """
    dataset, multilabel, parts = labelled.dataset, labelled.multilabel, list[tuple[np.ndarray, ...]]()
    for part in labelled.pieces():
        probs = labelled.at(part)
        parts.append((*chosen_of(probs, multilabel=multilabel), _entropy(probs, multilabel=multilabel)))
    chosen, probability, entropy = (np.concatenate(column) for column in zip(*parts, strict=True))
    given, agreement = _agreement(dataset.annotations.of_items(labelled.code), chosen, multilabel=multilabel)
    columns: dict[str, Any] = {
        "item": texts_at(dataset.item_names, labelled.code),
        "label": named(chosen, dataset.class_labels),
        "probability": probability,
        "entropy": entropy,
        "answers": given,
        "agreement": pa.array(agreement, mask=given == 0),
        "split": texts_at(["", *SPLITS[1:]], dataset.split[labelled.code]),
        "labelled_by": Names.of(labelled.by).array,
        "fits_agree": pa.array(labelled.fits_agree, mask=np.isnan(labelled.fits_agree)),
    }
    if dataset.class_names != dataset.class_labels:
        columns["name"] = named(chosen, dataset.class_names)
    if len(dataset.gold):
        columns["gold"] = _gold_labels(labelled)
    return pa.Table.from_pydict(columns)


def _gold_labels(labelled: Labelled) -> list[str]:
    """Returns the gold of each item; empty where it has none, and where multi-label gold names no class."""
    dataset, found = labelled.dataset, list[list[str]]([] for _ in labelled.code)
    gold = dataset.gold.of_items(labelled.code, dataset.items.n_items).positive()
    for item, label in zip(gold.item.tolist(), gold.label.tolist(), strict=True):
        found[item].append(dataset.class_labels[label])
    return [JOIN.join(map(escaped, labels) if labelled.multilabel else labels) for labels in found]


def _agreement(
    rows: Annotations, chosen: Chosen, *, multilabel: bool
) -> tuple[Int64[np.ndarray, " items"], Float64[np.ndarray, " items"]]:
    """Returns the number of answers of each item, and the share of them (multi-label: of single classes) that agree
    with its label."""
    if not multilabel:
        agreeing = np.zeros(len(rows) + 1, dtype=np.int32)
        np.cumsum(chosen[rows.item] == rows.label, out=agreeing[1:])
        given, ends = rows.labels_per_item, rows.item_pointers
        return given, ratio(np.diff(agreeing[ends]).astype(np.float64), given, at_zero=0.0)
    choices = choices_of(rows)
    says = ((choices.chosen.toarray() > 0.5) == chosen[choices.item]).sum(axis=1)
    given = np.bincount(choices.item, minlength=len(chosen))
    agreeing = np.bincount(choices.item, weights=says, minlength=len(chosen))
    return given, ratio(agreeing, given * rows.n_classes, at_zero=0.0)


def chosen_of(probs: ItemProbs, *, multilabel: bool) -> tuple[Chosen, Float64[np.ndarray, " items"]]:
    """Returns the class of each item (multi-label: all classes that are more probable than not), and the probability
    that it is this class (multi-label: exactly these classes)."""
    if multilabel:
        chosen = probs > 0.5
        return chosen, np.where(chosen, probs, 1.0 - probs).prod(axis=1)
    best = probs.argmax(axis=1)
    return best.astype(np.int32), probs[np.arange(len(probs)), best]


def decided(probs: ItemProbs, labels: Sequence[str], *, multilabel: bool) -> dict[str, Any]:
    """Returns the columns `label` and `probability` of `labels_table`."""
    chosen, probability = chosen_of(probs, multilabel=multilabel)
    return {"label": named(chosen, labels), "probability": probability}


def named(chosen: Chosen, labels: Sequence[str]) -> Any:
    """Returns the chosen labels as a column. Several labels are joined by `|`; a bar or a backslash within a label gets
    a backslash before it."""
    if chosen.ndim == 1:
        return texts_at(labels, chosen)
    apart = np.array([escaped(label) for label in labels], dtype=object)
    return Names.of([JOIN.join(apart[row]) for row in chosen]).array


def escaped(label: str) -> str:
    """Returns a name that can be joined with others: each bar and backslash in it gets a backslash before it."""
    return label.replace("\\", "\\\\").replace(JOIN, "\\" + JOIN)


def answers_table(labelled: Labelled) -> pa.Table:
    """Returns a table with a row per answer, the least probable answer first.

    Its columns are `item`, `annotator` (empty where annotators are not known), `label`, `probability` and `second_look`
    (yes or no). `probability` is that of being right, by the probabilities behind labels.csv. The column `name` is
    there where labels.csv has it. Texts are codes (`with_texts`).

    A multi-label answer is right where it is right about every class; classes are taken to be independent. It deserves
    a second look where it is doubtful about one class. An unsure answer of one class is averaged over the classes by
    its certainty.
    """
    dataset = labelled.dataset
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
    who = (dataset.annotator_names, annotator[order]) if not rows.anonymous else ([""], np.zeros_like(annotator))

    def label(names: Sequence[str]) -> Any:
        return named(chosen[order], names) if labelled.multilabel else coded_texts(names, chosen[order])

    columns: dict[str, Any] = {  # each is made in this order, so that none is held twice
        "item": coded_texts(dataset.item_names, labelled.code.astype(np.int32)[item[order]]),
        "annotator": coded_texts(*who),
        "label": label(dataset.class_labels),
        "probability": probability[order],
        "second_look": coded_texts(["no", "yes"], doubted[order]),
    }
    if dataset.class_names != dataset.class_labels:
        columns["name"] = label(dataset.class_names)
    return pa.Table.from_pydict(columns)


def _right(rows: Annotations, labelled: Labelled) -> Float64[np.ndarray, " answers"]:
    """Returns the probability that each answer of single-label data is right."""
    right, ends = np.empty(len(rows)), rows.item_pointers
    for part in labelled.pieces():
        own = slice(ends[part.start], ends[part.stop])
        right[own] = labelled.at(part)[rows.item[own] - part.start, rows.label[own]]
    certainty = np.ones(1) if rows.probability is None else rows.probability.astype(np.float64)
    return said_by(certainty, right, rows.n_classes)


def probabilities_table(labelled: Labelled, *, raw: bool = False) -> pa.Table:
    """Returns a table of the item and a column for each class. Above `MANY_CLASSES` classes it has a row for each of an
    item's most probable classes instead: `item`, `label` and `probability`.

    Args:
        raw: whether to return the model's probabilities before calibration and without gold; empty where it gives none.
    """
    dataset, labels = labelled.dataset, labelled.dataset.class_labels
    if len(labels) > MANY_CLASSES:
        parts: list[tuple[np.ndarray, ...]] = []
        for part in labelled.pieces():
            values = labelled.raw[part] if raw else labelled.at(part)
            row, label = likeliest(values)
            parts.append((labelled.code[part][row], label, values[row, label]))
        item, label, probability = (np.concatenate(column) for column in zip(*parts, strict=True))
        names = {"item": texts_at(dataset.item_names, item), "label": texts_at(labels, label)}
        return pa.Table.from_pydict({**names, "probability": probability})
    values = labelled.raw if raw else labelled.probs
    columns: dict[str, Any] = {"item": texts_at(dataset.item_names, labelled.code)}
    for place, name in enumerate(class_columns(labels, ["item"])):
        columns[name] = pa.array(values[:, place], mask=np.isnan(values[:, place]))
    return pa.Table.from_pydict(columns)


def _entropy(probs: ItemProbs, *, multilabel: bool) -> Float64[np.ndarray, " items"]:
    return (_plogp(probs) + _plogp(1.0 - probs) if multilabel else _plogp(probs)).sum(axis=1)


def _plogp(probs: ItemProbs) -> ItemProbs:
    return -(probs * np.log(np.maximum(probs, LOG_FLOOR)))


def texts_at(names: Sequence[str], codes: np.ndarray) -> Any:
    """Returns the names with these codes, as a column of texts."""
    return Names.of(names).take(codes).array


def coded_texts(names: Sequence[str], codes: np.ndarray) -> Any:
    """Returns the same as a column of codes, one to four bytes per row; `with_texts` turns them into texts."""
    indices: Any = pa.array(codes.astype(np.min_scalar_type(-max(len(names), 1)), copy=False))
    return pa.DictionaryArray.from_arrays(indices, Names.of(names).array)


def with_texts(table: pa.Table) -> pa.Table:
    """Returns a table with texts in place of codes."""
    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(place, name, column.cast(pa.string()))
    return table


def class_columns(labels: Sequence[str], others: Sequence[str]) -> list[str]:
    """Returns a distinct column name for each class: its label, or a form such as `p(item)` where another column of the
    table has that name.

    Args:
        labels: labels of the classes, all different.
        others: names of the table's other columns.
    """
    taken = {*labels, *others}
    names: list[str] = []
    for label in labels:
        name = label
        while name in others or (name != label and name in taken):
            name = f"p({name})"
        taken.add(name)
        names.append(name)
    return names
