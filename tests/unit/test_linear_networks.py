"""A network without hidden units trains as long as one that may stop, whoever trains it and however it is asked for."""

from typing import Any

import numpy as np
import pytest

import crowdsweep as cs
from crowdsweep.models import registered
from crowdsweep.models.contract import DataShape
from crowdsweep.models.joint.crowd_layer import CrowdLayer
from crowdsweep.models.training_length import STEPS, UNSTOPPED_STEPS

UNSTOPPED = ("crowd-layer", "speelfc", "conal", "dl-em", "cmm")


@pytest.mark.parametrize(
    ("asked", "steps"),
    [
        ({"network": "linear"}, STEPS),
        ({"network": "mlp", "hidden": []}, STEPS),
        ({"network": "auto", "hidden": []}, STEPS),
        ({"network": "mlp", "hidden": [8]}, UNSTOPPED_STEPS),
        ({"network": "text_cnn"}, UNSTOPPED_STEPS),
        ({"network": "linear", "steps": 7}, 7),
    ],
)
def test_only_hidden_units_shorten_the_training(asked: dict[str, Any], steps: int) -> None:
    model = registered.build_model("crowd-layer", asked)
    assert isinstance(model, CrowdLayer)
    assert model.classifier.unstopped().least_steps(1) == steps


@pytest.mark.parametrize("model", UNSTOPPED)
def test_the_cost_estimate_knows(model: str) -> None:
    info = registered.model_info(model)
    shape = DataShape(n_items=60, n_annotators=5, n_classes=2, n_annotations=180, n_features=4)

    def cost(**params: object) -> float:
        assert info.cost is not None
        return info.cost(shape, registered.full_params(model, params))

    alike = [cost(network="linear"), cost(network="mlp", hidden=[]), cost(network="auto", hidden=[])]
    assert max(alike) < 1.5 * min(alike)
    assert cost(network="linear") == pytest.approx(cost(network="linear", steps=STEPS))


@pytest.mark.long
def test_sixty_items_are_enough() -> None:
    """Three answers per item, 85 % right: a logistic regression on the votes reaches .95, 500 steps .75."""
    random = np.random.default_rng(0)
    features, fresh = random.normal(size=(60, 4)), random.normal(size=(2000, 4))
    truth, fresh_truth = (features[:, 0] > 0).astype(int), (fresh[:, 0] > 0).astype(int)
    answers = np.where(random.random((60, 3)) < 0.85, truth[:, None], 1 - truth[:, None])
    model = cs.CrowdClassifier("crowd-layer", network="linear", seeds=1).fit(features, answers)
    assert np.mean(model.predict(fresh) == fresh_truth) > 0.92
