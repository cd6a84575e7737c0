"""The records that hold a dataset, and what of it each side may see.

`CrowdDataset` is everything that is known. `TrialData`, made from it for one seed (`splits.prepare`), parts it into
`TrainingData`, which is all that a model's `fit` sees and which has no gold, and evaluation sets, which only the
runner sees.
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
"""Dataset parameters by which a sweep trains on less than everything."""


@dataclass(frozen=True)
class NumberedNames(Sequence[str]):
    """The names `prefix0`, `prefix1`, …, made when they are asked for: a million of them cost nothing."""

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
    """What is known of n items besides their labels. Every field that is present has n rows.

    Attributes:
        n_items: how many.
        features: float32 [items, features].
        text, text_b: a text (and a second one, for pairs) for each item.
        unit: int32 [items], ascending: the code of the unit (the sentence of a token) that each item stands in. A unit
            is what splits, hold-out, thinning and minibatches keep whole, and its items are in order. None: every item
            is a unit of its own.
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
        """Returns what is known of these items, in the order given."""
        return Items(
            n_items=len(items),
            features=None if self.features is None else self.features[items],
            text=None if self.text is None else [self.text[int(i)] for i in items],
            text_b=None if self.text_b is None else [self.text_b[int(i)] for i in items],
            unit=None if self.unit is None else self.unit[items],
        )

    def whole_units(self, picked: Bool[np.ndarray, " items"]) -> Bool[np.ndarray, " items"]:
        """Returns a mask of all items of those units of which at least one item is picked."""
        if self.unit is None or not self.n_items:
            return picked
        touched = np.zeros(int(self.unit[-1]) + 1, dtype=bool)
        touched[self.unit[picked]] = True
        return touched[self.unit]


@dataclass(frozen=True, kw_only=True, eq=False)
class Images:
    """The image files of n items.

    Attributes:
        folder: that the names are relative to.
        names: the file of each item; empty where it has none.
        rows: the row of each item in the items file; 0 for items that are not in it.
        listed_in: the items file.
    """

    folder: Path
    names: Sequence[str]
    rows: Sequence[int]
    listed_in: Path


@dataclass(frozen=True, kw_only=True, eq=False)
class Gold:
    """Trusted answers, sparse: rows (item, label), ascending.

    Multi-label items have a row for each class that applies, others one; an item that no class applies to cannot be
    told from one without gold. Where multi-label gold is known class by class, a row says whether its class applies,
    and of an item's other classes nothing is known.

    Attributes:
        item, label: int32 [gold].
        applies: bool [gold], of multi-label gold that is known class by class; None elsewhere, where all rows do.
    """

    item: Int32[np.ndarray, " gold"]
    label: Int32[np.ndarray, " gold"]
    applies: Bool[np.ndarray, " gold"] | None = None

    def __len__(self) -> int:
        return len(self.item)

    @property
    def counts_answers(self) -> bool:
        """Whether annotators' matrices can be counted against it: not where it leaves classes of its items open."""
        return len(self) > 0 and self.applies is None

    def positive(self) -> "Gold":
        """Returns the rows of classes that apply."""
        return self if self.applies is None else Gold(item=self.item[self.applies], label=self.label[self.applies])

    def known_classes(self, n_items: int, n_classes: int) -> Bool[np.ndarray, "items classes"]:
        """Returns for which classes it is known whether they apply: all or none of an item, unless gold is by class."""
        known = np.zeros((n_items, n_classes), dtype=bool)
        if self.applies is None:
            known[self.item] = True
        else:
            known[self.item, self.label] = True
        return known

    def of_items(self, items: np.ndarray, n_items: int) -> "Gold":
        """Returns the gold of these items, which become items 0, 1, … in the order given."""
        new_code = np.full(n_items, -1, dtype=np.int32)
        new_code[items] = np.arange(len(items), dtype=np.int32)
        codes = new_code[self.item]
        kept = codes >= 0
        order = np.lexsort((self.label[kept], codes[kept]))
        applies = None if self.applies is None else self.applies[kept][order]
        return Gold(item=codes[kept][order], label=self.label[kept][order], applies=applies)


@dataclass(frozen=True, kw_only=True, eq=False)
class TrueCrowd:
    """How a simulated crowd really answers: annotators share the confusion matrices of their groups.

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
    """A dataset: annotations, what is known of the items and annotators, splits and gold.

    Attributes:
        name, title: how it is called.
        scale: `multilabel` annotations and gold have one row for each class that was chosen.
        annotations: all of them, whatever the split. May be empty of rows where a crowd is simulated later.
        items: features and texts of all items.
        images: of all items, where its folder names some; they decide a result by the features computed of them alone.
        split: int8 [items], codes into SPLITS; all zero where the dataset has no split.
        gold: sparse; may cover none, some or all items.
        item_names, annotator_names, class_names: what the codes stand for.
        class_labels: how the classes stand in the data's files, all different; as `class_names` where it is left out.
        annotator_features: float32 [annotators, annotator_features].
        features_from: what computed the items' features of what else is known of them, `text:tfidf 1`; empty where
            they are data.
        crowd: the true confusion matrices where the crowd was simulated.
        params: the dataset parameters that made it (`annotators: 100`).
        seed_dependent: whether the crowd is drawn anew from each trial's seed (`catalogue.Source.draw`).
        folder: that it was read from; empty where it was none.
        unread_columns: columns of its files that are not read and look as if they were meant, `items.csv: truth`.
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
        """Hash of the canonical bytes of everything that can decide a result; names of annotators are not in it.
        Computed features enter by how they are computed, as their last digits differ between machines.
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
    """Dev items with features and annotations, never gold: what early stopping may score."""

    items: Items
    annotations: Annotations


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingData:
    """All that `fit` sees. There is no gold in it.

    Attributes:
        annotations: of the training items, which are items 0 … n-1 here; annotator codes are the dataset's.
        items: the same n items.
        scale: of the labels.
        validation: dev items with their annotations, where the dataset has both.
        unlabelled: items of the split `unlabelled`, features and texts only.
        annotator_features: float32 [annotators, annotator_features], where the dataset has them.
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
        items: what a predictor may see of them. For `train` they are the training items.
        scored: int32 [scored], which of these items have a reference.
        code: int32 [scored], the number of each in the whole dataset.
        reference: float64 [scored, classes]: one-hot (multi-label: 0/1) from gold, else the label distribution of the
            item's own annotations.
        has_gold: bool [scored].
        known: bool [scored, classes], the classes that the reference speaks of, where multi-label gold is known class
            by class; None where it speaks of all.
        answers: the scored items' own annotations, of dev and test items: what single answers are scored by, and what
            analyses look at beside gold.
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
    """One dataset made ready for one seed: what the runner hands out and what it keeps back.

    Attributes:
        training: what every model sees.
        code: int32 [items], the number of each training item in the whole dataset.
        gold: of the training items, in their codes; handed only to models that declare that they need it.
        evaluate: makes `evaluation`.
        heldout: annotations of the training items that were taken out before the fit; None where none were.
        crowd: the true confusion matrices of a simulated crowd.
        class_names: what the class codes stand for.
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
        """By split, `train` always, `dev` and `test` where the dataset has such items; made when first asked for."""
        return self.evaluate()
