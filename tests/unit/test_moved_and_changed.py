"""A project that was moved, data that changed between runs, a driver that died: said, and found again."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from journals import made_up_sweep, made_up_trials

from crowdsweep.analysis.status import left_out_words, sweep_status
from crowdsweep.cli.commands import run_command_line
from crowdsweep.data.catalogue import load
from crowdsweep.data.on_disk import folder_files
from crowdsweep.data.on_disk.moved import load_recorded
from crowdsweep.errors import DataError
from crowdsweep.labelling.folder import default_folder
from crowdsweep.labelling.recipe import RECIPE, read_recipe
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.views.live import live_report
from crowdsweep.views.report_files import write_report

SWEEP = """
name: moved
datasets: [birds]
models: [majority-vote]
seeds: {report: 2}
engine: inline
tracking: {enabled: false}
"""


def project(folder: Path) -> Path:
    """A sweep file with a dataset beside it."""
    (folder / "birds").mkdir(parents=True)
    rows = [f"i{i},w{w},{'ab'[(i + (w == i % 3)) % 2]}" for i in range(12) for w in range(3)]
    (folder / "birds" / "annotations.csv").write_text("\n".join(["item,annotator,label", *rows]) + "\n")
    (folder / "birds" / "items.csv").write_text("item,gold\n" + "".join(f"i{i},{'ab'[i % 2]}\n" for i in range(12)))
    (folder / "sweep.yaml").write_text(SWEEP)
    return folder


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def run(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run_command_line(words)
        told = capsys.readouterr()
        return code, told.out + told.err

    return run


def test_a_moved_project_is_labelled_and_replayed_and_new_answers_are_noticed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Callable[..., tuple[int, str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(project(tmp_path / "project"))
    assert command("run", "sweep.yaml", "--quiet")[0] == 0
    assert command("label", "crowdsweep-runs/moved", "--seeds", "1")[0] == 0
    shutil.move(tmp_path / "project", tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path / "elsewhere")
    code, told = command("label", "crowdsweep-runs/moved", "--seeds", "1")
    assert code == 0, told
    assert labels_folders() == ["labels"]
    key = json.loads(command("results", "crowdsweep-runs/moved", "--format", "json")[1])[0]["key"]
    code, told = command("replay", key)
    assert (code, told.splitlines()[-1]) == (0, "as recorded")

    assert command("run", "sweep.yaml", "--quiet")[0] == 0
    assert "has changed" not in caplog.text
    assert command("label", "crowdsweep-runs/moved", "--seeds", "1")[0] == 0  # the record names the new place now
    assert labels_folders() == ["labels"]
    assert read_recipe(Path("crowdsweep-runs/moved/labels")).dataset == str(tmp_path / "elsewhere" / "birds")
    with (tmp_path / "elsewhere" / "birds" / "annotations.csv").open("a") as annotations:
        annotations.write("i99,w0,a\n")
    assert command("run", "sweep.yaml", "--quiet")[0] == 0
    assert "birds has changed since the last run" in caplog.text
    assert "the 2 finished trials on the earlier ones are kept" in caplog.text
    caplog.clear()
    assert command("run", "sweep.yaml", "--quiet")[0] == 0
    assert "has changed" not in caplog.text  # it was said, and nothing is run again
    told = command("status", "crowdsweep-runs/moved")[1]
    assert "2 finished trials are left out: birds has changed since they were run" in told
    assert "no longer includes them" not in told
    assert "birds has changed since they were run" in (Path("crowdsweep-runs") / "moved" / "report.html").read_text()


def test_classes_that_another_version_ordered_otherwise_are_told_and_run_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Callable[..., tuple[int, str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Classes such as `10 - often` stood in the order of letters once."""
    monkeypatch.chdir(project(tmp_path / "project"))
    birds = Path("birds")
    for name in ("annotations.csv", "items.csv"):
        text = (birds / name).read_text().replace(",a\n", ",1 - never\n").replace(",b\n", ",10 - often\n")
        (birds / name).write_text(text)
    with (birds / "annotations.csv").open("a") as annotations:
        annotations.write("i0,w9,2 - sometimes\n")
    with monkeypatch.context() as earlier:
        earlier.setattr(folder_files, "in_order", lambda labels: sorted(set(labels)))
        assert command("run", "sweep.yaml", "--quiet")[0] == 0
    assert command("run", "sweep.yaml", "--quiet")[0] == 0
    now, then = "1 - never, 2 - sometimes, 10 - often", "1 - never, 10 - often, 2 - sometimes"
    assert f"birds has changed since the last run (its classes are now in the order {now}, and were in" in caplog.text
    assert f"in the order {then}: " in caplog.text
    assert len(json.loads(command("results", "crowdsweep-runs/moved", "--format", "json")[1])) == 2, "nothing is mixed"
    every = json.loads(command("results", "crowdsweep-runs/moved", "--format", "json", "--all-trials")[1])
    assert len(every) == 4, "and nothing lost"


def labels_folders() -> list[str]:
    return sorted(path.name for path in Path("crowdsweep-runs/moved").glob("labels*"))


def test_labels_are_renewed_of_a_folder_that_was_moved_and_of_no_other(tmp_path: Path) -> None:
    birds = project(tmp_path / "new") / "birds"
    same, labels = load(str(birds), {}).fingerprint, tmp_path / "labels"
    labels.mkdir()

    def place(dataset: str, fingerprint: str) -> str:
        recipe = {"dataset": dataset, "fingerprint": fingerprint}
        (labels / RECIPE).write_text(yaml.safe_dump({name: value for name, value in recipe.items() if value}))
        return default_folder(labels, str(birds), same).name

    gone = str(tmp_path / "old" / "birds")
    assert place(str(birds), "earlier") == "labels"
    assert place(gone, same) == "labels"
    assert place(gone, "another") == "labels-birds"
    assert place(gone, "") == "labels-birds"
    assert place("anesthesia", same) == "labels-birds"  # a dataset of the catalogue
    copy = tmp_path / "copy" / "birds"
    shutil.copytree(birds, copy)
    assert place(str(copy), same) == "labels-birds"  # two folders, of the same data


def test_only_the_same_data_are_taken_for_moved_ones(tmp_path: Path) -> None:
    store = project(tmp_path / "new") / "crowdsweep-runs" / "s"
    store.mkdir(parents=True)
    fingerprint = load(str(tmp_path / "new" / "birds"), {}).fingerprint
    gone = str(tmp_path / "old" / "data" / "birds")
    assert load_recorded(gone, {}, fingerprint, store).fingerprint == fingerprint
    with pytest.raises(DataError, match=r"no such folder, and no folder of that name near the record has its data"):
        load_recorded(gone, {}, "another", store)
    with pytest.raises(DataError, match=r"none near the record either .*`crowdsweep run` on its sweep file"):
        load_recorded(str(tmp_path / "old" / "fish"), {}, fingerprint, store)


def test_reasons_for_leaving_out_are_told_apart() -> None:
    assert left_out_words(0, {}) == []
    changed, other = left_out_words(5, {"birds": 4})
    assert changed.startswith("4 finished trials are left out: birds has changed")
    assert other.startswith("1 finished trials are left out: the sweep file no longer")


def test_a_driver_that_died_is_not_said_to_run(tmp_path: Path, command: Callable[..., tuple[int, str]]) -> None:
    events = made_up_sweep(made_up_trials("a", "d", [{"test_accuracy": 0.8}]), models=[], status=None)
    store = tmp_path / "s"
    journal = Journal(store)
    journal.handle_many(events)
    assert sweep_status(journal.state, store)["status"] == "running"  # its process works here
    journal.close()
    assert sweep_status(read_journal(store), store)["status"] == "crashed"
    assert json.loads(command("status", str(store), "--json")[1])["status"] == "crashed"
    assert "made-up: crashed" in command("status", str(store))[1]
    page = live_report(store, lambda _: None, sleep=lambda _: pytest.fail("nobody works on it"))
    assert "(status: crashed)" in page.read_text()
    assert 'http-equiv="refresh"' not in page.read_text()
    assert "(status: crashed)" in write_report(store).read_text()
