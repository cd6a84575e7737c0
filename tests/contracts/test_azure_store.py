"""A record in Azure's blob storage beyond the contract of object stores (`test_object_store.py`): packs, listings, a
sweep, and what is told; the store is Azure's own emulator."""

import json
import secrets
from pathlib import Path

import pytest
from cloud_emulators import Azurite
from object_stores import N_TRIALS, SMALL_SWEEP, place, rows_of

from crowdsweep.cli.commands import run_command_line
from crowdsweep.errors import JournalError
from crowdsweep.record.journal import read_journal
from crowdsweep.record.object_rows import ObjectRows
from crowdsweep.record.objects import Objects
from crowdsweep.record.store_uri import StoreUri

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("s3")]

SWEEP = SMALL_SWEEP.replace("DATASET", "anesthesia")


@pytest.fixture
def store(azure: Azurite) -> StoreUri:
    return place(f"contract/{secrets.token_hex(4)}", scheme="az")


def test_packs_stand_for_their_objects(store: StoreUri) -> None:
    rows = rows_of(Objects(store), packed=3)
    texts = [f'{{"a":{number}}}' for number in range(8)]
    for text in texts:
        rows.append_rows([text])
    rows.close()
    assert [row.text.decode() for row in ObjectRows(Objects(store)).read_rows()] == texts
    assert Objects(store).names("packs")


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
    store: StoreUri, azure: Azurite, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(JournalError, match=r"expected a bucket .or container. called nobody-made-this"):
        Objects(place("x", scheme="az", bucket="nobody-made-this")).put("a", b"")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", Azurite(port=0).key)
    with pytest.raises(JournalError, match="does not permit this with these credentials") as refused:
        Objects(store).get("a")
    assert azure.key not in str(refused.value)
