"""Small training data for the contract checks: real in structure, fast to fit."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdsweep.arrays import read_only
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Gold, Items, TrainingData, Validation
from crowdsweep.seeds import SeedStream

N_FEATURES = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class SmallData:
    """Training data, and the gold behind them."""

    training: TrainingData
    gold: Gold


def small_data(
    seed: int = 0, *, n_items: int = 24, n_annotators: int = 6, n_classes: int = 3, labels_per_item: int = 3
) -> SmallData:
    """Draws items around one centre a class and annotators who are right four times in five.

    Everything that a model may ask for is there: features, texts, dev items with annotations, unlabelled items. The
    feature arrays cannot be written to.
    """
    random = SeedStream(seed).numpy("small data")
    gold = np.arange(n_items + 12) % n_classes
    centres = 2.0 * np.eye(n_classes, N_FEATURES)
    features = (centres[gold] + 0.5 * random.standard_normal((len(gold), N_FEATURES))).astype(np.float32)
    answers = [random.permutation(n_annotators)[:labels_per_item] for _ in range(n_items + 6)]
    item = np.repeat(np.arange(n_items + 6), [len(answer) for answer in answers])
    annotator = np.concatenate(answers)
    right = random.random(len(item)) < 0.8
    label = np.where(right, gold[item], random.integers(0, n_classes, len(item)))
    everything = Annotations.of(
        item=item,
        annotator=annotator,
        label=label,
        n_items=n_items + 6,
        n_annotators=n_annotators,
        n_classes=n_classes,
    )
    train, dev = np.arange(n_items), np.arange(n_items, n_items + 6)
    training = TrainingData(
        annotations=everything.of_items(train),
        items=_items(features[train]),
        validation=Validation(items=_items(features[dev]), annotations=everything.of_items(dev)),
        unlabelled=_items(features[n_items + 6 :]),
    )
    return SmallData(training=training, gold=_gold(gold[train]))


def from_rows(rows: list[tuple[int, int, int]], *, n_items: int, n_annotators: int, n_classes: int = 3) -> SmallData:
    """Builds training data from rows (item, annotator, label); gold is class 0 everywhere."""
    codes = np.array(rows, dtype=np.int64).reshape(-1, 3)
    annotations = Annotations.of(
        item=codes[:, 0],
        annotator=codes[:, 1],
        label=codes[:, 2],
        n_items=n_items,
        n_annotators=n_annotators,
        n_classes=n_classes,
    )
    features = SeedStream(n_items).numpy("rows").standard_normal((n_items, N_FEATURES)).astype(np.float32)
    training = TrainingData(annotations=annotations, items=_items(features))
    return SmallData(training=training, gold=_gold(np.zeros(n_items, dtype=np.int64)))


def unanimous_data() -> SmallData:
    """Builds twelve items of three classes that lie apart, and annotators who say of each what its class is: twenty, so
    that the answers outweigh the priors of a model with many parameters."""
    label = np.arange(12) % 3
    rows = [(item, annotator, int(label[item])) for item in range(12) for annotator in range(20)]
    data = from_rows(rows, n_items=12, n_annotators=20)
    features = np.eye(3, N_FEATURES, dtype=np.float32)[label]
    return SmallData(training=replace(data.training, items=_items(features)), gold=_gold(label))


def multilabel_data() -> SmallData:
    """Draws answers that choose one class or two; every item's gold is its class and the next."""
    nominal = small_data(3)
    first = nominal.training.annotations
    also = np.flatnonzero(np.arange(len(first)) % 2 == 0)
    annotations = _changed(
        first,
        item=np.concatenate([first.item, first.item[also]]),
        annotator=np.concatenate([first.annotator, first.annotator[also]]),
        label=np.concatenate([first.label, (first.label[also] + 1) % first.n_classes]),
    )
    training = replace(nominal.training, annotations=annotations, scale="multilabel", validation=None)
    return SmallData(training=training, gold=nominal.gold)


def relabelled(
    data: SmallData, *, annotators: np.ndarray | None = None, classes: np.ndarray | None = None
) -> SmallData:
    """Returns the same data with annotator or class codes exchanged: code c becomes `annotators[c]`, `classes[c]`."""
    training = data.training
    validation = training.validation
    if validation is not None:
        renamed = _relabelled(validation.annotations, annotators, classes)
        validation = Validation(items=validation.items, annotations=renamed)
    annotations = _relabelled(training.annotations, annotators, classes)
    gold = data.gold if classes is None else _gold(classes[data.gold.label])
    return SmallData(training=replace(training, annotations=annotations, validation=validation), gold=gold)


def renumbered_items(data: SmallData, codes: np.ndarray) -> SmallData:
    """Returns the same data with other item codes: item i becomes `codes[i]`."""
    training = data.training
    annotations = _changed(training.annotations, item=codes[training.annotations.item])
    labels = np.empty_like(data.gold.label)
    labels[codes] = data.gold.label
    items = training.items.take(np.argsort(codes))
    return SmallData(training=replace(training, annotations=annotations, items=items), gold=_gold(labels))


def with_probability(rows: Annotations, certain: float) -> Annotations:
    """Returns the same rows, each with this probability."""
    return _changed(rows, probability=np.full(len(rows), certain, dtype=np.float32))


def _relabelled(rows: Annotations, annotators: np.ndarray | None, classes: np.ndarray | None) -> Annotations:
    return _changed(
        rows,
        annotator=rows.annotator if annotators is None else annotators[rows.annotator],
        label=rows.label if classes is None else classes[rows.label],
    )


def _changed(rows: Annotations, **columns: Any) -> Annotations:
    """Returns the same rows but for the columns given."""
    names = ("item", "annotator", "label", "n_items", "n_annotators", "n_classes")
    given: dict[str, Any] = {name: getattr(rows, name) for name in names}
    return Annotations.of(**{**given, **columns})


def _items(features: np.ndarray) -> Items:
    texts = [f"item {number} says {'yes' if row[0] > 0 else 'no'}" for number, row in enumerate(features)]
    return Items(n_items=len(features), features=read_only(features), text=texts)


def _gold(label: np.ndarray) -> Gold:
    return Gold(item=np.arange(len(label), dtype=np.int32), label=label.astype(np.int32))


# Legal data of every odd kind.
ODD_DATA: Mapping[str, SmallData] = {
    "one item": from_rows([(0, 0, 1), (0, 1, 1), (0, 2, 0)], n_items=1, n_annotators=3),
    "one annotator": from_rows([(item, 0, item % 3) for item in range(6)], n_items=6, n_annotators=1),
    "one annotation": from_rows([(0, 0, 2)], n_items=1, n_annotators=1),
    "one class used": from_rows([(item, item % 2, 1) for item in range(6)], n_items=6, n_annotators=2),
    "two classes, one unused": from_rows(
        [(item, annotator, item % 2) for item in range(6) for annotator in range(3)], n_items=6, n_annotators=3
    ),
    "repeated pair": from_rows(
        [(0, 0, 1), (0, 0, 1), (0, 0, 2), (1, 0, 1), (1, 1, 0), (2, 1, 2)], n_items=3, n_annotators=2
    ),
    "idle annotators": from_rows([(item, 1 + item % 2, item % 3) for item in range(6)], n_items=6, n_annotators=5),
    "annotator with one answer": from_rows(
        [(item, annotator, item % 3) for item in range(6) for annotator in range(2)] + [(0, 2, 1)],
        n_items=6,
        n_annotators=3,
    ),
    "item without answers": from_rows([(item, item % 3, item % 3) for item in range(5)], n_items=7, n_annotators=3),
}
