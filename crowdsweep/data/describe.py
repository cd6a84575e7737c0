"""What a dataset looks like: counts, redundancy, agreement, and everything about it that is odd."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.stats import entropy

from crowdsweep.arrays import Confusion
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import SPLITS, CrowdDataset


@dataclass(frozen=True, kw_only=True)
class Oddity:
    """Something that is legal and that its owner should know of.

    Attributes:
        kind: in a few words.
        count: how many.
        examples: at most five names.
    """

    kind: str
    count: int
    examples: tuple[str, ...]


def describe(dataset: CrowdDataset) -> dict[str, Any]:
    """Returns counts and averages by name; what does not apply is absent.

    `krippendorff_alpha` is the nominal one (ordinal scale: the ordinal one) over items with two labels or more;
    `label_entropy` the mean over annotated items of the entropy of their label distribution, in nats;
    `annotator_accuracy` the plain mean, over annotators with a label on an item with gold, of their share of correct
    labels there. Multi-label data have neither of the first two, and `answers`, the number of pairs of item and
    annotator; a label is then a class that was chosen.
    """
    multilabel = dataset.scale == "multilabel"
    answers, annotations = dataset.annotations, _chosen(dataset)
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
    if dataset.items.unit is not None:
        found["units"] = len(np.unique(dataset.items.unit))
    if multilabel:
        found["answers"] = len(answers.pair_starts)
    if dataset.split.any():
        found["splits"] = {
            name: int(np.count_nonzero(dataset.split == code)) for code, name in enumerate(SPLITS) if code > 0
        }
    if dataset.seed_dependent:
        found["crowd"] = "drawn anew from each trial's seed"
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
        shares = annotations.label_distribution()[annotations.labels_per_item > 0]
        found["label_entropy"] = float(entropy(shares, axis=1).mean())
        alpha = krippendorff_alpha(annotations, ordinal=dataset.scale == "ordinal")
        if alpha is not None:
            found["krippendorff_alpha"] = alpha
    accuracy = mean_annotator_accuracy(dataset)
    if accuracy is not None and not annotations.anonymous:
        found["annotator_accuracy"] = accuracy
    return found


def describe_text(found: dict[str, Any]) -> str:
    """Returns what `describe` found as aligned lines."""
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


def odd_things(dataset: CrowdDataset) -> list[Oddity]:
    """Returns everything about a dataset that is legal and odd, most surprising first.

    Looked for: answers that chose no class, repeated labels, contradicting labels of one pair, groups of annotators
    that share no item with the others, annotators with one label, annotators who use one class only, idle annotators,
    unused classes, items with neither label nor split to explain it.
    """
    answers, annotations = dataset.annotations, _chosen(dataset)
    if not len(answers):
        return []
    item_names, annotator_names = dataset.item_names, dataset.annotator_names
    found: list[Oddity] = []

    def add(kind: str, codes: np.ndarray, names: Any) -> None:
        if len(codes):
            examples = tuple(str(names[int(code)]) for code in codes[:5])
            found.append(Oddity(kind=kind, count=len(codes), examples=examples))

    if not annotations.anonymous:
        repeated, conflicting = _pairs_with_repeats(annotations)
        pairs = _PairNames(item_names, annotator_names)
        if dataset.scale == "multilabel":
            add("answers that chose no class", np.setdiff1d(_packed(answers), _packed(annotations)), pairs)
        add("pairs of item and annotator with the same label again", repeated, pairs)
        if dataset.scale != "multilabel":
            add("pairs of item and annotator with different labels", conflicting, pairs)
        add("annotators that share no item with the largest group", _unconnected(answers), annotator_names)
        per_annotator = answers.labels_per_annotator
        add("annotators with one label", np.flatnonzero(per_annotator == 1), annotator_names)
        add("annotators with no label", np.flatnonzero(per_annotator == 0), annotator_names)
        add("annotators who use one class only", _one_class_annotators(annotations), annotator_names)
    used = np.bincount(annotations.label, minlength=dataset.n_classes)
    add("classes that nobody used", np.flatnonzero(used == 0), dataset.class_names)
    expected = (dataset.split == SPLITS.index("none")) | (dataset.split == SPLITS.index("train"))
    add("items without a label", np.flatnonzero((answers.labels_per_item == 0) & expected), item_names)
    return found


def oddities_as_mappings(found: list[Oddity]) -> list[dict[str, Any]]:
    """Returns JSON-able records."""
    return [asdict(oddity) for oddity in found]


def _chosen(dataset: CrowdDataset) -> Annotations:
    """Returns the annotations without the rows of multi-label answers that choose nothing."""
    rows = dataset.annotations
    if dataset.scale != "multilabel" or rows.probability is None:
        return rows
    return rows.take(rows.probability > 0)


def krippendorff_alpha(annotations: Annotations, *, ordinal: bool = False) -> float | None:
    """Returns Krippendorff's alpha, or None where no item has two labels or only one class was used.

    1 - (observed disagreement) / (expected disagreement), from the coincidence matrix of pairs of labels within items
    (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability"). Weights and probabilities are not used.
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
    coincidence = (counts.T @ share @ counts).toarray() - np.diag(np.asarray((share @ counts).sum(axis=0)).ravel())
    totals = coincidence.sum(axis=1)
    distance = _ordinal_distance(totals) if ordinal else 1.0 - np.eye(annotations.n_classes)
    expected = float((np.outer(totals, totals) * distance).sum() / (totals.sum() - 1.0))
    return None if expected == 0 else 1.0 - float((coincidence * distance).sum()) / expected


def mean_annotator_accuracy(dataset: CrowdDataset) -> float | None:
    """Returns the plain mean of annotators' shares of correct labels, or None where no label meets gold."""
    annotations = dataset.annotations
    has_gold = np.zeros(annotations.n_items, dtype=bool)
    has_gold[dataset.gold.item] = True
    on_gold = has_gold[annotations.item]
    if not on_gold.any():
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


@dataclass(frozen=True)
class _PairNames:
    """Names of row numbers of a table of (item, annotator) pairs packed as item * 2**32 + annotator."""

    items: Any
    annotators: Any

    def __getitem__(self, packed: int) -> str:
        return f"{self.items[packed >> 32]} by {self.annotators[packed & 0xFFFFFFFF]}"


def _packed(annotations: Annotations) -> np.ndarray:
    return (annotations.item.astype(np.int64) << 32) | annotations.annotator


def _pairs_with_repeats(annotations: Annotations) -> tuple[np.ndarray, np.ndarray]:
    """Returns the packed pairs that gave one label twice, and those that gave different ones."""
    packed = _packed(annotations)
    again = packed[1:] == packed[:-1]  # rows are sorted by (item, annotator, label)
    same = annotations.label[1:] == annotations.label[:-1]
    return np.unique(packed[1:][again & same]), np.unique(packed[1:][again & ~same])


def _unconnected(annotations: Annotations) -> np.ndarray:
    """Returns the active annotators outside the largest component of the graph of items and annotators."""
    n = annotations.n_items + annotations.n_annotators
    edges = (np.ones(len(annotations)), (annotations.item, annotations.annotator + annotations.n_items))
    _, component = connected_components(sp.coo_array(edges, shape=(n, n)), directed=False)
    active = np.flatnonzero(annotations.labels_per_annotator > 0)
    of_annotator = component[annotations.n_items :][active]
    largest = np.bincount(of_annotator).argmax()
    return active[of_annotator != largest]


def _one_class_annotators(annotations: Annotations) -> np.ndarray:
    used = sp.coo_array(
        (np.ones(len(annotations)), (annotations.annotator, annotations.label)),
        shape=(annotations.n_annotators, annotations.n_classes),
    ).tocsr()
    return np.flatnonzero((np.diff(used.indptr) == 1) & (annotations.labels_per_annotator > 1))


def _ordinal_distance(totals: np.ndarray) -> Confusion:
    """Returns the squared ordinal difference of each pair of classes: labels that lie between and half of the ends."""
    below = np.cumsum(totals) - totals / 2
    return (below[:, None] - below[None, :]) ** 2


def _spread(counts: np.ndarray) -> dict[str, int | float]:
    return {
        "min": int(counts.min()),
        "median": float(np.median(counts)),
        "mean": float(counts.mean()),
        "max": int(counts.max()),
    }
