"""MLflow as a view of the record: what was written is not written again, and one trial does not hold up the others."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from journals import folded, made_up_trials
from mirror_checks import started

from crowdsweep.record.state import JournalState
from crowdsweep.tracking.projection import Projection
from crowdsweep.tracking.run_book import Experiment, Rejected, RunBook, StoredRun
from crowdsweep.tracking.run_records import KEY, RunRecord


class Runs:
    """An experiment in memory, that notes its writes and refuses runs of some seeds."""

    def __init__(self, trouble: Mapping[str, Exception] | None = None) -> None:
        self.stored: dict[str, StoredRun] = {}
        self.calls: list[str] = []
        self.trouble = trouble or {}
        self.doubles: list[StoredRun] = []

    @property
    def place(self) -> tuple[str, str]:
        return "memory", "1"

    def open(self) -> None:
        self.calls.append("open")

    def runs(self) -> Iterator[StoredRun]:
        yield from self.stored.values()

    def running(self, store: str) -> Iterator[StoredRun]:
        yield from self.doubles

    def create(self, record: RunRecord) -> StoredRun:
        self.calls.append("create")
        if record.params.get("seed") in self.trouble:
            raise self.trouble[record.params["seed"]]
        run = StoredRun(run_id=f"run {len(self.stored)}", started_ms=0, artifacts="", tags=record.tags)
        self.stored[record.key] = run
        return run

    def delete(self, run_id: str) -> None:
        self.calls.append(f"delete {run_id}")

    def __getattr__(self, name: str) -> Any:
        return lambda *given, **named: self.calls.append(name)


def state_of(n_seeds: int) -> JournalState:
    return folded([started(), *made_up_trials("m", "d", [{"test_accuracy": 0.5}] * n_seeds)])


def test_what_was_written_is_not_written_again_and_what_is_new_is() -> None:
    runs = Runs()
    assert isinstance(runs, Experiment)
    projection = Projection(RunBook(runs, record=None))
    assert projection.lacking(state_of(2)) == 2
    assert [done for _, done in projection.write(state_of(2))] == [True, True]
    written = list(runs.calls)
    assert written[0] == "open"
    assert [done for _, done in projection.write(state_of(2))] == [False, False]
    assert runs.calls == written, "not even asked"
    assert [done for _, done in projection.write(state_of(3))] == [False, False, True]
    assert projection.lacking(state_of(3)) == 0
    assert runs.calls.count("open") == 1
    assert {run.tags[KEY] for run in runs.stored.values()} == set(runs.stored)


def test_a_trial_that_is_refused_is_told_of_once_and_the_others_are_written() -> None:
    projection = Projection(RunBook(Runs({"1": Rejected("too long")}), record=None))
    found = [done for _, done in projection.write(state_of(3))]
    assert [type(done) for done in found] == [bool, Rejected, bool]
    assert [done for _, done in projection.write(state_of(3))] == [False, False]
    assert projection.lacking(state_of(3)) == 1


def test_a_trial_that_cannot_be_written_does_not_hold_up_the_others_for_ever() -> None:
    projection = Projection(RunBook(Runs({"0": ConnectionError("no")}), record=None))
    with pytest.raises(ConnectionError):
        list(projection.write(state_of(3)))
    written: list[bool | Rejected] = []
    with pytest.raises(ConnectionError):
        written.extend(done for _, done in projection.write(state_of(3)))
    assert written == [True, True], "it comes last"
    for _ in range(6):
        with pytest.raises(ConnectionError):
            list(projection.write(state_of(3)))
    assert [done for _, done in projection.write(state_of(3))] == [False, False], "it is not tried any more"
    assert projection.lacking(state_of(3)) == 1


def test_a_run_that_was_made_without_an_answer_is_deleted_in_the_end() -> None:
    """MLflow made it, the answer was lost, and it was asked again; what others have open is left alone."""
    runs = Runs()
    book = RunBook(runs, record=None)
    list(Projection(book).write(state_of(2)))
    known = next(run for run in runs.stored.values() if run.tags["crowdsweep.kind"] == "trial")
    lost, strange = replace(known, run_id="lost"), replace(known, run_id="strange", tags={**known.tags, KEY: "?"})
    runs.doubles = [known, lost, strange]
    book.finish()
    assert [call for call in runs.calls if call.startswith("delete")] == ["delete lost"]
