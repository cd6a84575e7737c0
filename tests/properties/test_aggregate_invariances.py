"""What must hold for majority vote, Dawid-Skene and one-coin on any crowd, however odd."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models.aggregate.dawid_skene import DawidSkene
from crowdsweep.models.aggregate.majority_vote import MajorityVote
from crowdsweep.models.aggregate.one_coin import OneCoin
from crowdsweep.models.contract import FitContext, FitResult, FitsMany
from crowdsweep.models.fitting import fit_one
from crowdsweep.seeds import SeedStream

# Few steps: what rounding breaks in an even crowd must not have the time to grow.
MODELS = {
    "soft votes": MajorityVote(),
    "hard votes": MajorityVote(votes="hard"),
    "dawid-skene": DawidSkene(iterations=8),
    "dawid-skene unsmoothed": DawidSkene(smoothing=0.0, shrinkage=0.0, iterations=8),
    "one-coin": OneCoin(iterations=8),
}


@dataclass(frozen=True)
class Crowd:
    """Rows (item, annotator, label) and sizes, of which some may be unused."""

    rows: list[tuple[int, int, int]]
    n_items: int
    n_annotators: int
    n_classes: int

    def annotations(self) -> Annotations:
        item, annotator, label = np.array(self.rows, dtype=int).reshape(-1, 3).T
        return Annotations.of(
            item=item,
            annotator=annotator,
            label=label,
            n_items=self.n_items,
            n_annotators=self.n_annotators,
            n_classes=self.n_classes,
        )


@st.composite
def crowds(draw: st.DrawFn) -> Crowd:
    n_items, n_annotators, n_classes = draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(2, 3))
    row = st.tuples(st.integers(0, n_items - 1), st.integers(0, n_annotators - 1), st.integers(0, n_classes - 1))
    return Crowd(draw(st.lists(row, max_size=20)), n_items, n_annotators, n_classes)


def fit(name: str, rows: Annotations) -> FitResult:
    model: FitsMany = MODELS[name]
    data = TrainingData(annotations=rows, items=Items(n_items=rows.n_items))
    return fit_one(model, data, FitContext(seeds=SeedStream(0)))


@pytest.mark.parametrize("name", MODELS)
@given(crowd=crowds(), data=st.data())
def test_exchanging_items_annotators_and_classes_exchanges_the_result(
    name: str, crowd: Crowd, data: st.DataObject
) -> None:
    items = data.draw(st.permutations(range(crowd.n_items)))
    annotators = data.draw(st.permutations(range(crowd.n_annotators)))
    classes = data.draw(st.permutations(range(crowd.n_classes)))
    moved = Crowd(
        [(items[i], annotators[t], classes[y]) for i, t, y in crowd.rows],
        crowd.n_items,
        crowd.n_annotators,
        crowd.n_classes,
    )
    before, after = fit(name, crowd.annotations()), fit(name, moved.annotations())
    np.testing.assert_allclose(after.item_probs[np.ix_(items, classes)], before.item_probs, atol=1e-6)
    assert before.annotators is not None
    assert after.annotators is not None
    matrices = after.annotators.confusion(np.array(annotators))
    expected = before.annotators.confusion(np.arange(crowd.n_annotators))
    np.testing.assert_allclose(matrices[:, classes][:, :, classes], expected, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
@given(crowd=crowds())
def test_everything_is_a_probability(name: str, crowd: Crowd) -> None:
    rows = crowd.annotations()
    found = fit(name, rows)
    assert found.annotators is not None
    assert found.label_probs is not None
    codes = np.arange(crowd.n_items * crowd.n_annotators, dtype=np.int32)
    labels = found.label_probs(codes // crowd.n_annotators, codes % crowd.n_annotators)
    for probs in (found.item_probs, found.annotators.confusion(np.arange(crowd.n_annotators)), labels):
        assert np.isfinite(probs).all()
        assert (probs >= 0).all()
        np.testing.assert_allclose(probs.sum(axis=-1), 1.0, atol=1e-9)


@pytest.mark.parametrize("name", ["dawid-skene", "dawid-skene unsmoothed", "one-coin"])
@given(crowd=crowds())
def test_the_objective_never_falls(name: str, crowd: Crowd) -> None:
    objective = fit(name, crowd.annotations()).objective
    assert (np.diff(objective) >= -1e-8 * np.abs(objective[1:]) - 1e-9).all()


@pytest.mark.parametrize("name", ["soft votes", "hard votes"])
@given(crowd=crowds(), label=st.integers(0, 1), size=st.integers(1, 4))
def test_a_unanimous_item_never_flips(name: str, crowd: Crowd, label: int, size: int) -> None:
    others = [row for row in crowd.rows if row[0] != 0]
    agreed = [(0, t % crowd.n_annotators, label) for t in range(size)]
    rows = Crowd(others + agreed, crowd.n_items, crowd.n_annotators, crowd.n_classes).annotations()
    assert fit(name, rows).item_probs[0, label] == 1.0


@pytest.mark.parametrize("name", MODELS)
def test_five_hundred_answers_an_item(name: str) -> None:
    """Four in five are right: nothing underflows, and the items come out."""
    item, annotator = (codes.ravel() for codes in np.indices((6, 500)))
    label = np.where(annotator % 5 > 0, item % 3, (item + 1) % 3)
    rows = Annotations.of(item=item, annotator=annotator, label=label, n_items=6, n_annotators=500, n_classes=3)
    found = fit(name, rows)
    assert np.isfinite(found.objective).all()
    np.testing.assert_array_equal(found.item_probs.argmax(axis=1), np.arange(6) % 3)
