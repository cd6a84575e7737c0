"""speelfc-d and ldl-nm against explicit loops in float64, finite differences, and crowds whose abilities are known."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models.contract import FitContext, fit_all
from crowdsweep.models.joint._answers import BatchAnswers, StackedAnswers
from crowdsweep.models.joint._ldl_network import HEADS, LdlNetwork
from crowdsweep.models.joint.ldl_nm import LdlNm
from crowdsweep.models.joint.speelfc_d import SpeelfcD, answer_gradients
from crowdsweep.models.networks.replicas import Minibatch, ReplicaStack
from crowdsweep.seeds import SeedStream


def some_answers(rng: np.random.Generator, replicas: int, size: int, classes: int, answers: int) -> BatchAnswers:
    place = torch.from_numpy(rng.integers(0, replicas * size, answers))
    return BatchAnswers(
        replica=place // size,
        place=place,
        annotator=torch.from_numpy(rng.integers(0, 5, answers)),
        label=torch.from_numpy(rng.integers(0, classes, answers)),
        weight=torch.ones(answers),
    )


def explicit_log_probs(
    f: torch.Tensor, easiness: torch.Tensor, ability: torch.Tensor, seen: BatchAnswers
) -> torch.Tensor:
    """log sum over the true classes k of f_k p(y | k), one answer after another."""
    classes, size = f.shape[1:]
    found = []
    for answer in range(len(seen.place)):
        replica, item = divmod(int(seen.place[answer]), size)
        s = 1 / (1 + torch.exp(-ability[answer] * easiness[replica, 0, item]))
        terms = [
            f[replica, k, item] * (s if k == int(seen.label[answer]) else (1 - s) / (classes - 1))
            for k in range(classes)
        ]
        found.append(torch.log(sum(terms, torch.zeros(()))))
    return torch.stack(found)


@pytest.mark.parametrize("classes", [2, 5])
def test_speelfc_d_likelihood_and_slopes_are_those_of_the_sum_over_classes(classes: int) -> None:
    rng = np.random.default_rng(classes)
    seen = some_answers(rng, 2, 7, classes, 40)
    raw = torch.from_numpy(rng.normal(size=(2, classes, 7))).requires_grad_(True)
    easiness = torch.from_numpy(rng.uniform(0.1, 20, (2, 1, 7))).requires_grad_(True)
    ability = torch.from_numpy(rng.normal(0, 0.3, 40)).requires_grad_(True)
    share = torch.from_numpy(rng.uniform(0.5, 2, 40))
    expected = explicit_log_probs(torch.softmax(raw, dim=1), easiness, ability, seen)
    slopes = torch.autograd.grad(-(share * expected).sum(), (raw, easiness, ability))
    found = answer_gradients(torch.log_softmax(raw, dim=1), easiness, ability, seen, share)
    torch.testing.assert_close(found.log_probs, expected.detach(), atol=1e-9, rtol=0)
    by_logits = torch.softmax(raw.detach(), dim=1) * found.totals - found.targets
    for one, other in zip((by_logits, found.easiness, found.ability), slopes, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=0)


def test_speelfc_d_slopes_equal_finite_differences() -> None:
    rng = np.random.default_rng(0)
    seen = some_answers(rng, 1, 4, 3, 12)
    log_f = torch.log_softmax(torch.from_numpy(rng.normal(size=(1, 3, 4))), dim=1)
    easiness, ability = torch.from_numpy(rng.uniform(0.5, 3, (1, 1, 4))), torch.from_numpy(rng.normal(size=12))
    share = torch.ones(12, dtype=torch.float64)

    def loss(easiness: torch.Tensor, ability: torch.Tensor) -> float:
        return -float(answer_gradients(log_f, easiness, ability, seen, share).log_probs.sum())

    found = answer_gradients(log_f, easiness, ability, seen, share)
    for answer in range(12):
        step = torch.zeros(12, dtype=torch.float64)
        step[answer] = 1e-6
        difference = (loss(easiness, ability + step) - loss(easiness, ability - step)) / 2e-6
        assert float(found.ability[answer]) == pytest.approx(difference, abs=1e-7)
    for item in range(4):
        step = torch.zeros(1, 1, 4, dtype=torch.float64)
        step[0, 0, item] = 1e-6
        difference = (loss(easiness + step, ability) - loss(easiness - step, ability)) / 2e-6
        assert float(found.easiness[0, 0, item]) == pytest.approx(difference, abs=1e-7)


def test_speelfc_d_likelihood_is_finite_where_everything_saturates() -> None:
    seen = some_answers(np.random.default_rng(0), 1, 2, 3, 8)
    log_f = torch.log_softmax(torch.tensor([[[200.0, 0.0], [0.0, 200.0], [-200.0, 0.0]]]), 1)
    ability = torch.tensor([1.0, -1.0] * 4)
    found = answer_gradients(log_f, torch.full((1, 1, 2), 100.0), ability, seen, torch.ones(8))
    for part in (found.log_probs, found.targets, found.easiness, found.ability):
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


def test_speelfc_d_recovers_the_order_of_ability() -> None:
    crowds = [training_data(seed, items=600, annotators=30, per_annotator=200) for seed in range(3)]
    contexts = [FitContext(seeds=SeedStream(seed)) for seed in range(3)]
    results = fit_all(SpeelfcD(epochs=30), [data for data, _, _ in crowds], contexts)
    for result, (_, ability, gold) in zip(results, crowds, strict=True):
        assert spearmanr(result.extras["ability"], ability).statistic >= 0.9
        assert (result.item_probs.argmax(axis=1) == gold).mean() >= 0.97


def test_answers_of_a_batch_are_those_of_its_items() -> None:
    parts = [training_data(seed, items=20, annotators=4, per_annotator=9)[0] for seed in (1, 2)]
    stacked = StackedAnswers(parts, "cpu")
    rows = torch.tensor([[3, 0, 19], [7, 7, 1]])
    mask = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    seen = stacked.of(Minibatch(n_replicas=2, rows=rows, mask=mask, sizes=mask.sum(1)))
    found = sorted(zip(seen.place.tolist(), seen.annotator.tolist(), seen.label.tolist(), strict=True))
    expected = []
    for replica, part in enumerate(parts):
        for position, item in enumerate(rows[replica].tolist()):
            if mask[replica, position] == 0:
                continue
            for row in np.flatnonzero(part.annotations.item == item):
                who = int(part.annotations.annotator[row]) + replica * 4
                expected.append((replica * 3 + position, who, int(part.annotations.label[row])))
    assert found == sorted(expected)


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
            stack.prefix(1).values,
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
def test_ldl_nm_gradients_equal_those_of_autograd(activation: str) -> None:
    sizes = {"n_features": 5, "n_classes": 3, "item_embedding": 4, "annotator_embedding": 2, "latent": 6}
    network = LdlNetwork(**sizes, activation=activation)
    stack = ReplicaStack.start(network.parameters(), [SeedStream(1), SeedStream(2)], "cpu")
    rng = np.random.default_rng(4)
    x = torch.from_numpy(rng.normal(size=(2, 8, 5)).astype(np.float32))
    annotators = torch.from_numpy(rng.normal(size=(2, 8, 2)).astype(np.float32))
    targets = torch.from_numpy(rng.uniform(0, 1, (2, 8, 3, 3)).astype(np.float32))
    masks = [torch.from_numpy(rng.random((2, 8, 6)) < 0.7) for _ in range(2)]
    log_probs, slopes = network.gradients(stack.prefix(2), x, annotators, targets, masks, 0.7)

    phi = {"softsign": torch.nn.functional.softsign, "elu": torch.nn.functional.elu}.get(activation)
    phi = phi or getattr(torch, activation)
    leaves = {name: value.detach().clone().requires_grad_(True) for name, value in stack.prefix(2).values.items()}
    embedded = annotators.clone().requires_grad_(True)
    fused = phi(torch.bmm(phi(torch.cat([torch.bmm(x, leaves["item"]), embedded], 2)), leaves["fusion"]))
    fused = fused * masks[0] / 0.7
    encoded = phi(torch.bmm(fused, leaves["encoder"]) + fused) * masks[1] / 0.7
    expected = torch.log_softmax(torch.bmm(encoded, leaves["heads"]).view(2, 8, 3, 3), dim=3)
    found = torch.autograd.grad(-(targets * expected).sum(), [*leaves.values(), embedded])
    torch.testing.assert_close(log_probs, expected.detach())
    for name, gradient in zip(leaves, found, strict=False):
        torch.testing.assert_close(stack.gradient(name), gradient, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(slopes, found[-1], atol=1e-5, rtol=1e-4)


def test_ldl_nm_learns_what_each_annotator_would_say() -> None:
    """Two kinds of annotators contradict each other on every item: their average is a coin, each alone is certain."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, 5)).astype(np.float32)
    truth = (features[:, 0] > 0).astype(np.int64)
    item, annotator = np.repeat(np.arange(400), 8), np.tile(np.arange(8), 400)
    label = np.where(annotator < 4, truth[item], 1 - truth[item])
    annotations = Annotations.of(item=item, annotator=annotator, label=label, n_items=400, n_annotators=8, n_classes=2)
    data = TrainingData(annotations=annotations, items=Items(n_items=400, features=features))
    model = LdlNm(item_weight=0.0, annotator_weight=0.0, dropout=0.0, epochs=60, patience=60, learning_rate=5e-3)
    result = fit_all(model, [data], [FitContext(seeds=SeedStream(0))])[0]
    assert np.abs(result.item_probs - 0.5).max() < 0.2
    picked = np.arange(200, dtype=np.int32)
    assert result.label_probs is not None
    for who, expected in ((0, truth[:200]), (7, 1 - truth[:200])):
        said = result.label_probs(picked, np.full(200, who, dtype=np.int32))
        assert (said.argmax(axis=1) == expected).mean() > 0.95
