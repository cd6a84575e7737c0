"""Sweeps that come along: found by name from anywhere, listed, copied; this file or folder wins, and it is said."""

import json
from pathlib import Path

import pytest
from data_folders import folder_of

import crowdsweep as cs
from crowdsweep import app
from crowdsweep.cli.commands import run_command_line
from crowdsweep.errors import BadInput, SweepFileError
from crowdsweep.record.events import SweepStatus
from crowdsweep.sweep.driver import SweepOutcome
from crowdsweep.sweep.starter.begin import asked_sweep
from crowdsweep.sweepfile import named
from crowdsweep.sweepfile.named import asked_file, named_sweeps, sweep_folder, sweep_names

MINE = "{name: mine, datasets: [anesthesia], models: [majority-vote]}"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Notes the sweep and the store that would be run, and runs nothing."""
    runs: list[tuple[str, str]] = []

    def run(config, store, **_):
        runs.append((config.name, str(store)))
        return SweepOutcome(status=SweepStatus.INTERRUPTED, planned=4, finished=1, failed=0, ran=1, dropped=True)

    monkeypatch.setattr(app, "run", run)
    return runs


def test_they_are_those_of_the_folder_that_shows_them() -> None:
    shown = sorted((Path(__file__).parents[2] / "search_spaces").glob("*.yaml"))
    assert sweep_names() == [path.stem for path in shown]
    assert [named.sweep_text(path.stem) for path in shown] == [path.read_text() for path in shown]


def test_inside_the_package_they_come_before_those_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named, "__file__", str(tmp_path / "site/crowdsweep/sweepfile/named.py"))
    assert sweep_folder() == tmp_path / "site/search_spaces"
    (tmp_path / "site/crowdsweep/search_spaces").mkdir(parents=True)
    assert sweep_folder() == tmp_path / "site/crowdsweep/search_spaces"


def test_a_name_is_run_from_anywhere(asked: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["run", "quickstart"]) == 130
    assert asked == [("quickstart", "crowdsweep-runs/quickstart")]
    assert "continue with `crowdsweep run quickstart`" in capsys.readouterr().out
    with pytest.raises(KeyboardInterrupt):
        cs.run("sparsity", overrides={"name": "mine"})
    assert asked[1:] == [("mine", "crowdsweep-runs/mine")]


@pytest.mark.parametrize("hidden", [False, True])
def test_the_demo_is_the_quickstart_whatever_stands_here(
    hidden: bool, here: Path, asked: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    if hidden:
        (here / "quickstart.yaml").write_text(MINE)
    assert run_command_line(["demo", "--engine", "inline"]) == 130
    assert asked == [("quickstart", "crowdsweep-runs/quickstart")]
    called = str(sweep_folder() / "quickstart.yaml") if hidden else "quickstart"
    assert f"`crowdsweep run {called} --engine inline`" in capsys.readouterr().out


def test_what_stands_here_wins_and_it_is_said(
    here: Path, asked: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "sparsity.yaml").write_text(MINE)
    (here / "own.yaml").write_text(MINE)
    assert run_command_line(["run", "sparsity"]) == 130
    said = "sparsity.yaml: this file or folder is used, not the sweep of that name that comes with crowdsweep"
    assert said in capsys.readouterr().err
    assert run_command_line(["run", "own"]) == 130  # any file of a name
    assert "this file or folder" not in capsys.readouterr().err
    assert asked == [("mine", "crowdsweep-runs/mine")] * 2
    (here / "sparsity").write_text(MINE.replace("mine", "other"))  # nearer still
    assert asked_sweep("sparsity").name == "other"


def test_a_folder_here_wins_too(here: Path) -> None:
    folder_of(here / "redundancy", annotations="item,annotator,label\n1,a,x\n1,b,y\n2,a,x\n2,b,x\n")
    notes: list[str] = []
    found = asked_sweep("redundancy", tell=notes.append)
    assert found.datasets[0].name == str(here / "redundancy")
    assert "this file or folder is used" in notes[0]
    (here / "sparsity").mkdir()
    with pytest.raises(BadInput, match=r"expected a dataset's folder.*`crowdsweep sweeps sparsity > FILE.yaml`"):
        asked_sweep("sparsity")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "quikstart",
            r"no sweep file 'quikstart' here, and no sweep of that name .* did you mean 'quickstart'\?; `cro",
        ),
        ("onw", "did you mean 'own'"),
        ("zzzzzz", "known: jobs, .*; `crowdsweep sweeps` lists"),
        (
            "search_spaces/sparsity.yaml",
            "is named without an ending, sparsity, and `crowdsweep sweeps sparsity` prints",
        ),
        ("sparsity.yaml", "is named without an ending, sparsity"),
        ("own.yml", r"there is no file 'own\.yml'; did you mean 'own\.yaml'\?"),
        ("nowhere/own.yaml", "there is no file 'nowhere/own.yaml'"),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest(given: str, message: str, here: Path) -> None:
    (here / "own.yaml").write_text(MINE)
    with pytest.raises(SweepFileError, match=message):
        asked_sweep(given)
    with pytest.raises(SweepFileError, match=message):
        cs.run(given)


def test_a_dataset_that_is_named_on_the_way_is_looked_up_here(here: Path) -> None:
    folder_of(here / "pets", annotations="item,annotator,label\n1,a,x\n1,b,y\n2,a,x\n2,b,x\n")
    config = asked_sweep("redundancy", ["datasets=[pets]", "models=[majority-vote]"])
    assert [entry.name for entry in config.datasets] == [str(here / "pets")]


def test_they_are_listed_with_what_they_need(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["sweeps"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows[1:]] == sweep_names()
    told = {row[0]: row[1:] for row in rows}
    assert told["redundancy"] == ["How many labels does an item need?", "nothing"]
    assert told["lia-redundancy"][1] == "bluebirds, word-similarity, rte"
    assert all(row[1].endswith((".", "?")) and len(row[1]) > 20 for row in rows[1:])
    assert run_command_line(["sweeps", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {one["name"]: one["title"] for one in listed} == cs.sweeps()
    assert {one.name for one in named_sweeps() if not one.needs} == {
        *("quickstart", "redundancy", "sparsity", "sparsity-digits", "sparsity-table2"),
    }


def test_one_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["sweeps", "sparsity"]) == 0
    assert capsys.readouterr().out == (sweep_folder() / "sparsity.yaml").read_text()
    assert run_command_line(["sweeps", "sparcity"]) == 2
    assert "unknown sweep 'sparcity'; did you mean 'sparsity'?" in capsys.readouterr().err
    assert run_command_line(["sweeps", "sparsity", "--json"]) == 2


def test_a_file_does_not_mean_itself_by_its_name(here: Path) -> None:
    own = here / "sparsity.yaml"
    own.write_text(MINE)
    assert asked_file("sparsity", here, extending=own).comes_along
    assert asked_file("sparsity", here, extending=here / "other.yaml").path == own


def test_a_sweep_that_comes_along_may_extend_another_and_be_copied(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["sweeps", "sparsity-table2"]) == 0
    (here / "mine.yaml").write_text(capsys.readouterr().out)
    assert run_command_line(["plan", "mine.yaml"]) == 0
    assert "this file or folder is used" not in capsys.readouterr().err
    assert run_command_line(["plan", str(sweep_folder() / "sparsity-table2.yaml")]) == 0
    assert "this file or folder is used" not in capsys.readouterr().err
