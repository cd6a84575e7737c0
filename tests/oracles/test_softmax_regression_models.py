"""Models around a softmax regression against dense twins with explicit loops, and the regression against its peer."""

from dataclasses import replace
from math import log

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from crowdsweep.arrays import normalised_rows
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.models.joint._personal_classifiers import PersonalClassifiers
from crowdsweep.models.joint._softmax_regression import StandardisedFeatures, log_softmax, maximised
from crowdsweep.models.joint.pc_gp import FourierFeatures
from crowdsweep.models.registered import build_model
from crowdsweep.models.scaling import Scale
from crowdsweep.seeds import SeedStream

CLASSES, ANNOTATORS, ITEMS = 3, 6, 30


def some_data(seed: int, *, weighted: bool = False) -> TrainingData:
    """Labels with a repeated pair, an idle annotator and an item without labels; one feature is constant."""
    rng = np.random.default_rng(seed)
    gold = np.arange(ITEMS) % CLASSES
    features = (2 * np.eye(CLASSES, 4)[gold] + rng.normal(size=(ITEMS, 4)) * [1, 1, 1, 0]).astype(np.float32)
    item = np.concatenate([rng.integers(0, ITEMS - 1, 90), [0, 0]])
    annotator = np.concatenate([rng.integers(0, ANNOTATORS - 1, 90), [1, 1]])
    label = np.where(rng.random(92) < 0.7, gold[item], rng.integers(0, CLASSES, 92))
    annotations = Annotations.of(
        item=item,
        annotator=annotator,
        label=label,
        weight=rng.integers(1, 4, 92).astype(np.float32) if weighted else None,
        n_items=ITEMS,
        n_annotators=ANNOTATORS,
        n_classes=CLASSES,
    )
    return TrainingData(annotations=annotations, items=Items(n_items=ITEMS, features=features))


def rows_of(data: TrainingData) -> list[tuple[int, int, int, float]]:
    own = data.annotations
    weight = np.ones(len(own)) if own.weight is None else own.weight
    return list(zip(own.item.tolist(), own.annotator.tolist(), own.label.tolist(), weight.tolist(), strict=True))


def standardised(features: np.ndarray) -> np.ndarray:
    """Each feature less its mean, by its deviation; a constant one zero; and a column of ones."""
    columns = [
        (column - column.mean()) / column.std() if column.std() > 0 else np.zeros(len(column))
        for column in features.astype(np.float64).T
    ]
    return np.stack([*columns, np.ones(len(features))], axis=1)


def regression(inputs: np.ndarray, targets: np.ndarray, penalty: float) -> np.ndarray:
    """Probabilities by scikit-learn, which takes hard classes: each item once for each class, weighted."""
    n_classes = targets.shape[1]
    peer = LogisticRegression(C=1 / penalty, fit_intercept=False, tol=1e-10, max_iter=10_000)
    peer.fit(np.repeat(inputs, n_classes, axis=0), np.tile(np.arange(n_classes), len(inputs)), targets.ravel())
    return peer.predict_proba(inputs)


@pytest.mark.parametrize("penalty", [0.1, 1.0, 10.0])
def test_the_regression_is_scikit_learns(penalty: float) -> None:
    rng = np.random.default_rng(0)
    inputs, targets = rng.normal(size=(40, 5)), rng.dirichlet(np.ones(3), 40) * rng.uniform(0.5, 3, (40, 1))
    for start in (np.zeros((5, 3)), rng.normal(size=(5, 3))):
        found = np.exp(log_softmax(inputs @ maximised(inputs, targets, start, penalty)))
        np.testing.assert_allclose(found, regression(inputs, targets, penalty), atol=1e-4)


def test_features_are_standardised_and_constant_ones_dropped() -> None:
    items = some_data(0).items
    assert items.features is not None
    np.testing.assert_allclose(StandardisedFeatures.of(items).inputs(items), standardised(items.features), atol=1e-6)
    untouched = np.full((5, 2), 3.1e5, np.float32)
    assert not Scale.of(untouched).applied(untouched).any()


# raykar


def naive_matrices(data: TrainingData, posterior: np.ndarray, smoothing: float) -> np.ndarray:
    counts = np.full((ANNOTATORS, CLASSES, CLASSES), smoothing)
    for item, annotator, label, weight in rows_of(data):
        for true in range(CLASSES):
            counts[annotator, true, label] += weight * posterior[item, true]
    return normalised_rows(counts)


@pytest.mark.parametrize(("name", "smoothing"), [("raykar", 0.0), ("raykar-prior", 1.0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_raykars_em_equals_loops(name: str, smoothing: float, weighted: bool) -> None:
    data = some_data(1, weighted=weighted)
    assert data.items.features is not None
    inputs, answered = standardised(data.items.features), data.annotations.labels_per_item > 0
    posterior = normalised_rows(data.annotations.counts.toarray())
    for _ in range(4):
        matrices = naive_matrices(data, posterior, smoothing)
        log_joint = np.log(regression(inputs, posterior * answered[:, None], 2.0))
        for item, annotator, label, weight in rows_of(data):
            for true in range(CLASSES):
                log_joint[item, true] += weight * log(max(matrices[annotator, true, label], 1e-12))
        posterior = np.exp(log_softmax(log_joint))
    model = build_model(name, {"penalty": 2.0, "iterations": 4, "tolerance": 0.0})
    found = fit_one(model, data, FitContext(seeds=SeedStream(0)))
    np.testing.assert_allclose(found.item_probs, posterior, atol=1e-3)
    assert found.annotators is not None
    seen = np.arange(ANNOTATORS - 1)
    wanted = naive_matrices(data, posterior, smoothing)[seen]
    np.testing.assert_allclose(found.annotators.confusion(seen), wanted, atol=1e-3)


# ma-lr


def naive_regression_em(data: TrainingData, variant: str, steps: int) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Returns the regression's probabilities, the reliabilities after the last step, and the likelihood of each."""
    assert data.items.features is not None
    rows, inputs = rows_of(data), standardised(data.items.features)
    votes = normalised_rows(data.annotations.counts.toarray())
    knowing = [votes[item, label] for item, _, label, _ in rows]
    reliability, probs, likelihoods = np.zeros(ANNOTATORS), votes, []
    for step in range(steps + 1):
        agree, given, targets = np.zeros(ANNOTATORS), np.zeros(ANNOTATORS), np.zeros_like(votes)
        for (item, annotator, label, weight), known in zip(rows, knowing, strict=True):
            targets[item, label] += weight * known
            exact = step == 0 or variant == "exact"
            of_row = weight if exact else weight * probs[item].max()
            given[annotator] += of_row
            agree[annotator] += of_row * (known if exact else label == probs[item].argmax())
        for annotator in range(ANNOTATORS):
            share = agree[annotator] / given[annotator] if given[annotator] else 0.0
            reliability[annotator] = share if step == 0 or variant == "exact" else share**2
        if step == steps:
            break
        probs, total, knowing = regression(inputs, targets, 2.0), 0.0, []
        for item, annotator, label, weight in rows:
            known = reliability[annotator] * probs[item, label]
            either = known + (1 - reliability[annotator]) / CLASSES
            total += weight * log(either)
            knowing.append(known / either)
        likelihoods.append(total)
    return probs, reliability, likelihoods


@pytest.mark.parametrize("variant", ["exact", "agreement"])
@pytest.mark.parametrize("weighted", [False, True])
def test_ma_lr_equals_loops(variant: str, weighted: bool) -> None:
    data = some_data(2, weighted=weighted)
    probs, reliability, likelihoods = naive_regression_em(data, variant, 4)
    model = build_model("ma-lr", {"reliabilities": variant, "penalty": 2.0, "iterations": 4, "tolerance": 0.0})
    found = fit_one(model, data, FitContext(seeds=SeedStream(0)))
    assert found.predictor is not None
    np.testing.assert_allclose(found.predictor.predict(data.items, "classifier"), probs, atol=1e-3)
    seen = slice(0, ANNOTATORS - 1)
    np.testing.assert_allclose(found.extras["reliability"][seen], reliability[seen], atol=1e-3)
    assert (found.objective <= np.array(likelihoods)[: len(found.objective)] + 1e-3).all()  # less the weights' prior
    posterior = np.log(probs)
    for item, annotator, label, weight in rows_of(data):
        wrong = (1 - reliability[annotator]) / CLASSES
        for true in range(CLASSES):
            posterior[item, true] += weight * log(max(wrong + reliability[annotator] * (true == label), 1e-12))
    np.testing.assert_allclose(found.item_probs, np.exp(log_softmax(posterior)), atol=2e-3)


# pc


def few_labels(data: TrainingData, number: int) -> TrainingData:
    """Keeps the first labels of each annotator: the first of them one less, so that not all have equally many."""
    own = data.annotations
    kept = np.zeros(len(own), bool)
    for annotator in range(ANNOTATORS):
        kept[np.flatnonzero(own.annotator == annotator)[: number - (annotator == 0)]] = True
    return replace(data, annotations=own.take(kept))


def naive_personal_classifiers(data: TrainingData, inputs: np.ndarray, eta: float, lam: float) -> np.ndarray:
    """Returns the weights of the crowd and of all annotators [1 + annotators, inputs, classes], by dense L-BFGS."""
    shape = (1 + ANNOTATORS, inputs.shape[1], CLASSES)

    def lost(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(shape)
        slope, total = np.zeros(shape), 0.5 * eta * (weights[0] ** 2).sum()
        slope[0] = eta * weights[0]
        for annotator in range(ANNOTATORS):
            apart = weights[1 + annotator] - weights[0]
            total += 0.5 * lam * (apart**2).sum()
            slope[1 + annotator] += lam * apart
            slope[0] -= lam * apart
        for item, annotator, label, weight in rows_of(data):
            scores = inputs[item] @ weights[1 + annotator]
            log_probs = scores - np.log(np.exp(scores).sum())
            total -= weight * log_probs[label]
            slope[1 + annotator] += weight * np.outer(inputs[item], np.exp(log_probs) - np.eye(CLASSES)[label])
        return float(total), slope.ravel()

    found = minimize(lost, np.zeros(np.prod(shape)), jac=True, method="BFGS", options={"gtol": 1e-7})
    return found.x.reshape(shape)


@pytest.mark.parametrize("number", [4, 100])  # fewer labels an annotator than the five inputs, and more
@pytest.mark.parametrize("weighted", [False, True])
def test_personal_classifiers_are_at_the_joint_maximum(number: int, weighted: bool) -> None:
    data = few_labels(some_data(3, weighted=weighted), number)
    assert data.items.features is not None
    inputs = standardised(data.items.features)
    weights = naive_personal_classifiers(data, inputs, 0.5, 2.0)
    params = {"crowd_penalty": 0.5, "personal_penalty": 2.0, "iterations": 3000, "tolerance": 0.0}
    found = fit_one(build_model("pc", params), data, FitContext(seeds=SeedStream(0)))
    np.testing.assert_allclose(found.item_probs, np.exp(log_softmax(inputs @ weights[0])), atol=1e-4)
    apart = np.linalg.norm((weights[1:] - weights[:1]).reshape(ANNOTATORS, -1), axis=1)
    np.testing.assert_allclose(found.extras["distance"], apart, atol=1e-3)
    item, annotator = (codes.ravel().astype(np.int32) for codes in np.indices((ITEMS, ANNOTATORS)))
    assert found.label_probs is not None
    wanted = np.exp(log_softmax(np.einsum("ad,adk->ak", inputs[item], weights[1 + annotator])))
    np.testing.assert_allclose(found.label_probs(item, annotator), wanted, atol=1e-4)


def test_fourier_features_approximate_the_kernel() -> None:
    items = some_data(0).items
    assert items.features is not None
    features = FourierFeatures.drawn(Scale.of(items.features), 40_000, 0.7, SeedStream(0)).inputs(items)[:, :-1]
    inputs = standardised(items.features)[:, :-1]
    squares = ((inputs[:, None] - inputs[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(features @ features.T, np.exp(-squares / (2 * 0.7**2 * inputs.shape[1])), atol=0.03)


def test_too_many_products_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crowdsweep.models.joint._personal_classifiers._MOST_NUMBERS", 100)
    data = some_data(0)
    assert data.items.features is not None
    with pytest.raises(FitFailed, match="use fewer features"):
        PersonalClassifiers().fit(data, FitContext(seeds=SeedStream(0)), StandardisedFeatures.of(data.items))
