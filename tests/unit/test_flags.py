"""Fits that ended badly are flagged, kept in the journal, shown, and do not win by held-out answers."""

import json
from dataclasses import replace

import numpy as np
import pytest

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import EvaluationSet, Gold, Items, TrainingData, TrialData
from crowdsweep.models.registered import model_info
from crowdsweep.record.codec import decode, encode
from crowdsweep.record.events import TrialFinished
from crowdsweep.record.flags import Flag, flag_words
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.trial.flags import Evidence, evidence_of, flags_of

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


def by_gold(gold: np.ndarray, items: np.ndarray) -> Evidence:
    return Evidence(item=items.astype(np.int32), reference=np.eye(3)[gold])


def test_far_less_than_the_vote_is_flagged_on_evidence_alone() -> None:
    """Forty of sixty items are called by the first class: nothing is known against that without gold."""
    lost = SURE.copy()
    lost[:40] = np.eye(3)[0]
    cmm, items = model_info("cmm"), np.arange(60)
    assert flags(lost) == ()
    assert flags_of(cmm, lost, crowd(), by_gold(GOLD, items)) == (Flag.WORSE_THAN_VOTE,)
    assert flags_of(cmm, lost, crowd(), by_gold(GOLD[:6], items[:6])) == ()  # four of six: chance
    assert flags_of(cmm, lost, crowd(), by_gold(lost.argmax(axis=1), items)) == ()  # the model is right, the vote not
    third_wrong = SURE.copy()
    third_wrong[::4] = np.eye(3)[(GOLD[::4] + 1) % 3]
    assert flags_of(cmm, third_wrong, crowd(), by_gold(GOLD, items)) == ()  # below the vote, but no fit gone wrong


def test_evidence_clears_a_fit_that_differs_from_all_votes() -> None:
    """A crowd that calls the first class by the second, and the other way round."""
    exchanged = SURE[:, [1, 0, 2]]
    evidence = by_gold(exchanged.argmax(axis=1), np.arange(60))
    assert flags(exchanged) == (Flag.PERMUTED,)
    assert flags_of(model_info("cmm"), exchanged, crowd(), evidence) == ()
    assert flags_of(model_info("cmm"), exchanged, crowd(), by_gold(GOLD, np.arange(60))) == (Flag.PERMUTED,)


def test_a_search_is_held_against_held_out_answers_and_reports_against_gold() -> None:
    training, everything, every = crowd(), np.ones(60, dtype=bool), np.arange(60, dtype=np.int32)
    part = EvaluationSet(items=training.items, scored=every, code=every, reference=SURE, has_gold=everything)
    heldout = Annotations.of(
        item=np.array([3, 3]),
        annotator=np.array([0, 1]),
        label=np.array([1, 2]),
        n_items=60,
        n_annotators=5,
        n_classes=3,
    )
    trial = TrialData(
        training=training,
        code=every,
        gold=Gold(item=every, label=GOLD.astype(np.int32)),
        evaluate=lambda: {"train": part},
        heldout=heldout,
    )
    gold, answers = evidence_of(trial, gold=True), evidence_of(trial, gold=False)
    assert gold is not None and answers is not None  # noqa: PT018 - one thing: there is evidence
    assert (gold.item.tolist(), gold.reference.argmax(axis=1).tolist()) == (list(range(60)), GOLD.tolist())
    assert (answers.item.tolist(), answers.reference.argmax(axis=1).tolist()) == ([3, 3], [1, 2])
    assert evidence_of(replace(trial, heldout=None), gold=False) is None
    assert evidence_of(replace(trial, training=replace(training, scale="multilabel")), gold=True) is None


def test_nothing_is_told_where_nothing_can_be() -> None:
    one = np.tile([0.0, 1.0, 0.0], (60, 1))
    assert flags(one, crowd(right=0.0)) == ()  # votes know hardly more than chance
    assert flags(one, model="marginal") == ()  # says so by design
    assert flags(one, model="ideal") == ()  # was given gold
    assert flags(one, replace(crowd(), scale="multilabel")) == ()
    nothing = crowd().annotations.take(np.zeros(300, dtype=bool))
    assert flags(one, replace(crowd(), annotations=nothing)) == ()


def test_flags_are_journalled_where_there_are_any() -> None:
    plain = TrialResult(key="e" * 16, status=Status.OK)
    assert "flags" not in json.loads(encode(TrialFinished(result=plain)))["data"]["result"]
    flagged = replace(plain, flags=("permuted",))
    for result in (plain, flagged):
        assert decode(encode(TrialFinished(result=result))) == TrialFinished(result=result)
    old = replace(plain, flags=("below_vote",))  # what earlier versions held against a fit was no evidence
    assert decode(encode(TrialFinished(result=old))) == TrialFinished(result=plain)


def test_flags_in_words() -> None:
    assert flag_words([]) == ""
    told = flag_words(["worse_than_vote"])
    assert told == "worse than vote (it is right far less often than majority vote, on gold or on held-out answers)"
    assert all(flag_words([flag]).startswith(flag.replace("_", " ")) for flag in Flag)
