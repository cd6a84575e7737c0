"""MAJ⋆ and MMCE⋆: what the network is taught, and a vector for each item where there are no features."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models.aggregate.mmce import Mmce
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_all, fit_one
from crowdsweep.models.networks.dense import Dense
from crowdsweep.models.networks.embedded import embedded_network
from crowdsweep.models.networks.values import Values
from crowdsweep.models.registered import build_model
from crowdsweep.seeds import SeedStream
from crowdsweep.testing.small_data import small_data


def context(seed: int = 0) -> FitContext:
    return FitContext(seeds=SeedStream(seed))


@pytest.mark.parametrize(
    ("name", "aggregate"),
    [("maj-star-e", "majority-vote"), pytest.param("mmce-star-e", "mmce", marks=pytest.mark.long)],
)
def test_without_features_the_aggregator_is_repeated(name, aggregate):
    data = replace(small_data().training, items=Items(n_items=24))
    said = fit_one(build_model(aggregate, {}), data, context()).item_probs
    repeated = fit_one(build_model(name, {}), data, context()).item_probs
    clear = np.sort(said, axis=1)[:, -1] > np.sort(said, axis=1)[:, -2] + 1e-6
    assert clear.sum() > 12
    np.testing.assert_array_equal(repeated.argmax(axis=1)[clear], said.argmax(axis=1)[clear])


def test_soft_answers_are_votes_of_their_share():
    """Two doubtful votes for one class weigh less than one sure vote for the other."""
    rows = Annotations.of(
        item=np.repeat(np.arange(12), 3),
        annotator=np.tile(np.arange(3), 12),
        label=np.tile([0, 0, 1], 12),
        probability=np.tile([0.55, 0.55, 1.0], 12),
        n_items=12,
        n_annotators=3,
        n_classes=2,
    )
    fitted = fit_one(build_model("maj-star-e", {}), TrainingData(annotations=rows, items=Items(n_items=12)), context())
    assert (fitted.item_probs.argmax(axis=1) == 1).all()


def test_gamma_is_that_of_mmce():
    data = small_data().training
    (one,), (other,) = (
        fit_all(build_model("mmce-star", {"regularisation": gamma, "epochs": 1}), [data], [context()])
        for gamma in (0.25, 4.0)
    )
    mmce = fit_one(Mmce(regularisation=4.0), data, context())
    np.testing.assert_allclose(other.annotators.confusion(np.arange(6)), mmce.annotators.confusion(np.arange(6)))
    assert not np.allclose(one.annotators.confusion(np.arange(6)), mmce.annotators.confusion(np.arange(6)))


def test_an_embedded_network_reads_the_vectors_of_its_items():
    network = embedded_network(Dense(hidden=(4,), dropout=0.0), n_outputs=2, n_items=5, width=3)
    drawn = {p.name: p.start(np.random.default_rng(place), p.shape) for place, p in enumerate(network.parameters())}
    values = Values.of_one(drawn, "cpu")
    found = network.probabilities(values, torch.tensor([[4, 0, 4]]))[0].numpy()
    vectors = drawn["item vectors"].astype(np.float64)[[4, 0, 4]]
    hidden = np.maximum(vectors @ drawn["w0"] + drawn["b0"], 0)
    logits = hidden @ drawn["w1"] + drawn["b1"]
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_gradient_of_a_vector_is_that_of_its_items_alone():
    network = embedded_network(Dense(hidden=(4,), dropout=0.0), n_outputs=2, n_items=5, width=3)
    drawn = {p.name: p.start(np.random.default_rng(place), p.shape) for place, p in enumerate(network.parameters())}
    leaves = {name: torch.from_numpy(array[None]).requires_grad_(True) for name, array in drawn.items()}
    network.logits(Values(leaves), torch.tensor([[1, 3]]), None).square().sum().backward()
    moved = leaves["item vectors"].grad[0].abs().sum(dim=1) > 0
    assert moved.tolist() == [False, True, False, True, False]


def test_what_reads_texts_reads_no_vectors():
    with pytest.raises(FitFailed, match="`network` linear or mlp, which read a vector of each item, got TextCNN"):
        fit_one(build_model("maj-star-e", {"network": "text_cnn"}), small_data().training, context())
