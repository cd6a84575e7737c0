"""Span-F1 against a reading of the rules token by token, and examples worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdsweep.metrics.spans import are_span_tags, span_f1

TAGS = ("B-loc", "B-per", "I-loc", "I-per", "O")


def spans_of(tags: list[str]) -> set[tuple[int, int, str]]:
    """The spans of one sentence (first, last, type), tag by tag as conlleval decides where one ends and one starts."""
    found: set[tuple[int, int, str]] = set()
    begun: int | None = None
    before, type_before = "O", ""
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, type_ = tag.partition("-")
        ends = before != "O" and (prefix in ("B", "O") or type_ != type_before)
        starts = prefix == "B" or (prefix == "I" and (before == "O" or type_ != type_before))
        if ends:
            assert begun is not None
            found.add((begun, place - 1, type_before))
        if starts:
            begun = place
        before, type_before = prefix, type_
    return found


def naive_f1(reference: list[list[str]], predicted: list[list[str]]) -> float:
    found = wanted = given_ = 0
    for gold, guess in zip(reference, predicted, strict=True):
        found += len(spans_of(gold) & spans_of(guess))
        wanted, given_ = wanted + len(spans_of(gold)), given_ + len(spans_of(guess))
    precision, recall = found / given_ if given_ else 0.0, found / wanted if wanted else 0.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def f1(reference: list[list[str]], predicted: list[list[str]], names: tuple[str, ...] = TAGS) -> float:
    rows = [np.eye(len(names))[[names.index(tag) for tags in side for tag in tags]] for side in (reference, predicted)]
    unit = np.repeat(np.arange(len(reference), dtype=np.int32), [len(tags) for tags in reference])
    return span_f1(rows[0], rows[1], unit, names)


@pytest.mark.parametrize(
    ("reference", "predicted", "expected"),
    [
        (["B-per I-per O"], ["B-per I-per O"], 1.0),
        (["B-per I-per O"], ["B-per O O"], 0.0),  # too short
        (["B-per I-per O"], ["B-loc I-loc O"], 0.0),  # another type
        (["B-per I-per"], ["I-per I-per"], 1.0),  # IOB1: I begins where nothing of its type goes on
        (["B-per B-per"], ["B-per I-per"], 0.0),  # two against one
        (["B-per I-loc"], ["B-per B-loc"], 1.0),  # another type begins a span of its own
        (["B-per", "I-per"], ["B-per", "B-per"], 1.0),  # no span crosses into the next sentence
        (["B-per O B-loc O"], ["B-per O O B-loc"], 0.5),
        (["O B-per I-per O B-loc"], ["O B-per I-per O O"], 2 / 3),
        (["O O"], ["O O"], 0.0),
        (["O O"], ["B-per O"], 0.0),
    ],
)
def test_by_hand(reference: list[str], predicted: list[str], expected: float) -> None:
    sides = [[tags.split() for tags in side] for side in (reference, predicted)]
    assert f1(*sides) == pytest.approx(expected)
    assert naive_f1(*sides) == pytest.approx(expected)


sentences = st.lists(st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), min_size=1, max_size=6))


@given(sentences.filter(bool), st.permutations(TAGS))
def test_any_sentences_and_any_order_of_classes(pairs: list[list[tuple[str, str]]], names: list[str]) -> None:
    reference, predicted = ([[pair[side] for pair in sentence] for sentence in pairs] for side in (0, 1))
    assert f1(reference, predicted, tuple(names)) == pytest.approx(naive_f1(reference, predicted))


def test_the_most_probable_tag_counts_and_of_tied_ones_the_first() -> None:
    unit = np.zeros(2, dtype=np.int32)
    gold = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    probs = np.array([[0.4, 0.25, 0.35], [0.1, 0.45, 0.45]])
    assert span_f1(gold, probs, unit, ("B-x", "I-x", "O")) == 1.0
    assert span_f1(gold[:, [0, 2, 1]], probs[:, [0, 2, 1]], unit, ("B-x", "O", "I-x")) == 0.0


@pytest.mark.parametrize(
    ("names", "are"),
    [
        (("O", "B-x", "I-x"), True),
        (("I-x", "O"), True),
        (("B-a b", "I-a b"), True),
        (("O",), False),
        (("0", "1"), False),
        (("O", "B-", "I-x"), False),
        (("O", "B-x", "E-x"), False),
        ((), False),
    ],
)
def test_which_classes_are_tags(names: tuple[str, ...], are: bool) -> None:
    assert are_span_tags(names) is are
