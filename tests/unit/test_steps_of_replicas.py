"""A replica that has stopped keeps its state while others go on."""

from dataclasses import dataclass

import numpy as np
import pytest

from crowdsweep.data.annotations import Annotations
from crowdsweep.models._em import StackedCrowds, stack
from crowdsweep.models._steps import keeping


@dataclass(frozen=True)
class State:
    posterior: np.ndarray
    ability: np.ndarray
    rates: np.ndarray
    loss: np.ndarray


@pytest.fixture
def crowds() -> StackedCrowds:
    """Two data sets: two items and two annotators, who give three labels in two columns; three items, one annotator."""
    first = Annotations.of(
        item=np.array([0, 0, 1]),
        annotator=np.array([0, 1, 0]),
        label=np.array([0, 1, 0]),
        n_items=2,
        n_annotators=2,
        n_classes=2,
    )
    second = Annotations.of(
        item=np.array([0, 1, 2]),
        annotator=np.array([0, 0, 0]),
        label=np.array([0, 1, 1]),
        n_items=3,
        n_annotators=1,
        n_classes=2,
    )
    return stack([first, second])


def state(value: float) -> State:
    return State(
        posterior=np.full((5, 2), value),
        ability=np.full(3, value),
        rates=np.full((4, 2), value),
        loss=np.full(2, value),
    )


@pytest.mark.parametrize("active", [[True, False], [False, True], [True, True], [False, False]])
def test_rows_of_stopped_replicas_stay(crowds: StackedCrowds, active: list[bool]) -> None:
    kept = keeping(crowds, posterior="items", ability="annotators", rates="columns", loss="replicas")
    found = kept(np.array(active), state(1.0), state(0.0))
    first, second = map(float, active)
    assert found.posterior.tolist() == [[first] * 2] * 2 + [[second] * 2] * 3
    assert found.ability.tolist() == [first] * 2 + [second]
    assert found.rates.tolist() == [[first] * 2] * 2 + [[second] * 2] * 2
    assert found.loss.tolist() == [first, second]


def test_every_field_has_an_axis(crowds: StackedCrowds) -> None:
    kept = keeping(crowds, posterior="items", ability="annotators", rates="columns")
    with pytest.raises(TypeError, match="expected the axes of posterior, ability, rates, loss; got those of posterior"):
        kept(np.array([True, False]), state(1.0), state(0.0))
