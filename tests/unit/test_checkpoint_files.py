"""Checkpoints in a store: kept by the driver, handed to the next one, and gone with the trial's result."""

import logging
from collections.abc import Mapping
from pathlib import Path
from threading import RLock

import pytest
from driven import config_of, drive
from fakes import FakeExecutor, Killed, MemoryJournal
from object_stores import PLACE, in_memory, rows_of
from obstore.store import MemoryStore

from crowdsweep.engine.executor import Batch
from crowdsweep.errors import JournalError, SweepFileError
from crowdsweep.record.checkpoint_files import CheckpointFiles
from crowdsweep.record.events import TrialSaved
from crowdsweep.record.journal import Journal
from crowdsweep.record.object_rows import ObjectRows
from crowdsweep.record.object_writer import ObjectWriter
from crowdsweep.record.store_files import CHECKPOINTS
from crowdsweep.sweep.plan import Plan, make_plan

A, B = "a" * 16, "b" * 16


def names(store: Path) -> list[str]:
    return sorted(path.name for path in (store / CHECKPOINTS).glob("*"))


def opened(place: Path | MemoryStore) -> Journal:
    """A store on a disk, or in an object store."""
    return Journal(place) if isinstance(place, Path) else Journal(PLACE, rows=rows_of(in_memory(place)))


@pytest.mark.parametrize("kind", ["disk", "objects"])
def test_the_latest_of_each_trial_is_kept_until_it_has_ended(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path if kind == "disk" else MemoryStore()
    journal = opened(place)
    files = journal.checkpoints
    assert files.get(A) is None
    files.put(A, 3, b"three")
    files.put(B, 1, b"one")
    files.put(A, 20, b"twenty")
    found = names(tmp_path) if isinstance(place, Path) else sorted(ObjectRows(in_memory(place)).names(CHECKPOINTS))
    assert [name[:26] for name in found] == [f"{A}-000000020", f"{B}-000000001"]
    assert (files.get(A), files.get(B)) == (b"twenty", b"one")
    files.remove([A, "c" * 16])
    assert (files.get(A), files.get(B)) == (None, b"one")
    files.put(A, 3, b"three")
    journal.close()
    with caplog.at_level(logging.WARNING):
        files.put(A, 4, b"late")
    assert "not open for writing" in caplog.text
    journal = opened(place)
    assert (journal.checkpoints.get(A), journal.checkpoints.get(B)) == (b"three", b"one")
    journal.checkpoints.remove()
    journal.close()
    assert not (tmp_path / CHECKPOINTS).exists()
    assert opened(place).checkpoints.get(A) is None


def test_the_next_driver_finds_them(tmp_path: Path) -> None:
    """Also where one died between a new one and the removal of the one before; other people's files stay."""
    with_both = Journal(tmp_path)
    with_both.checkpoints.put(A, 3, b"three")
    earlier = (tmp_path / CHECKPOINTS / names(tmp_path)[0]).read_bytes()
    kept = names(tmp_path)[0]
    with_both.checkpoints.put(A, 7, b"seven")
    with_both.close()
    (tmp_path / CHECKPOINTS / kept).write_bytes(earlier)
    (tmp_path / CHECKPOINTS / "notes.txt").write_text("mine")
    journal = Journal(tmp_path)
    assert journal.checkpoints.get(A) == b"seven"
    journal.checkpoints.put(A, 8, b"eight")
    assert len(names(tmp_path)) == 2
    journal.checkpoints.remove()
    journal.close()
    assert names(tmp_path) == ["notes.txt"]


def test_a_link_in_their_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    store = tmp_path / "store"
    store.mkdir()
    (store / CHECKPOINTS).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalError, match=f"{CHECKPOINTS}: expected a folder, got a link"):
        Journal(store)


def test_one_that_cannot_be_kept_costs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    class Full(ObjectWriter):
        def put(self, folder: str, files: Mapping[str, bytes]) -> None:
            raise JournalError("no room")

    kept = CheckpointFiles(Full(in_memory()), RLock())
    with caplog.at_level(logging.WARNING):
        for step in (1, 2):
            kept.put(A, step, b"x")
    assert [record.message for record in caplog.records] == [
        "checkpoints cannot be kept, so a lost trial may have to start again from the beginning: no room"
    ]


class SavingExecutor(FakeExecutor):
    """Each trial that ends has written a checkpoint before."""

    def submit(self, batch: Batch) -> None:
        super().submit(batch)
        self._news += [TrialSaved(key=spec.key, step=4, content=spec.key.encode()) for spec in batch.specs]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(config_of())


def test_a_driver_that_dies_leaves_those_of_trials_that_had_not_ended(plan: Plan) -> None:
    journal = MemoryJournal()
    with pytest.raises(Killed):
        drive(plan, journal, kind=SavingExecutor, die_after=20, slots=3)
    ended = set(journal.state.results)
    left = dict(journal.checkpoints.kept)
    assert ended
    assert left
    assert not ended & set(left)
    again = MemoryJournal(journal.events)
    again.checkpoints.kept = dict(left)
    outcome, slots = drive(plan, again, kind=SavingExecutor, slots=3)
    assert outcome.status == "done"
    handed = {key: content for batch in slots.batches for key, content in batch.saved.items()}
    assert handed == left
    assert {batch.checkpoint_minutes for batch in slots.batches} == {10.0}
    assert not again.checkpoints.kept


def test_without_checkpoints_none_is_handed_over() -> None:
    plan = make_plan(config_of(checkpoint_minutes=None))
    journal = MemoryJournal()
    _, slots = drive(plan, journal)
    assert {batch.checkpoint_minutes for batch in slots.batches} == {None}
    assert not any(batch.saved for batch in slots.batches)


def test_the_key_of_a_sweep_file() -> None:
    assert config_of().checkpoint_minutes == 10
    assert config_of(checkpoint_minutes=0.5).checkpoint_minutes == 0.5
    for wrong in (0, -1, "often", True):
        with pytest.raises(SweepFileError, match=r"checkpoint_minutes: expected number, above 0, or null; got "):
            config_of(checkpoint_minutes=wrong)
