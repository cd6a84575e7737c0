"""Crowds of which everything is known, for the benchmarks of what `label` writes."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import CrowdDataset, Gold, Items, Scale

KINDS = ("independent", "one class is rare", "hard items", "ordinal", "several classes", "alike")
"""Kinds of crowds of all sizes (`crowd_of_kind`)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulated:
    """A crowd without gold.

    Attributes:
        truth: right class of each item; of several classes bool [items, classes], whether each applies.
        accuracy: how often each annotator is right: in `crowds` on average over all items, else over their own.
    """

    data: CrowdDataset
    truth: np.ndarray
    accuracy: np.ndarray


def crowds(number: int) -> Iterator[Simulated]:
    """Yields crowds of 200 to 1,500 items, 10 to 100 annotators, 2 to 5 classes and 2 to 10 labels per item, whose
    errors are independent: one-coin annotators (one of them never wrong) and those with matrices of their own."""
    for seed in range(number):
        random = np.random.default_rng(seed)
        sizes = {"items": (200, 500, 1500), "annotators": (10, 30, 100), "classes": (2, 3, 5), "labels": (2, 3, 5, 10)}
        n_items, n_annotators, n_classes, labels = (int(random.choice(values)) for values in sizes.values())
        yield _crowd(random, n_items, n_annotators, n_classes, labels, one_coin=seed % 2 == 0)


def crowd_of_kind(kind: str, seed: int, *, spammers: float = 0.0) -> Simulated:
    """Returns a crowd of 20 to 2,000 items and 3 to 50 annotators, who give 3 to 10 labels per item.

    Annotators are right in 0.6 to 0.95 of the items, and their errors are spread evenly over the other classes, of
    which there are 1, 2 or 4. What else there is, by kind:

    - `one class is rare`: nine items of ten are of one class;
    - `hard items`: some items are hard for everybody, who then guesses;
    - `ordinal`: seven steps, seen with an error and a severity that are an annotator's own;
    - `several classes`: 3 to 6, each of which applies to 0.1 to 0.5 of the items, is found where it applies in 0.6 to
      0.95, and is seen where it does not in 0.02 to 0.2;
    - `alike`: 15 % of the items look to everybody as if they were of another class.

    Args:
        spammers: share of the annotators, rounded down, who answer without looking, each by a distribution of their
            own; they come first. Not where items have several classes.
    """
    random = np.random.default_rng([KINDS.index(kind), seed])
    n_items, n_annotators = int(random.choice((20, 60, 200, 600, 2000))), int(random.choice((3, 5, 10, 20, 50)))
    labels = min(int(random.choice((3, 5, 10))), n_annotators)
    item = np.repeat(np.arange(n_items), labels)
    annotator = np.concatenate([random.choice(n_annotators, labels, replace=False) for _ in range(n_items)])
    if kind == "several classes":
        return _of_several(random, item, annotator, n_items, n_annotators)
    n_classes = 7 if kind == "ordinal" else int(random.choice((2, 3, 5)))
    shares = np.full(n_classes, 1 / n_classes)
    if kind == "one class is rare":
        shares = np.append(0.9, np.full(n_classes - 1, 0.1 / (n_classes - 1)))
    truth = random.choice(n_classes, n_items, p=shares)
    if kind == "ordinal":
        severity, error = random.normal(0, 0.3, n_annotators), random.uniform(0.4, 1.0, n_annotators)
        seen = truth[item] + severity[annotator] + error[annotator] * random.normal(size=len(item))
        label = np.clip(np.rint(seen), 0, n_classes - 1).astype(np.int64)
    else:
        able = random.uniform(0.6, 0.95, n_annotators)
        known = random.beta(2, 0.7, n_items) if kind == "hard items" else np.ones(n_items)
        misleads = random.random(n_items) < (0.15 if kind == "alike" else 0.0)
        seems = np.where(misleads, (truth + 1) % n_classes, truth)
        knows = 1 / n_classes + known[item] * (able[annotator] - 1 / n_classes)
        wrong = (seems[item] + random.integers(1, n_classes, len(item))) % n_classes
        label = np.where(random.random(len(item)) < knows, seems[item], wrong)
    for spammer in range(int(spammers * n_annotators)):
        own = annotator == spammer
        label[own] = random.choice(n_classes, own.sum(), p=random.dirichlet(np.ones(n_classes)))
    right = np.bincount(annotator, label == truth[item], n_annotators)
    accuracy = right / np.bincount(annotator, minlength=n_annotators).clip(1)
    scale = "ordinal" if kind == "ordinal" else "nominal"
    return Simulated(
        data=_dataset(item, annotator, label, n_items, n_annotators, n_classes, scale), truth=truth, accuracy=accuracy
    )


def _of_several(
    random: np.random.Generator, item: np.ndarray, annotator: np.ndarray, n_items: int, n_annotators: int
) -> Simulated:
    n_classes = int(random.integers(3, 7))
    applies = random.random((n_items, n_classes)) < random.uniform(0.1, 0.5, n_classes)
    found = random.uniform(0.6, 0.95, (n_annotators, n_classes))
    seen = random.uniform(0.02, 0.2, (n_annotators, n_classes))
    chosen = random.random((len(item), n_classes)) < np.where(applies[item], found[annotator], seen[annotator])
    row, label = np.nonzero(chosen)
    none = np.flatnonzero(~chosen.any(axis=1))  # who chose no class answered all the same: a row of probability zero
    row = np.append(row, none)
    rows = Annotations.of(
        item=item[row],
        annotator=annotator[row],
        label=np.append(label, np.zeros(len(none), np.int64)),
        n_items=n_items,
        n_annotators=n_annotators,
        n_classes=n_classes,
        probability=np.append(np.ones(len(label)), np.zeros(len(none))),
    )
    share = applies.mean(axis=0)
    return Simulated(
        data=_named(rows, "multilabel"), truth=applies, accuracy=(share * found + (1 - share) * (1 - seen)).mean(axis=1)
    )


def _crowd(
    random: np.random.Generator, n_items: int, n_annotators: int, n_classes: int, labels: int, *, one_coin: bool
) -> Simulated:
    truth = random.integers(0, n_classes, n_items)
    item = np.repeat(np.arange(n_items), labels)
    annotator = np.concatenate([random.choice(n_annotators, labels, replace=False) for _ in range(n_items)])
    same = np.eye(n_classes)
    if one_coin:
        accuracy = np.append(1.0, random.uniform(0.55, 0.95, n_annotators - 1))[:, None, None]
        matrices = accuracy * same + (1.0 - accuracy) / (n_classes - 1) * (1.0 - same)
    else:
        matrices = np.stack([[random.dirichlet(1 + 8 * row) for row in same] for _ in range(n_annotators)])
    chances = matrices[annotator, truth[item]].cumsum(axis=1)
    label = np.minimum((random.random(len(item))[:, None] > chances).sum(axis=1), n_classes - 1)
    return Simulated(
        data=_dataset(item, annotator, label, n_items, n_annotators, n_classes),
        truth=truth,
        accuracy=np.einsum("tkk->tk", matrices).mean(axis=1),
    )


def _dataset(
    item: np.ndarray,
    annotator: np.ndarray,
    label: np.ndarray,
    n_items: int,
    n_annotators: int,
    n_classes: int,
    scale: Scale = "nominal",
) -> CrowdDataset:
    rows = Annotations.of(
        item=item, annotator=annotator, label=label, n_items=n_items, n_annotators=n_annotators, n_classes=n_classes
    )
    return _named(rows, scale)


def _named(rows: Annotations, scale: Scale) -> CrowdDataset:
    none = np.empty(0, np.int32)
    return CrowdDataset(
        name="simulated",
        annotations=rows,
        items=Items(n_items=rows.n_items),
        split=np.zeros(rows.n_items, np.int8),
        gold=Gold(item=none, label=none),
        item_names=[f"i{code}" for code in range(rows.n_items)],
        annotator_names=[f"a{code}" for code in range(rows.n_annotators)],
        class_names=tuple(f"c{code}" for code in range(rows.n_classes)),
        scale=scale,
    )
