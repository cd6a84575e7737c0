"""Ordinal Dawid-Skene against a dense twin with explicit loops, and what its prior is worth on simulated ratings."""

import math

import numpy as np
import pytest

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.metrics.ordinal import errors_in_steps
from crowdsweep.models.aggregate.dawid_skene import DawidSkene
from crowdsweep.models.aggregate.ordinal_dawid_skene import OrdinalDawidSkene, neighbours
from crowdsweep.models.contract import FitContext, FitResult, FitsMany
from crowdsweep.models.fitting import fit_one
from crowdsweep.seeds import SeedStream


def ratings(
    seed: int, *, n_items: int = 300, n_annotators: int = 150, each: int = 3, n_classes: int = 5
) -> tuple[Annotations, np.ndarray]:
    """Returns ratings by annotators who lean to one side and scatter, each in their own way; and the true classes."""
    random = np.random.default_rng(seed)
    gold = random.integers(n_classes, size=n_items)
    item = np.repeat(np.arange(n_items), each)
    who = np.concatenate([random.choice(n_annotators, each, replace=False) for _ in range(n_items)])
    leaning, scatter = random.normal(0, 0.5, n_annotators), random.uniform(0.4, 1.2, n_annotators)
    rated = np.rint(gold[item] + leaning[who] + scatter[who] * random.standard_normal(len(item)))
    rows = Annotations.of(
        item=item,
        annotator=who,
        label=np.clip(rated, 0, n_classes - 1).astype(int),
        n_items=n_items,
        n_annotators=n_annotators,
        n_classes=n_classes,
    )
    return rows, gold


def fit(model: FitsMany, rows: Annotations) -> FitResult:
    data = TrainingData(annotations=rows, items=Items(n_items=rows.n_items))
    return fit_one(model, data, FitContext(seeds=SeedStream(0)))


def dense_twin(
    rows: Annotations, strength: float, decay: float, shrinkage: float, iterations: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the posterior, and the matrices at it [annotators, classes, classes]."""
    n, t, k = rows.n_items, rows.n_annotators, rows.n_classes
    answers = list(zip(rows.item.tolist(), rows.annotator.tolist(), rows.label.tolist(), strict=True))
    start = np.zeros((n, k))
    for i, _, label in answers:
        start[i, label] += 1
    start /= start.sum(axis=1, keepdims=True)
    prior = np.array([[math.exp(-decay * abs(true - label)) for label in range(k)] for true in range(k)])
    prior *= strength / prior.sum(axis=1, keepdims=True)

    def matrices_at(posterior: np.ndarray, pseudo: np.ndarray, whose: list[int]) -> np.ndarray:
        counts = np.tile(pseudo, (max(whose) + 1, 1, 1))
        for i, annotator, label in answers:
            for true in range(k):
                counts[whose[annotator], true, label] += posterior[i, true]
        return counts / counts.sum(axis=2, keepdims=True)

    def run(pseudo: np.ndarray, steps: int, whose: list[int]) -> tuple[np.ndarray, np.ndarray]:
        posterior = start
        for _ in range(steps):
            matrices = matrices_at(posterior, pseudo, whose)
            joint = np.tile(np.log(posterior.mean(axis=0)), (n, 1))
            for i, annotator, label in answers:
                for true in range(k):
                    joint[i, true] += math.log(matrices[whose[annotator], true, label])
            posterior = np.exp(joint - joint.max(axis=1, keepdims=True))
            posterior /= posterior.sum(axis=1, keepdims=True)
        return posterior, matrices_at(posterior, pseudo, whose)

    _, (crowd,) = run(t * prior, 100, [0] * t)
    return run(prior + shrinkage * crowd, iterations, list(range(t)))


@pytest.mark.parametrize(("strength", "decay", "shrinkage"), [(2.0, 1.0, 0.0), (0.5, 2.0, 1.0), (0.7, 0.0, 3.0)])
def test_it_equals_its_dense_twin(strength: float, decay: float, shrinkage: float) -> None:
    rows, _ = ratings(1, n_items=14, n_annotators=5, n_classes=4)
    model = OrdinalDawidSkene(strength=strength, decay=decay, shrinkage=shrinkage, iterations=6, tolerance=0.0)
    fitted = fit(model, rows)
    posterior, matrices = dense_twin(rows, strength, decay, shrinkage, iterations=6)
    np.testing.assert_allclose(fitted.item_probs, posterior, atol=1e-6)  # the crowd's own EM stops where nothing rises
    assert fitted.annotators is not None
    np.testing.assert_allclose(fitted.annotators.confusion(np.arange(5)), matrices, atol=1e-6)


def test_without_decay_and_shrinkage_it_is_dawid_skene_smoothed_evenly() -> None:
    rows, _ = ratings(2, n_items=60, n_annotators=20)
    flat = fit(OrdinalDawidSkene(strength=0.5, decay=0.0, shrinkage=0.0), rows)
    smoothed = fit(DawidSkene(smoothing=0.1, shrinkage=0.0), rows)
    np.testing.assert_allclose(flat.item_probs, smoothed.item_probs, atol=1e-9)


def test_turning_the_scale_around_turns_the_result_around() -> None:
    rows, _ = ratings(3, n_items=60, n_annotators=20)
    turned = Annotations.of(
        item=rows.item,
        annotator=rows.annotator,
        label=4 - rows.label,
        n_items=rows.n_items,
        n_annotators=rows.n_annotators,
        n_classes=5,
    )
    model = OrdinalDawidSkene(iterations=10)
    np.testing.assert_allclose(fit(model, turned).item_probs[:, ::-1], fit(model, rows).item_probs, atol=1e-7)


def test_the_prior_falls_off_by_the_same_factor_each_step() -> None:
    rows = neighbours(5, 0.7)
    np.testing.assert_allclose(rows.sum(axis=1), 1.0)
    np.testing.assert_allclose(rows[1, 2:] / rows[1, 1:-1], np.exp(-0.7))
    assert rows[1, 0] == pytest.approx(rows[1, 2])


def test_of_six_labels_each_it_is_nearer_to_the_truth_than_dawid_skene() -> None:
    """Errors of 0.44 steps in place of 0.50 on average, when it was written."""
    gains: list[float] = []
    for seed in range(6):
        rows, gold = ratings(seed)
        plain, ordinal = (
            errors_in_steps(np.eye(5)[gold], fit(model, rows).item_probs).mean()
            for model in (DawidSkene(), OrdinalDawidSkene())
        )
        gains.append(float(plain - ordinal))
    assert np.mean(gains) > 0.03, gains
    assert np.mean(gains) > 2.6 * np.std(gains, ddof=1) / len(gains) ** 0.5, gains  # of t with five degrees: 2.4 %
