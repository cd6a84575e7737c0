"""What comes back from a model: whatever it is, the trial fails with a bounded, legible reason, and no other does."""

import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from executor_checks import datasets, specs_on

from crowdsweep.record.result import MISSING_PLUGIN, Failure, Status, TrialResult
from crowdsweep.trial.model_calls import MOST_CHARACTERS, ModelFault, failure_of, guarded, legible
from crowdsweep.trial.runner import run_batch

WRONG_RETURNS = {
    "none": ("FitFailed", "expected a FitResult from the fit, got NoneType"),
    "list": ("FitFailed", "expected a FitResult from the fit, got list"),
    "probs_none": ("FitFailed", "expected item probabilities as an array of numbers, got None"),
    "probs_text": ("FitFailed", "expected item probabilities as an array of numbers, got ndarray of <U1"),
    "probs_short": ("FitFailed", "expected item probabilities of shape"),
    "probs_negative": ("FitFailed", "expected item probabilities between 0 and 1, got -0.5"),
    "probs_doubled": ("FitFailed", "sum to one for each item, got a sum of 1.9"),
    "objective_text": ("FitFailed", "expected the objective as an array of numbers, got str"),
    "objective_table": ("FitFailed", "one value for each step, got shape (2, 2)"),
    "iterations": ("FitFailed", "expected iterations as a whole number, got str"),
    "extras": ("FitFailed", "expected extras as arrays by name, got list"),
    "predictor": ("FitFailed", "expected predictor with uses and predict, got int"),
    "predictor_uses": ("FitFailed", "expected the predictor's uses as names"),
    "predictions": ("FitFailed", "expected predictions (p) as an array of numbers, got None"),
    "annotators": ("FitFailed", "expected annotators with confusion and global_confusion, got str"),
    "confusion": ("FitFailed", "expected confusion matrices of shape"),
    "label_probs": ("FitFailed", "expected label probabilities of shape"),
    "shy_extra": ("FitFailed", "extra 'shy': expected an array, got Shy"),
    "exit": ("SystemExit", "3"),
    "generator_exit": ("GeneratorExit", ""),
    "keyboard_interrupt": ("KeyboardInterrupt", ""),
    "unspeakable": ("Unspeakable", "its text raised RuntimeError"),
    "endless_text": ("ValueError", "characters left out"),
    "strange_text": ("ValueError", "\\ud800 \\x00 \\x1b[31m \\u202e"),
}


@pytest.mark.unchecked
@pytest.mark.parametrize("how", WRONG_RETURNS)
def test_what_is_no_result_fails_its_trial_alone(misbehaving: None, how: str) -> None:
    results = run(how)
    failure = results[1].failure
    assert failure is not None, "the trial was taken for a good one"
    kind, says = WRONG_RETURNS[how]
    assert failure.kind == kind
    assert says in failure.message
    assert len(failure.message) < MOST_CHARACTERS + 100
    assert len(failure.traceback) < 4 * MOST_CHARACTERS + 100
    failure.message.encode()
    failure.traceback.encode()
    assert [results[0].status, results[2].status] == [Status.OK, Status.OK]


def test_what_a_model_does_to_numpy_and_the_interpreter_does_not_last(misbehaving: None) -> None:
    before = sys.getrecursionlimit(), np.geterr()
    assert [result.status for result in run("disturb")] == [Status.OK] * 3
    assert (sys.getrecursionlimit(), np.geterr()) == before


def test_a_process_that_a_model_forked_does_not_come_back(misbehaving: None, tmp_path: Path) -> None:
    """Both processes return from the fit; one of them is let on."""
    results = run("fork")
    (tmp_path / str(os.getpid())).touch()
    assert [result.status for result in results] == [Status.OK] * 3
    assert len(list(tmp_path.iterdir())) == 1


def test_a_persons_interrupt_passes() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guarded(interrupt)()


def test_an_interrupt_in_another_thread_is_the_models() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    seen: list[BaseException] = []

    def call() -> None:
        try:
            guarded(interrupt)()
        except ModelFault as fault:
            seen.append(fault)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert failure_of(seen[0]).kind == "KeyboardInterrupt"


def test_a_model_that_this_machine_lacks_is_the_machines_failure(
    misbehaving: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = next(iter(datasets().values()))
    specs = specs_on(base, "wrong", 1)
    monkeypatch.delenv("CROWDSWEEP_PLUGINS")
    (result,) = run_batch(specs, base, "cpu", lambda _: True)
    assert result.failure is not None
    assert result.failure.kind == MISSING_PLUGIN
    assert result.failure.of_infrastructure
    assert not Failure(kind="ValueError", message="").of_infrastructure


def test_legible_keeps_both_ends_of_a_long_text() -> None:
    text = legible("a" * 5_000 + "b" * 5_000, 100)
    assert text == "a" * 50 + " … 9,900 characters left out … " + "b" * 50
    assert legible("tab\tline\nünï 💥", 100) == "tab\tline\nünï 💥"


def run(how: str) -> list[TrialResult]:
    """Runs three trials of a model of which the second goes wrong, in one batch."""
    base = list(datasets().values())[1]
    specs = [replace(spec, heldout_fraction=0.1) for spec in specs_on(base, "wrong", 3, how=how)]
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as where trials run: an interrupt there is no person's
    try:
        return run_batch(specs, base, "cpu", lambda _: True)
    finally:
        signal.signal(signal.SIGINT, handler)
