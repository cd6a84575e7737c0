"""Networks read features on the scale of the training items, and what was trained carries the scale."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.labelling.classifiers import load_classifier, plain_classifier, save_classifiers
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.fitting import ScaledPredictor, fit_all, fit_one
from crowdsweep.models.networks.averaged import AveragedNetworks
from crowdsweep.models.scaling import MOST_FEATURES, WIDEST, Scale, standardises
from crowdsweep.seeds import SeedStream

QUICK = {"epochs": 3, "steps": 0, "patience": None, "hidden": [5]}


def crowd(seed: int = 0, n_items: int = 40, offset: float = 0.0, factor: float = 1.0) -> TrainingData:
    """Two features that decide, one of them 10,000 times as wide and far from zero, and one that is constant."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(n_items, 3))
    label = (features[:, 0] + features[:, 1] > 0).astype(int)
    features[:, 1] = 1e6 + 1e4 * features[:, 1]
    features[:, 2] = 7.0
    item, annotator = np.divmod(np.arange(3 * n_items), 3)
    rows = Annotations.of(
        item=item, annotator=annotator, label=label[item], n_items=n_items, n_annotators=3, n_classes=2
    )
    return TrainingData(
        annotations=rows, items=Items(n_items=n_items, features=(offset + factor * features).astype(np.float32))
    )


def fitted(data: TrainingData, model: str = "soft-mv", **params: Any) -> FitResult:
    built = registered.build_model(model, {**QUICK, **params})
    return fit_one(built, data, FitContext(seeds=SeedStream(0)))


def test_features_have_mean_zero_and_deviation_one_and_constants_are_zero() -> None:
    features = crowd().items.features
    assert features is not None
    scaled = Scale.of(features).applied(features)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.std(axis=0), [1, 1, 0], atol=1e-6)
    assert not Scale.of(features).applied(features + 1)[:, 2].any()  # constant in training: silent ever after
    np.testing.assert_allclose(Scale.for_networks(features).factor, Scale.of(features).factor)  # no bound is near


def test_rare_marks_do_not_outweigh_the_rest_and_common_ones_are_as_any_feature() -> None:
    marks = np.zeros((10_000, 2), np.float32)
    marks[:5, 0] = marks[::2, 1] = 1
    assert np.ptp(Scale.of(marks).applied(marks)[:, 0]) > 40
    np.testing.assert_allclose(np.ptp(Scale.for_networks(marks).applied(marks), axis=0), [WIDEST, 2.0], rtol=1e-3)


def test_rows_of_embeddings_are_no_longer_than_those_of_some_features() -> None:
    wide = np.random.default_rng(0).normal(0.3, 0.05, (200, 400)).astype(np.float32)
    rows = Scale.for_networks(wide).applied(wide)
    np.testing.assert_allclose((rows**2).sum(axis=1).mean(), MOST_FEATURES, rtol=1e-3)


@pytest.mark.parametrize("model", ["soft-mv", "dl-em", "cmm", "crowd-layer", "speelfc", "semi-lfc", "lia", "ldl-nm"])
def test_units_of_measurement_change_nothing(model: str) -> None:
    params: dict[str, Any] = {"restarts": 1, "iterations": 2} if model in ("dl-em", "cmm", "lia") else {}
    known = registered.parameters(model)
    settings = {name: value for name, value in {**QUICK, **params}.items() if name in known}
    built = registered.build_model(model, settings)
    ours, theirs = (fit_one(built, crowd(factor=factor), FitContext(seeds=SeedStream(0))) for factor in (1.0, 1024.0))
    np.testing.assert_allclose(ours.item_probs, theirs.item_probs, atol=1e-5)
    raw = registered.build_model(model, {**settings, "standardise": False})
    assert not standardises(raw)
    other = fit_one(raw, crowd(), FitContext(seeds=SeedStream(0)))
    assert np.abs(other.item_probs - ours.item_probs).max() > 1e-3


def test_a_batch_of_different_data_equals_each_alone() -> None:
    data = [crowd(0), crowd(1, n_items=55, offset=3.0), crowd(2, factor=50.0)]
    model = registered.build_model("hard-mv", {"epochs": 3, "steps": 20, "hidden": [5]})  # lengths are found by folds
    contexts = [FitContext(seeds=SeedStream(seed)) for seed in range(3)]
    for together, part, context in zip(fit_all(model, data, contexts), data, contexts, strict=True):
        alone = fit_one(model, part, context)
        np.testing.assert_allclose(together.item_probs, alone.item_probs, atol=1e-6)
        assert together.iterations == alone.iterations


def test_reported_predictors_and_dev_items_have_the_scale_of_the_training_items() -> None:
    data, heard = crowd(), list[np.ndarray]()

    def report(step: int, objective: float, predictor: Any = None) -> bool:
        heard.append(predictor().predict(data.items, "classifier"))
        return True

    built = registered.build_model("soft-mv", QUICK)
    result = fit_one(built, data, FitContext(seeds=SeedStream(0), report=report))
    assert result.predictor is not None
    np.testing.assert_allclose(heard[-1], result.item_probs, atol=1e-6)
    np.testing.assert_allclose(result.predictor.predict(data.items, "classifier"), result.item_probs, atol=1e-6)


def test_protocol_paper_reads_features_as_they_came() -> None:
    assert standardises(registered.build_model("cmm", {}))
    assert not standardises(registered.build_model("cmm", {"protocol": "paper"}))
    assert standardises(registered.build_model("cmm", {"protocol": "paper", "standardise": True}))
    assert not standardises(registered.build_model("dawid-skene", {}))
    result = fitted(crowd(), protocol="paper")
    assert not isinstance(result.predictor, ScaledPredictor)


def test_what_is_saved_has_the_scale_in_it(tmp_path: Path) -> None:
    data = crowd()
    result = fitted(data)
    assert result.predictor is not None
    assert data.items.features is not None
    plain = plain_classifier(result.predictor)
    assert plain is not None
    turned = plain.reordered(np.array([1, 0]))
    save_classifiers(tmp_path / "c", [turned, turned], ["no", "yes"], "soft-mv")
    read = load_classifier(tmp_path / "c")
    wanted = result.predictor.predict(data.items, "classifier")[:, ::-1]
    np.testing.assert_allclose(read.predict(data.items.features), wanted, atol=1e-6)
    module = AveragedNetworks([fit.arrays for fit in read.fits])
    np.testing.assert_allclose(module(torch.from_numpy(data.items.features)).numpy(), wanted, atol=1e-6)


def test_a_classifier_without_a_scale_is_still_read(tmp_path: Path) -> None:
    data = crowd()
    result = fitted(data, standardise=False)
    assert result.predictor is not None
    assert data.items.features is not None
    plain = plain_classifier(result.predictor)
    assert plain is not None
    assert plain.scale is None
    save_classifiers(tmp_path / "c", [replace(plain)], ["no", "yes"], "soft-mv")
    text = (tmp_path / "c" / "classifier.json").read_text()
    (tmp_path / "c" / "classifier.json").write_text(text.replace('"format": 2', '"format": 1'))
    read = load_classifier(tmp_path / "c").predict(data.items.features)
    np.testing.assert_allclose(read, result.predictor.predict(data.items, "classifier"), atol=1e-6)
