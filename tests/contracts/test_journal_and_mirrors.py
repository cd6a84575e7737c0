"""Every mirror and every place for the journal's rows keeps its contract."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import journal_checks
import mirror_checks
import pytest
from fakes import MemoryJournal
from rich.console import Console

from crowdsweep.analysis.underway.progress import Progress
from crowdsweep.record.events import Event, Mirror
from crowdsweep.record.journal import Journal
from crowdsweep.record.local import LocalRows
from crowdsweep.record.local_writer import LocalWriter
from crowdsweep.tracking.mlflow_runs import MlflowMirror
from crowdsweep.tracking.run_book import RunBook
from crowdsweep.views.terminal.live import ConsoleMirror


@pytest.fixture
def open_rows(tmp_path: Path) -> mirror_checks.OpenRows:
    return lambda write: LocalWriter(tmp_path) if write else LocalRows(tmp_path)


@pytest.mark.parametrize(
    "check",
    [
        mirror_checks.check_rows_come_back,
        mirror_checks.check_reads_beside_a_writer,
        mirror_checks.check_second_writer_is_kept_out,
        mirror_checks.check_closed_rows_refuse,
    ],
)
def test_rows(check: Callable[[mirror_checks.OpenRows], None], open_rows: mirror_checks.OpenRows) -> None:
    check(open_rows)


def test_torn_tail_of_rows(open_rows: mirror_checks.OpenRows, tmp_path: Path) -> None:
    def tear() -> None:
        last = max(tmp_path.rglob("*.jsonl"))
        last.write_bytes(last.read_bytes()[:-3])

    mirror_checks.check_torn_tail_is_dropped(open_rows, tear)


def a_journal(folder: Path) -> Journal:
    return Journal(folder)


KEPT: dict[Path, list[Event]] = {}


def a_journal_in_memory(folder: Path) -> MemoryJournal:
    return MemoryJournal(KEPT.setdefault(folder, []))


def a_console(folder: Path) -> Mirror:
    return ConsoleMirror(console=Console(file=io.StringIO()), every_s=0.0)


def a_live_console(folder: Path) -> Mirror:
    return ConsoleMirror(console=Console(file=io.StringIO(), force_terminal=True))


@dataclass(frozen=True)
class Recorded:
    """A mirror that looks at a record, with one that is told of each event first."""

    record: MemoryJournal
    mirror: Mirror

    def handle(self, event: Event) -> None:
        self.record.handle(event)
        self.mirror.handle(event)

    def close(self) -> None:
        self.mirror.close()


def an_mlflow(folder: Path) -> Mirror:
    record = MemoryJournal()
    return Recorded(record, MlflowMirror(folder, experiment="an experiment", look=record.snapshot))


JOURNALS = [a_journal, a_journal_in_memory]
MIRRORS = [*JOURNALS, a_console, a_live_console, an_mlflow]
MIRROR_CHECKS = [mirror_checks.check_takes_every_event, mirror_checks.check_closes_without_events]


@pytest.mark.parametrize("make", JOURNALS)
@pytest.mark.parametrize("check", journal_checks.CHECKS)
def test_journal(
    check: Callable[[journal_checks.OpenJournal], None],
    make: Callable[[Path], journal_checks.WritableJournal],
    tmp_path: Path,
) -> None:
    check(lambda: make(tmp_path))


@pytest.mark.parametrize("make", MIRRORS)
@pytest.mark.parametrize("check", MIRROR_CHECKS)
def test_mirror(
    check: Callable[[Callable[[], Mirror]], None],
    make: Callable[[Path], Mirror],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    check(lambda: make(tmp_path))


@pytest.mark.parametrize(
    ("make", "part", "broken"),
    [
        (a_console, Progress, "take"),
        (a_live_console, ConsoleMirror, "_view"),
        (an_mlflow, RunBook, "write_trial"),
        (an_mlflow, RunBook, "finish"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_mirror_that_swallows_what_it_dies_of_breaks_the_contract(
    make: Callable[[Path], Mirror], part: type, broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(*_: object, **__: object) -> None:
        raise RuntimeError("nothing was written")

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(part, broken, raising)
    with pytest.raises(AssertionError, match="nothing was written"):
        mirror_checks.check_takes_every_event(lambda: make(tmp_path))
