"""The finite mixture looks once at items that have the same counts: the fit is that of all of them."""

import numpy as np
import pytest

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models.aggregate.fmm import AlikeItems, FiniteMultinomialMixture, expectation
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_all, fit_one
from crowdsweep.seeds import SeedStream

N_CLASSES, N_CLUSTERS = 3, 2


def tables() -> list[np.ndarray]:
    """Counts of few kinds, among them items without answers, of two replicas of which one has fewer kinds."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, size=(50, N_CLASSES)).astype(np.float64)
    return [first, np.array([[1.0, 0, 0], [0, 2, 0], [0, 0, 0], [1, 0, 0]])]


def test_each_kind_of_counts_stands_there_once_with_its_items() -> None:
    alike = AlikeItems.of(tables())
    for counts, times, table in zip(alike.counts, alike.times, tables(), strict=True):
        kinds = {tuple(row): int(number) for row, number in zip(counts.tolist(), times.tolist(), strict=True) if number}
        expected: dict[tuple[float, ...], int] = {}
        for row in table.tolist():
            if any(row):
                expected[tuple(row)] = expected.get(tuple(row), 0) + 1
        assert kinds == expected


def test_a_step_on_kinds_equals_one_on_items() -> None:
    model = FiniteMultinomialMixture(item_clusters=N_CLUSTERS)
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(np.ones(N_CLUSTERS), size=1)
    labels = rng.dirichlet(np.ones(N_CLASSES), size=(1, N_CLUSTERS))
    table = tables()[:1]
    alike = AlikeItems.of(table)
    answered = (table[0].sum(axis=1) > 0).astype(np.float64)
    on_kinds = expectation(alike.counts, alike.times, np.log(shares), np.log(labels))
    on_items = expectation(table[0][None], answered[None], np.log(shares), np.log(labels))
    assert on_kinds[1] == pytest.approx(on_items[1], rel=1e-12)
    for found, wanted in zip(
        model.maximisation(alike.counts, on_kinds[0]), model.maximisation(table[0][None], on_items[0]), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("method", ["map", "variational"])
def test_alike_items_get_the_same_and_a_batch_is_each_alone(method) -> None:
    rng = np.random.default_rng(2)

    def data(n_items: int) -> TrainingData:
        item = np.repeat(np.arange(n_items), 3)
        rows = Annotations.of(
            item=item,
            annotator=np.arange(len(item)),
            label=rng.integers(0, N_CLASSES, len(item)),
            n_items=n_items + 1,
            n_annotators=len(item),
            n_classes=N_CLASSES,
        )
        return TrainingData(annotations=rows, items=Items(n_items=n_items + 1))

    parts = [data(30), data(60)]
    model = FiniteMultinomialMixture(item_clusters=N_CLUSTERS, method=method, restarts=2)
    contexts = [FitContext(seeds=SeedStream(seed)) for seed in (3, 4)]
    for part, context, together in zip(parts, contexts, fit_all(model, parts, contexts), strict=True):
        alone = fit_one(model, part, context)
        np.testing.assert_allclose(together.item_probs, alone.item_probs, atol=1e-9)
        _, kind = np.unique(part.annotations.counts.toarray(), axis=0, return_inverse=True)
        for one in range(kind.max() + 1):
            alike = alone.item_probs[kind == one]
            np.testing.assert_array_equal(alike, np.broadcast_to(alike[0], alike.shape))
