"""Metrics against scikit-learn, scipy, and numbers worked out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy
from sklearn import metrics as sk

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import annotations_of
from crowdsweep.data.dataset import Gold, TrueCrowd
from crowdsweep.metrics import annotators, distributions, items
from crowdsweep.metrics.calibration import ece_of_each
from crowdsweep.metrics.heldout import heldout_choices_loglik, heldout_loglik
from crowdsweep.metrics.metric_table import ITEM_METRICS, ScoredItems
from crowdsweep.models.contract import ConfusionMatrices


def draw(seed: int, n_items: int = 60, n_classes: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns gold codes, their one-hot rows and random predictions."""
    random = np.random.default_rng(seed)
    gold = random.integers(0, n_classes, n_items)
    return gold, np.eye(n_classes)[gold], random.dirichlet(np.full(n_classes, 0.5), n_items)


def test_against_scikit_learn_where_nothing_is_tied() -> None:
    gold, reference, predicted = draw(0)
    labels = predicted.argmax(axis=1)
    assert items.accuracy_of_each(reference, predicted).mean() == pytest.approx(sk.accuracy_score(gold, labels))
    assert items.macro_f1(reference, predicted) == pytest.approx(sk.f1_score(gold, labels, average="macro"))
    assert items.log_loss_of_each(reference, predicted).mean() == pytest.approx(sk.log_loss(gold, predicted))
    one_vs_rest = [np.mean((predicted[:, k] - (gold == k)) ** 2) for k in range(4)]
    assert items.brier_of_each(reference, predicted).mean() == pytest.approx(sum(one_vs_rest))


def test_macro_f1_leaves_out_classes_that_nobody_chose() -> None:
    gold, reference, predicted = draw(1, n_classes=3)
    wider = [np.pad(part, ((0, 0), (0, 2))) for part in (reference, predicted)]
    expected = sk.f1_score(gold, predicted.argmax(axis=1), average="macro")
    assert items.macro_f1(wider[0], wider[1]) == pytest.approx(expected)


def test_ties_count_what_they_are_worth_on_average() -> None:
    predicted = np.array([[0.4, 0.4, 0.2], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0], [0.1, 0.2, 0.7]])
    reference = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])
    # One of two tied is right; one of three; two draws from the same two agree half the time; never.
    np.testing.assert_allclose(items.accuracy_of_each(reference, predicted), [1 / 2, 1 / 3, 1 / 2, 0.0])
    assert items.accuracy_of_each(reference, predicted).mean() == pytest.approx((1 / 2 + 1 / 3 + 1 / 2) / 4)


def test_accuracy_is_the_mean_over_random_tie_breaks() -> None:
    random = np.random.default_rng(2)
    predicted = random.integers(0, 3, (40, 3)) + 1.0
    reference = random.integers(0, 3, (40, 3)) + 1.0
    predicted, reference = (part / part.sum(axis=1, keepdims=True) for part in (predicted, reference))
    breaks = [(_broken(predicted, random) == _broken(reference, random)).mean() for _ in range(4000)]
    assert items.accuracy_of_each(reference, predicted).mean() == pytest.approx(
        np.mean(breaks), abs=4 * np.std(breaks) / 4000**0.5
    )


def _broken(probs: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return (probs + random.uniform(0, 1e-6, probs.shape)).argmax(axis=1)


def test_ties_by_rounding_are_ties() -> None:
    assert items.accuracy_of_each(np.array([[1.0, 0.0]]), np.array([[0.1 + 0.2, 0.3]]) / 0.6).mean() == 0.5


def test_log_loss_is_capped_by_the_floor() -> None:
    assert items.log_loss_of_each(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])).mean() == pytest.approx(
        -np.log(1e-12)
    )


def test_kl_by_hand_and_by_scipy() -> None:
    reference, predicted = np.array([[0.5, 0.5, 0.0]]), np.array([[0.25, 0.25, 0.5]])
    first, second = reference[0] + 1e-5, predicted[0] + 1e-5
    by_hand = sum(a * np.log(a / b) for a, b in zip(first, second, strict=True))
    assert distributions.kl_of_each(reference, predicted).mean() == pytest.approx(by_hand)
    assert distributions.kl_of_each(reference, predicted).mean() == pytest.approx(
        entropy(reference[0], predicted[0]), abs=2e-4
    )
    # In reverse: one half where the reference has nothing, 0.5 log(0.5 / 1e-5), less what the others give back.
    (reverse,) = (metric for metric in ITEM_METRICS if metric.name == "kl_reverse")
    found = reverse.score(ScoredItems(reference=reference, predicted=predicted, scale="nominal"))
    assert found == pytest.approx(0.5 * np.log(0.5 / 1e-5) + 0.5 * np.log(0.5), abs=1e-3)


def test_js_against_scipy() -> None:
    _, reference, predicted = draw(3)
    expected = np.mean(jensenshannon(reference, predicted, base=2, axis=1) ** 2)
    assert distributions.js_of_each(reference, predicted).mean() == pytest.approx(expected)
    assert distributions.js_of_each(np.eye(2), np.eye(2)[::-1]).mean() == pytest.approx(1.0)


@given(st.integers(0, 10_000))
def test_divergences_are_none_for_equals_and_symmetric_where_they_should_be(seed: int) -> None:
    _, reference, predicted = draw(seed, n_items=5)
    assert distributions.js_of_each(predicted, predicted).mean() == pytest.approx(0.0, abs=1e-12)
    assert distributions.kl_of_each(predicted, predicted).mean() == pytest.approx(0.0, abs=1e-12)
    assert distributions.js_of_each(reference, predicted).mean() == pytest.approx(
        distributions.js_of_each(predicted, reference).mean()
    )
    assert 0 <= distributions.js_of_each(reference, predicted).mean() <= 1
    assert distributions.kl_of_each(reference, predicted).mean() > 0


def test_ece_by_hand() -> None:
    # Bins of width 1/15: .95 and 1.0 share (14/15, 1], .6 stands at the upper edge of (8/15, 9/15].
    predicted = np.array([[0.95, 0.05], [1.0, 0.0], [0.6, 0.4], [0.4, 0.6]])
    reference = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    assert ece_of_each(reference, predicted).mean() == pytest.approx((2 * abs(0.5 - 0.975) + 2 * abs(1.0 - 0.6)) / 4)


def test_ece_of_calibrated_predictions_is_small() -> None:
    random = np.random.default_rng(0)
    predicted = random.dirichlet(np.ones(3), 40_000)
    gold = (predicted.cumsum(axis=1) < random.random((40_000, 1))).sum(axis=1)
    assert ece_of_each(np.eye(3)[gold], predicted).mean() < 0.012
    overconfident = predicted**3 / (predicted**3).sum(axis=1, keepdims=True)
    assert ece_of_each(np.eye(3)[gold], overconfident).mean() > 0.1


def test_multilabel_scores_are_those_of_the_flattened_choices() -> None:
    random = np.random.default_rng(4)
    reference = (random.random((30, 4)) < 0.4).astype(np.float64)
    predicted = random.random((30, 4))
    chosen = predicted > 0.5
    pairs = items.as_binary(reference), items.as_binary(predicted)
    assert items.accuracy_of_each(*pairs).mean() == pytest.approx(1 - sk.hamming_loss(reference, chosen))
    assert items.log_loss_of_each(*pairs).mean() == pytest.approx(sk.log_loss(reference.ravel(), predicted.ravel()))
    expected = sk.f1_score(reference, chosen, average="macro")
    assert items.multilabel_macro_f1(reference, predicted) == pytest.approx(expected)
    assert items.multilabel_macro_f1(np.zeros((2, 3)), np.zeros((2, 3))) == 1.0


def test_js_of_matrices_by_scipy_row_by_row() -> None:
    random = np.random.default_rng(5)
    true, estimated = random.dirichlet(np.ones(3), (7, 3)), random.dirichlet(np.ones(3), (7, 3))
    true[0] = np.eye(3)
    expected = [
        np.mean([jensenshannon(a, b, base=2) ** 2 for a, b in zip(first, second, strict=True)])
        for first, second in zip(true, estimated, strict=True)
    ]
    np.testing.assert_allclose(annotators.js_matrices(true, estimated), expected, atol=1e-5)
    opposite = np.eye(2)[::-1][None]
    assert annotators.js_matrices(np.eye(2)[None], opposite)[0] == pytest.approx(1.0, abs=1e-5)


CROWD = Annotations.of(
    item=np.array([0, 0, 1, 1, 2, 3]),
    annotator=np.array([0, 3, 0, 0, 3, 3]),
    label=np.array([0, 1, 0, 1, 1, 0]),
    n_items=4,
    n_annotators=4,
    n_classes=2,
)
GOLD = Gold(item=np.array([0, 1, 2], np.int32), label=np.array([0, 0, 1], np.int32))


def test_counted_crowd_by_hand() -> None:
    counted = annotators.CountedCrowd(CROWD, GOLD)
    # Annotator 0 gave 0, 0, 1 to items of class 0 and met no item of class 1; annotator 3 gave 1 to class 0, 1 to 1.
    expected = np.array([[[2 / 3, 1 / 3], [0.5, 0.5]], [[0.0, 1.0], [0.0, 1.0]]])
    np.testing.assert_allclose(counted.of(np.array([0, 3])), expected)
    np.testing.assert_allclose(counted.of(np.array([3, 0])), expected[::-1])
    np.testing.assert_allclose(counted.of(np.array([1])), np.full((1, 2, 2), 0.5))
    np.testing.assert_allclose(counted.pooled(), [[0.5, 0.5], [0.0, 1.0]])


def test_soft_answers_count_as_fractions_in_true_matrices() -> None:
    rows = Annotations.of(
        item=np.array([0, 1, 1]),
        annotator=np.array([0, 0, 1]),
        label=np.array([0, 1, 0]),
        probability=np.array([0.75, 1.0, 0.5]),
        n_items=2,
        n_annotators=2,
        n_classes=2,
    )
    gold = Gold(item=np.array([0, 1], np.int32), label=np.array([0, 1], np.int32))
    counted = annotators.CountedCrowd(rows, gold)
    np.testing.assert_allclose(counted.of(np.array([0])), [[[0.75, 0.25], [0.0, 1.0]]])
    np.testing.assert_allclose(counted.of(np.array([1])), [[[0.5, 0.5], [0.5, 0.5]]])
    np.testing.assert_allclose(counted.pooled(), [[0.75, 0.25], [0.25, 0.75]])


def test_averages_run_over_active_annotators_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annotators, "CHUNK_ENTRIES", 8)  # two annotators of two classes
    random = np.random.default_rng(6)
    estimated = ConfusionMatrices(matrices=random.dirichlet(np.ones(2), (7, 2)))
    true = TrueCrowd(group=np.arange(7, dtype=np.int32) % 2, confusion=random.dirichlet(np.ones(2), (2, 2)))
    active = np.array([0, 2, 3, 5, 6])
    one_by_one = [annotators.js_matrices(true.of(active[[i]]), estimated.matrices[active[[i]]])[0] for i in range(5)]
    assert annotators.js_annotators(true, estimated, active) == pytest.approx(np.mean(one_by_one))
    np.testing.assert_allclose(annotators.mean_confusion(estimated, active), estimated.matrices[active].mean(axis=0))
    weight = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    weighted = np.average(estimated.matrices[active], axis=0, weights=weight)
    np.testing.assert_allclose(annotators.mean_confusion(estimated, active, weight), weighted)


def test_heldout_loglik_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crowdsweep.metrics.heldout.CHUNK_ENTRIES", 4)
    table = np.array([[0.9, 0.1], [0.5, 0.5], [0.0, 1.0], [1.0, 0.0]])

    def label_probs(item: np.ndarray, annotator: np.ndarray) -> np.ndarray:
        return table[item]

    expected = np.log([0.9, 0.1, 0.5, 0.5, 1.0, 1.0])
    assert heldout_loglik(label_probs, CROWD) == pytest.approx(expected.mean())
    soft = Annotations.of(
        item=np.array([0]),
        annotator=np.array([0]),
        label=np.array([1]),
        probability=np.array([0.75]),
        n_items=1,
        n_annotators=1,
        n_classes=2,
    )
    assert heldout_loglik(label_probs, soft) == pytest.approx(0.75 * np.log(0.1) + 0.25 * np.log(0.9))
    with pytest.raises(ValueError, match="held out"):
        heldout_loglik(label_probs, CROWD.take(np.zeros(6, dtype=bool)))


def test_heldout_choices_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crowdsweep.metrics.heldout.CHUNK_ENTRIES", 4)
    table = np.array([[0.9, 0.2], [0.5, 0.0]])
    chosen = np.array([[True, False], [False, False], [True, True]])
    rows = annotations_of(chosen, item=np.array([0, 0, 1]), annotator=np.array([0, 1, 0]), n_items=2, n_annotators=2)
    expected = [np.log(0.9) + np.log(0.8), np.log(0.1) + np.log(0.8), np.log(0.5) + np.log(1e-12)]
    assert heldout_choices_loglik(lambda item, _: table[item], rows) == pytest.approx(np.mean(expected))
    all_ones = heldout_choices_loglik(lambda item, _: np.ones((len(item), 2)), rows)
    assert all_ones == pytest.approx(np.log(1e-12) * (1 + 2 + 0) / 3), "whoever predicts everything is wrong"
    unsure = Annotations.of(
        item=np.array([0]),
        annotator=np.array([0]),
        label=np.array([1]),
        probability=np.array([0.75]),
        weight=np.array([3.0]),
        n_items=1,
        n_annotators=1,
        n_classes=2,
    )
    both = np.log(0.1) + 0.75 * np.log(0.2) + 0.25 * np.log(0.8)
    assert heldout_choices_loglik(lambda item, _: table[item], unsure) == pytest.approx(both)
    with pytest.raises(ValueError, match="held out"):
        heldout_choices_loglik(lambda item, _: table[item], rows.take(np.zeros(len(rows), dtype=bool)))


def test_counted_choosers_by_hand() -> None:
    """Gold: class 0 of item 0, classes 0 and 1 of item 1; item 2 has none and counts nowhere."""
    chosen = np.array([[True, False], [True, False], [False, True], [True, True]])
    rows = annotations_of(
        chosen, item=np.array([0, 1, 1, 2]), annotator=np.array([0, 0, 2, 0]), n_items=3, n_annotators=3
    )
    gold = Gold(item=np.array([0, 1, 1], np.int32), label=np.array([0, 0, 1], np.int32))
    counted = annotators.CountedChoosers.of_answers(rows, gold)
    expected = [
        [[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]],
        [[[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]],
        [[[0.5, 0.5], [1.0, 0.0]], [[0.5, 0.5], [0.0, 1.0]]],
    ]
    np.testing.assert_allclose(counted.of(np.arange(3)), expected)
    np.testing.assert_allclose(counted.pooled(), [[[0.5, 0.5], [1 / 3, 2 / 3]], [[1.0, 0.0], [0.5, 0.5]]])


def test_js_of_stacks_of_matrices_is_the_mean_over_all_of_their_rows() -> None:
    random = np.random.default_rng(7)
    true, estimated = random.dirichlet(np.ones(2), (4, 3, 2)), random.dirichlet(np.ones(2), (4, 3, 2))
    by_class = [annotators.js_matrices(true[:, k], estimated[:, k]) for k in range(3)]
    np.testing.assert_allclose(annotators.js_matrices(true, estimated), np.mean(by_class, axis=0))


def test_entropy_by_scipy() -> None:
    _, _, predicted = draw(8)
    assert distributions.entropy(predicted) == pytest.approx(entropy(predicted, axis=1).mean())
    assert distributions.entropy(np.eye(3)) == 0.0
    assert distributions.entropy(np.full((2, 5), 0.2)) == pytest.approx(np.log(5))


def test_the_cross_entropy_of_label_distributions_is_the_log_loss() -> None:
    """And KL is what it is above the reference's own entropy, but for the 1e-5 that KL adds."""
    _, _, reference = draw(9)
    _, _, predicted = draw(10)
    by_hand = -sum(reference[i, k] * np.log(predicted[i, k]) for i in range(60) for k in range(4)) / 60
    assert items.log_loss_of_each(reference, predicted).mean() == pytest.approx(by_hand)
    smooth = 0.9 * predicted + 0.1 / 4
    gap = items.log_loss_of_each(reference, smooth).mean() - distributions.entropy(reference)
    assert distributions.kl_of_each(reference, smooth).mean() == pytest.approx(gap, abs=1e-3)
