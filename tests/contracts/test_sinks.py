"""Every sink and every place for the journal's rows keeps its contract."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from rich.console import Console

from crowdsweep.sinks.console import ConsoleSink
from crowdsweep.sinks.contract import Sink
from crowdsweep.sinks.journal import Journal
from crowdsweep.sinks.journal_rows import Rows
from crowdsweep.sinks.local_journal import LocalRows
from crowdsweep.sinks.object_journal import ObjectRows
from crowdsweep.testing import sink_checks


def local(folder: Path, write: bool) -> Rows:
    return LocalRows(folder, write=write)


def objects(folder: Path, write: bool) -> Rows:
    return ObjectRows(SubTreeFileSystem(str(folder), LocalFileSystem()), "bucket/sweep", write=write, settle_s=0.0)


@pytest.fixture(params=[local, objects], ids=["local", "objects"])
def open_rows(request: pytest.FixtureRequest, tmp_path: Path) -> sink_checks.OpenRows:
    return lambda write: request.param(tmp_path, write)


@pytest.mark.parametrize(
    "check",
    [
        sink_checks.check_rows_come_back,
        sink_checks.check_reads_beside_a_writer,
        sink_checks.check_second_writer_is_kept_out,
        sink_checks.check_closed_rows_refuse,
    ],
)
def test_rows(check: Callable[[sink_checks.OpenRows], None], open_rows: sink_checks.OpenRows) -> None:
    check(open_rows)


def test_torn_tail_of_rows(open_rows: sink_checks.OpenRows, tmp_path: Path) -> None:
    def tear() -> None:
        last = max(tmp_path.rglob("*.jsonl"))
        last.write_bytes(last.read_bytes()[:-3])

    sink_checks.check_torn_tail_is_dropped(open_rows, tear)


def a_journal(folder: Path) -> Sink:
    return Journal(folder)


def a_console(folder: Path) -> Sink:
    return ConsoleSink(console=Console(file=io.StringIO()))


def a_journal_of_objects(folder: Path) -> Sink:
    return Journal(folder, rows=objects(folder, write=True))


@pytest.mark.parametrize("make", [a_journal, a_journal_of_objects, a_console])
@pytest.mark.parametrize("check", [sink_checks.check_takes_every_event, sink_checks.check_closes_without_events])
def test_sink(check: Callable[[Callable[[], Sink]], None], make: Callable[[Path], Sink], tmp_path: Path) -> None:
    check(lambda: make(tmp_path))
