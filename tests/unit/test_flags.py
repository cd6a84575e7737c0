"""Fits that ended badly are flagged without gold, kept in the journal, shown, and do not win by held-out answers."""

import json
from dataclasses import replace

import numpy as np
import pytest

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.journal.codec import decode, encode
from crowdsweep.models.registered import model_info
from crowdsweep.trial.events import TrialFinished
from crowdsweep.trial.flags import Flag, flag_words, flags_of
from crowdsweep.trial.result import Status, TrialResult

GOLD = np.arange(60) % 3
SURE = np.eye(3)[GOLD]


def crowd(right: float = 0.8) -> TrainingData:
    """Sixty items of three classes, five annotators."""
    draws = np.random.default_rng(0)
    item, annotator = (codes.ravel() for codes in np.indices((60, 5)))
    label = np.where(draws.random(len(item)) < right, GOLD[item], draws.integers(0, 3, len(item)))
    rows = Annotations.of(item=item, annotator=annotator, label=label, n_items=60, n_annotators=5, n_classes=3)
    return TrainingData(annotations=rows, items=Items(n_items=60))


def flags(said: np.ndarray, training: TrainingData | None = None, model: str = "cmm") -> tuple[str, ...]:
    return flags_of(model_info(model), said, training or crowd())


def test_what_agrees_with_most_votes_is_not_flagged() -> None:
    training = crowd()
    assert flags(SURE) == ()
    assert flags(training.annotations.label_distribution()) == ()
    third_wrong = SURE.copy()
    third_wrong[::4] = np.eye(3)[(GOLD[::4] + 1) % 3]
    assert flags(third_wrong) == ()


def test_exchanged_classes_are_flagged() -> None:
    assert flags(SURE[:, [1, 0, 2]]) == (Flag.PERMUTED,)
    assert flags(0.6 * SURE[:, [2, 0, 1]] + 0.4 / 3) == (Flag.PERMUTED,)


@pytest.mark.parametrize("said", [np.full((60, 3), 1 / 3), np.tile([0.0, 1.0, 0.0], (60, 1))], ids=["none", "one"])
def test_one_answer_for_all_items_is_flagged(said: np.ndarray) -> None:
    assert flags(said) == (Flag.COLLAPSED,)


def test_far_less_than_the_vote_is_flagged() -> None:
    lost = SURE.copy()
    lost[:40] = np.eye(3)[0]
    assert flags(lost) == (Flag.BELOW_VOTE,)


def test_nothing_is_told_where_nothing_can_be() -> None:
    one = np.tile([0.0, 1.0, 0.0], (60, 1))
    assert flags(one, crowd(right=0.0)) == ()  # votes know hardly more than chance
    assert flags(one, model="marginal") == ()  # says so by design
    assert flags(one, model="ideal") == ()  # was given gold
    assert flags(one, replace(crowd(), scale="multilabel")) == ()
    nothing = crowd().annotations.take(np.zeros(300, dtype=bool))
    assert flags(one, replace(crowd(), annotations=nothing)) == ()


def test_flags_are_journalled_where_there_are_any() -> None:
    plain = TrialResult(key="k", status=Status.OK)
    assert "flags" not in json.loads(encode(TrialFinished(result=plain)))["data"]["result"]
    flagged = replace(plain, flags=("permuted",))
    for result in (plain, flagged):
        assert decode(encode(TrialFinished(result=result))) == TrialFinished(result=result)


def test_flags_in_words() -> None:
    assert flag_words([]) == ""
    assert flag_words(["below_vote"]) == "below vote (it agrees with the votes far less than majority vote does)"
    assert all(flag_words([flag]).startswith(flag.replace("_", " ")) for flag in Flag)
