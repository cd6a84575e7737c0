"""Multi-label answers as sets: shares, empty answers, repeated ones, and counts against loops."""

import numpy as np
import pytest

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import annotations_of, choice_counts, choices_of


def rows_of(rows: list[tuple[int, int, int]], *, probability: list[float] | None = None, **sizes: int) -> Annotations:
    codes = np.array(rows)
    extra = None if probability is None else np.array(probability)
    return Annotations.of(item=codes[:, 0], annotator=codes[:, 1], label=codes[:, 2], probability=extra, **sizes)


def test_shares_are_of_answers_and_an_answer_given_twice_is_one() -> None:
    """Item 0: annotator 0 chose classes 0 and 2, annotator 1 chose 2, annotator 2 chose 2 in two answers."""
    rows = rows_of([(0, 0, 0), (0, 0, 2), (0, 1, 2), (0, 2, 2), (0, 2, 2)], n_items=2, n_annotators=3, n_classes=3)
    assert choices_of(rows).shares().tolist() == [[1 / 3, 0, 1], [0.5, 0.5, 0.5]]


def test_an_answer_that_chose_nothing_is_an_answer() -> None:
    chosen = np.array([[True, False, True], [False, False, False], [False, True, False]])
    rows = annotations_of(chosen, item=np.array([0, 0, 1]), annotator=np.array([0, 1, 1]), n_items=2, n_annotators=2)
    choices = choices_of(rows)
    assert choices.item.tolist() == [0, 0, 1]
    assert choices.annotator.tolist() == [0, 1, 1]
    assert choices.chosen.toarray().tolist() == chosen.astype(float).tolist()
    assert choices.shares().tolist() == [[0.5, 0, 0.5], [0, 1, 0]]
    some = annotations_of(chosen[[0, 2]], item=np.array([0, 1]), annotator=np.array([0, 1]), n_items=2, n_annotators=2)
    assert some.probability is None


def test_the_surest_row_of_a_class_counts_and_the_largest_weight_of_an_answer() -> None:
    rows = Annotations.of(
        item=np.zeros(4, dtype=int),
        annotator=np.array([0, 0, 0, 1]),
        label=np.array([1, 1, 0, 1]),
        probability=np.array([0.25, 0.75, 0.0, 0.5]),
        weight=np.array([1.0, 2.0, 3.0, 1.0]),
        n_items=1,
        n_annotators=2,
        n_classes=2,
    )
    choices = choices_of(rows)
    assert choices.weight.tolist() == [3.0, 1.0]
    assert choices.chosen.toarray().tolist() == [[0.0, 0.75], [0.0, 0.5]]
    assert choices.shares() == pytest.approx(np.array([[0.0, (3 * 0.75 + 0.5) / 4]]))


def test_no_answers_at_all() -> None:
    none = np.empty(0, dtype=np.int32)
    rows = Annotations.of(item=none, annotator=none, label=none, n_items=2, n_annotators=3, n_classes=2)
    assert choices_of(rows).shares().tolist() == [[0.5, 0.5]] * 2
    counts = choice_counts(choices_of(rows), np.full((2, 2), 0.5))
    assert not counts.of(np.arange(3)).any()
    assert not counts.pooled().any()


def test_counts_are_those_of_loops() -> None:
    random = np.random.default_rng(0)
    n_items, n_annotators, n_classes = 7, 5, 3
    pairs = np.array([(i, t) for i in range(n_items) for t in range(n_annotators) if t != 3 and random.random() < 0.7])
    codes = [(i, t, k) for i, t in pairs.tolist() for k in range(n_classes) if random.random() < 0.6]
    sure = random.random(len(codes)).round(2).tolist()
    rows = rows_of(codes, probability=sure, n_items=n_items, n_annotators=n_annotators, n_classes=n_classes)
    probs = random.random((n_items, n_classes))
    expected = np.zeros((n_annotators, n_classes, 2, 2))
    certainty = dict(zip(codes, np.float32(sure).astype(float).tolist(), strict=True))
    for item, annotator in {(i, t) for i, t, _ in codes}:
        for k in range(n_classes):
            chose = certainty.get((item, annotator, k), 0.0)
            for applies, mass in ((0, 1 - probs[item, k]), (1, probs[item, k])):
                expected[annotator, k, applies] += mass * np.array([1 - chose, chose])
    counts = choice_counts(choices_of(rows), probs)
    np.testing.assert_allclose(counts.of(np.arange(n_annotators)), expected, atol=1e-12)
    np.testing.assert_allclose(counts.of(np.array([4, 3, 0])), expected[[4, 3, 0]], atol=1e-12)
    np.testing.assert_allclose(counts.pooled(), expected.sum(axis=0), atol=1e-12)


def test_weights_weigh_what_an_answer_counts() -> None:
    rows = Annotations.of(
        item=np.array([0, 1]),
        annotator=np.array([0, 0]),
        label=np.array([0, 0]),
        weight=np.array([2.0, 3.0]),
        n_items=2,
        n_annotators=1,
        n_classes=1,
    )
    counts = choice_counts(choices_of(rows), np.array([[1.0], [0.0]]))
    assert counts.of(np.array([0])).tolist() == [[[[0.0, 3.0], [0.0, 2.0]]]]
