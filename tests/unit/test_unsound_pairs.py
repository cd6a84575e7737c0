"""`compare` of two sweeps calls nothing better, worse or the same whose seeds collapsed or whose fits are flagged."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from journals import made_up_sweep, made_up_trials

from crowdsweep.cli.commands import run_command_line
from crowdsweep.record.events import TrialFinished
from crowdsweep.record.journal import Journal

GOOD = (0.70, 0.71, 0.69, 0.70, 0.72, 0.71)
BETTER = (0.91, 0.90, 0.90, 0.89, 0.91, 0.92)
COLLAPSED = (0.90, 0.91, 0.89, 0.90, 0.1, 0.91)


def sweep_of(store: Path, scores: Sequence[float], flagged: int = 0) -> Path:
    events = made_up_trials("cmm", "birds", [{"test_accuracy": score} for score in scores])
    told = [
        replace(event, result=replace(event.result, flags=("one_class",) if event.result.key in bad else ()))
        if isinstance(event, TrialFinished)
        else event
        for bad in [{one.result.key for one in events[: 2 * flagged] if isinstance(one, TrialFinished)}]
        for event in events
    ]
    journal = Journal(store)
    journal.handle_many(made_up_sweep(told, models=[], name=store.name))
    journal.close()
    return store


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ((GOOD, 0), (BETTER, 0), "better"),
        ((GOOD, 0), (BETTER, 2), "not comparable: in B 2 of 6 trials are flagged"),
        ((BETTER, 1), (BETTER, 0), "not comparable: in A 1 of 6 trials is flagged"),
        ((GOOD, 0), (COLLAPSED, 0), "not comparable: in B 1 of 6 seeds collapsed"),
        (
            (COLLAPSED, 0),
            (GOOD, 1),
            "not comparable: in A 1 of 6 seeds collapsed, in B 1 of 6 trials is flagged",
        ),
    ],
)
def test_what_is_not_sound_is_not_compared(tmp_path: Path, capsys, first, second, said) -> None:
    stores = [str(sweep_of(tmp_path / name, *given)) for name, given in (("a", first), ("b", second))]
    assert run_command_line(["compare", *stores, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["scores"]
    assert row["second_is"] == said
    assert (row["p_holm"] is None) == (said != "better")
    assert row["first"] == pytest.approx(sum(first[0]) / 6)
    assert run_command_line(["compare", *stores]) == 0
    assert said in capsys.readouterr().out
