"""Every network, and what models do at other settings than their defaults, on a device that is not the CPU.

That every model runs there at short settings is a promise of its contract (`stays_on_its_device`).
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.models.joint._unseen_annotator import Descent, infer_annotator
from crowdsweep.seeds import SeedStream
from crowdsweep.testing.device_checks import compare_devices
from crowdsweep.testing.pretend_device import pretend_device
from crowdsweep.testing.scale_checks import sequence_data
from crowdsweep.testing.small_data import SmallData, multilabel_data, small_data

NETWORKS: dict[str, dict[str, Any]] = {
    "linear": {"network": "linear"},
    "mlp": {"network": "mlp", "hidden": [4, 3], "dropout": 0.3},
    "text_cnn": {"network": "text_cnn", "embedding": 4, "widths": [2], "filters": 4, "dropout": 0.3},
    "tagger": {"network": "tagger", "embedding": 4, "characters": 3, "state": 4, "dropout": 0.3},
}
FEW = {"epochs": 2, "iterations": 2, "patience": 1, "restarts": 1, "steps": 0}


def devices_agree(model: str, params: dict[str, Any], sets: list[SmallData]) -> bool:
    """Whether anything was computed on the device; that the numbers agree is checked."""
    known = registered.parameters(model, params)
    assert not set(params) - set(known), f"{model} has other parameters"
    given = {**{name: value for name, value in FEW.items() if name in known}, **params}
    return compare_devices(registered.model_info(model), registered.build_model(model, given), sets).computed > 0


@pytest.mark.parametrize("model", ["soft-mv", "pd", "mtl", "dl-em"])
@pytest.mark.parametrize("network", NETWORKS)
def test_networks(model: str, network: str) -> None:
    data = sequence_data() if network == "tagger" else small_data(n_items=9)
    assert devices_agree(model, NETWORKS[network], [data, data])


def with_known_annotators() -> SmallData:
    data = small_data(n_items=9)
    features = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
    return replace(data, training=replace(data.training, annotator_features=features))


OTHERWISE: dict[str, tuple[str, dict[str, Any], SmallData]] = {
    "lia of annotators with features": ("lia", {}, with_known_annotators()),
    "lia on all answers together": (
        "lia",
        {"em_iterations": 1, "finetune": "joint", "latent": 2},
        small_data(n_items=8),
    ),
    "lia on answers one by one": ("lia", {"em_iterations": 1, "predict": "posterior"}, small_data(n_items=8)),
    "lia without a shared trunk": ("lia", {"shared_trunk": False, "item_weighting": "code"}, small_data(n_items=8)),
    "lia-ml on several classes": ("lia-ml", {}, multilabel_data()),
    "cmm as in the paper": ("cmm", {"protocol": "paper", "item_weighting": "uniform"}, small_data(n_items=8)),
    "cmm-individual, items alike": ("cmm-individual", {"item_weighting": "uniform"}, small_data(n_items=8)),
    "dl-em as in the paper": ("dl-em", {"protocol": "paper"}, small_data(n_items=8)),
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_other_settings(what: str) -> None:
    model, params, data = OTHERWISE[what]
    assert devices_agree(model, params, [data])


def inferred(device: str) -> np.ndarray:
    """Returns what somebody would say of whom three answers are known."""
    data = small_data(n_items=9).training
    model = registered.build_model("ldl-nm", {"epochs": 1, "steps": 0, "standardise": False})
    ensemble: Any = fit_one(model, data, FitContext(seeds=SeedStream(0), device=device)).predictor
    items = data.items.take(np.arange(3))
    how = Descent(head="label", start="nearest", steps=3)
    return infer_annotator(ensemble, items, np.eye(3), how).answers(data.items)


def test_what_an_unseen_annotator_would_say() -> None:
    with pretend_device() as device:
        there = inferred(device.name)
    np.testing.assert_array_equal(there, inferred("cpu"))
