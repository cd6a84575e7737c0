"""The Pareto front, against its definition spelt out in loops and against Optuna's own."""

from typing import Any

import numpy as np
import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.trial import create_trial

from crowdsweep.metrics.dominance import on_front
from crowdsweep.search.optuna_points import QuietOptuna

GOALS = st.lists(st.sampled_from(["maximize", "minimize"]), min_size=1, max_size=4)


def naive(values: np.ndarray, goals: list[Any]) -> list[bool]:
    """A row stands unless some other is nowhere worse and somewhere better."""

    def beats(one: np.ndarray, other: np.ndarray) -> bool:
        better = [a > b if goal == "maximize" else a < b for a, b, goal in zip(one, other, goals, strict=True)]
        worse = [a < b if goal == "maximize" else a > b for a, b, goal in zip(one, other, goals, strict=True)]
        return any(better) and not any(worse)

    return [not any(beats(other, row) for other in values) for row in values]


@given(st.data())
def test_a_front_is_what_its_definition_says(data: Any) -> None:
    goals = data.draw(GOALS)
    few = st.integers(-3, 3).map(float)  # so that ties are common
    rows = data.draw(st.lists(st.lists(few, min_size=len(goals), max_size=len(goals)), max_size=30))
    values = np.array(rows, dtype=np.float64).reshape(len(rows), len(goals))
    assert on_front(values, goals).tolist() == naive(values, goals)


@pytest.mark.parametrize("goals", [["maximize", "minimize"], ["minimize", "minimize", "maximize"]])
def test_a_front_is_what_optuna_says(goals: list[Any]) -> None:
    rng = np.random.default_rng(len(goals))
    values = np.round(rng.normal(size=(200, len(goals))), 1)
    with QuietOptuna():
        study = optuna.create_study(directions=goals)
    study.add_trials([create_trial(values=row.tolist()) for row in values])
    found = np.flatnonzero(on_front(values, goals)).tolist()
    assert found == sorted(trial.number for trial in study.best_trials)
    assert 1 < len(found) < 100
