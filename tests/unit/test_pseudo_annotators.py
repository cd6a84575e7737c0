"""A real crowd split into more annotators: the same answers, under more names."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdsweep.data import catalogue
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import CrowdDataset, Gold, Items, NumberedNames
from crowdsweep.data.pseudo_annotators import with_annotators
from crowdsweep.data.splits import prepare, seed_matters
from crowdsweep.errors import DataError


def crowd(sizes: list[int], repeats: int = 1) -> CrowdDataset:
    """Annotator j answers the first `sizes[j]` items, each `repeats` times; one annotator more answers nothing."""
    pairs = [(item, who) for who, size in enumerate(sizes) for item in range(size) for _ in range(repeats)]
    item, annotator = (np.array(column, dtype=np.int32) for column in zip(*pairs, strict=True))
    n_items = max(sizes)
    return CrowdDataset(
        name="small",
        annotations=Annotations.of(
            item=item,
            annotator=annotator,
            label=(item + annotator) % 2,
            n_items=n_items,
            n_annotators=len(sizes) + 1,
            n_classes=2,
        ),
        items=Items(n_items=n_items),
        split=np.zeros(n_items, dtype=np.int8),
        gold=Gold(item=np.empty(0, dtype=np.int32), label=np.empty(0, dtype=np.int32)),
        item_names=NumberedNames("item", n_items),
        annotator_names=NumberedNames("who", len(sizes) + 1),
        class_names=("no", "yes"),
        annotator_features=np.arange(len(sizes) + 1, dtype=np.float32)[:, None],
    )


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6).flatmap(
        lambda sizes: st.tuples(st.just(sizes), st.integers(len(sizes), sum(sizes)), st.integers(0, 3))
    )
)
def test_answers_stay_and_each_part_is_one_annotators(drawn: tuple[list[int], int, int]) -> None:
    sizes, number, seed = drawn
    base = crowd(sizes)
    split = with_annotators(base, number, np.random.default_rng(seed))
    rows, before = split.annotations, base.annotations
    np.testing.assert_array_equal(rows.item, before.item)
    np.testing.assert_array_equal(rows.label, before.label)
    assert rows.n_annotators == number == len(split.annotator_names)
    assert (rows.labels_per_annotator > 0).all()
    assert split.annotator_features is not None
    np.testing.assert_array_equal(split.annotator_features[rows.annotator, 0], before.annotator)
    names = [split.annotator_names[who].split(" (")[0] for who in rows.annotator.tolist()]
    assert names == [base.annotator_names[who] for who in before.annotator.tolist()]
    again = Annotations.of(
        item=rows.item,
        annotator=rows.annotator,
        label=rows.label,
        n_items=rows.n_items,
        n_annotators=number,
        n_classes=2,
    )
    np.testing.assert_array_equal(again.annotator, rows.annotator, err_msg="the rows are still in order")


def test_whose_parts_are_the_largest_is_split_next() -> None:
    loads = [
        with_annotators(crowd([8, 4, 1]), number, np.random.default_rng(0)).annotations.labels_per_annotator.tolist()
        for number in (3, 4, 5, 6, 13)
    ]
    assert [sorted(one, reverse=True) for one in loads] == [
        [8, 4, 1],
        [4, 4, 4, 1],
        [4, 3, 3, 2, 1],
        [3, 3, 2, 2, 2, 1],
        [1] * 13,
    ]


def test_answers_to_one_item_stay_together() -> None:
    rows = with_annotators(crowd([5, 5], repeats=3), 10, np.random.default_rng(0)).annotations
    assert len(rows.pair_starts) == 10
    np.testing.assert_array_equal(rows.labels_per_annotator, 3)


@pytest.mark.parametrize("number", [2, 14])
def test_fewer_than_there_are_or_more_than_answers_is_refused(number: int) -> None:
    with pytest.raises(DataError, match=rf"expected 3 \(as many as have answered\) to 13 .*; got {number}"):
        with_annotators(crowd([8, 4, 1]), number, np.random.default_rng(0))


def test_a_trial_splits_by_its_seed_and_scores_what_it_scored() -> None:
    base, params = catalogue.load("anesthesia", {"annotators": 40}), {"annotators": 40}
    one, same, other = (prepare(base, params, seed).training.annotations for seed in (0, 0, 1))
    assert one.n_annotators == 40
    np.testing.assert_array_equal(one.annotator, same.annotator)
    assert not np.array_equal(one.annotator, other.annotator)
    assert seed_matters(base, params)
    assert not seed_matters(base, {})
    assert prepare(catalogue.load("gaussians", {"annotators": 40}), params, 0).training.annotations.n_annotators == 40
    with pytest.raises(DataError, match="leave annotators out"):
        catalogue.load("anesthesia", {"annotators": 40, "scenario": "global"})
    votes = replace(base, annotations=base.annotations.anonymised())
    with pytest.raises(DataError, match="these votes are anonymous"):
        prepare(votes, params, 0)


def test_as_many_as_answers_is_what_scenario_global_is() -> None:
    base = crowd([8, 4, 1])
    split = prepare(base, {"annotators": 13}, 0).training.annotations
    forgotten = prepare(base, {"scenario": "global"}, 0).training.annotations
    assert split.n_annotators == forgotten.n_annotators == 13
    np.testing.assert_array_equal(np.sort(split.item), np.sort(forgotten.item))
    np.testing.assert_array_equal(split.counts.toarray(), forgotten.counts.toarray())
