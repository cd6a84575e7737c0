"""What crowdsweep did not write stays as it is, whatever happened to the list, the links, and the last writer."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from dies import deaths

from crowdsweep.errors import ForeignFile
from crowdsweep.files import drafts
from crowdsweep.files.drafts import draft_in, write_below, write_new, write_whole
from crowdsweep.files.inside import UnexpectedLink
from crowdsweep.files.manifest import LIST_FILE, Manifest
from crowdsweep.files.owned import Kind, check_owned, replace_files, replaced

OURS = ("one", "two", "three", "inner/four", "what.yaml")
KIND = Kind(name="trial", may_write=OURS.__contains__, folders=("inner",), last=("what.yaml",))
FIRST = {"one": b"1", "two": b"2", "what.yaml": b"first"}
SECOND = {"one": b"11", "three": b"3", "what.yaml": b"second"}


def there(folder: Path) -> dict[str, bytes]:
    """Returns all files in a folder, the list and drafts too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def told(folder: Path) -> dict[str, bytes]:
    return {name: content for name, content in there(folder).items() if name != LIST_FILE}


def write_with_folder(root: Path, contents: dict[str, bytes]) -> None:
    with replaced(root, (), KIND) as place:
        for name, content in contents.items():
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_bytes(content)


def test_our_files_are_replaced_and_a_persons_stay(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "folder"
    replace_files(folder, KIND, FIRST)
    (folder / "notes.txt").write_text("mine")
    (folder / ".notes.12345678.new").write_text("mine too")
    replace_files(folder, KIND, SECOND)
    assert told(folder) == {**SECOND, "notes.txt": b"mine", ".notes.12345678.new": b"mine too"}
    write_with_folder(folder, {"inner/four": b"4", "what.yaml": b"third"})
    (folder / "inner" / "mine").write_text("mine")
    replace_files(folder, KIND, FIRST)
    assert told(folder) == {**FIRST, "notes.txt": b"mine", ".notes.12345678.new": b"mine too", "inner/mine": b"mine"}


@pytest.mark.parametrize("name", ["one", "three"])
def test_what_was_changed_or_is_not_ours_is_never_overwritten(name: str, tmp_path: Path) -> None:
    replace_files(tmp_path, KIND, FIRST)
    (tmp_path / name).write_text("a person's")
    before = there(tmp_path)
    with pytest.raises(ForeignFile, match=f"{name} would be overwritten"):
        replace_files(tmp_path, KIND, SECOND)
    with pytest.raises(ForeignFile, match=f"{name} would be overwritten"):
        check_owned(tmp_path, (), KIND)
    assert there(tmp_path) == before
    (tmp_path / name).rename(tmp_path / "elsewhere")
    replace_files(tmp_path, KIND, SECOND)
    assert told(tmp_path) == {**SECOND, "elsewhere": b"a person's"}


def test_a_file_that_is_nearly_all_holes_is_not_read(tmp_path: Path) -> None:
    replace_files(tmp_path, KIND, FIRST)
    with (tmp_path / "one").open("wb") as file:
        file.truncate(1 << 40)  # to read it takes many minutes
    with pytest.raises(ForeignFile, match="one would be overwritten, and was changed"):
        replace_files(tmp_path, KIND, SECOND)
    assert (tmp_path / "one").stat().st_size == 1 << 40


def test_a_changed_file_that_is_not_written_any_more_stays(tmp_path: Path) -> None:
    replace_files(tmp_path, KIND, FIRST)
    (tmp_path / "two").write_text("a person's")
    replace_files(tmp_path, KIND, SECOND)
    assert told(tmp_path) == {**SECOND, "two": b"a person's"}


def forged(**changes: object) -> bytes:
    """A list whose check agrees."""
    honest = json.loads(Manifest(kind=KIND.name, files={"one": frozenset({"0" * 32})}).content())
    import crowdsweep.files.manifest as listed

    told = {name: value for name, value in {**honest, **changes}.items() if name != "check"}
    return json.dumps({**told, "check": listed._check(told)}).encode()


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\0" * 100,
        b"{}",
        b"[1]",
        b"names: [cat]",
        b"[" * 100_000,
        forged(kind="another"),
        forged(version=2),
        forged(format="x"),
        forged(files={"../victim": ["0" * 32]}),
        forged(files={"/etc/passwd": ["0" * 32]}),
        forged(files={"notes.txt": ["0" * 32]}),
        forged(files={"one": ["0" * 31]}),
        forged(files={"one": 5}),
        forged(files=[1, 2]),
        Manifest(kind=KIND.name).content().replace(b"trial", b"trial "),
    ],
)
def test_a_damaged_or_forged_list_makes_nothing_ours(damage: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    replace_files(folder, KIND, FIRST)
    (tmp_path / "victim").write_text("mine")
    (folder / "notes.txt").write_text("mine")
    (folder / LIST_FILE).write_bytes(damage)
    before = there(tmp_path)
    for call in (lambda: replace_files(folder, KIND, SECOND), lambda: check_owned(folder, (), KIND)):
        with pytest.raises(ForeignFile, match="expected the list of files"):
            call()
    assert there(tmp_path) == before


def test_without_a_list_nothing_is_ours(tmp_path: Path) -> None:
    replace_files(tmp_path, KIND, FIRST)
    (tmp_path / LIST_FILE).unlink()
    with pytest.raises(ForeignFile, match=r"one, what\.yaml would be overwritten"):
        replace_files(tmp_path, KIND, SECOND)


@pytest.mark.parametrize("link", ["inner", "."])
def test_links_to_folders_are_refused(link: str, tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "store" / "labels"
    victim.mkdir()
    (victim / "four").write_text("mine")
    folder.parent.mkdir()
    if link == ".":
        folder.symlink_to(victim)
    else:
        folder.mkdir()
        (folder / link).symlink_to(victim)
    before = there(victim)
    for call in (
        lambda: check_owned(tmp_path / "store", ("labels",), KIND),
        lambda: write_labels_of_a_trial(tmp_path / "store"),
    ):
        with pytest.raises(UnexpectedLink, match="is a link"):
            call()
    assert there(victim) == before


def write_labels_of_a_trial(store: Path) -> None:
    with replaced(store, ("labels",), KIND) as place:
        (place / "inner").mkdir()
        (place / "inner" / "four").write_text("4")


def test_a_root_may_be_a_link_and_a_linked_file_is_replaced_where_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "real" / "one").symlink_to(tmp_path / "precious")
    with pytest.raises(ForeignFile, match="one would be overwritten"):
        replace_files(tmp_path / "link", KIND, FIRST)
    from dataclasses import replace

    replace_files(tmp_path / "link", replace(KIND, links_go=True), FIRST)
    assert told(tmp_path / "real") == FIRST
    assert (tmp_path / "precious").read_text() == "mine"


def test_at_every_death_a_persons_files_stand_and_the_next_writer_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # a process dies, no machine
    number = 0
    folder = tmp_path

    def prepare() -> None:
        nonlocal number, folder
        number += 1
        folder = tmp_path / str(number)
        write_with_folder(folder, {**FIRST, "inner/four": b"4"})
        (folder / "notes.txt").write_text("mine")

    wholes = 0
    for _ in deaths(lambda: replace_files(folder, KIND, SECOND), prepare):
        found = told(folder)
        assert found["notes.txt"] == b"mine"
        for name, content in found.items():
            if name in OURS:
                assert content in (FIRST.get(name), SECOND.get(name), b"4"), "each is an old one or a new one"
        if "what.yaml" in found:
            wholes += 1
            whole = FIRST if found["what.yaml"] == b"first" else SECOND
            assert {name: found[name] for name in whole} == whole, "what says what the others are finds them whole"
        check_owned(folder, (), KIND)
        replace_files(folder, KIND, FIRST)
        assert told(folder) == {**FIRST, "notes.txt": b"mine"}, "and nothing is left behind"
        assert [path.name for path in folder.iterdir() if path.is_dir()] == []
    assert wholes > 10


def test_at_every_death_new_files_are_whole_or_not_there(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    files = {"a.yaml": b"a" * 10_000, "b.yaml": b"b"}

    def prepare() -> None:
        for name in files:
            (folder / name).unlink(missing_ok=True)

    for _ in deaths(lambda: write_new(folder, files), prepare):
        assert all(files.get(path.name) == path.read_bytes() for path in folder.iterdir() if path.is_file())
        with draft_in(folder):
            assert len([path for path in folder.iterdir() if path.is_dir()]) == 1, "drafts of the dead are gone"


def test_a_file_that_stands_is_kept_and_none_is_written(tmp_path: Path) -> None:
    (tmp_path / "b").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        write_new(tmp_path, {"a": b"a", "b": b"b"})
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def failing(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Has the disk fail with the n-th file that is given its place."""
    rename, done = os.rename, 0

    def rename_or_fail(source: str, target: str, **folders: int) -> None:
        nonlocal done
        if source != LIST_FILE:
            done += 1
            if done == after:
                raise OSError(5, "no luck")
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", rename_or_fail)


@pytest.mark.parametrize("after", [1, 2, 3])
def test_where_the_disk_fails_what_stood_there_stands(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_files(tmp_path, KIND, FIRST)
    with monkeypatch.context() as patched:
        failing(patched, after)
        with pytest.raises(OSError, match="no luck"):
            replace_files(tmp_path, KIND, SECOND)
    assert told(tmp_path) == FIRST
    replace_files(tmp_path, KIND, SECOND)
    assert told(tmp_path) == SECOND


def test_a_folder_that_could_not_be_filled_is_not_left_behind(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected names that may be written"):
        write_with_folder(tmp_path / "new", {"one": b"1", "stranger": b"2"})
    assert list(tmp_path.iterdir()) == []


def test_two_writers_at_once_are_one_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "PATIENCE_S", 0.1)
    with replaced(tmp_path, (), KIND) as place:
        (place / "one").write_text("1")
        with pytest.raises(drafts.FolderBusy, match="another crowdsweep is writing there"):
            replace_files(tmp_path, KIND, SECOND)
    assert told(tmp_path) == {"one": b"1"}


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: (folder / ".crowdsweep-12345678").write_text("mine"),
        lambda folder: (folder / ".crowdsweep-12345678").symlink_to(folder.parent / "victim"),
        lambda folder: ((folder / ".crowdsweep-12345678").mkdir(), (folder / ".crowdsweep-12345678/x").write_text("")),
        lambda folder: (
            (folder / ".crowdsweep-12345678").mkdir(),
            (folder / ".crowdsweep-12345678/draft").write_text("my draft"),
        ),
    ],
    ids=["file", "link", "folder", "folder with a draft"],
)
def test_only_what_is_a_draft_is_removed(make: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "draft").write_bytes(drafts._SAYS)
    (tmp_path / "victim" / "mine").write_text("mine")
    folder = tmp_path / "folder"
    folder.mkdir()
    make(folder)
    before = there(tmp_path)
    write_whole(folder / "one", b"1")
    assert there(tmp_path) == {**before, "folder/one": b"1"}


def test_a_draft_that_is_written_is_nobody_elses_to_remove(tmp_path: Path) -> None:
    with draft_in(tmp_path) as (draft, folder):
        (draft.path / "one").write_text("1")
        write_whole(tmp_path / "two", b"2")
        draft.put("three", b"3", folder)
        assert (draft.path / "one").read_text() == "1"
    assert told(tmp_path) == {"two": b"2", "three": b"3"}


def test_nothing_is_written_below_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "runs").symlink_to(tmp_path / "victim")
    with pytest.raises(UnexpectedLink):
        write_below(tmp_path / "root", ("runs", "1", "a.png"), b"x")
    assert list((tmp_path / "victim").iterdir()) == []
    write_below(tmp_path / "root", ("others", "1", "a.png"), b"x")
    assert (tmp_path / "root" / "others" / "1" / "a.png").read_bytes() == b"x"
    assert [path.name for path in (tmp_path / "root").iterdir() if path.name.startswith(".")] == []


def test_where_files_cannot_be_linked_the_last_one_is_removed_and_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never seen beside files of another time, on a file system without hard links too."""
    replace_files(tmp_path, KIND, FIRST)
    stood: list[bool] = []
    rename = os.rename

    def no_links(*_: object, **__: object) -> None:
        raise PermissionError(1, "no hard links here")

    def fail_at_one(source: str, target: str, **folders: int) -> None:
        if source == "one":
            stood.append((tmp_path / "what.yaml").exists())
            raise OSError(5, "no luck")
        rename(source, target, **folders)

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", no_links)
        patched.setattr(os, "rename", fail_at_one)
        with pytest.raises(OSError, match="no luck"):
            replace_files(tmp_path, KIND, SECOND)
    assert stood == [False]
    assert told(tmp_path) == FIRST
