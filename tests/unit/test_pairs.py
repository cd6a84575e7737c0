"""Pairs of annotators who agree more often than independent errors allow, without gold."""

import numpy as np
import pytest

from crowdsweep.data.annotations import Annotations
from crowdsweep.labelling.pairs import _excess, excess_agreement  # pyright: ignore[reportPrivateUsage]
from crowdsweep.labelling.questions import questions_of


def said_of(label, n_classes, *, ordinal=False):
    """What is said of these answers; label [annotators, items], -1 where somebody gave none."""
    annotator, item = np.nonzero(label >= 0)
    size = {"n_items": label.shape[1], "n_annotators": len(label), "n_classes": n_classes}
    rows = Annotations.of(item=item, annotator=annotator, label=label[annotator, item], **size)
    questions = questions_of(rows, np.full((label.shape[1], n_classes), 1 / n_classes), multilabel=False)
    return excess_agreement(questions, [f"a{code}" for code in range(len(label))], ordinal=ordinal)


def crowd(random, kind, n_annotators, n_items=300):
    """Answers of independent errors, given what the items are; and the number of classes."""
    if kind == "ordinal":
        truth = random.integers(0, 7, n_items)
        error, severity = random.uniform(0.4, 1.0, (n_annotators, 1)), random.normal(0, 0.3, (n_annotators, 1))
        seen = truth + severity + error * random.normal(size=(n_annotators, n_items))
        return np.clip(np.rint(seen), 0, 6).astype(np.int64), 7
    shares = (0.85, 0.1, 0.05) if kind == "one class is rare" else (1 / 3, 1 / 3, 1 / 3)
    truth = random.choice(3, n_items, p=shares)
    known = random.beta(2, 0.7, n_items) if kind == "hard items" else np.ones(n_items)
    knows = 1 / 3 + known * (random.uniform(0.6, 0.9, (n_annotators, 1)) - 1 / 3)
    wrong = (truth + random.integers(1, 3, (n_annotators, n_items))) % 3
    return np.where(random.random((n_annotators, n_items)) < knows, truth, wrong), 3


@pytest.mark.parametrize("kind", ["plain", "one class is rare", "hard items", "ordinal"])
def test_two_of_five_who_repeat_each_other_are_named_and_nobody_else(kind):
    named, others, alarms, n = 0, 0, 0, 30
    for seed in range(n):
        random = np.random.default_rng(seed)
        label, classes = crowd(random, kind, 5)
        alarms += bool(said_of(label, classes, ordinal=kind == "ordinal"))
        label[1] = np.where(random.random(label.shape[1]) < 0.9, label[0], label[1])
        said = said_of(label, classes, ordinal=kind == "ordinal")
        named += "a0 and a1 (" in said
        others += bool(said) and not said.startswith("1 of 10 pairs")
    assert alarms <= 1
    assert others <= 1
    assert named >= (0.4 if kind == "one class is rare" else 0.7) * n


def test_of_many_who_answer_few_of_the_same_items_nobody_is_named_by_chance():
    alarms = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        label, classes = crowd(random, "hard items" if seed % 2 else "plain", 25, 400)
        label[random.random(label.shape) < 0.7] = -1
        alarms += bool(said_of(label, classes))
    assert alarms <= 1


def test_three_say_nothing_of_each_other():
    label = np.tile(np.random.default_rng(0).integers(0, 2, 200), (3, 1))
    assert said_of(label, 2) == ""
    assert said_of(np.vstack([label, label[:1]]), 2) == "", "four of whom all are the same are right, or copies"


def test_what_others_say_of_a_pair_is_the_least_squares_of_their_equations():
    random = np.random.default_rng(2)
    products = random.normal(0.3, 0.3, (6, 6))
    products = products + products.T
    known = np.triu(random.random((6, 6)) < 0.8, 1)
    known |= known.T
    excess, expected = _excess(products, np.ones((6, 6)), known)
    x = np.maximum(products, 0.0)
    for i in range(6):
        for j in range(6):
            above = below = 0.0
            for a in set(range(6)) - {i, j}:
                for b in set(range(6)) - {i, j, a}:
                    if i != j and known[i, a] and known[a, b] and known[b, j]:
                        above += x[i, a] * x[b, j] * x[a, b]
                        below += x[a, b] ** 2
            if i != j:
                assert expected[i, j] == (pytest.approx(above / below) if below else pytest.approx(np.nan, nan_ok=True))
                assert excess[i, j] == pytest.approx(products[i, j] - expected[i, j], nan_ok=True)
