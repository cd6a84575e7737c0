"""Of labels and reports in an object store no more is fetched than a question needs."""

from pathlib import Path
from typing import ClassVar

import pytest
from object_stores import PLACE
from obstore.store import MemoryStore

from crowdsweep.errors import ForeignFile
from crowdsweep.files.manifest import LIST_FILE
from crowdsweep.files.owned import Kind, replaced
from crowdsweep.labelling.folder import default_folder
from crowdsweep.labelling.label_files import CLASSIFIER_OF_LABELS, LABELS, check_folder
from crowdsweep.labelling.recipe import RECIPE
from crowdsweep.record import fetched
from crowdsweep.record.fetched import as_folder
from crowdsweep.record.objects import Objects
from crowdsweep.record.store_files import STORE, check_store
from crowdsweep.record.store_uri import StoreUri
from crowdsweep.views.report_files import WRITTEN, written_files

FOLDER = PLACE / "labels"
FILES = {RECIPE: b"dataset: birds\nnotes: [all is well]\n", "labels.csv": b"item,label\n", "answers.csv": b"item\n"}
CLASSIFIER = {"classifier/classifier.json": b"{}", "classifier/fit-0.safetensors": b"0"}


class Counting(Objects):
    """Objects that note what is fetched."""

    got: ClassVar[list[str]] = []

    def get(self, name: str) -> bytes | None:
        Counting.got.append(name)
        return super().get(name)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    memory = MemoryStore()
    monkeypatch.setattr(Counting, "got", [])
    monkeypatch.setattr(fetched, "Objects", lambda place: Counting(place, client=memory))
    return memory


def write(place: StoreUri, kind: Kind, files: dict[str, bytes]) -> None:
    with as_folder(place, kind, write=True) as folder, replaced(folder, (), kind) as fresh:
        for name, content in files.items():
            (fresh / name).parent.mkdir(exist_ok=True)
            (fresh / name).write_bytes(content)
    Counting.got.clear()


def test_whose_labels_lie_there_is_read_from_the_recipe_alone(memory: MemoryStore) -> None:
    write(FOLDER, LABELS, FILES)
    assert default_folder(FOLDER, "cats", "its-fingerprint") == PLACE / "labels-cats"
    assert Counting.got == [RECIPE]
    assert default_folder(FOLDER, "birds") == FOLDER
    assert default_folder(PLACE / "none", "cats") == PLACE / "none"
    assert {*Counting.got} == {RECIPE}


def test_labels_that_nobody_touched_are_not_fetched_to_see_that(memory: MemoryStore) -> None:
    check_folder(FOLDER)
    assert Counting.got == []
    write(FOLDER, LABELS, {**FILES, **CLASSIFIER})
    check_folder(FOLDER)
    assert Counting.got == [LIST_FILE]


@pytest.mark.parametrize("name", ["labels.csv", "classifier/classifier.json"])
def test_what_was_changed_since_is_fetched_and_refused(name: str, memory: MemoryStore) -> None:
    write(FOLDER, LABELS, {**FILES, **CLASSIFIER})
    Objects(FOLDER, client=memory).put(name, b"mine")
    with pytest.raises(ForeignFile, match=f"^{FOLDER}: {name} would be overwritten, and was changed since"):
        check_folder(FOLDER)
    assert Counting.got == [LIST_FILE, name]


def test_what_is_younger_and_the_same_is_ours(memory: MemoryStore) -> None:
    """As after a writer that was killed before it wrote the list for the last time."""
    write(FOLDER, LABELS, FILES)
    Objects(FOLDER, client=memory).put("labels.csv", FILES["labels.csv"])
    check_folder(FOLDER)
    assert Counting.got == [LIST_FILE, "labels.csv"]


def test_what_a_person_put_there_is_refused(memory: MemoryStore) -> None:
    """Before there was a list, or beside what it names; other names are nobody's business."""
    there = Objects(FOLDER, client=memory)
    there.put("annotators.csv", b"mine")
    with pytest.raises(ForeignFile, match=f"^{FOLDER}"):
        check_folder(FOLDER)
    there.remove(["annotators.csv"])
    write(FOLDER, LABELS, FILES)
    there.put("thesis.tex", b"mine")
    check_folder(FOLDER)
    there.put("annotators.csv", b"mine")
    with pytest.raises(ForeignFile, match=r"annotators\.csv would be overwritten, and was not written by crowdsweep"):
        check_folder(FOLDER)


def test_a_list_that_is_none_is_refused(memory: MemoryStore) -> None:
    write(FOLDER, LABELS, FILES)
    Objects(FOLDER, client=memory).put(LIST_FILE, b"{}")
    with pytest.raises(ForeignFile, match=f"^{FOLDER}/{LIST_FILE}: expected the list of files"):
        check_folder(FOLDER)


def test_reports_are_checked_and_read_in_the_same_way(memory: MemoryStore) -> None:
    check_store(PLACE)
    assert Counting.got == []
    write(PLACE, STORE, {name: name.encode() for name in (*WRITTEN, "results.parquet", "items-1.png")})
    check_store(PLACE)
    assert Counting.got == [LIST_FILE]
    Counting.got.clear()
    assert written_files(PLACE) == {name: name.encode() for name in WRITTEN}
    assert sorted(Counting.got) == sorted(WRITTEN)
    Objects(PLACE, client=memory).put("report.html", b"mine")
    with pytest.raises(ForeignFile, match=r"report\.html would be overwritten"):
        check_store(PLACE)


def test_a_classifier_is_fetched_without_the_labels(memory: MemoryStore) -> None:
    write(FOLDER, LABELS, {**FILES, **CLASSIFIER})
    with as_folder(FOLDER, CLASSIFIER_OF_LABELS) as folder:
        assert {path.name for path in Path(folder, "classifier").iterdir()} == {"classifier.json", "fit-0.safetensors"}
    assert sorted(Counting.got) == sorted([LIST_FILE, *CLASSIFIER])
