"""The crowd's matrix in a report carries the names of its classes, which the record of the plan has."""

from pathlib import Path

import pytest
from data_folders import swept_two_kinds

from crowdsweep.analysis.kept_arrays import KeptScores
from crowdsweep.analysis.sections.confusions import CrowdMatrix, crowd_matrices
from crowdsweep.analysis.sweep import comparison_of
from crowdsweep.record.journal import open_rows, read_journal
from crowdsweep.record.shown import shown_trials


def test_classes_have_their_names(tmp_path: Path) -> None:
    store = swept_two_kinds(tmp_path, "dawid-skene", seeds=1)
    state, rows = read_journal(store), open_rows(store)
    (dataset,) = state.plan.datasets
    assert list(dataset.class_names) == ["calm", "angry", "other"]
    (crowd,) = crowd_matrices(
        state, shown_trials(state), comparison_of(state, KeptScores(state, open_rows(store))), rows
    )
    assert list(crowd.class_names) == ["calm", "angry", "other"]
    assert len(crowd.matrix) == 3


def test_a_crowd_stands_between_chance_and_being_always_right() -> None:
    def above(matrix: list[list[float]]) -> float:
        return CrowdMatrix(place=("d", "{}"), model="m", matrix=matrix).above_chance

    assert above([[0.5, 0.5], [0.5, 0.5]]) == pytest.approx(0.0)
    assert above([[1.0, 0.0], [0.0, 1.0]]) == pytest.approx(1.0)
    assert above([[0.8, 0.2], [0.3, 0.7]]) == pytest.approx(0.5)
