"""Stacked networks: gradients, the optimiser, and that no replica knows of another."""

import numpy as np
import pytest
import torch

from crowdsweep.errors import FitFailed
from crowdsweep.models._classifiers import StackedClassifiers
from crowdsweep.models._training import Lesson, Schedule, train_classifiers
from crowdsweep.models.networks.linear import linear
from crowdsweep.models.networks.mlp import mlp
from crowdsweep.models.networks.replicas import (
    Adam,
    DropoutMasks,
    EmbeddingTables,
    Parameter,
    ReplicaStack,
    Shuffler,
    glorot_uniform,
    replica_chunks,
)
from crowdsweep.seeds import SeedStream


def _streams(count):
    return [SeedStream(seed) for seed in range(count)]


def _problem(rng, n_items, n_features=3, n_classes=4):
    features = rng.normal(size=(n_items, n_features)).astype(np.float32)
    targets = rng.dirichlet(np.ones(n_classes), size=n_items)
    return features, targets


@pytest.mark.parametrize(
    "network", [linear(3, 4), mlp(3, 4, hidden=(5,), dropout=0.0), mlp(3, 4, hidden=(5, 6), dropout=0.5)]
)
def test_gradients_equal_finite_differences(network):
    rng = np.random.default_rng(0)
    stack = ReplicaStack.start(network.parameters(), _streams(2), "cpu")
    flat = stack.flat.to(torch.float64) + torch.from_numpy(rng.normal(size=stack.flat.shape) / 10)  # off the kinks
    stack = ReplicaStack(network.parameters(), flat)
    features = torch.from_numpy(rng.normal(size=(2, 7, 3)))
    targets = torch.from_numpy(rng.dirichlet(np.ones(4), size=(2, 7)) * rng.uniform(0, 3, (2, 7, 1))).transpose(1, 2)
    masks = [torch.from_numpy(rng.integers(0, 2, (2, 7, width)).astype(float)) for width in network.hidden]
    masks = masks if network.dropout else []
    view = stack.prefix(2)

    def loss(replica):
        hidden = features[replica]
        for layer in range(network.n_layers):
            hidden = hidden @ view.values[f"w{layer}"][replica] + view.values[f"b{layer}"][replica]
            if layer < network.n_layers - 1:
                hidden = hidden.clamp(min=0)
                if masks:
                    hidden = hidden * masks[layer][replica] / (1 - network.dropout)
        return float(-(targets[replica].T * torch.log_softmax(hidden, 1)).sum())

    network.gradients(view, features, targets, targets.sum(dim=1, keepdim=True), masks)
    for parameter in network.parameters():
        gradient = view.gradients[parameter.name]
        for replica in range(2):
            with torch.no_grad():
                cell = view.values[parameter.name][replica].view(-1)
                for place in range(0, parameter.size, 3):
                    kept = cell[place].item()
                    cell[place] = kept + 1e-6
                    above = loss(replica)
                    cell[place] = kept - 1e-6
                    below = loss(replica)
                    cell[place] = kept
                    assert gradient[replica].view(-1)[place].item() == pytest.approx((above - below) / 2e-6, abs=1e-6)


def test_adam_is_torchs_adam_for_each_replica():
    rng = np.random.default_rng(1)
    parameters = [Parameter(name="w", shape=(3, 2)), Parameter(name="b", shape=(1, 2))]
    stack = ReplicaStack.start(parameters, _streams(3), "cpu")
    adam = Adam(learning_rate=0.05, epsilon=1e-12, weight_decay=0.1)
    theirs = [[stack[p.name][s].detach().clone().requires_grad_(True) for p in parameters] for s in range(3)]
    optimisers = [torch.optim.AdamW(own, lr=0.05, eps=1e-12, weight_decay=0.1) for own in theirs]
    for step in range(12):
        active = 3 if step < 8 else 2
        gradients = torch.from_numpy(rng.normal(size=(3, stack.flat.shape[1])).astype(np.float32))
        stack.flat_gradient.copy_(gradients)
        for s in range(active):
            for parameter, own in zip(parameters, theirs[s], strict=True):
                own.grad = stack.gradient(parameter.name)[s].clone()
            optimisers[s].step()
        adam.step(stack, active)
    for s in range(3):
        for parameter, own in zip(parameters, theirs[s], strict=True):
            assert torch.allclose(stack[parameter.name][s], own, rtol=1e-5, atol=1e-6)


def test_lazy_rows_move_as_a_dense_table_would_and_others_stand_still():
    start = glorot_uniform
    tables = EmbeddingTables(rows=6, width=3, start=start, seeds=_streams(2), device="cpu")
    before = tables.values.clone()
    dense = tables.values.clone().requires_grad_(True)
    optimiser = torch.optim.SparseAdam([dense], lr=0.1, eps=1e-10)
    adam = Adam(learning_rate=0.1, epsilon=1e-10)
    for rows in ([0, 4, 4, 7], [4, 11], [0, 7]):
        flat_rows = torch.tensor(rows)
        touched, values = tables.gather(flat_rows)
        (values**3).sum().backward()
        tables.step(touched, adam)
        optimiser.zero_grad()
        (torch.nn.functional.embedding(flat_rows, dense, sparse=True) ** 3).sum().backward()
        optimiser.step()
    assert torch.allclose(tables.values, dense, rtol=1e-4, atol=1e-5)
    untouched = [1, 2, 3, 5, 6, 8, 9, 10]
    assert torch.equal(tables.values[untouched], before[untouched])
    tables.keep([1])
    np.testing.assert_allclose(tables.values_of(0), dense[6:].detach().numpy(), rtol=1e-4, atol=1e-5)


def test_masks_are_a_replicas_own_and_do_not_depend_on_how_many_steps_are_drawn():
    together = DropoutMasks(_streams(3), 0.3, "cpu")
    drawn = torch.cat([together.draw(2, (50, 13), 3), together.draw(3, (50, 13), 3)])
    alone = DropoutMasks([SeedStream(1)], 0.3, "cpu").draw(5, (50, 13), 1)
    assert torch.equal(drawn[:, 1:2], alone)
    assert alone.float().mean().item() == pytest.approx(0.7, abs=0.03)


def test_every_row_is_met_once_an_epoch():
    rows = [np.arange(10, 20), np.arange(4)]
    batches = Shuffler(rows, _streams(2), 4, "cpu").epoch()
    assert [batch.n_replicas for batch in batches] == [2, 1, 1]
    first = torch.cat([b.rows[0] if b.mask is None else b.rows[0][b.mask[0] > 0] for b in batches])
    assert sorted(first.tolist()) == list(range(10, 20))
    assert [batch.sizes.tolist() for batch in batches] == [[4.0, 4.0], [4.0], [2.0]]
    with pytest.raises(ValueError, match="most steps first"):
        Shuffler(rows[::-1], _streams(2), 4, "cpu")


def test_chunks_cover_every_replica_once():
    for floats in (10, 500_000, 10_000_000):
        parts = [list(range(20))[part] for part in replica_chunks(20, floats, "cpu")]
        assert [replica for part in parts for replica in part] == list(range(20))
    assert list(replica_chunks(20, 10_000_000, "cuda")) == [slice(0, 20)]


@pytest.mark.parametrize(
    "network", [linear(3, 4), mlp(3, 4, hidden=(16,), dropout=0.4), mlp(3, 4, hidden=(7, 5), dropout=0.2)]
)
@pytest.mark.parametrize("rule", [{}, {"least_improvement": 0.03}, {"patience": 2}])
def test_a_batched_fit_equals_the_same_fit_alone(network, rule):
    rng = np.random.default_rng(2)
    lessons = []
    for seed, n_items in enumerate((90, 33, 64, 200, 90)):
        features, targets = _problem(rng, n_items)
        targets[rng.random(n_items) < 0.1] = 0.0
        weights = rng.uniform(0, 4, n_items) if seed % 2 else None
        lessons.append(Lesson(features=features, targets=targets, weights=weights, seeds=SeedStream(seed)))
    schedule = Schedule(epochs=12, batch_size=16, learning_rate=0.01, **rule)
    together = train_classifiers(network, lessons, schedule)
    for lesson, batched in zip(lessons, together, strict=True):
        alone = train_classifiers(network, [lesson], schedule)[0]
        assert len(alone.losses) == len(batched.losses)
        np.testing.assert_allclose(batched.probs, alone.probs, rtol=1e-6)
        np.testing.assert_allclose(batched.losses, alone.losses, rtol=1e-6)


def test_a_replica_that_breaks_breaks_alone():
    rng = np.random.default_rng(3)
    features, targets = _problem(rng, 60)
    broken = features.copy()
    broken[7] = np.nan
    lessons = [
        Lesson(features=data, targets=targets, seeds=SeedStream(seed))
        for seed, data in enumerate((features, broken, features))
    ]
    network, schedule = mlp(3, 4, hidden=(8,), dropout=0.2), Schedule(epochs=5, batch_size=16, learning_rate=0.01)
    together = train_classifiers(network, lessons, schedule)
    assert np.isnan(together[1].probs).any()
    np.testing.assert_allclose(together[2].probs, train_classifiers(network, lessons[2:], schedule)[0].probs, rtol=1e-6)


def test_a_dropped_replica_never_changes_again():
    rng = np.random.default_rng(4)
    features, targets = _problem(rng, 50)
    stack = StackedClassifiers(
        mlp(3, 4, hidden=(8,), dropout=0.2),
        features=[features] * 3,
        rows=[np.arange(50)] * 3,
        seeds=_streams(3),
        adam=Adam(),
        batch_size=16,
    )
    stacked = torch.from_numpy(np.stack([targets] * 3).astype(np.float32))
    assert set(stack.run_epoch(stacked)) == {0, 1, 2}
    kept = stack.predictor(1)
    values = {name: array.copy() for name, array in kept.values.items()}
    stack.drop([1])
    assert set(stack.run_epoch(stacked)) == {0, 2}
    assert all(np.array_equal(array, kept.values[name]) for name, array in values.items())
    assert stack.probabilities().shape == (2, 50, 4)


def test_a_classifier_learns_what_can_be_learnt():
    rng = np.random.default_rng(5)
    features = rng.normal(size=(600, 2)).astype(np.float32)
    gold = (features[:, 0] * features[:, 1] > 0).astype(int)  # no linear rule does better than chance
    targets = np.eye(2)[gold]
    schedule = Schedule(epochs=60, batch_size=32, learning_rate=0.01)
    lesson = Lesson(features=features, targets=targets, seeds=SeedStream(0))
    curved = train_classifiers(mlp(2, 2, hidden=(16,), dropout=0.0), [lesson], schedule)[0]
    straight = train_classifiers(linear(2, 2), [lesson], schedule)[0]
    assert (curved.probs.argmax(1) == gold).mean() > 0.97
    assert (straight.probs.argmax(1) == gold).mean() < 0.65
    assert curved.losses[-1] < 0.15 < curved.losses[0]


def test_the_papers_rule_stops_at_the_first_epoch_that_gains_too_little():
    rng = np.random.default_rng(6)
    features, targets = _problem(rng, 200)
    schedule = Schedule(epochs=50, batch_size=32, learning_rate=0.01, least_improvement=0.03)
    trained = train_classifiers(
        mlp(3, 4, hidden=(8,), dropout=0.0), [Lesson(features=features, targets=targets, seeds=SeedStream(0))], schedule
    )[0]
    best = np.minimum.accumulate(trained.losses)
    gains = trained.losses[1:] < 0.97 * best[:-1]
    assert trained.converged
    assert gains[:-1].all()
    assert not gains[-1]


def test_nothing_to_learn_from_is_said():
    lesson = Lesson(features=np.zeros((3, 2), np.float32), targets=np.zeros((3, 2)), seeds=SeedStream(0))
    with pytest.raises(FitFailed, match="at least one item with a label"):
        train_classifiers(linear(2, 2), [lesson], Schedule(epochs=1, batch_size=4, learning_rate=0.1))
