"""`network: auto`: what is known of the items decides which network reads them."""

from typing import Any

import numpy as np
import pytest

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models import registered
from crowdsweep.models.classifier import Classifier
from crowdsweep.models.contract import DataShape, FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.models.networks.automatic import Auto
from crowdsweep.models.networks.dense import DenseNetwork
from crowdsweep.models.networks.tagger import TaggerNetwork
from crowdsweep.models.networks.text_cnn import TextCNNNetwork
from crowdsweep.seeds import SeedStream

TEXTS = ["bad film", "good film"] * 6
FEATURES = np.eye(2, dtype=np.float32)[np.arange(12) % 2]
UNIT = (np.arange(12) // 4).astype(np.int32)


def data_of(**known: Any) -> TrainingData:
    item, annotator = np.divmod(np.arange(24), 2)
    rows = Annotations.of(item=item, annotator=annotator, label=item % 2, n_items=12, n_annotators=2, n_classes=2)
    return TrainingData(annotations=rows, items=Items(n_items=12, **known))


@pytest.mark.parametrize(
    ("known", "network", "needs"),
    [
        ({"features": FEATURES}, DenseNetwork, {"features"}),
        ({"features": FEATURES, "text": TEXTS}, DenseNetwork, {"features"}),
        ({"text": TEXTS}, TextCNNNetwork, {"text"}),
        ({"text": TEXTS, "unit": UNIT}, TaggerNetwork, {"text"}),
        ({"features": FEATURES, "text": TEXTS, "unit": UNIT}, DenseNetwork, {"features"}),
    ],
)
def test_the_items_decide(known: dict[str, Any], network: type[Any], needs: set[str]) -> None:
    data = data_of(**known)
    assert isinstance(Classifier().build(data, sentences=True), network)
    for name in ("soft-mv", "stl", "mtl", "cmm"):
        info = registered.model_info(name)
        assert info.needs_of(registered.build_model(name, {}), data.items) == needs
    ideal = registered.model_info("ideal")
    assert ideal.needs_of(registered.build_model("ideal", {}), data.items) == needs | {"gold"}


def test_a_model_that_cannot_train_on_sentences_reads_tokens_one_by_one() -> None:
    assert isinstance(Classifier().build(data_of(text=TEXTS, unit=UNIT)), TextCNNNetwork)


@pytest.mark.parametrize("name", ["stl", "mtl"])
def test_words_are_read_without_naming_a_network(name: str) -> None:
    data = data_of(text=TEXTS)
    model = registered.build_model(name, {"epochs": 8, "steps": 0, "learning_rate": 0.02})
    fitted = fit_one(model, data, FitContext(seeds=SeedStream(0)))
    assert (fitted.item_probs.argmax(axis=1) == np.arange(12) % 2).all()


def test_a_network_that_is_named_stays() -> None:
    soft_mv = registered.model_info("soft-mv")
    named = registered.build_model("soft-mv", {"network": "mlp"})
    assert soft_mv.needs_of(named, data_of(text=TEXTS).items) == {"features"}
    assert Auto(hidden=(3,), dropout=0.25).dense.hidden == (3,)


def test_the_cost_of_texts_is_more_than_nothing() -> None:
    cost = registered.model_info("stl").cost
    assert cost is not None
    sizes = {"n_items": 1000, "n_annotators": 5, "n_classes": 2, "n_annotations": 3000}
    assert cost(DataShape(**sizes), registered.full_params("stl", {})) > 0
