"""What an end-to-end model says of a label given the true class is one thing: in training, of items, of new labels."""

from typing import Any

import numpy as np
import pytest

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.end_to_end_fitted import TrainedAnnotators
from crowdsweep.models.fitting import fit_one
from crowdsweep.models.registered import build_model
from crowdsweep.seeds import SeedStream

MODELS = ("speelfc", "speelfc-d", "conal", "crowd-layer")
ITEMS, ANNOTATORS, CLASSES = 24, 6, 3  # the last annotator labels nothing


def some_data() -> TrainingData:
    rng = np.random.default_rng(0)
    item, annotator = (index.ravel() for index in np.indices((ITEMS, ANNOTATORS - 1)))
    kept = rng.random(len(item)) < 0.7
    rows = Annotations.of(
        item=item[kept],
        annotator=annotator[kept],
        label=rng.integers(0, CLASSES, kept.sum()),
        weight=rng.uniform(0.5, 2.0, kept.sum()).astype(np.float32),
        n_items=ITEMS,
        n_annotators=ANNOTATORS,
        n_classes=CLASSES,
    )
    return TrainingData(
        annotations=rows, items=Items(n_items=ITEMS, features=rng.normal(size=(ITEMS, 4)).astype(np.float32))
    )


def fitted(model: str, data: TrainingData, **params: Any) -> tuple[FitResult, TrainedAnnotators]:
    found = fit_one(build_model(model, {"steps": 0, **params}), data, FitContext(seeds=SeedStream(0)))
    assert isinstance(found.annotators, TrainedAnnotators)
    return found, found.annotators


@pytest.mark.parametrize("model", MODELS)
def test_items_and_new_labels_are_told_by_the_same_likelihood(model: str) -> None:
    data = some_data()
    found, annotators = fitted(model, data, epochs=20, learning_rate=0.03)
    assert found.predictor is not None
    assert found.label_probs is not None
    rows = data.annotations
    assert rows.weight is not None
    joint = np.log(found.predictor.predict(data.items, "classifier"))
    total = np.zeros((ANNOTATORS, CLASSES, CLASSES))
    for i, t, y, w in zip(rows.item, rows.annotator, rows.label, rows.weight, strict=True):
        matrix = annotators.of(np.array([i]), np.array([t]))[0]
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-9)
        joint[i] += w * np.log(matrix[:, y])
        total[t] += w * matrix
        said = found.label_probs(np.array([i]), np.array([t]))[0]
        np.testing.assert_allclose(said, found.item_probs[i] @ matrix, atol=1e-9)
    posterior = np.exp(joint) / np.exp(joint).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.item_probs, posterior, atol=1e-9)
    mean = total / np.bincount(rows.annotator, rows.weight, ANNOTATORS)[:, None, None].clip(1e-9)
    np.testing.assert_allclose(annotators.confusion(np.arange(ANNOTATORS - 1)), mean[:-1], atol=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_who_labelled_nothing_has_the_pooled_matrix_of_the_others(model: str) -> None:
    data = some_data()
    found, annotators = fitted(model, data, epochs=20, learning_rate=0.03)
    rows = data.annotations
    assert rows.weight is not None
    pooled = np.zeros((CLASSES, CLASSES))
    for i, t, w in zip(rows.item, rows.annotator, rows.weight, strict=True):
        pooled += w * found.item_probs[i][:, None] * annotators.confusion(np.array([t]))[0]
    pooled /= pooled.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(annotators.confusion(np.array([ANNOTATORS - 1]))[0], pooled, atol=1e-9)
    np.testing.assert_allclose(annotators.of(np.array([3]), np.array([ANNOTATORS - 1]))[0], pooled, atol=1e-9)


@pytest.mark.parametrize("model", ["speelfc", "speelfc-d", "conal"])
def test_training_pushes_up_what_the_fitted_model_says_of_the_labels(model: str) -> None:
    """A step of next to nothing, on all items at once: the objective is of the parameters that it ends with."""
    data = some_data()
    params = {"epochs": 1, "learning_rate": 1e-9, "dropout": 0.0, "batch_size": ITEMS}
    found, annotators = fitted(model, data, **params, **({"separation": 0.0} if model == "conal" else {}))
    assert found.predictor is not None
    rows = data.annotations
    f = found.predictor.predict(data.items, "classifier")
    said = np.einsum("ak,akl->al", f[rows.item], annotators.of(rows.item, rows.annotator))
    log_probs = np.log(said[np.arange(len(rows)), rows.label])
    assert found.objective[0] == pytest.approx(np.average(log_probs, weights=rows.weight), abs=1e-5)
