"""Describes a dataset: counts, redundancy, agreement."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import entr

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import chosen_rows
from crowdsweep.data.dataset import SPLITS, CrowdDataset


def describe(dataset: CrowdDataset) -> dict[str, Any]:
    """Returns counts and averages of a dataset by name; those that do not apply are absent.

    `krippendorff_alpha` (ordinal on the ordinal scale, else nominal) covers items with at least two labels.
    `label_entropy` is the mean entropy, in nats, of the label distributions of annotated items. `annotator_accuracy` is
    the plain mean of annotators' shares of correct labels on items with gold, over annotators with such labels.
    Multi-label data have neither of the first two, but have `answers`, the number of pairs of item and annotator; a
    label is then a class that was chosen.
    """
    multilabel = dataset.scale == "multilabel"
    answers, annotations = dataset.annotations, chosen_rows(dataset.annotations, dataset.scale)
    per_item = annotations.labels_per_item[answers.labels_per_item > 0]
    per_annotator = annotations.labels_per_annotator[answers.labels_per_annotator > 0]
    found: dict[str, Any] = {
        "name": dataset.name,
        "title": dataset.title,
        "scale": dataset.scale,
        "fingerprint": dataset.fingerprint,
        "items": dataset.items.n_items,
        "annotated_items": len(per_item),
        "annotations": len(annotations),
        "classes": list(dataset.class_names),
        "class_counts": np.bincount(annotations.label, minlength=dataset.n_classes).tolist(),
        "items_with_gold": len(np.unique(dataset.gold.item)),
        "features": None if dataset.items.features is None else dataset.items.features.shape[1],
        "text": dataset.items.text is not None,
    }
    if dataset.gold.applies is not None:
        found["gold_of_classes"] = {
            dataset.class_names[code]: int((dataset.gold.label == code).sum()) for code in np.unique(dataset.gold.label)
        }
    if dataset.annotator_features is not None:
        found["annotator_features"] = dataset.annotator_features.shape[1]
    if dataset.items.unit is not None:
        found["units"] = len(np.unique(dataset.items.unit))
    if multilabel:
        found["answers"] = len(answers.pair_starts)
    if dataset.split.any():
        found["splits"] = {
            name: int(np.count_nonzero(dataset.split == code)) for code, name in enumerate(SPLITS) if code > 0
        }
    if dataset.seed_dependent:
        found["crowd"] = "drawn from each trial's seed"
    if not len(answers):
        return found
    found["labels_per_item"] = _spread(per_item)
    if annotations.anonymous:
        found["annotators"] = "anonymous"
    else:
        found["annotators"] = annotations.n_annotators
        found["active_annotators"] = answers.n_active_annotators
        found["labels_per_annotator"] = _spread(per_annotator)
    if not multilabel:
        found["label_entropy"] = _mean_entropy(annotations)
        alpha = krippendorff_alpha(annotations, ordinal=dataset.scale == "ordinal")
        if alpha is not None:
            found["krippendorff_alpha"] = alpha
    accuracy = mean_annotator_accuracy(dataset)
    if accuracy is not None and not annotations.anonymous:
        found["annotator_accuracy"] = accuracy
    return found


def describe_text(found: dict[str, Any]) -> str:
    """Returns the result of `describe` as aligned lines of text."""
    lines: list[str] = []
    for name, value in found.items():
        if isinstance(value, dict):
            shown = ", ".join(f"{key} {part:g}" for key, part in value.items())
        elif isinstance(value, float):
            shown = f"{value:.3f}"
        elif isinstance(value, list):
            shown = ", ".join(map(str, value))
        else:
            shown = "none" if value is None else str(value)
        lines.append(f"{name.replace('_', ' '):<22}{shown}")
    return "\n".join(lines)


def krippendorff_alpha(annotations: Annotations, *, ordinal: bool = False) -> float | None:
    """Returns Krippendorff's alpha, or None if no item has two labels or only one class was used.

    Alpha is 1 - (observed disagreement) / (expected disagreement), from the coincidence matrix of pairs of labels
    within items (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability"). Weights and probabilities are not
    used.
    """
    rows = sp.coo_array(
        (np.ones(len(annotations)), (annotations.item, annotations.label)),
        shape=(annotations.n_items, annotations.n_classes),
    ).tocsr()
    per_item = np.asarray(rows.sum(axis=1)).ravel()
    pairable = per_item >= 2
    if not pairable.any():
        return None
    counts = rows[pairable]
    share = sp.diags_array(1.0 / (per_item[pairable] - 1.0))
    together = (counts.T @ share @ counts).tocoo()  # also pairs a label with itself, at distance 0
    totals = np.asarray(counts.sum(axis=0)).ravel()
    place = _ordinal_places(totals) if ordinal else None
    first, second = together.coords
    distance = first != second if place is None else (place[first] - place[second]) ** 2
    expected = _summed_distances(totals, place) / (totals.sum() - 1.0)
    return None if expected == 0 else 1.0 - float((together.data * distance).sum()) / expected


def mean_annotator_accuracy(dataset: CrowdDataset) -> float | None:
    """Returns the plain mean of annotators' shares of correct labels.

    Returns None if no label is on an item with gold, or if gold is known class by class.
    """
    annotations = dataset.annotations
    has_gold = np.zeros(annotations.n_items, dtype=bool)
    has_gold[dataset.gold.item] = True
    on_gold = has_gold[annotations.item]
    if not on_gold.any() or not dataset.gold.counts_answers:
        return None
    right = sp.coo_array(
        (np.ones(len(dataset.gold), dtype=bool), (dataset.gold.item, dataset.gold.label)),
        shape=(annotations.n_items, annotations.n_classes),
    ).tocsr()
    correct = np.asarray(right[annotations.item[on_gold], annotations.label[on_gold]]).ravel()
    annotator = annotations.annotator[on_gold]
    seen = np.bincount(annotator, minlength=annotations.n_annotators)
    hits = np.bincount(annotator, weights=correct, minlength=annotations.n_annotators)
    return float((hits[seen > 0] / seen[seen > 0]).mean())


def _ordinal_places(totals: np.ndarray) -> np.ndarray:
    """Returns the position of each class on the ordinal scale: the labels of lower classes plus half of its own."""
    return np.cumsum(totals) - totals / 2


def _summed_distances(totals: np.ndarray, place: np.ndarray | None) -> float:
    """Returns the sum of squared distances of places over all pairs of labels.

    Without places, returns the number of pairs of labels of different classes. Makes no table of classes × classes.
    """
    if place is None:
        return float(totals.sum() ** 2 - (totals**2).sum())
    middle = place - float((totals * place).sum() / totals.sum())
    return float(2.0 * totals.sum() * (totals * middle**2).sum())


def _mean_entropy(annotations: Annotations) -> float:
    """Returns the mean over annotated items of the entropy of their label distribution, in nats."""
    counts = annotations.counts
    per_item = np.asarray(counts.sum(axis=1)).ravel()
    item = np.repeat(np.arange(annotations.n_items), np.diff(counts.indptr))
    shares = counts.data / per_item[item]
    return float(entr(shares).sum() / np.count_nonzero(annotations.labels_per_item))


def _spread(counts: np.ndarray) -> dict[str, int | float]:
    return {
        "min": int(counts.min()),
        "median": float(np.median(counts)),
        "mean": float(counts.mean()),
        "max": int(counts.max()),
    }
