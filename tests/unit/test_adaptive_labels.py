"""Labels given where they are most informative: how many, to whom, nested, and worth it where items differ."""

from dataclasses import replace

import numpy as np
import pytest

from crowdsweep.data.adaptive import keep_most_informative
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import CrowdDataset, Gold, Items, NumberedNames
from crowdsweep.data.splits import prepare
from crowdsweep.errors import DataError


def crowd(n_items: int = 200, each: int = 7, seed: int = 0) -> tuple[Annotations, np.ndarray]:
    """Two classes; of every fourth item each answer is right with .6, of the others with .97."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(2, size=n_items)
    item = np.repeat(np.arange(n_items), each)
    easy = np.arange(n_items) % 4 > 0
    right = rng.random(len(item)) < np.where(easy, 0.97, 0.6)[item]
    annotator = np.concatenate([rng.permutation(20)[:each] for _ in range(n_items)])
    label = np.where(right, gold[item], 1 - gold[item])
    made = Annotations.of(item=item, annotator=annotator, label=label, n_items=n_items, n_annotators=20, n_classes=2)
    return made, gold


def kept(annotations: Annotations, labels: int, seed: int = 3) -> np.ndarray:
    return keep_most_informative(annotations, labels, np.random.default_rng(seed))


def test_so_many_labels_on_average_and_one_for_each_item() -> None:
    annotations, _ = crowd()
    for labels in (1, 2, 3):
        mask = kept(annotations, labels)
        assert mask.sum() == labels * 200
        assert np.bincount(annotations.item[mask], minlength=200).min() >= 1
    assert kept(annotations, 7).all()
    assert kept(annotations, 50).all()


def test_a_smaller_sample_lies_inside_a_larger_one_and_is_the_same_again() -> None:
    annotations, _ = crowd()
    small, large = kept(annotations, 2), kept(annotations, 4)
    assert not (small & ~large).any()
    assert np.array_equal(small, kept(annotations, 2))
    assert not np.array_equal(small, kept(annotations, 2, seed=4))


def test_items_on_which_annotators_differ_get_more() -> None:
    annotations, _ = crowd()
    given = np.bincount(annotations.item[kept(annotations, 3)], minlength=200)
    hard = np.arange(200) % 4 == 0
    assert given[hard].mean() > given[~hard].mean() + 0.7


@pytest.mark.long
def test_the_same_number_of_labels_is_worth_more_than_given_evenly() -> None:
    gains = []
    for seed in range(20):
        annotations, gold = crowd(400, seed=seed)
        rank = np.arange(len(annotations)) % 7
        even, adaptive = rank < 3, kept(annotations, 3)
        gains.append(_right(annotations, adaptive, gold) - _right(annotations, even, gold))
    assert np.mean(gains) > 0.004


def _right(annotations: Annotations, mask: np.ndarray, gold: np.ndarray) -> float:
    ones = np.bincount(annotations.item[mask], weights=annotations.label[mask], minlength=len(gold))
    share = ones / np.bincount(annotations.item[mask], minlength=len(gold))
    return float(np.where(share == 0.5, 0.5, (share > 0.5) == gold).mean())


def test_nobodys_item_has_no_label_and_fewer_labels_all_stay() -> None:
    annotations = Annotations.of(
        item=np.array([0, 0, 2]),
        annotator=np.array([0, 1, 0]),
        label=np.array([0, 1, 1]),
        n_items=4,
        n_annotators=3,
        n_classes=2,
    )
    assert kept(annotations, 1).sum() == 2
    assert kept(annotations, 2).all()


def dataset() -> CrowdDataset:
    annotations, gold = crowd(40, 5)
    return CrowdDataset(
        name="d",
        scale="nominal",
        annotations=annotations,
        items=Items(n_items=40),
        split=np.zeros(40, dtype=np.int8),
        gold=Gold(item=np.arange(40, dtype=np.int32), label=gold.astype(np.int32)),
        item_names=NumberedNames("item", 40),
        annotator_names=NumberedNames("annotator", 20),
        class_names=("0", "1"),
    )


def test_a_dataset_is_thinned_to_where_labels_tell_most() -> None:
    adaptive = prepare(dataset(), {"redundancy": 3, "allocation": "adaptive"}, 0).training.annotations
    even = prepare(dataset(), {"redundancy": 3}, 0).training.annotations
    assert len(adaptive) == len(even) == 120
    assert set(even.labels_per_item) == {3}
    assert len(set(adaptive.labels_per_item)) > 1
    same = prepare(dataset(), {"redundancy": 3, "allocation": "even"}, 0).training.annotations
    assert np.array_equal(same.annotator, even.annotator)


@pytest.mark.parametrize(
    ("base", "params", "message"),
    [
        (dataset(), {"allocation": "adaptive"}, "parameter allocation: expected redundancy with adaptive"),
        (
            dataset(),
            {"allocation": "best", "redundancy": 2},
            'parameter \'allocation\': expected one of "even", "adaptive"',
        ),
        (
            replace(dataset(), scale="multilabel"),
            {"allocation": "adaptive", "redundancy": 2},
            "parameter allocation: expected labels of one class.*got multi-label answers",
        ),
    ],
)
def test_where_it_cannot_be_simulated_it_says_so(base: CrowdDataset, params: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        prepare(base, params, 0)  # type: ignore[arg-type]
