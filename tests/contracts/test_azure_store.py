"""A record in Azure's blob storage keeps the contract of one on a disk; the store is Azure's own emulator."""

import json
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cloud_emulators import Azurite, served_azurite
from object_stores import BUCKET, rows_of
from six_drivers import six_at_once

from crowdsweep.cli.commands import run_command_line
from crowdsweep.errors import JournalError
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.objects import Objects
from crowdsweep.record.store_uri import StoreUri, store_named
from crowdsweep.testing import journal_checks, mirror_checks
from crowdsweep.testing.mirror_checks import ok, spec

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("azure")]

SWEEP = """
name: small
datasets: [anesthesia]
models:
  - majority-vote
  - {name: one-coin, search: {smoothing: {values: [0.01, 1.0]}}}
seeds: {search: 1, report: 2}
engine: inline
"""
N_TRIALS = 6


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    with served_azurite(tmp_path_factory.mktemp("azurite")) as server:
        yield server


@pytest.fixture
def store(server: Azurite, monkeypatch: pytest.MonkeyPatch) -> StoreUri:
    server.speak_to(monkeypatch)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return place(f"contract/{secrets.token_hex(4)}")


def place(prefix: str, bucket: str = BUCKET) -> StoreUri:
    named = store_named(f"az://{bucket}/{prefix}")
    assert isinstance(named, StoreUri)
    return named


@pytest.mark.parametrize(
    "check",
    [
        mirror_checks.check_rows_come_back,
        mirror_checks.check_reads_beside_a_writer,
        mirror_checks.check_second_writer_is_kept_out,
        mirror_checks.check_closed_rows_refuse,
    ],
)
def test_rows(check: Callable[[mirror_checks.OpenRows], None], store: StoreUri) -> None:
    check(lambda write: rows_of(Objects(store), write=write, answer_s=60.0))


@pytest.mark.parametrize("check", journal_checks.CHECKS)
def test_journal(check: Callable[[journal_checks.OpenJournal], None], store: StoreUri) -> None:
    check(lambda: Journal(store, rows=rows_of(Objects(store), write=True, answer_s=60.0)))


def test_packs_stand_for_their_objects(store: StoreUri) -> None:
    rows = rows_of(Objects(store), write=True, packed=3)
    texts = [f'{{"a":{number}}}' for number in range(8)]
    for text in texts:
        rows.append_rows([text])
    rows.close()
    assert [row.text.decode() for row in rows_of(Objects(store), write=False).read_rows()] == texts
    assert Objects(store).names("packs")


def test_of_six_drivers_at_once_one_writes(store: StoreUri) -> None:
    def begin(number: int) -> Journal:
        journal = Journal(store, rows=rows_of(Objects(store), write=True, answer_s=60.0))
        journal.handle(ok(spec(number).key))
        return journal

    wrote, refused = six_at_once(begin)
    assert (len(wrote), len(refused)) == (1, 5)
    assert all(f"pid {os.getpid()} on " in str(error) for error in refused)
    wrote[0].close()


def test_names_are_listed_as_they_were_written(store: StoreUri) -> None:
    objects = Objects(store)
    for name in ("b.csv", "a/b.csv", "a/c/d.csv"):
        assert objects.create(name, name.encode())
        assert not objects.create(name, b"another")
    assert [one.name for one in objects.names("")] == ["a/b.csv", "a/c/d.csv", "b.csv"]
    assert [one.name for one in objects.names("a", after="a/b.csv")] == ["a/c/d.csv"]
    assert [one.name for one in objects.names_in("a")] == ["a/b.csv"]
    assert objects.folders() == ["a"]
    objects.put("b.csv", b"new")
    assert objects.get("b.csv") == b"new"
    objects.remove(["b.csv", "b.csv"])
    assert objects.get("b.csv") is None


def test_a_sweep_from_run_to_labels(
    store: StoreUri, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SWEEP)
    for _ in range(2):  # the second goes on, and has nothing to do
        assert run_command_line(["run", "small.yaml", "--store", str(store), "--quiet"]) == 0
    assert len(read_journal(store).results) == N_TRIALS
    assert run_command_line(["label", str(store)]) == 0
    capsys.readouterr()
    assert run_command_line(["list", str(store.parent), "--json"]) == 0
    listed = {one["folder"]: one["state"] for one in json.loads(capsys.readouterr().out)}
    assert listed[str(store)] == "done"
    assert {"report.html", "labels/labels.csv"} <= {one.name for one in Objects(store).names("")}
    assert {path.name for path in tmp_path.iterdir()} == {"small.yaml"}


def test_who_may_not_or_names_no_container_is_told_in_words(
    store: StoreUri, server: Azurite, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(JournalError, match=r"expected a bucket .or container. called nobody-made-this"):
        Objects(place("x", "nobody-made-this")).put("a", b"")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", Azurite(port=0).key)
    with pytest.raises(JournalError, match="lets these credentials do no such thing") as refused:
        Objects(store).get("a")
    assert server.key not in str(refused.value)
