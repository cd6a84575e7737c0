"""Every mirror and every place for the journal's rows keeps its contract."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from rich.console import Console

from crowdsweep.console.live import ConsoleMirror
from crowdsweep.journal.journal import Journal
from crowdsweep.journal.local import LocalRows
from crowdsweep.journal.objects import ObjectRows
from crowdsweep.journal.rows import Rows
from crowdsweep.testing import mirror_checks
from crowdsweep.trial.events import Mirror


def local(folder: Path, write: bool) -> Rows:
    return LocalRows(folder, write=write)


def objects(folder: Path, write: bool) -> Rows:
    return ObjectRows(SubTreeFileSystem(str(folder), LocalFileSystem()), "bucket/sweep", write=write, settle_s=0.0)


@pytest.fixture(params=[local, objects], ids=["local", "objects"])
def open_rows(request: pytest.FixtureRequest, tmp_path: Path) -> mirror_checks.OpenRows:
    return lambda write: request.param(tmp_path, write)


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


def a_journal(folder: Path) -> Mirror:
    return Journal(folder)


def a_console(folder: Path) -> Mirror:
    return ConsoleMirror(console=Console(file=io.StringIO()))


def a_journal_of_objects(folder: Path) -> Mirror:
    return Journal(folder, rows=objects(folder, write=True))


@pytest.mark.parametrize("make", [a_journal, a_journal_of_objects, a_console])
@pytest.mark.parametrize("check", [mirror_checks.check_takes_every_event, mirror_checks.check_closes_without_events])
def test_sink(check: Callable[[Callable[[], Mirror]], None], make: Callable[[Path], Mirror], tmp_path: Path) -> None:
    check(lambda: make(tmp_path))
