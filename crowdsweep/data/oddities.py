"""Finds legal but odd properties of a dataset, each with a remedy.

Some of them are most likely mistakes in a file: a class that is spelled in two ways, gold that no label can agree with,
a column that is not read. `mistakes` returns these; they are also reported before a sweep runs.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import chosen_rows
from crowdsweep.data.class_order import by_the_alphabet
from crowdsweep.data.dataset import SPLITS, CrowdDataset, NumberedNames
from crowdsweep.data.feature_oddities import odd_features
from crowdsweep.data.spelling import alike, alike_names, misspelled
from crowdsweep.paths import is_file

_PIECE = 1 << 20  # rows at a time
_FEW = 20  # labels; with fewer, nothing can be said
_JOIN_THEM = "correct the file, or let `crowdsweep data import csv FILE FOLDER --normalise` merge them"


@dataclass(frozen=True, kw_only=True)
class Oddity:
    """Legal but odd property of a dataset that its owner should know of.

    Attributes:
        kind: description in a few words.
        count: number of cases.
        examples: at most five names.
        remedy: what to do; empty if there is nothing to do.
    """

    kind: str
    count: int
    examples: tuple[str, ...]
    remedy: str = ""

    def __str__(self) -> str:
        more = ", …" if self.count > len(self.examples) >= 5 else ""  # fewer than five: all kinds are named
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.kind}: {', '.join(self.examples)}{more}{remedy}"


def find_oddities(dataset: CrowdDataset) -> list[Oddity]:
    """Returns all legal but odd properties of a dataset, most surprising first.

    Besides `mistakes` these are: answers that chose no class, repeated labels, contradicting labels of one pair, groups
    of annotators that share no item with the others, annotators with one label, annotators who use only one class, idle
    annotators, unused classes, items with neither a label nor a split to explain it; odd features
    (`feature_oddities`), and missing images.
    """
    answers, annotations = dataset.annotations, chosen_rows(dataset.annotations, dataset.scale)
    found = [*mistakes(dataset), *_of_features(dataset), *_of_images(dataset)]
    if not len(answers):
        return found
    item_names, annotator_names = dataset.item_names, dataset.annotator_names

    def add(kind: str, codes: np.ndarray, names: Any) -> None:
        if len(codes):
            examples = tuple(str(names[int(code)]) for code in codes[:5])
            found.append(Oddity(kind=kind, count=len(codes), examples=examples))

    if not annotations.anonymous:
        repeated, _ = _repeats(annotations)
        pairs = _PairNames(item_names, annotator_names)
        if dataset.scale == "multilabel":
            add("answers that chose no class", np.setdiff1d(_packed(answers), _packed(annotations)), pairs)
        add("pairs of item and annotator with the same label again", repeated, pairs)
        add("annotators that share no item with the largest group", _unconnected(answers), annotator_names)
        per_annotator = answers.labels_per_annotator
        add("annotators with one label", np.flatnonzero(per_annotator == 1), annotator_names)
        add("annotators with no label", np.flatnonzero(per_annotator == 0), annotator_names)
        add("annotators who use one class only", _one_class_annotators(annotations), annotator_names)
    used = np.bincount(annotations.label, minlength=dataset.n_classes)
    add("classes that no annotator used", np.flatnonzero(used == 0), dataset.class_names)
    expected = (dataset.split == SPLITS.index("none")) | (dataset.split == SPLITS.index("train"))
    add("items without a label", np.flatnonzero((answers.labels_per_item == 0) & expected), item_names)
    return found


def _of_features(dataset: CrowdDataset) -> list[Oddity]:
    features = dataset.items.features
    if features is None:
        return []
    annotated = dataset.annotations.labels_per_item > 0
    looked_at = features[annotated] if annotated.any() else features
    return [
        Oddity(kind=kind, count=len(examples), examples=tuple(examples[:5]), remedy=remedy)
        for kind, examples, remedy in odd_features(looked_at)
    ]


def _contradictions(dataset: CrowdDataset) -> list[Oddity]:
    conflicting = _repeats(dataset.annotations)[1]
    if dataset.scale == "multilabel" or dataset.annotations.anonymous or not len(conflicting):
        return []
    pairs = _PairNames(dataset.item_names, dataset.annotator_names)
    kind = "pairs of item and annotator with different labels"
    remedy = "all of them count; keep one, where an answer was corrected"
    examples = tuple(pairs[int(code)] for code in conflicting[:5])
    return [Oddity(kind=kind, count=len(conflicting), examples=examples, remedy=remedy)]


def _slips(dataset: CrowdDataset) -> list[tuple[str, str, int]]:
    """Returns probably misspelled classes: each with the class that is probably meant, and how often it is used."""
    chosen = chosen_rows(dataset.annotations, dataset.scale)
    used = np.bincount(chosen.label, minlength=dataset.n_classes).tolist()
    times = dict(zip(dataset.class_names, used, strict=True))
    return [(rare, near, times[rare]) for rare, near in misspelled(times)]


def _of_images(dataset: CrowdDataset) -> list[Oddity]:
    images = dataset.images
    if images is None:
        return []
    named = dict(zip(dataset.item_names, images.names, strict=True))
    lacking = {
        "items without an image": [item for item, name in named.items() if not name.strip()],
        f"images that are not in {images.folder}": [
            name for name in named.values() if name.strip() and not is_file(images.folder / name)
        ],
    }
    remedy = "needed where features of images are asked for"
    return [
        Oddity(kind=kind, count=len(examples), examples=tuple(examples[:5]), remedy=remedy)
        for kind, examples in lacking.items()
        if examples
    ]


def mistakes(dataset: CrowdDataset) -> list[Oddity]:
    """Returns the oddities that are most likely mistakes in the dataset's files; empty for simulated data."""
    found: list[Oddity] = []

    def add(kind: str, examples: Sequence[str], remedy: str) -> None:
        if examples:
            found.append(Oddity(kind=kind, count=len(examples), examples=tuple(examples[:5]), remedy=remedy))

    taken = dataset.left_out.words()
    if taken:
        found.append(
            Oddity(
                kind="labels that are missing values, left out",
                count=dataset.left_out.counts.total(),
                examples=tuple(taken[:5]),
                remedy="where one is a class, declare it in classes.csv, or write `missing: []` into dataset.yaml"
                if dataset.left_out.has_words()
                else "",
            )
        )
    add("classes that differ only in spelling", _shown(alike(dataset.class_names)), _JOIN_THEM)
    slips = [f"{rare!r} ({n}) for {near!r}" for rare, near, n in _slips(dataset)]
    add("classes that look like typing errors", slips, "correct the file if they are")
    add("names of several classes", *_names_in_common(dataset.class_names, dataset.class_labels))
    add("names that are the label of another class", *_crossed_names(dataset.class_names, dataset.class_labels))
    for kind, names in (("items", dataset.item_names), ("annotators", dataset.annotator_names)):
        if not isinstance(names, NumberedNames):
            add(f"{kind} that differ only in spelling", _shown(alike_names(names)), _JOIN_THEM)
    if len(dataset.annotations) and len(dataset.gold):
        chosen = chosen_rows(dataset.annotations, dataset.scale)
        used = np.bincount(chosen.label, minlength=dataset.n_classes) > 0
        if dataset.scale != "multilabel" and chosen.probability is not None and (chosen.probability < 1).any():
            used[:] = True  # an unsure label gives some probability to every other class
        unused = [dataset.class_names[code] for code in np.unique(dataset.gold.positive().label) if not used[code]]
        add("classes of gold that no annotator used", unused, "check that gold and labels have the same classes")
        labelled = dataset.annotations.labels_per_item > 0
        if not labelled[dataset.gold.item].any() and not dataset.split.any():
            items = [dataset.item_names[int(code)] for code in np.unique(dataset.gold.item)[:6]]
            add("items with gold, of which none has a label", items, "check that the ids of both files are the same")
    found += _contradictions(dataset)
    add("labels most of which occur only once", *_nearly_all_different(dataset))
    if len(dataset.annotations) >= _FEW and dataset.annotations.labels_per_item.max() == 1:
        add(
            "items of which none has a second label",
            [str(dataset.item_names[0])],
            "what annotators know shows where several label one item: check that the ids are of items, not of rows",
        )
    if dataset.scale == "ordinal" and by_the_alphabet(dataset.class_names):
        order = " < ".join(map(repr, dataset.class_names[:5]))
        add(
            "ordinal classes in the order of the alphabet",
            [order],
            "put the rows of classes.csv (label, name) into the order of the scale: agreement and distances are taken "
            "by it",
        )
    add(
        "columns that look relevant and are not read",
        dataset.unread_columns,
        "gold, split and text are read from items.csv, weight and probability from annotations.csv, by these names",
    )
    return found


def _nearly_all_different(dataset: CrowdDataset) -> tuple[list[str], str]:
    used = np.bincount(dataset.annotations.label, minlength=dataset.n_classes)
    alone = np.flatnonzero(used == 1)
    found = (
        [dataset.class_names[int(code)] for code in alone] if 2 * len(alone) > len(dataset.annotations) >= _FEW else []
    )
    return found, "a label is one of a few classes that annotators choose from: check that this is the column of labels"


def oddities_as_mappings(found: list[Oddity]) -> list[dict[str, Any]]:
    """Returns the oddities as mappings that can be written as JSON."""
    return [asdict(oddity) for oddity in found]


def _names_in_common(names: Sequence[str], labels: Sequence[str]) -> tuple[list[str], str]:
    times = Counter(names)
    found = [
        f"{name!r} of {' and '.join(repr(label) for label, one in zip(labels, names, strict=True) if one == name)}"
        for name in dict.fromkeys(names)
        if times[name] > 1
    ]
    return found, "give each class a name of its own in classes.csv; labels are written as they are"


def _crossed_names(names: Sequence[str], labels: Sequence[str]) -> tuple[list[str], str]:
    known = set(labels)
    found = [
        f"{label!r} is called {name!r}"
        for label, name in zip(labels, names, strict=True)
        if name != label and name in known
    ]
    return found, "give the classes names in classes.csv that are no labels; labels are written as they are"


def _shown(groups: Sequence[tuple[str, ...]]) -> list[str]:
    return [" = ".join(map(repr, group[:5])) for group in groups]


@dataclass(frozen=True)
class _PairNames:
    """Names of (item, annotator) pairs, indexed by the pair packed as item * 2**32 + annotator."""

    items: Any
    annotators: Any

    def __getitem__(self, packed: int) -> str:
        return f"{self.items[packed >> 32]} by {self.annotators[packed & 0xFFFFFFFF]}"


def _packed(annotations: Annotations) -> np.ndarray:
    return (annotations.item.astype(np.int64) << 32) | annotations.annotator


def _repeats(annotations: Annotations) -> tuple[np.ndarray, np.ndarray]:
    """Returns the packed pairs with the same label twice, and those with different labels."""
    again = np.ones(len(annotations), dtype=bool)  # rows are sorted by (item, annotator, label)
    again[annotations.pair_starts] = False
    rows = np.flatnonzero(again)
    same = annotations.label[rows] == annotations.label[rows - 1]
    packed = (annotations.item[rows].astype(np.int64) << 32) | annotations.annotator[rows]
    return np.unique(packed[same]), np.unique(packed[~same])


def _unconnected(annotations: Annotations) -> np.ndarray:
    """Returns the active annotators outside the largest group that items connect."""
    n = annotations.n_annotators
    group = np.arange(n)
    step = max(_PIECE, n)  # a graph of all rows would take many times their room
    for start in range(0, len(annotations), step):
        item, annotator = (column[start : start + step + 1] for column in (annotations.item, annotations.annotator))
        met = np.flatnonzero(item[1:] == item[:-1])  # a row and the next one are of one item
        edges = (np.ones(len(met)), (group[annotator[met]], group[annotator[met + 1]]))
        group = connected_components(sp.coo_array(edges, shape=(n, n)), directed=False)[1][group]
    active = np.flatnonzero(annotations.labels_per_annotator > 0)
    return active[group[active] != np.bincount(group[active]).argmax()]


def _one_class_annotators(annotations: Annotations) -> np.ndarray:
    first = np.full(annotations.n_annotators, annotations.n_classes, dtype=np.int32)
    last = np.full(annotations.n_annotators, -1, dtype=np.int32)
    np.minimum.at(first, annotations.annotator, annotations.label)
    np.maximum.at(last, annotations.annotator, annotations.label)
    return np.flatnonzero((first == last) & (annotations.labels_per_annotator > 1))
