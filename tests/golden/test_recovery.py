"""Annotators of a simulated crowd with at least 200 labels each are recognised: I-JS at most 0.05."""

import numpy as np
import pytest

from crowdsweep.data import catalogue
from crowdsweep.data.splits import prepare
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.seeds import SeedStream
from crowdsweep.trial.scoring import score, scored_items

PARAMS = {"annotators": 30, "labels_per_item": 3}
MODELS = {
    "dawid-skene": {},
    "dl-em": {"hidden": [16], "dropout": 0.2, "iterations": 20, "restarts": 1},
    "raykar-prior": {},
}


@pytest.mark.parametrize("model", MODELS)
def test_annotators_are_recognised(model: str) -> None:
    trial = prepare(catalogue.load("gaussians", PARAMS), PARAMS, 0)
    assert trial.training.annotations.labels_per_annotator.min() >= 200
    context = FitContext(seeds=SeedStream(0))
    fitted = fit_one(registered.build_model(model, MODELS[model]), trial.training, context)
    metrics, _ = score(fitted, trial, scored_items(fitted, trial))
    assert metrics["js_annotators"] <= 0.05
    assert np.isfinite(metrics["js_annotators"])
