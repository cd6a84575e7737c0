"""A person's files in folders that label, run, repair and init write to."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from data_folders import folder_of
from dies import deaths
from made_up_stores import files_in, sweep

import crowdsweep as cs
from crowdsweep.cli.commands import run_command_line
from crowdsweep.data.on_disk.folder import read_folder, write_folder
from crowdsweep.data.on_disk.new_folder import check_new
from crowdsweep.errors import BadInput, DataError, ForeignFile, JournalError, WriteFailed
from crowdsweep.files import drafts
from crowdsweep.files.manifest import LIST_FILE
from crowdsweep.files.owned import replaced
from crowdsweep.labelling.label_files import LABELS, check_folder
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.kept_arrays import digest_of
from crowdsweep.record.repair import repair_journal
from crowdsweep.views.report_files import write_report

ANSWERS = "item,annotator,label\n" + "".join(f"p{i},{who},{'yn'[i % 2]}\n" for i in range(6) for who in "abc")


@pytest.fixture(scope="module")
def fit(tmp_path_factory: pytest.TempPathFactory) -> cs.Fit:
    return cs.fit("majority-vote", str(folder_of(tmp_path_factory.mktemp("d") / "photos", annotations=ANSWERS)))


@pytest.fixture
def labels(fit: cs.Fit, tmp_path: Path) -> Path:
    """A folder that labels were written to, with a person's notes beside them."""
    fit.save(tmp_path / "labels")
    (tmp_path / "labels" / "notes.txt").write_text("mine")
    return tmp_path / "labels"


def project(folder: Path, recipe: str) -> Path:
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "x.py").write_text("print(1)")
    (folder / "thesis.tex").write_text("my thesis")
    (folder / "label.yaml").write_text(recipe)
    return folder


@pytest.mark.parametrize(
    "recipe",
    [
        "names: [cat, dog]",
        "",
        "\0" * 50,
        "files: 5",
        "files: [1, 2]",
        "files: [thesis.tex, label.yaml, src/]",
        "[",
        "- a",
    ],
)
def test_a_folder_with_a_label_yaml_is_nobodys_for_that(recipe: str, fit: cs.Fit, tmp_path: Path) -> None:
    folder = project(tmp_path / "project", recipe)
    before = files_in(folder)
    with pytest.raises(BadInput, match="holds other files"):
        check_folder(folder)
    with pytest.raises(BadInput, match="holds other files"):
        fit.save(folder)
    assert run_command_line(["label", str(fit.source), "--model", "majority-vote", "--out", str(folder)]) == 2
    assert files_in(folder) == before


def test_a_recipe_of_ours_makes_no_other_file_ours(labels: Path, fit: cs.Fit) -> None:
    """A label.yaml that names a person's file among those that it wrote, as somebody could forge it."""
    (labels / LIST_FILE).unlink()
    recipe = (labels / "label.yaml").read_text()
    for names in ("notes.txt", "classifier/", "labels.csv/"):
        (labels / "label.yaml").write_text(recipe.replace("files:", f"files:\n- {names}"))
        fit.save(labels)
        assert (labels / "notes.txt").read_text() == "mine"
        (labels / LIST_FILE).unlink()
    for names in ("../labels/notes.txt", ".."):
        (labels / "label.yaml").write_text(recipe.replace("files:", f"files:\n- {names}"))
        before = files_in(labels)
        with pytest.raises(ForeignFile, match=r"Nothing was touched|new or empty folder"):
            fit.save(labels)
        assert files_in(labels) == before


@pytest.mark.parametrize("damage", [b"", b"\0" * 80, b"files: 5\n", b"files: [notes.txt]\n", b"\xff", b"names: [cat]"])
@pytest.mark.parametrize("name", ["label.yaml", LIST_FILE, "labels.csv"])
def test_labels_that_were_damaged_or_changed_are_refused_and_kept(
    name: str, damage: bytes, labels: Path, fit: cs.Fit
) -> None:
    (labels / name).write_bytes(damage)
    before = files_in(labels)
    for call in (lambda: check_folder(labels), lambda: fit.save(labels)):
        with pytest.raises(ForeignFile, match="Nothing was touched"):
            call()
    assert files_in(labels) == before
    (labels / name).unlink()
    if name == LIST_FILE:  # an earlier version wrote none
        fit.save(labels)
        assert (labels / "notes.txt").read_text() == "mine"
    elif name == "labels.csv":
        fit.save(labels)
        assert "p0" in (labels / "labels.csv").read_text()


def test_labels_of_an_earlier_version_are_replaced_but_not_where_a_person_changed_them(
    labels: Path, fit: cs.Fit
) -> None:
    (labels / LIST_FILE).unlink()
    fit.save(labels)
    (labels / LIST_FILE).unlink()
    (labels / "labels.csv").write_text("mine")
    with pytest.raises(ForeignFile, match=r"labels\.csv would be overwritten"):
        fit.save(labels)
    assert (labels / "labels.csv").read_text() == "mine"


def test_a_persons_file_of_the_name_of_an_export_is_kept(labels: Path, fit: cs.Fit) -> None:
    (labels / "label-studio.json").write_text("mine")
    words = ["label", str(fit.source), "--model", "majority-vote", "--out", str(labels), "--export", "label-studio"]
    assert run_command_line(words) == 2
    assert (labels / "label-studio.json").read_text() == "mine"


def test_labels_are_whole_or_marked_at_every_death(tmp_path: Path) -> None:
    folder = tmp_path / "labels"
    (tmp_path / "labels").mkdir()
    (folder / LIST_FILE).unlink(missing_ok=True)

    def write(text: str) -> None:
        with replaced(folder, (), LABELS) as place:
            for name in ("labels.csv", "label.yaml"):
                (place / name).write_text(text)

    def prepare() -> None:
        write("first")
        (folder / "notes.txt").write_text("mine")

    for _ in deaths(lambda: write("second"), prepare):
        assert (folder / "notes.txt").read_text() == "mine"
        if (folder / "label.yaml").exists():
            assert (folder / "labels.csv").read_text() == (folder / "label.yaml").read_text()
        check_folder(folder)
    assert {path.name for path in folder.iterdir()} == {"labels.csv", "label.yaml", "notes.txt", LIST_FILE}


MINE = {name: f"my {name}" for name in ("report.html", "table.csv", "table.md", "results.parquet", "items-1.png")}


@pytest.mark.parametrize("names", [[name] for name in MINE] + [list(MINE)], ids="-".join)
def test_a_folder_with_a_persons_report_becomes_no_store(names: list[str], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).write_text(MINE[name])
    before = files_in(tmp_path)
    with pytest.raises(ForeignFile, match="would be overwritten"):
        Journal(tmp_path)
    assert files_in(tmp_path) == before, "no record is begun either"


def test_run_refuses_before_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    (tmp_path / "report.html").write_text("mine")
    (tmp_path / "small.yaml").write_text(
        "{name: small, datasets: [{name: gaussians, items: 40, annotators: 6}], models: [majority-vote], "
        "seeds: {report: 1}, engine: inline, tracking: {enabled: false}}"
    )
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["run", "small.yaml", "--store", "."]) == 2
    assert "report.html would be overwritten" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "small.yaml"}


@pytest.mark.parametrize("name", list(MINE))
def test_a_report_that_a_person_changed_is_kept(name: str, tmp_path: Path) -> None:
    store = sweep(tmp_path / "store")
    write_report(store)
    (store / name).write_text("mine")
    before = files_in(store)
    if name == "items-1.png":  # not drawn, so not in the way
        write_report(store)
        assert (store / name).read_text() == "mine"
        return
    with pytest.raises(ForeignFile, match=f"{name} would be overwritten"):
        write_report(store)
    assert files_in(store) == before


def test_reports_without_their_list_are_nobodys(tmp_path: Path) -> None:
    store = sweep(tmp_path / "store")
    write_report(store)
    (store / LIST_FILE).unlink()
    write_report(store)  # the same bytes are in nobody's way
    (store / LIST_FILE).unlink()
    (store / "table.csv").write_text((store / "table.csv").read_text() + "mine")
    before = files_in(store)
    with pytest.raises(ForeignFile, match=r"table\.csv would be overwritten"):
        write_report(store)
    assert files_in(store) == before


def test_somebody_elses_lock_file_is_kept(tmp_path: Path) -> None:
    (tmp_path / "journal.lock").write_text("of another program")
    with pytest.raises(ForeignFile, match=r"journal\.lock"):
        Journal(tmp_path)
    assert files_in(tmp_path) == {"journal.lock": b"of another program"}


def test_folders_in_a_store_that_are_links_are_refused(tmp_path: Path) -> None:
    store, elsewhere = sweep(tmp_path / "store"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".draft.12345678.new").write_text("mine")
    (elsewhere / f"{'0' * 32}.npy").write_text("mine")
    before = files_in(elsewhere)
    (store / "artifacts").symlink_to(elsewhere)
    for call in (lambda: Journal(store), lambda: repair_journal(store)):
        with pytest.raises(JournalError, match="expected a folder, got a link"):
            call()
    (store / "artifacts").unlink()
    (store / "anything").symlink_to(elsewhere)
    (store / "labels").symlink_to(elsewhere)
    Journal(store).close()
    with pytest.raises(BadInput, match="is a link"):
        check_folder(store / "labels")
    assert files_in(elsewhere) == before


def test_labels_in_a_store_go_through_no_link(fit: cs.Fit, tmp_path: Path) -> None:
    store, elsewhere = sweep(tmp_path / "store"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (store / "labels").symlink_to(elsewhere)
    for place in (store / "labels", store / "labels" / "deeper"):
        with pytest.raises(BadInput, match="is a link"):
            fit.save(place)
    assert list(elsewhere.iterdir()) == []
    (tmp_path / "link").symlink_to(elsewhere)
    fit.save(tmp_path / "link")  # a person's own, and no part of a store
    assert (elsewhere / "labels.csv").exists()


def test_a_carriage_return_in_a_name_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = ["ann\rlee", "a\nb", "v\x0bt", "n\x85l", "u\u2028s", 'q"u"o', "\ttab", "b|r"]
    rows = "".join(
        f'"p{item}","{name.replace(chr(34), chr(34) * 2)}","y\r{item % 2}"\n' for item in range(4) for name in odd
    )
    (tmp_path / "cr.csv").write_bytes(f"photo,worker,verdict\n{rows}".encode())
    monkeypatch.chdir(tmp_path)
    words = ["init", "cr.csv", "cr", "--item", "photo", "--annotator", "worker", "--label", "verdict"]
    assert run_command_line(words) == 0
    data = read_folder("cr")
    assert {name.strip() for name in odd} == {name.strip() for name in data.annotator_names}
    assert data.class_labels == ("y\r0", "y\r1")
    write_folder(data, "again")
    again = read_folder("again")
    assert (again.fingerprint, list(again.annotator_names)) == (data.fingerprint, list(data.annotator_names))
    import pandas as pd

    for folder in ("cr", "again"):
        read = pd.read_csv(f"{folder}/annotations.csv", keep_default_na=False)
        assert set(read["annotator"]) == set(data.annotator_names)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_dataset_is_whole_or_none_at_every_death(is_there: bool, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    data = read_folder(folder_of(tmp_path / "s" / "d", annotations=ANSWERS))
    (tmp_path / "t").mkdir()
    folder = tmp_path / "t" / "new"

    def prepare() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        if is_there:
            folder.mkdir()

    for _ in deaths(lambda: write_folder(data, folder), prepare):
        if not (folder / "annotations.csv").exists():
            check_new(folder)
            write_folder(data, folder)
        assert read_folder(folder).fingerprint == data.fingerprint
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["new"]
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_a_folder_that_holds_files_is_written_by_nobody(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match=r"got one that holds files \(notes\.txt\)"):
        check_new(tmp_path)
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    with pytest.raises(DataError, match="a link that leads nowhere"):
        check_new(tmp_path / "nowhere")


def test_two_that_label_at_once_are_one_refusal(fit: cs.Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "PATIENCE_S", 0.1)
    fit.save(tmp_path / "labels")
    with replaced(tmp_path / "labels", (), LABELS) as place:
        (place / "labels.csv").write_text("x")
        with pytest.raises(WriteFailed, match="another crowdsweep is writing there"):
            fit.save(tmp_path / "labels")


def test_a_record_and_its_arrays_are_whole_at_every_death(tmp_path: Path) -> None:
    number = 0

    def prepare() -> None:
        nonlocal number
        number += 1
        sweep(tmp_path / str(number))

    def work() -> None:
        journal = Journal(tmp_path / str(number))
        journal.keep({"x": np.arange(9), "y": np.arange(3)})
        journal.close()

    for _ in deaths(work, prepare):
        store = tmp_path / str(number)
        work()
        assert sorted(path.name for path in store.iterdir()) == ["artifacts", "journal.jsonl", "journal.lock"]
        assert read_journal(store).rows == read_journal(tmp_path / "1").rows
        for path in (store / "artifacts").iterdir():
            assert digest_of(path.read_bytes()) == path.stem


def test_a_repair_loses_nothing_at_every_death(tmp_path: Path) -> None:
    whole = (sweep(tmp_path / "sound") / "journal.jsonl").read_bytes().splitlines(keepends=True)
    damaged = b"".join([*whole[:2], b"\0\0\0\n", *whole[2:]])
    store = tmp_path / "store"

    def prepare() -> None:
        shutil.rmtree(store, ignore_errors=True)
        store.mkdir()
        (store / "journal.jsonl").write_bytes(damaged)
        (store / "journal.jsonl.damaged-1").symlink_to(tmp_path / "nowhere")

    for _ in deaths(lambda: repair_journal(store), prepare):
        assert (store / "journal.jsonl").read_bytes() in (damaged, b"".join(whole))
        repair_journal(store)
        assert (store / "journal.jsonl").read_bytes() == b"".join(whole)
        assert damaged in [path.read_bytes() for path in store.glob("journal.jsonl.damaged-*") if path.exists()]
        assert not [path for path in store.iterdir() if path.name.startswith(".")]
    assert not (tmp_path / "nowhere").exists()
