"""Crowds of which everything is known, for the benchmarks of what `label` writes."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import CrowdDataset, Gold, Items


@dataclass(frozen=True, kw_only=True, eq=False)
class Simulated:
    """A crowd without gold, what is right, and how often each annotator is."""

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
    none = np.empty(0, np.int32)
    data = CrowdDataset(
        name="simulated",
        annotations=Annotations.of(
            item=item,
            annotator=annotator,
            label=label,
            n_items=n_items,
            n_annotators=n_annotators,
            n_classes=n_classes,
        ),
        items=Items(n_items=n_items),
        split=np.zeros(n_items, np.int8),
        gold=Gold(item=none, label=none),
        item_names=[f"i{code}" for code in range(n_items)],
        annotator_names=[f"a{code}" for code in range(n_annotators)],
        class_names=tuple(f"c{code}" for code in range(n_classes)),
    )
    return Simulated(data=data, truth=truth, accuracy=np.einsum("tkk->tk", matrices).mean(axis=1))
