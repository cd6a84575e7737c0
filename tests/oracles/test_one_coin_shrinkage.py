"""one-coin's shrinkage against loops, and what it is for: annotators of whom little is known."""

import numpy as np
import pytest
from naive_answers import fit, table_of

from crowdsweep.arrays import LOG_FLOOR
from crowdsweep.data.annotations import Annotations
from crowdsweep.metrics.heldout import heldout_loglik


def crowd(seed: int, n_classes: int = 3, **extra: np.ndarray) -> Annotations:
    """Twelve items, the last two without answers; seven annotators, the last without."""
    random = np.random.default_rng(seed)
    return Annotations.of(
        item=random.integers(0, 10, 50),
        annotator=random.integers(0, 6, 50),
        label=random.integers(0, n_classes, 50),
        n_items=12,
        n_annotators=7,
        n_classes=n_classes,
        **extra,
    )


def accuracies_of(table: np.ndarray, posterior: np.ndarray, right: float, wrong: float) -> np.ndarray:
    found = np.empty(table.shape[1])
    for annotator in range(table.shape[1]):
        n_right = sum(table[i, annotator] @ posterior[i] for i in range(len(table)))
        total = table[:, annotator].sum()
        found[annotator] = (n_right + right) / (total + right + (table.shape[2] - 1) * wrong)
    return found


def dense_one_coin(table: np.ndarray, right: float, wrong: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """EM by loops, with these pseudo-answers: the posterior, and the accuracies at it."""
    n_items, n_annotators, n_classes = table.shape
    votes = table.sum(axis=1)
    answered = votes.sum(axis=1) > 0
    posterior = np.full((n_items, n_classes), 1 / n_classes)
    posterior[answered] = votes[answered] / votes[answered].sum(axis=1, keepdims=True)
    for _ in range(steps):
        accuracy = accuracies_of(table, posterior, right, wrong)
        joint = np.tile(np.log(np.maximum(posterior[answered].mean(axis=0), LOG_FLOOR)), (n_items, 1))
        for i in range(n_items):
            for t in range(n_annotators):
                for k in range(n_classes):
                    probs = np.full(n_classes, (1 - accuracy[t]) / (n_classes - 1))
                    probs[k] = accuracy[t]
                    joint[i, k] += table[i, t] @ np.log(np.maximum(probs, LOG_FLOOR))
        posterior = np.exp(joint - joint.max(axis=1, keepdims=True))
        posterior /= posterior.sum(axis=1, keepdims=True)
    return posterior, accuracies_of(table, posterior, right, wrong)


@pytest.mark.parametrize("smoothing", [0.01, 1.0])
@pytest.mark.parametrize("kind", ["plain", "weights", "soft"])
def test_pseudo_answers_are_right_as_often_as_the_crowd(kind: str, smoothing: float) -> None:
    random = np.random.default_rng(5)
    extra = {"weights": {"weight": random.uniform(0.2, 3, 50)}, "soft": {"probability": random.uniform(0.3, 1, 50)}}
    rows = crowd(1, **extra.get(kind, {}))
    table, share = table_of(rows), 2.5
    _, (together,) = dense_one_coin(table.sum(axis=1, keepdims=True), smoothing, smoothing, steps=100)
    right, wrong = smoothing + share * together, smoothing + share * (1 - together) / 2
    posterior, accuracy = dense_one_coin(table, right, wrong, steps=6)
    found = fit("one-coin", rows, smoothing=smoothing, shrinkage=share, iterations=6, tolerance=0.0)
    np.testing.assert_allclose(found.item_probs, posterior, atol=1e-9)
    np.testing.assert_allclose(found.extras["annotator_accuracy"][:6], accuracy[:6], atol=1e-9)
    longer = fit("one-coin", rows, smoothing=smoothing, shrinkage=share, tolerance=0.0).objective
    assert (np.diff(longer) >= -1e-9 * np.abs(longer[1:])).all()


def test_much_of_it_makes_all_annotators_alike() -> None:
    accuracy = fit("one-coin", crowd(2), shrinkage=1e7).extras["annotator_accuracy"]
    np.testing.assert_allclose(accuracy[:6], accuracy[0], atol=1e-4)


def test_annotators_of_three_answers_are_not_taken_at_their_word() -> None:
    """A thousand annotators, right in .5 to .95: the default finds held-out answers likelier than the vote does, where
    annotators taken at their word find them far less likely."""
    random = np.random.default_rng(0)
    gold, skill = random.integers(0, 2, 300), random.uniform(0.5, 0.95, 1000)
    code = np.unique(np.arange(3000) % 300 * 1000 + random.integers(0, 1000, 3000))
    item, annotator = np.divmod(code, 1000)
    label = np.where(random.random(len(item)) < skill[annotator], gold[item], 1 - gold[item])
    held = random.random(len(item)) < 0.1

    def part(rows: np.ndarray) -> Annotations:
        sizes = {"n_items": 300, "n_annotators": 1000, "n_classes": 2}
        return Annotations.of(item=item[rows], annotator=annotator[rows], label=label[rows], **sizes)

    drawn, literal = (fit("one-coin", part(~held), **params) for params in ({}, {"shrinkage": 0.0}))
    fits = (drawn, literal, fit("majority-vote", part(~held)))
    ours, at_their_word, vote = (heldout_loglik(one.label_probs, part(held)) for one in fits)
    assert ours > vote + 0.02
    assert at_their_word < vote - 0.1
    right = [(one.item_probs.argmax(axis=1) == gold).mean() for one in (drawn, literal)]
    assert right[0] >= right[1]
