"""Records that hold a dataset, and the parts of it that a model and the runner may see.

`CrowdDataset` holds everything that is known. `splits.prepare` makes `TrialData` from it for one seed. `TrialData` has
two parts: `TrainingData`, which is all that a model's `fit` sees and holds no gold, and evaluation sets, which only
the runner sees.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Literal, overload

import numpy as np
from jaxtyping import Bool, Float64, Int8, Int32

from crowdsweep.arrays import AnnotatorFeatures, Confusions, ItemFeatures
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.missing import MissingLabels
from crowdsweep.errors import DataError

Scale = Literal["nominal", "ordinal", "multilabel"]
Scalar = str | int | float | bool | None
SPLITS = ("none", "train", "dev", "test", "unlabelled")  # codes 0 … 4 of CrowdDataset.split
LEAVES_OUT = ("redundancy", "allocation", "annotator_dropout", "folds")
"""Dataset parameters that make a sweep train on only part of the data."""


@dataclass(frozen=True)
class NumberedNames(Sequence[str]):
    """Sequence of the names `prefix0`, `prefix1`, …; each is made on access, so a million of them cost no memory."""

    prefix: str
    size: int

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        picked = range(self.size)[index]
        return f"{self.prefix}{picked}" if isinstance(picked, int) else [f"{self.prefix}{i}" for i in picked]


@dataclass(frozen=True, kw_only=True, eq=False)
class Items:
    """Features, texts and units of n items, without their labels. Every field that is not None has n rows.

    Attributes:
        text, text_b: one text per item; `text_b` is the second text of a pair.
        unit: ascending: code of the unit that each item belongs to, such as the sentence of a token.
            Splits, hold-out, thinning and minibatches keep a unit whole, with its items in order. None: every item is
            its own unit.
    """

    n_items: int
    features: ItemFeatures | None = None
    text: Sequence[str] | None = None
    text_b: Sequence[str] | None = None
    unit: Int32[np.ndarray, " items"] | None = None

    def __post_init__(self) -> None:
        if self.unit is not None and len(self.unit) and (self.unit[0] < 0 or (np.diff(self.unit) < 0).any()):
            raise DataError("items: expected units by ascending code from 0, each in one piece; sort the items by unit")

    def take(self, items: np.ndarray) -> "Items":
        """Returns these items, in the order given."""
        return Items(
            n_items=len(items),
            features=None if self.features is None else self.features[items],
            text=None if self.text is None else [self.text[int(i)] for i in items],
            text_b=None if self.text_b is None else [self.text_b[int(i)] for i in items],
            unit=None if self.unit is None else self.unit[items],
        )

    def whole_units(self, picked: Bool[np.ndarray, " items"]) -> Bool[np.ndarray, " items"]:
        """Returns a mask of all items of every unit that has at least one picked item."""
        if self.unit is None or not self.n_items:
            return picked
        touched = np.zeros(int(self.unit[-1]) + 1, dtype=bool)
        touched[self.unit[picked]] = True
        return touched[self.unit]


@dataclass(frozen=True, kw_only=True, eq=False)
class Images:
    """Image files of n items.

    Attributes:
        folder: folder that the names are relative to.
        names: file name of each item's image; empty for an item without one.
        rows: row number of each item in the items file; 0 for items that are not in it.
        listed_in: path of the items file.
    """

    folder: Path
    names: Sequence[str]
    rows: Sequence[int]
    listed_in: Path


@dataclass(frozen=True, kw_only=True, eq=False)
class Gold:
    """Trusted answers as sparse rows (item, label), in ascending order.

    A multi-label item has one row for each class that applies; any other item has one row. A multi-label item to which
    no class applies cannot be told from an item without gold. Where multi-label gold is known class by class, each row
    says whether its class applies, and nothing is known of the item's other classes.

    Attributes:
        applies: for multi-label gold that is known class by class; None otherwise: every row applies.
    """

    item: Int32[np.ndarray, " gold"]
    label: Int32[np.ndarray, " gold"]
    applies: Bool[np.ndarray, " gold"] | None = None

    def __len__(self) -> int:
        return len(self.item)

    @property
    def counts_answers(self) -> bool:
        """Whether annotators' confusion matrices can be counted against this gold: not if it is empty or by class."""
        return len(self) > 0 and self.applies is None

    def positive(self) -> "Gold":
        """Returns the rows whose class applies."""
        return self if self.applies is None else Gold(item=self.item[self.applies], label=self.label[self.applies])

    def known_classes(self, n_items: int, n_classes: int) -> Bool[np.ndarray, "items classes"]:
        """Returns a mask of the classes whose gold is known; an item has all or none, unless gold is by class."""
        known = np.zeros((n_items, n_classes), dtype=bool)
        if self.applies is None:
            known[self.item] = True
        else:
            known[self.item, self.label] = True
        return known

    def of_items(self, items: np.ndarray, n_items: int) -> "Gold":
        """Returns the gold of these items, renumbered 0, 1, … in the order given."""
        new_code = np.full(n_items, -1, dtype=np.int32)
        new_code[items] = np.arange(len(items), dtype=np.int32)
        codes = new_code[self.item]
        kept = codes >= 0
        order = np.lexsort((self.label[kept], codes[kept]))
        applies = None if self.applies is None else self.applies[kept][order]
        return Gold(item=codes[kept][order], label=self.label[kept][order], applies=applies)


@dataclass(frozen=True, kw_only=True, eq=False)
class TrueCrowd:
    """True confusion matrices of a simulated crowd: all annotators of a group share one.

    Attributes:
        group: int32 [annotators], the group of each annotator.
        confusion: float64 [groups, true, observed], rows sum to one.
    """

    group: Int32[np.ndarray, " annotators"]
    confusion: Float64[np.ndarray, "groups true observed"]

    def of(self, annotators: np.ndarray) -> Confusions:
        """Returns the matrices of these annotators [len(annotators), true, observed]."""
        return self.confusion[self.group[annotators]]


@dataclass(frozen=True, kw_only=True, eq=False)
class CrowdDataset:
    """A dataset: annotations, items, annotators, splits and gold.

    Attributes:
        scale: scale of the labels; `multilabel` annotations and gold have one row for each class that was chosen.
        annotations: the annotations of all splits. Without rows if a crowd is simulated later.
        images: image files of all items, if the folder names any; they affect results only through features computed
            from them.
        split: int8 [items], codes into SPLITS; all zero if the dataset has no split.
        gold: sparse; may cover none, some or all items.
        item_names, annotator_names, class_names: what the codes stand for.
        class_labels: the classes as written in the data's files, all distinct; defaults to `class_names`.
        features_from: how the items' features were computed from their texts or images, such as `text:tfidf 1`; empty
            if the features are data.
        crowd: the true confusion matrices if the crowd was simulated, else None.
        params: the dataset parameters that made it (`annotators: 100`).
        seed_dependent: whether each trial's seed draws a new crowd (`catalogue.Source.draw`).
        folder: the folder that it was read from; empty if it was read from none.
        unread_columns: columns of its files that are not read although their names suggest it, `items.csv: truth`.
        left_out: the rows of its files that had no label.
    """

    name: str
    title: str = ""
    scale: Scale = "nominal"
    annotations: Annotations
    items: Items
    images: Images | None = None
    split: Int8[np.ndarray, " items"]
    gold: Gold
    item_names: Sequence[str]
    annotator_names: Sequence[str]
    class_names: tuple[str, ...]
    class_labels: tuple[str, ...] = ()
    annotator_features: AnnotatorFeatures | None = None
    features_from: str = ""
    crowd: TrueCrowd | None = None
    params: Mapping[str, Scalar] = field(default_factory=dict)
    seed_dependent: bool = False
    folder: str = ""
    unread_columns: tuple[str, ...] = ()
    left_out: MissingLabels = field(default_factory=MissingLabels)

    def __post_init__(self) -> None:
        if len(self.class_labels) != len(self.class_names):
            object.__setattr__(self, "class_labels", self.class_names)
        unit = self.items.unit
        if unit is not None and ((np.diff(unit) == 0) & (np.diff(self.split) != 0)).any():
            raise DataError(f"dataset {self.name}: expected every unit (sentence) in one split, got one that is torn")

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    def items_of(self, split: str) -> Int32[np.ndarray, " picked"]:
        """Returns the codes of the items of one split, ascending."""
        return np.flatnonzero(self.split == SPLITS.index(split)).astype(np.int32)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the canonical bytes of everything that can affect a result; names of annotators are not included.

        For computed features, the hash covers how they were computed, since their last digits differ between machines.
        """
        digest = blake2b(digest_size=16)
        digest.update(self.annotations.fingerprint().encode())
        digest.update(repr((self.scale, self.class_names, sorted(self.params.items()))).encode())
        features = None if self.features_from else self.items.features
        digest.update(self.features_from.encode())
        parts: list[np.ndarray | None] = [self.split, self.gold.item, self.gold.label, features]
        parts += [self.items.unit, self.annotator_features]
        if self.crowd is not None:
            parts += [self.crowd.group, self.crowd.confusion]
        if self.gold.applies is not None:
            parts.append(self.gold.applies)
        for part in parts:
            digest.update(b"-" if part is None else repr((part.dtype.str, part.shape)).encode() + part.tobytes())
        for texts in (self.items.text, self.items.text_b):
            digest.update(b"-" if texts is None else "\0".join(texts).encode())
        return digest.hexdigest()


@dataclass(frozen=True, kw_only=True, eq=False)
class Validation:
    """Dev items that early stopping may score: with features and annotations, never with gold."""

    items: Items
    annotations: Annotations


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingData:
    """All the data that a model's `fit` sees; holds no gold.

    Attributes:
        annotations: annotations of the training items, renumbered 0 … n-1; annotator codes are the dataset's.
        items: the same n items.
        validation: dev items with their annotations, if the dataset has both.
        unlabelled: items of the split `unlabelled`, features and texts only.
    """

    annotations: Annotations
    items: Items
    scale: Scale = "nominal"
    validation: Validation | None = None
    unlabelled: Items | None = None
    annotator_features: AnnotatorFeatures | None = None

    @property
    def n_items(self) -> int:
        return self.annotations.n_items

    @property
    def n_annotators(self) -> int:
        return self.annotations.n_annotators

    @property
    def n_classes(self) -> int:
        return self.annotations.n_classes


@dataclass(frozen=True, kw_only=True, eq=False)
class EvaluationSet:
    """Items of one split with the reference that predictions for them are scored against.

    Attributes:
        items: what a predictor may see of the items. For `train` they are the training items.
        scored: positions in `items` of the items that have a reference.
        code: code of each scored item in the whole dataset.
        reference: one-hot (multi-label: 0/1) from gold, else the label distribution of the item's own annotations.
        known: the classes that the reference covers, if multi-label gold is known class by class; None if it covers
            all classes.
        answers: annotations of the scored dev and test items, for scores of single answers and for analyses beside
            gold; None for `train`.
    """

    items: Items
    scored: Int32[np.ndarray, " scored"]
    code: Int32[np.ndarray, " scored"]
    reference: Float64[np.ndarray, "scored classes"]
    has_gold: Bool[np.ndarray, " scored"]
    known: Bool[np.ndarray, "scored classes"] | None = None
    answers: Annotations | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class TrialData:
    """One dataset prepared for one seed: the data that the runner gives to models, and the data that it withholds.

    Attributes:
        training: what every model sees.
        code: int32 [items], code of each training item in the whole dataset.
        gold: gold of the training items, in their codes; given only to models that declare that they need it.
        evaluate: function that makes `evaluation`.
        heldout: annotations of the training items that were removed before the fit; None if none were.
    """

    training: TrainingData
    code: Int32[np.ndarray, " items"]
    gold: Gold
    evaluate: Callable[[], Mapping[str, EvaluationSet]]
    heldout: Annotations | None = None
    crowd: TrueCrowd | None = None
    class_names: tuple[str, ...] = ()

    @cached_property
    def evaluation(self) -> Mapping[str, EvaluationSet]:
        """Evaluation sets by split, made on first access: `train` always, `dev` and `test` if they have such items."""
        return self.evaluate()
