"""The smallest model of each scale keeps every promise of the contract, found as a person's own models are found."""

from pathlib import Path

import numpy as np
import pytest
import tiny
from tiny import tag_vote

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.seeds import SeedStream
from crowdsweep.testing.model_checks import Check, model_checks
from crowdsweep.testing.scale_checks import sequence_data
from crowdsweep.testing.small_data import small_data

FOLDER = str(Path(tiny.__file__).parent)
with pytest.MonkeyPatch.context() as patch:
    patch.setenv("CROWDSWEEP_PLUGINS", FOLDER)
    CASES = model_checks(["class-vote", "tag-vote"])


@pytest.mark.parametrize(("name", "check"), CASES)
def test_tiny_model(name: str, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROWDSWEEP_PLUGINS", FOLDER)
    check(name)


def test_checks_of_both_scales_are_among_them() -> None:
    names = {case.id for case in CASES}
    assert {
        "class-vote-choosing_everything_does_not_win",
        "class-vote-one_class_is_a_binary_question",
        "class-vote-the_order_of_units_changes_nothing",
        "tag-vote-the_order_of_units_changes_nothing",
        "tag-vote-sequences_are_taken",
    } <= names


def fit_tags(data: TrainingData) -> np.ndarray:
    return fit_one(tag_vote.TagVote(), data, FitContext(seeds=SeedStream(0))).item_probs


def test_tag_vote_looks_at_neighbours_in_the_unit_and_nowhere_else() -> None:
    """By explicit loops; and a token that nobody tagged is not left at uniform."""
    data = sequence_data().training
    votes, unit = data.annotations.label_distribution(), data.items.unit
    assert unit is not None
    pairs = [(i, i + 1) for i in range(data.n_items - 1) if unit[i] == unit[i + 1]]
    follows = np.ones((3, 3))
    for left, right in pairs:
        follows += np.outer(votes[left], votes[right])
    follows /= follows.sum(axis=1, keepdims=True)
    expected = votes.copy()
    for left, right in pairs:
        expected[right] *= votes[left] @ follows
        expected[left] *= follows @ votes[right]
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fit_tags(data), expected, atol=1e-12)
    assert np.ptp(fit_tags(data)[2]) > 0.01
    alone = small_data().training
    np.testing.assert_allclose(fit_tags(alone), alone.annotations.label_distribution(), atol=1e-12)
