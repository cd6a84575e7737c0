"""Paths that this system cannot have: bad input in every command and in Python, and no question raises."""

from collections.abc import Callable
from pathlib import Path

import pytest
from data_folders import folder_of

import crowdsweep as cs
from crowdsweep import paths
from crowdsweep.cli.commands import run_command_line
from crowdsweep.errors import BadInput, CrowdsweepError
from crowdsweep.labelling.classifiers import load_classifier
from crowdsweep.registry.discovery import search_path

ANSWERS = "item,annotator,label\n1,a,x\n1,b,y\n2,a,x\n2,b,x\n"
ODD = {
    "long": "x" * 300,
    "deep": "/".join(["ab" * 50] * 60),
    "long below": f"d/{'y' * 300}/z",
    "nul": "a\0b",
    "no text": "a\ud800b",
}
odd = pytest.mark.parametrize("path", ODD.values(), ids=ODD.keys())


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder_of(tmp_path / "ds", annotations=ANSWERS)
    (tmp_path / "labels.csv").write_text(ANSWERS)
    (tmp_path / "s.yaml").write_text("{name: s, datasets: [ds], models: [majority-vote], engine: inline}")
    monkeypatch.chdir(tmp_path)


@odd
def test_questions_have_an_answer(path: str) -> None:
    for question in (paths.is_file, paths.is_folder, paths.exists, paths.lexists):
        assert question(path) is False
        assert question(Path(path)) is False
    assert paths.names_in(path) == []
    assert paths.expand_home(f"~nobody-{path}") == Path(f"~nobody-{path}")


def test_no_folder_is_called_as_the_home_folder_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--out=~/labels` reaches a command as it is typed; whoever then cleans up with `rm -r ~` loses everything."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "labels.csv").write_text(ANSWERS)
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["init", "labels.csv", "~/photos"]) == 0
    assert run_command_line(["label", "~/photos", "--model", "majority-vote", "--out=~/labels"]) == 0
    assert (tmp_path / "home/labels/labels.csv").is_file()
    assert not (tmp_path / "~").exists()


@odd
def test_every_command_says_that_it_is_no_path(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    label = ["label", "ds", "--model", "majority-vote"]
    for words in (
        ["run", path],
        ["run", "s.yaml", "--store", path],
        ["plan", path],
        *([command, path] for command in ("status", "report", "results", "stop", "list", "ui", "mirror", "repair")),
        ["replay", "abc", "--store", path],
        ["compare", path, path],
        ["label", path],
        ["label", path, "--model", "majority-vote"],
        [*label, "--out", path],
        [*label, "--export", "label-studio", "--interface", path],
        ["label", "ds", "--model", path],
        ["init", path],
        ["init", "labels.csv", path],
        ["init", "labels.csv", "--gold", path, "new"],
        ["data", "check", path],
        ["data", "describe", path],
        ["data", "import", "csv", path],
        ["data", "import", "doccano", path],
        ["data", "import", "csv", "labels.csv", path],
        ["data", "simulate", path],
        ["datasets", path],
        ["models", path],
    ):
        assert run_command_line(words) == 2, words
        assert "error: " in capsys.readouterr().err, words


@odd
@pytest.mark.parametrize(
    "call",
    [
        cs.load,
        lambda path: cs.fit("majority-vote", path),
        lambda path: cs.fit(path, "ds"),
        lambda path: cs.run(path, quiet=True),
        lambda path: cs.run("s.yaml", store=path, quiet=True),
        lambda path: cs.run({"name": "s", "datasets": [path], "models": ["majority-vote"]}, store="t", quiet=True),
        lambda path: cs.fit("majority-vote", "ds").save(path),
        cs.results,
        load_classifier,
    ],
)
def test_python_raises_our_errors(path: str, call: Callable[[str], object]) -> None:
    with pytest.raises(CrowdsweepError):
        call(path)


@pytest.mark.parametrize("variable", ["CROWDSWEEP_DATA", "CROWDSWEEP_PLUGINS"])
@pytest.mark.parametrize("path", [ODD["long"], ODD["deep"], "~nobody-of-that-name/x"])
def test_search_paths_raise_nothing_else(path: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, path)
    for words in (["models"], ["datasets"], ["data", "check", "ds"]):
        assert run_command_line(words) in (0, 2)
    if variable == "CROWDSWEEP_PLUGINS" and not path.startswith("~"):
        with pytest.raises(BadInput, match="CROWDSWEEP_PLUGINS"):
            search_path()


def test_labels_go_into_folders_of_names_that_are_no_text(tmp_path: Path) -> None:
    cs.fit("majority-vote", "ds").save(tmp_path / "a\udcffb" / "labels")
    assert (tmp_path / "a\udcffb" / "labels" / "labels.csv").exists()
