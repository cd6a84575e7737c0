"""Simulated crowds with known confusion matrices, and Gaussian clouds of items for them to label.

This is the simulator of the Crowd Mixture Model (Step B of its experiments). Every annotator belongs to a group, each
group has a confusion matrix, and every (item, annotator) pair is labelled with probability
`labels_per_item / n_annotators`.
Time and memory grow with the number of labels, never with items × annotators.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64, Int8, Int32

from crowdsweep.arrays import ItemFeatures
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.catalogue import number_param, whole_param
from crowdsweep.data.dataset import CrowdDataset, Gold, Items, NumberedNames, Scalar, TrueCrowd
from crowdsweep.errors import DataError
from crowdsweep.seeds import SeedStream

# Above this share of answered pairs, one draw for every pair costs less than redrawing repeated pairs.
_DENSE_SHARE = 0.25


@dataclass(frozen=True, kw_only=True, eq=False)
class Gaussians:
    """Points around one centre per class: the first `n_train` are for training, the others for testing.

    Attributes:
        features: float32 [items, features], standardised by the mean and deviation of the training items.
        gold: int32 [items], the class whose cloud each item comes from.
        n_train: number of training items.
    """

    features: ItemFeatures
    gold: Int32[np.ndarray, " items"]
    n_train: int


def gaussians(
    *,
    centres: Float64[np.ndarray, "classes features"],
    deviation: int | float,
    items_per_class: int,
    train_share: float,
    seeds: SeedStream,
) -> Gaussians:
    """Draws spherical Gaussian clouds in random order, splits them into train and test, and standardises them.

    Args:
        centres: the mean of each class's cloud.
        deviation: standard deviation along every axis.
        train_share: share of the items that train, in (0, 1); rounded to whole items.
    """
    n_classes, n_features = centres.shape
    n_items = n_classes * items_per_class
    gold = np.repeat(np.arange(n_classes, dtype=np.int32), items_per_class)
    gold = seeds.numpy("order").permutation(gold)
    features = seeds.numpy("features").standard_normal((n_items, n_features))
    features *= deviation
    features += centres[gold]
    n_train = round(train_share * n_items)
    features -= features[:n_train].mean(axis=0)
    features /= features[:n_train].std(axis=0)
    return Gaussians(features=features.astype(np.float32), gold=gold, n_train=n_train)


def unanswered(
    *,
    name: str,
    title: str = "",
    features: ItemFeatures,
    gold: Int32[np.ndarray, " items"],
    split: Int8[np.ndarray, " items"],
    item_name: str = "item",
    class_names: Sequence[str],
    params: Mapping[str, Scalar],
) -> CrowdDataset:
    """Returns a dataset with gold and without answers: the base of a source whose crowd each trial's seed draws.

    Args:
        name, title, features, split, class_names: of the dataset.
        gold: class of each item.
        item_name: prefix of the items' names, before their number.
        params: dataset parameters; `annotators` and `labels_per_item` set the size of the crowd and of its answers.

    Raises:
        DataError: that many annotators cannot give that many labels per item.
    """
    n_items, n_annotators = len(gold), whole_param(params, "annotators", at_least=1)
    number_param(params, "labels_per_item", above=0, at_most=n_annotators)
    none = np.empty(0, dtype=np.int32)
    return CrowdDataset(
        name=name,
        title=title,
        annotations=Annotations.of(
            item=none,
            annotator=none,
            label=none,
            n_items=n_items,
            n_annotators=n_annotators,
            n_classes=len(class_names),
        ),
        items=Items(n_items=n_items, features=features),
        split=split,
        gold=Gold(item=np.arange(n_items, dtype=np.int32), label=gold),
        item_names=NumberedNames(item_name, n_items),
        annotator_names=NumberedNames("annotator", n_annotators),
        class_names=tuple(class_names),
        params=params,
        seed_dependent=True,
    )


def answered(
    base: CrowdDataset,
    items: Int32[np.ndarray, " answered"],
    *,
    group_probs: Float64[np.ndarray, " groups"],
    confusion: Float64[np.ndarray, "groups true observed"],
    seeds: SeedStream,
) -> CrowdDataset:
    """Returns a dataset made by `unanswered` with the labels that a crowd gives to these items (`simulate_crowd`)."""
    annotations, crowd = simulate_crowd(
        base.gold.label[items],
        items=items,
        n_items=base.items.n_items,
        n_annotators=base.annotations.n_annotators,
        labels_per_item=number_param(base.params, "labels_per_item"),
        group_probs=group_probs,
        confusion=confusion,
        seeds=seeds,
    )
    return replace(base, annotations=annotations, crowd=crowd)


def simulate_crowd(
    gold: Int32[np.ndarray, " answered"],
    *,
    items: Int32[np.ndarray, " answered"] | None = None,
    n_items: int | None = None,
    n_annotators: int,
    labels_per_item: int | float,
    group_probs: Float64[np.ndarray, " groups"],
    confusion: Float64[np.ndarray, "groups true observed"],
    seeds: SeedStream,
) -> tuple[Annotations, TrueCrowd]:
    """Simulates a crowd's answers to items. O(labels + annotators).

    The number of labels of an item is Binomial(n_annotators, labels_per_item / n_annotators), at least one, and an
    item's annotators are distinct. Annotators without an item still count in the declared size.

    Args:
        gold: true class of each item that is answered.
        items: codes of those items; 0, 1, … by default.
        n_items: declared number of items; by default the number of answered items.
        n_annotators: declared size of the crowd.
        labels_per_item: mean number of labels per item, above 0 and at most `n_annotators`.
        confusion: [groups, true, observed], each row proportional to the probabilities of the answers.
        seeds: source of randomness; groups, numbers of labels, annotators and answers have separate streams.

    Raises:
        DataError: the crowd cannot give that many labels.
    """
    if n_annotators < 1 or not 0 < labels_per_item <= n_annotators:
        raise DataError(
            f"simulated crowd: expected labels_per_item above 0 and at most annotators ({n_annotators}), "
            f"got {labels_per_item}; ask for fewer labels, or for more annotators"
        )
    confusion = confusion / confusion.sum(axis=2, keepdims=True)  # published matrices are rounded
    cumulative = np.cumsum(group_probs / group_probs.sum())
    draws = seeds.numpy("groups").random(n_annotators)
    group = np.minimum(np.searchsorted(cumulative, draws, side="right"), len(group_probs) - 1).astype(np.int32)
    answered, annotator = _assign(len(gold), n_annotators, labels_per_item, seeds)
    label = _answer(gold[answered], group[annotator], confusion, seeds.numpy("labels"))
    annotations = Annotations.of(
        item=answered if items is None else items[answered],
        annotator=annotator,
        label=label,
        n_items=len(gold) if n_items is None else n_items,
        n_annotators=n_annotators,
        n_classes=confusion.shape[2],
    )
    return annotations, TrueCrowd(group=group, confusion=confusion)


def _assign(
    n_items: int, n_annotators: int, labels_per_item: int | float, seeds: SeedStream
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the items and annotators of the answered pairs, sorted, int32."""
    share = labels_per_item / n_annotators
    picks = seeds.numpy("annotators")
    if share > _DENSE_SHARE:
        answered = picks.random((n_items, n_annotators), dtype=np.float32) < share
        unanswered = np.flatnonzero(~answered.any(axis=1))
        answered[unanswered, picks.integers(n_annotators, size=len(unanswered))] = True
        item, annotator = np.nonzero(answered)
        return item.astype(np.int32), annotator.astype(np.int32)
    sizes = np.maximum(seeds.numpy("sizes").binomial(n_annotators, share, size=n_items), 1)
    item = np.repeat(np.arange(n_items, dtype=np.int32), sizes)
    annotator = picks.integers(n_annotators, size=len(item), dtype=np.int32)
    _redraw_repeats(item, annotator, n_items, n_annotators, picks)
    keys = item.astype(np.int64) * n_annotators + annotator
    keys.sort(kind="stable")
    return item, (keys % n_annotators).astype(np.int32)


def _redraw_repeats(
    item: np.ndarray, annotator: np.ndarray, n_items: int, n_annotators: int, picks: np.random.Generator
) -> None:
    """Redraws annotators, in place, until no item has one twice; every set of annotators stays equally likely."""
    rows = np.arange(len(item))
    while len(rows):
        keys = item[rows].astype(np.int64) * n_annotators + annotator[rows]
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        repeated = rows[order[1:][ordered[1:] == ordered[:-1]]]
        annotator[repeated] = picks.integers(n_annotators, size=len(repeated), dtype=np.int32)
        touched = np.zeros(n_items, dtype=bool)
        touched[item[repeated]] = True
        rows = rows[touched[item[rows]]]


def _answer(
    gold: np.ndarray,
    group: np.ndarray,
    confusion: Float64[np.ndarray, "groups true observed"],
    draws: np.random.Generator,
) -> np.ndarray:
    """Returns a label for each row, int32, drawn from the row of its true class in its group's confusion matrix."""
    cumulative = np.cumsum(confusion, axis=2)
    uniform = draws.random(len(gold))
    label = np.zeros(len(gold), dtype=np.int32)
    for observed in range(confusion.shape[2] - 1):
        label += uniform >= cumulative[group, gold, observed]
    return label
