"""Stacked networks: gradients, the optimiser, and that no replica knows of another."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models.classifier import Classifier, ClassifierReplicas
from crowdsweep.models.contract import no_op
from crowdsweep.models.networks.dense import Dense, DenseNetwork
from crowdsweep.models.networks.initial import glorot_uniform
from crowdsweep.models.networks.named import NamedNetwork
from crowdsweep.models.networks.replicas import Adam, Parameter, ReplicaStack, replica_chunks
from crowdsweep.models.networks.streams import Dropout, DropoutMasks, Shuffler
from crowdsweep.models.networks.tables import EmbeddingTables, Table
from crowdsweep.models.networks.values import Step, Values
from crowdsweep.models.schedule import Schedule
from crowdsweep.models.training_jobs import TrainingJob, train_classifiers
from crowdsweep.seeds import SeedStream

LINEAR = DenseNetwork(widths=(3, 4))


def mlp(*hidden: int, dropout: float) -> DenseNetwork:
    return DenseNetwork(widths=(3, *hidden, 4), dropout=dropout)


def _streams(count):
    return [SeedStream(seed) for seed in range(count)]


def _problem(rng, n_items, n_features=3, n_classes=4):
    features = rng.normal(size=(n_items, n_features)).astype(np.float32)
    targets = rng.dirichlet(np.ones(n_classes), size=n_items)
    return features, targets


@dataclass
class Kept:
    """Dropout masks by name."""

    masks: dict[str, torch.Tensor]

    def kept(self, name: str) -> torch.Tensor:
        return self.masks[name]


@pytest.mark.parametrize("network", [LINEAR, mlp(5, dropout=0.0), mlp(5, 6, dropout=0.5)])
@pytest.mark.parametrize("named", [False, True])
def test_gradients_written_by_hand_equal_those_of_autograd(network, named):
    """All three ways: the written cross-entropy, a loss that autograd follows to the logits, and all the way."""
    rng = np.random.default_rng(0)
    whole = NamedNetwork(name="one", network=network) if named else network
    stack = ReplicaStack.start(whole.parameters(), _streams(2), "cpu")
    flat = stack.flat.to(torch.float64) + torch.from_numpy(rng.normal(size=stack.flat.shape) / 10)  # off the kinks
    stack = ReplicaStack(whole.parameters(), flat)
    features = torch.from_numpy(rng.normal(size=(2, 7, 3)))
    targets = torch.from_numpy(rng.dirichlet(np.ones(4), size=(2, 7)) * rng.uniform(0, 3, (2, 7, 1))).transpose(1, 2)
    masks = Kept({d.name: torch.from_numpy(rng.integers(0, 2, (2, 7, *d.shape)).astype(float)) for d in whole.dropouts})
    view = stack.prefix(2)
    leaves = {name: value.detach().clone().requires_grad_(True) for name, value in view.values.items()}

    def loss(logits):
        return -(targets * torch.log_softmax(logits, dim=1)).sum()

    expected = torch.autograd.grad(loss(whole.logits(Values(leaves), features, masks)), list(leaves.values()))

    step = Step(gradients=view.gradients, tables={})
    values = Values(view.values, step)
    found = torch.autograd.grad(loss(whole.logits(Values(leaves, step), features, masks)), list(leaves.values()))
    for gradient, exact in zip(found, expected, strict=True):
        torch.testing.assert_close(gradient, exact, atol=1e-9, rtol=0)

    own = values.part("one") if named else values
    kept = [masks.kept(dropout.name) for dropout in whole.dropouts]
    with torch.no_grad():
        probs = network.write_gradients(own, features, targets, targets.sum(dim=1, keepdim=True), kept)
    for name, gradient in zip(leaves, expected, strict=True):
        torch.testing.assert_close(view.gradients[name], gradient, atol=1e-9, rtol=0)
    torch.testing.assert_close(probs.sum(dim=1), torch.ones(2, 7, dtype=torch.float64))


def test_logits_equal_loops():
    network = mlp(5, dropout=0.0)
    stack = ReplicaStack.start(network.parameters(), _streams(2), "cpu")
    features = np.random.default_rng(1).normal(size=(2, 7, 3)).astype(np.float32)
    found = network.logits(Values(stack.prefix(2).values), torch.from_numpy(features), None).numpy()
    for replica in range(2):
        own = stack.values_of(replica)
        for row, x in enumerate(features[replica]):
            hidden = np.maximum(x @ own["w0"] + own["b0"][0], 0)
            np.testing.assert_allclose(found[replica, :, row], hidden @ own["w1"] + own["b1"][0], atol=1e-5)


@pytest.mark.parametrize("rates", [(0.05, 0.05, 0.05), (0.05, 0.05, 0.2), (0.1, 0.02, 0.1)])
def test_adam_is_torchs_adam_for_each_replica(rates):
    rng = np.random.default_rng(1)
    parameters = [Parameter(name="w", shape=(3, 2)), Parameter(name="b", shape=(1, 2))]
    stack = ReplicaStack.start(parameters, _streams(3), "cpu")
    adam = Adam(learning_rate=np.array(rates), epsilon=1e-12)
    theirs = [
        [stack.prefix(3).values[p.name][s].detach().clone().requires_grad_(True) for p in parameters] for s in range(3)
    ]
    optimisers = [torch.optim.Adam(own, lr=rate, eps=1e-12) for own, rate in zip(theirs, rates, strict=True)]
    for step in range(12):
        active = 3 if step < 8 else 2
        gradients = torch.from_numpy(rng.normal(size=(3, stack.flat.shape[1])).astype(np.float32))
        stack.flat_gradient.copy_(gradients)
        for s in range(active):
            for parameter, own in zip(parameters, theirs[s], strict=True):
                own.grad = stack.prefix(3).gradients[parameter.name][s].clone()
            optimisers[s].step()
        adam.step(stack, active)
    for s in range(3):
        for parameter, own in zip(parameters, theirs[s], strict=True):
            assert torch.allclose(stack.prefix(3).values[parameter.name][s], own, rtol=1e-5, atol=1e-6)


def test_adam_adds_epsilon_before_it_corrects_and_steps_each_replica_by_its_own_count():
    rng = np.random.default_rng(2)
    stack = ReplicaStack.start([Parameter(name="w", shape=(5, 4))], _streams(3), "cpu")
    adam = Adam(learning_rate=0.05, epsilon=0.3)
    wanted = stack.prefix(3).values["w"].to(torch.float64).numpy().copy()
    first, second, counts = np.zeros_like(wanted), np.zeros_like(wanted), np.zeros(3)
    for active in (3, 3, 1, 2, 3):
        slope = rng.normal(size=(active, 5, 4))
        stack.prefix(3).gradients["w"][:active] = torch.from_numpy(slope).float()
        adam.step(stack, active)
        counts[:active] += 1
        first[:active] += 0.1 * (slope - first[:active])
        second[:active] += 0.001 * (slope**2 - second[:active])
        for s in range(active):
            rate = 0.05 * np.sqrt(1 - 0.999 ** counts[s]) / (1 - 0.9 ** counts[s])
            wanted[s] -= rate * first[s] / (np.sqrt(second[s]) + 0.3)
    np.testing.assert_allclose(stack.prefix(3).values["w"].numpy(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rates", [(0.1, 0.1), (0.1, 0.03)])
def test_lazy_rows_move_as_a_dense_table_would_and_others_stand_still(rates):
    table = Table(width=3, start=glorot_uniform, orders=[np.arange(6)] * 2)
    tables = EmbeddingTables(table, seeds=_streams(2), name="rows", device="cpu")
    before = tables.values.clone()
    dense = [part.clone().requires_grad_(True) for part in tables.values.split(6)]
    groups = [{"params": [part], "lr": rate} for part, rate in zip(dense, rates, strict=True)]
    optimiser = torch.optim.SparseAdam(groups, eps=1e-10)
    adam = Adam(learning_rate=np.array(rates), epsilon=1e-10)
    for rows in ([0, 4, 4, 7], [4, 11], [0, 7]):
        flat_rows = torch.tensor(rows)
        touched, which = tables.gather(flat_rows)
        (touched.gradient,) = torch.autograd.grad((touched.values[which] ** 3).sum(), touched.values)
        tables.step(touched, adam, 2)
        optimiser.zero_grad()
        for part, own in zip(dense, (flat_rows[flat_rows < 6], flat_rows[flat_rows >= 6] - 6), strict=True):
            (torch.nn.functional.embedding(own, part, sparse=True) ** 3).sum().backward()
        optimiser.step()
    assert torch.allclose(tables.values, torch.cat(dense), rtol=1e-4, atol=1e-5)
    untouched = [1, 2, 3, 5, 6, 8, 9, 10]
    assert torch.equal(tables.values[untouched], before[untouched])
    tables.keep([1])
    np.testing.assert_allclose(tables.values_of(0), dense[1].detach().numpy(), rtol=1e-4, atol=1e-5)


def test_rows_are_drawn_in_the_order_of_the_data():
    """A row's start goes with what it stands for, whatever its number; shorter tables are padded with zeros, which
    are no part of them."""
    order = np.array([2, 0, 1])
    tables = EmbeddingTables(
        Table(width=2, start=glorot_uniform, orders=[np.arange(3), order, np.arange(2)]),
        seeds=[SeedStream(0), SeedStream(0), SeedStream(0)],
        name="rows",
        device="cpu",
    )
    np.testing.assert_array_equal(tables.values_of(1)[order], tables.values_of(0))
    assert tables.values_of(2).shape == (2, 2)
    assert not tables.values[2 * 3 + 2].any()


def test_masks_are_a_replicas_own_and_do_not_depend_on_how_many_steps_are_drawn():
    dropout = Dropout(name="dropout", shape=(13,), probability=0.3)
    together = DropoutMasks(dropout, _streams(3), "cpu")
    drawn = torch.cat([together.draw(2, 50, 3), together.draw(3, 50, 3)])
    alone = DropoutMasks(dropout, [SeedStream(1)], "cpu").draw(5, 50, 1)
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


def _job(features, targets, seed=0):
    n_items, n_classes = targets.shape
    annotations = Annotations.of(
        item=np.arange(n_items),
        annotator=np.zeros(n_items, np.int64),
        label=targets.argmax(axis=1),
        n_items=n_items,
        n_annotators=1,
        n_classes=n_classes,
    )
    data = TrainingData(annotations=annotations, items=Items(n_items=n_items, features=features))
    return TrainingJob(data=data, targets=targets, seeds=SeedStream(seed), report=no_op)


def settings(network="mlp", hidden=(8,), dropout=0.0, learning_rate=0.01, batch_size=16) -> Classifier:
    dense = Dense(network=network, hidden=hidden, dropout=dropout)
    return Classifier(network=dense, learning_rate=learning_rate, batch_size=batch_size, steps=0)


CLASSIFIERS = [
    settings(network="linear"),
    settings(hidden=(16,), dropout=0.4),
    settings(hidden=(7, 5), dropout=0.2),
]


@pytest.mark.parametrize("classifier", CLASSIFIERS)
@pytest.mark.parametrize("rule", [{}, {"least_improvement": 0.03}, {"patience": 2}])
def test_a_batched_fit_equals_the_same_fit_alone(classifier: Classifier, rule: dict[str, Any]) -> None:
    rng = np.random.default_rng(2)
    jobs = []
    for seed, n_items in enumerate((90, 33, 64, 200, 90)):
        features, targets = _problem(rng, n_items)
        targets[rng.random(n_items) < 0.1] = 0.0
        jobs.append(_job(features, targets, seed))
    schedule = Schedule(epochs=12, **rule)
    together = train_classifiers(classifier, jobs, schedule)
    for job, batched in zip(jobs, together, strict=True):
        alone = train_classifiers(classifier, [job], schedule)[0]
        assert len(alone.losses) == len(batched.losses)
        np.testing.assert_allclose(batched.probs, alone.probs, rtol=1e-6)
        np.testing.assert_allclose(batched.losses, alone.losses, rtol=1e-6)


def test_a_replica_that_breaks_breaks_alone():
    rng = np.random.default_rng(3)
    features, targets = _problem(rng, 60)
    broken = features.copy()
    broken[7] = np.nan
    jobs = [_job(data, targets, seed) for seed, data in enumerate((features, broken, features))]
    classifier, schedule = settings(dropout=0.2), Schedule(epochs=5)
    together = train_classifiers(classifier, jobs, schedule)
    assert np.isnan(together[1].probs).any()
    alone = train_classifiers(classifier, jobs[2:], schedule)[0]
    np.testing.assert_allclose(together[2].probs, alone.probs, rtol=1e-6)


def test_a_dropped_replica_never_changes_again():
    rng = np.random.default_rng(4)
    features, targets = _problem(rng, 50)
    replicas = ClassifierReplicas(
        [settings(dropout=0.2)] * 3,
        mlp(8, dropout=0.2),
        inputs=[features] * 3,
        rows=[np.arange(50)] * 3,
        targets=torch.from_numpy(np.stack([targets] * 3).astype(np.float32)),
        seeds=_streams(3),
        epochs=[2] * 3,
    )
    trainer = replicas.trainer
    assert set(trainer.run_epoch(replicas.loss)) == {0, 1, 2}
    kept = replicas.predictor(trainer.snapshot(1))
    values = {name: array.copy() for name, array in kept.values.items()}
    trainer.drop([1])
    assert set(trainer.run_epoch(replicas.loss)) == {0, 2}
    assert all(np.array_equal(array, kept.values[name]) for name, array in values.items())
    assert replicas.probabilities().shape == (2, 50, 4)


def test_a_classifier_learns_what_can_be_learnt():
    rng = np.random.default_rng(5)
    features = rng.normal(size=(600, 2)).astype(np.float32)
    gold = (features[:, 0] * features[:, 1] > 0).astype(int)  # no linear rule does better than chance
    job, schedule = _job(features, np.eye(2)[gold]), Schedule(epochs=60)
    curved = train_classifiers(settings(hidden=(16,), batch_size=32), [job], schedule)[0]
    straight = train_classifiers(settings(network="linear", batch_size=32), [job], schedule)[0]
    assert (curved.probs.argmax(1) == gold).mean() > 0.97
    assert (straight.probs.argmax(1) == gold).mean() < 0.65
    assert curved.losses[-1] < 0.15 < curved.losses[0]


def test_the_papers_rule_stops_at_the_first_epoch_that_gains_too_little():
    features, targets = _problem(np.random.default_rng(6), 200)
    schedule = Schedule(epochs=50, least_improvement=0.03)
    trained = train_classifiers(settings(batch_size=32), [_job(features, targets)], schedule)[0]
    best = np.minimum.accumulate(trained.losses)
    gains = trained.losses[1:] < 0.97 * best[:-1]
    assert trained.converged
    assert gains[:-1].all()
    assert not gains[-1]


def test_nothing_to_learn_from_is_said():
    job = _job(np.zeros((3, 2), np.float32), np.ones((3, 2)))
    with pytest.raises(FitFailed, match="at least one item with a label"):
        train_classifiers(settings(), [replace(job, targets=np.zeros((3, 2)))], Schedule(epochs=1))
