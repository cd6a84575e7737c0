"""speelfc-d and ldl-nm against explicit loops in float64, finite differences, and crowds whose abilities are known."""

from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models._answers import StackedAnswers
from crowdsweep.models._batches import Batch, blocks_of
from crowdsweep.models.classifier import Classifier
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_all
from crowdsweep.models.joint._ldl_network import HEADS, LdlNetwork, followed
from crowdsweep.models.joint._ldl_training_set import training_set
from crowdsweep.models.joint.ldl_nm import LdlNm
from crowdsweep.models.joint.speelfc_d import SpeelfcD, log_likelihood
from crowdsweep.models.label_likelihood import mixture
from crowdsweep.models.networks.replicas import ReplicaStack
from crowdsweep.models.networks.streams import Minibatch
from crowdsweep.models.networks.values import Values
from crowdsweep.seeds import SeedStream


def explicit_log_probs(
    f: torch.Tensor, easiness: torch.Tensor, ability: torch.Tensor, label: torch.Tensor
) -> torch.Tensor:
    """log sum over the true classes k of f_k p(y | k), one label after another."""
    classes, found = f.shape[1], []
    for one in range(len(label)):
        s = 1 / (1 + torch.exp(-ability[one] * easiness[one]))
        terms = [f[one, k] * (s if k == int(label[one]) else (1 - s) / (classes - 1)) for k in range(classes)]
        found.append(torch.log(sum(terms, torch.zeros(()))))
    return torch.stack(found)


@pytest.mark.parametrize("classes", [2, 5])
def test_speelfc_d_likelihood_and_slopes_are_those_of_the_sum_over_classes(classes: int) -> None:
    rng = np.random.default_rng(classes)
    raw = torch.from_numpy(3 * rng.normal(size=(40, classes))).requires_grad_(True)
    easiness = torch.from_numpy(rng.uniform(0.1, 20, 40)).requires_grad_(True)
    ability = torch.from_numpy(rng.normal(0, 0.3, 40)).requires_grad_(True)
    label = torch.from_numpy(rng.integers(0, classes, 40))
    expected = explicit_log_probs(torch.softmax(raw, dim=1), easiness, ability, label)
    found = mixture(torch.log_softmax(raw, dim=1), log_likelihood(ability * easiness, label, classes))
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=0)
    for one, other in zip(
        torch.autograd.grad(found.sum(), (raw, easiness, ability)),
        torch.autograd.grad(expected.sum(), (raw, easiness, ability)),
        strict=True,
    ):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=0)


def test_speelfc_d_likelihood_is_finite_where_everything_saturates() -> None:
    raw = torch.tensor([[200.0, 0.0, -200.0], [0.0, 200.0, 0.0]] * 4, requires_grad=True)
    easiness = torch.full((8,), 100.0, requires_grad=True)
    ability = torch.tensor([1.0, -1.0, -1.0, 1.0] * 2, requires_grad=True)
    label = torch.tensor([0, 1, 2, 0] * 2)
    found = mixture(torch.log_softmax(raw, dim=1), log_likelihood(ability * easiness, label, 3))
    for part in (found, *torch.autograd.grad(found.sum(), (raw, easiness, ability))):
        assert torch.isfinite(part).all()


def training_data(seed: int, *, items: int, annotators: int, per_annotator: int, classes: int = 3) -> tuple:
    """A crowd whose annotators answer `per_annotator` random items, right with their own probability."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, classes, items)
    centres = rng.normal(0, 1.5, (classes, 6))
    features = (centres[gold] + rng.normal(0, 1, (items, 6))).astype(np.float32)
    ability = rng.uniform(0.4, 0.95, annotators)
    annotator = np.repeat(np.arange(annotators), per_annotator)
    item = np.concatenate([rng.choice(items, per_annotator, replace=False) for _ in range(annotators)])
    right = rng.random(len(item)) < ability[annotator]
    label = np.where(right, gold[item], (gold[item] + rng.integers(1, classes, len(item))) % classes)
    annotations = Annotations.of(
        item=item, annotator=annotator, label=label, n_items=items, n_annotators=annotators, n_classes=classes
    )
    return TrainingData(annotations=annotations, items=Items(n_items=items, features=features)), ability, gold


@pytest.mark.long
def test_speelfc_d_recovers_the_order_of_ability() -> None:
    crowds = [training_data(seed, items=600, annotators=30, per_annotator=200) for seed in range(3)]
    contexts = [FitContext(seeds=SeedStream(seed)) for seed in range(3)]
    results = fit_all(SpeelfcD(epochs=30, classifier=Classifier(steps=0)), [data for data, _, _ in crowds], contexts)
    for result, (_, ability, gold) in zip(results, crowds, strict=True):
        assert spearmanr(result.extras["ability"], ability).statistic >= 0.9
        assert (result.item_probs.argmax(axis=1) == gold).mean() >= 0.97


def test_answers_of_a_batch_are_those_of_its_items() -> None:
    parts = [training_data(seed, items=20, annotators=4, per_annotator=9)[0] for seed in (1, 2)]
    stacked = StackedAnswers([part.annotations for part in parts], "cpu")
    rows = torch.tensor([[3, 0, 19], [7, 7, 1]])
    mask = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    drawn = np.where(mask.numpy() > 0, rows.numpy(), -1)
    step = Minibatch(n_replicas=2, rows=rows, mask=mask, sizes=mask.sum(1), drawn=drawn)
    numbers = [1, 0]  # the replicas stand in another order than their data
    (block,) = blocks_of([step], numbers, [], 1)
    seen = stacked.of(Batch(block=block, step=0))
    found = sorted(zip(seen.item.tolist(), seen.annotator.tolist(), seen.label.tolist(), strict=True))
    expected = []
    for place, number in enumerate(numbers):
        annotations = parts[number].annotations
        for position, item in enumerate(rows[place].tolist()):
            rows_of_item = np.flatnonzero(annotations.item == item) if mask[place, position] else []
            answers = [(int(annotations.annotator[row]), int(annotations.label[row])) for row in rows_of_item]
            expected += [(place * 3 + position, *answer) for answer in answers]
    assert found == sorted(expected)
    assert seen.place.tolist() == [item // 3 for item in seen.item.tolist()]
    counts = [sum(1 for entry in expected if entry[0] // 3 == place) for place in (0, 1)]
    assert seen.weights.tolist() == counts


def softsign(v: np.ndarray) -> np.ndarray:
    return v / (1 + np.abs(v))


def softmax(v: np.ndarray) -> np.ndarray:
    e = np.exp(v - v.max())
    return e / e.sum()


def test_ldl_nm_ensemble_asks_every_annotator_with_the_whole_encoder() -> None:
    network = LdlNetwork(
        n_features=5, n_classes=3, item_embedding=4, annotator_embedding=2, latent=6, activation="softsign"
    )
    stack = ReplicaStack.start(network.parameters(), [SeedStream(1)], "cpu")
    values = {name: array.astype(np.float64) for name, array in stack.values_of(0).items()}
    rng = np.random.default_rng(3)
    x, members = rng.normal(size=(4, 5)).astype(np.float32), rng.normal(size=(7, 2)).astype(np.float32)
    for number, head in enumerate(HEADS[:2]):
        aggregation = ("mean", "vote")[number]
        found = network.ensemble(
            Values(stack.prefix(1).values),
            torch.from_numpy(x)[None],
            torch.from_numpy(members)[None],
            head=head,
            aggregation=aggregation,
        )[0].numpy()
        for item in range(4):
            said = []
            for member in members:
                joined = softsign(np.concatenate([x[item] @ values["item"], member]))
                fused = softsign(joined @ values["fusion"])
                encoded = softsign(fused @ values["encoder"] + fused)
                answer = softmax(encoded @ values["heads"][:, 3 * number : 3 * number + 3])
                said.append(answer if aggregation == "mean" else np.eye(3)[answer.argmax()])
            np.testing.assert_allclose(found[item], np.mean(said, axis=0), atol=1e-5)


@pytest.mark.parametrize("activation", ["softsign", "tanh", "relu", "elu"])
def test_ldl_nm_training_and_prediction_compute_the_same(activation: str) -> None:
    sizes = {"n_features": 5, "n_classes": 3, "item_embedding": 4, "annotator_embedding": 2, "latent": 6}
    network = LdlNetwork(**sizes, activation=activation)
    stack = ReplicaStack.start(network.parameters(), [SeedStream(1), SeedStream(2)], "cpu")
    rng = np.random.default_rng(4)
    x = torch.from_numpy(rng.normal(size=(2, 8, 5)).astype(np.float32))
    annotators = torch.from_numpy(rng.normal(size=(2, 8, 2)).astype(np.float32))
    values = Values(stack.prefix(2).values)
    heads = network.log_heads(values, x, annotators, None, 1.0).exp()
    torch.testing.assert_close(heads[:, :, 0].to(torch.float64), network.label_probs(values, x, annotators))
    alone = network.ensemble(values, x[:, :1], annotators[:, :1], head="item", aggregation="mean")
    torch.testing.assert_close(heads[:, :1, HEADS.index("item")].to(torch.float64), alone)


def test_ldl_nm_written_softsign_is_the_one_that_autograd_follows() -> None:
    units = torch.linspace(-5, 5, 24, dtype=torch.float64).view(2, 3, 4).requires_grad_(True)
    written_softsign = partial(followed, "softsign")
    assert torch.equal(written_softsign(units), torch.nn.functional.softsign(units))
    assert torch.autograd.gradcheck(written_softsign, units)


@pytest.mark.long
def test_ldl_nm_learns_what_each_annotator_would_say() -> None:
    """Two kinds of annotators contradict each other on every item: their average is a coin, each alone is certain."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, 5)).astype(np.float32)
    truth = (features[:, 0] > 0).astype(np.int64)
    item, annotator = np.repeat(np.arange(400), 8), np.tile(np.arange(8), 400)
    label = np.where(annotator < 4, truth[item], 1 - truth[item])
    annotations = Annotations.of(item=item, annotator=annotator, label=label, n_items=400, n_annotators=8, n_classes=2)
    data = TrainingData(annotations=annotations, items=Items(n_items=400, features=features))
    model = LdlNm(
        item_weight=0.0, annotator_weight=0.0, dropout=0.0, epochs=60, patience=60, steps=0, learning_rate=5e-3
    )
    result = fit_all(model, [data], [FitContext(seeds=SeedStream(0))])[0]
    assert np.abs(result.item_probs - 0.5).max() < 0.2
    picked = np.arange(200, dtype=np.int32)
    assert result.label_probs is not None
    for who, expected in ((0, truth[:200]), (7, 1 - truth[:200])):
        said = result.label_probs(picked, np.full(200, who, dtype=np.int32))
        assert (said.argmax(axis=1) == expected).mean() > 0.95


def test_ldl_nm_histograms_count_weights() -> None:
    rows = Annotations.of(
        item=np.array([0, 1, 1]),
        annotator=np.array([0, 0, 0]),
        label=np.array([0, 1, 1]),
        weight=np.array([9.0, 0.5, 0.5]),
        n_items=2,
        n_annotators=2,
        n_classes=2,
    )
    data = TrainingData(annotations=rows, items=Items(n_items=2, features=np.eye(2, dtype=np.float32)))
    found = training_set(data, SeedStream(0), unseen_annotators=0.0, max_annotators=2048, item_balanced=True)
    np.testing.assert_allclose(found.annotator_shares, [[0.9, 0.1], [0.0, 0.0]])
    by_item = np.bincount(rows.item, found.weight)
    np.testing.assert_allclose(by_item, by_item[0])  # every item counts the same


def test_ldl_nm_a_map_shows_what_everybody_answered_of_items_that_only_unseen_annotators_did() -> None:
    rng = np.random.default_rng(0)
    item, annotator = np.repeat(np.arange(40), 2), np.tile(np.arange(8), 10)
    data = TrainingData(
        annotations=Annotations.of(
            item=item, annotator=annotator, label=np.ones(80, np.int64), n_items=40, n_annotators=8, n_classes=3
        ),
        items=Items(n_items=40, features=rng.normal(size=(40, 3)).astype(np.float32)),
    )
    (found,) = fit_all(LdlNm(epochs=2, steps=0, unseen_annotators=0.5), [data], [FitContext(seeds=SeedStream(0))])
    assert (found.extras["item_classes"] == 1).all()
