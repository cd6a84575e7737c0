"""The trainer takes any network and any loss: a convolutional text network, a recurrent tagger, a crowd layer.

Each is small and stands here alone; none needs a line in the trainer. Each learns what cannot be learnt without what it
is made of, and trains the same in a batch as alone.
"""

import gc
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from crowdsweep.models._batches import Batch, StackedRows
from crowdsweep.models.contract import no_op
from crowdsweep.models.networks.dense import DenseNetwork
from crowdsweep.models.networks.initial import Initialiser, constant, glorot_uniform, normal, zeros
from crowdsweep.models.networks.replicas import Adam, Parameter
from crowdsweep.models.networks.streams import Dropout
from crowdsweep.models.networks.tables import Table
from crowdsweep.models.networks.values import Values
from crowdsweep.models.schedule import Schedule
from crowdsweep.models.train import train
from crowdsweep.models.trainer import ReplicaTrainer
from crowdsweep.seeds import SeedStream

Found = tuple[torch.Tensor, torch.Tensor]


def parameter(name: str, *shape: int, start: Initialiser = glorot_uniform) -> Parameter:
    return Parameter(name=name, shape=shape, start=start)


def trained(
    parameters: Sequence[Parameter],
    loss_of: Callable[[Sequence[int]], Callable[[Values, Batch], Found]],
    n_rows: Sequence[int],
    *,
    epochs: int,
    learning_rate: float = 0.01,
    dropout: Sequence[Dropout] = (),
    tables: Callable[[Sequence[int]], dict[str, Table]] = lambda _: {},
) -> list[dict[str, np.ndarray]]:
    """Returns each replica's parameters (and tables), having checked that a batch trains as its members do alone."""

    def fit(replicas: Sequence[int]) -> list[dict[str, np.ndarray]]:
        own = tables(replicas)
        trainer = ReplicaTrainer(
            parameters,
            rows=[np.arange(n_rows[replica]) for replica in replicas],
            seeds=[SeedStream(replica) for replica in replicas],
            optimiser=Adam(learning_rate=learning_rate),
            batch_size=16,
            dropout=dropout,
            tables=own,
        )
        loss = loss_of(replicas)
        for _ in range(epochs):
            losses = trainer.run_epoch(loss)
        assert all(np.isfinite(list(losses.values())))
        return [
            dict(trainer.snapshot(place).values) | dict(trainer.snapshot(place).tables)
            for place in range(len(replicas))
        ]

    together = fit(range(len(n_rows)))
    for replica, batched in enumerate(together):
        (alone,) = fit([replica])
        for name, array in alone.items():
            np.testing.assert_allclose(batched[name][: len(array)], array, rtol=1e-4, atol=1e-5)
    return together


def stacked(arrays: Sequence[np.ndarray], replicas: Sequence[int]) -> StackedRows:
    return StackedRows.of([arrays[replica] for replica in replicas], "cpu")


def values_of(own: dict[str, np.ndarray]) -> Values:
    return Values({name: torch.from_numpy(array[None]) for name, array in own.items()})


def cross_entropy(logits: torch.Tensor, gold: torch.Tensor, batch: Batch) -> Found:
    """Of logits [n, batch, classes]."""
    lost = -torch.log_softmax(logits, dim=2).gather(2, gold[:, :, None])[:, :, 0]
    return (lost if batch.mask is None else lost * batch.mask).sum(dim=1), batch.sizes


# A text network: is there a 1 that a 2 follows? Bags of words cannot tell.

VOCABULARY, LENGTH, FILTERS, WIDTH = 4, 8, 8, 2


def texts(seed: int, n_texts: int = 300) -> tuple[np.ndarray, np.ndarray]:
    tokens = np.random.default_rng(seed).integers(0, VOCABULARY, (n_texts, LENGTH))
    return tokens, ((tokens[:, :-1] == 1) & (tokens[:, 1:] == 2)).any(axis=1).astype(np.int64)


def text_logits(values: Values, tokens: torch.Tensor, batch: Batch | None = None) -> torch.Tensor:
    """Embeds words, convolves, takes each filter's largest answer; [n, rows, classes]."""
    n, rows, length = tokens.shape
    offsets = torch.arange(n)[:, None] * VOCABULARY
    words = values["words"].flatten(0, 1)[(tokens.flatten(1) + offsets)].view(n, rows, length, -1)
    windows = words.unfold(2, WIDTH, 1).flatten(3).flatten(1, 2)
    answers = torch.relu(torch.baddbmm(values["filter bias"], windows, values["filters"]))
    largest = answers.view(n, rows, length - WIDTH + 1, FILTERS).amax(dim=2)
    if batch is not None:
        largest = largest * batch.kept("answers") / 0.9
    return torch.baddbmm(values["bias"], largest, values["out"])


def test_a_convolutional_text_network_fits() -> None:
    data = [texts(seed) for seed in range(3)]
    parameters = [
        parameter("words", VOCABULARY, 4, start=normal(0.5)),
        parameter("filters", 4 * WIDTH, FILTERS),
        parameter("filter bias", 1, FILTERS, start=zeros),
        parameter("out", FILTERS, 2),
        parameter("bias", 1, 2, start=zeros),
    ]

    def loss_of(replicas: Sequence[int]) -> Callable[[Values, Batch], Found]:
        tokens = stacked([tokens for tokens, _ in data], replicas)
        gold = stacked([gold for _, gold in data], replicas)
        return lambda values, batch: cross_entropy(
            text_logits(values, batch.take(tokens), batch), batch.take(gold), batch
        )

    dropout = [Dropout(name="answers", shape=(FILTERS,), probability=0.1)]
    found = trained(parameters, loss_of, [300, 300, 300], epochs=40, learning_rate=0.02, dropout=dropout)
    unseen, wanted = texts(99, 400)
    for own in found:
        guessed = text_logits(values_of(own), torch.from_numpy(unseen)[None])[0].argmax(dim=1).numpy()
        assert (guessed == wanted).mean() > 0.97


# A tagger: is the number of ones so far odd? Only what remembers can tell. Rows are whole sentences.

STATE = 8


def sentences(seed: int, n_sentences: int) -> tuple[np.ndarray, np.ndarray]:
    bits = np.random.default_rng(seed).integers(0, 2, (n_sentences, 6))
    return bits, bits.cumsum(axis=1) % 2


def tag_logits(values: Values, bits: torch.Tensor) -> torch.Tensor:
    """Runs a recurrent network along each sentence; [n, rows, tokens, classes]."""
    state = torch.zeros(*bits.shape[:2], STATE)
    found = []
    for place in range(bits.shape[2]):
        read = bits[:, :, place : place + 1].to(torch.float32)
        state = torch.tanh(torch.bmm(read, values["read"]) + torch.baddbmm(values["state bias"], state, values["keep"]))
        found.append(torch.baddbmm(values["bias"], state, values["out"]))
    return torch.stack(found, dim=2)


@pytest.mark.long
def test_a_recurrent_tagger_fits() -> None:
    sizes = [120, 77]
    data = [sentences(seed, size) for seed, size in enumerate(sizes)]
    parameters = [
        parameter("read", 1, STATE),
        parameter("keep", STATE, STATE),
        parameter("state bias", 1, STATE, start=zeros),
        parameter("out", STATE, 2),
        parameter("bias", 1, 2, start=zeros),
    ]

    def loss_of(replicas: Sequence[int]) -> Callable[[Values, Batch], Found]:
        bits = stacked([bits for bits, _ in data], replicas)
        tags = stacked([tags for _, tags in data], replicas)

        def loss(values: Values, batch: Batch) -> Found:
            log_probs = torch.log_softmax(tag_logits(values, batch.take(bits)), dim=3)
            lost = -log_probs.gather(3, batch.take(tags)[..., None])[..., 0].mean(dim=2)
            return (lost if batch.mask is None else lost * batch.mask).sum(dim=1), batch.sizes

        return loss

    found = trained(parameters, loss_of, sizes, epochs=60, learning_rate=0.03)
    unseen, wanted = sentences(99, 200)
    for own in found:
        guessed = tag_logits(values_of(own), torch.from_numpy(unseen)[None])[0].argmax(dim=2).numpy()
        assert (guessed == wanted).mean() > 0.97


# A crowd layer: a matrix for each annotator on top of a classifier; one of four annotators always contradicts.

ANNOTATORS = 4


def answers(seed: int, n_items: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n_items, 2)).astype(np.float32)
    annotator = rng.integers(0, ANNOTATORS, n_items)
    gold = (features[:, 0] > 0).astype(np.int64)
    return features, annotator, np.where(annotator == 3, 1 - gold, gold), gold


def identity(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.tile(np.eye(2, dtype=np.float32).ravel(), (shape[0], 1))


@pytest.mark.long
def test_a_crowd_layer_fits() -> None:
    """The classifier is dense, so that its gradients are written by hand below a layer that autograd follows."""
    sizes = [300, 170]
    data = [answers(seed, size) for seed, size in enumerate(sizes)]
    network = DenseNetwork(widths=(2, 8, 2), dropout=0.1)

    def tables(replicas: Sequence[int]) -> dict[str, Table]:
        return {"matrices": Table(width=4, start=identity, orders=[np.arange(ANNOTATORS)] * len(replicas))}

    def loss_of(replicas: Sequence[int]) -> Callable[[Values, Batch], Found]:
        features, annotator, label, _ = (stacked([part[i] for part in data], replicas) for i in range(4))

        def loss(values: Values, batch: Batch) -> Found:
            classes = torch.softmax(network.logits(values, batch.take(features), batch), dim=1).transpose(1, 2)
            matrices = values.rows("matrices", batch.take(annotator), batch.places).unflatten(2, (2, 2))
            return cross_entropy(torch.einsum("nbk,nbkl->nbl", classes, matrices), batch.take(label), batch)

        return loss

    found = trained(
        network.parameters(),
        loss_of,
        sizes,
        epochs=40,
        learning_rate=0.02,
        dropout=network.dropouts,
        tables=tables,
    )
    features, _, _, gold = answers(99, 300)
    for own in found:
        matrices = own.pop("matrices").reshape(ANNOTATORS, 2, 2)
        logits = network.logits(values_of(own), torch.from_numpy(features)[None], None)[0]
        assert (logits.argmax(dim=0).numpy() == gold).mean() > 0.95
        honest = matrices[:, 0, 0] + matrices[:, 1, 1] > matrices[:, 0, 1] + matrices[:, 1, 0]
        assert honest.tolist() == [True, True, True, False]


def plain_trainer(n_rows: int = 20) -> tuple[ReplicaTrainer, Callable[[Values, Batch], Found]]:
    trainer = ReplicaTrainer(
        [parameter("w", 1, 1, start=constant(1.0)), parameter("idle", 1, 1, start=constant(3.0))],
        rows=[np.arange(n_rows)] * 2,
        seeds=[SeedStream(0), SeedStream(1)],
        optimiser=Adam(learning_rate=0.1),
        batch_size=8,
        tables={"t": Table(width=1, start=zeros, orders=[np.arange(3)] * 2)},
    )
    return trainer, lambda values, batch: ((values["w"] ** 2).sum(dim=(1, 2)) * batch.sizes, batch.sizes)


def test_a_parameter_that_the_loss_does_not_use_stands_still() -> None:
    trainer, loss = plain_trainer()
    for _ in range(3):
        trainer.run_epoch(loss)
    assert trainer.snapshot(0).values["idle"].item() == 3.0
    assert trainer.snapshot(0).values["w"].item() < 0.8


def test_the_rows_of_a_table_are_taken_once_a_step() -> None:
    trainer, _ = plain_trainer()

    def greedy(values: Values, batch: Batch) -> Found:
        rows = batch.rows % 3
        twice = values.rows("t", rows, batch.places) + values.rows("t", rows, batch.places)
        return twice.sum(dim=(1, 2)), batch.sizes

    with pytest.raises(RuntimeError, match="'t' to be taken once"):
        trainer.run_epoch(greedy)


def test_a_steps_tensors_do_not_outlive_it() -> None:
    """No cycle of references keeps what autograd followed: memory and caches stay those of one step."""
    network = DenseNetwork(widths=(2, 8, 2))
    features = StackedRows.of([np.ones((64, 2), np.float32)], "cpu")
    trainer = ReplicaTrainer(
        network.parameters(), rows=[np.arange(64)], seeds=[SeedStream(0)], optimiser=Adam(), batch_size=8
    )

    def loss(values: Values, batch: Batch) -> Found:
        return network.logits(values, batch.take(features), batch).square().sum(dim=(1, 2)), batch.sizes

    trainer.run_epoch(loss)
    gc.collect()
    gc.disable()
    try:
        before = sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())
        trainer.run_epoch(loss)
        after = sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())
    finally:
        gc.enable()
    assert after <= before + 2


def test_patience_keeps_the_best_and_a_report_stops() -> None:
    trainer, loss = plain_trainer()
    seen: list[int] = []

    def report(step: int, objective: float, predictor: object = None) -> bool:
        seen.append(step)
        return step < 4

    scores = iter([3.0, 1.0, 2.0, 1.5, 1.2, 1.1, 5.0])
    histories = train(
        trainer,
        loss,
        Schedule(epochs=10, patience=3),
        [no_op, report],
        predictor=lambda replica, kept: pytest.fail("nobody asked for a predictor"),
        validation=lambda replica, kept: next(scores) if replica == 0 else None,
    )
    assert [len(history.losses) for history in histories] == [5, 4]
    assert seen == [1, 2, 3, 4]
    assert histories[0].converged
    assert not histories[1].converged
    best, last = (history.end.values["w"].item() for history in histories)
    assert best > last  # of the second epoch, not of the fifth
    assert trainer.active == []
