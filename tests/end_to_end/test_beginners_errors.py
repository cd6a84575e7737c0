"""Every mistake that a beginner makes: nothing is run, the exit code is 2, and the message says what to do."""

from pathlib import Path

import pytest

from crowdsweep.cli.commands import run_command_line

GOOD_ROWS = "item,annotator,label\na,x,yes\na,y,no\nb,x,yes\nb,y,yes\nc,y,no\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in, with one usable dataset `ok`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CROWDSWEEP_DATA", raising=False)
    folder(tmp_path, "ok", GOOD_ROWS)
    return tmp_path


def folder(place: Path, name: str, rows: str | bytes, **others: str) -> None:
    (place / name).mkdir()
    content = rows.encode() if isinstance(rows, str) else rows
    (place / name / "annotations.csv").write_bytes(content)
    for file, text in others.items():
        (place / name / f"{file}.csv").write_text(text)


def sweep(place: Path, text: str) -> str:
    (place / "s.yaml").write_text(text)
    return "s.yaml"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Runs a command that must be refused, and returns the message."""
    assert run_command_line(arguments) == 2
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    assert printed.err.startswith(("error: ", "Usage: "))
    assert not Path("crowdsweep-runs").exists()
    return printed.err


BASE = "name: s\ndatasets: [ok]\nmodels: [majority-vote]\nengine: inline\ntracking: {enabled: false}\n"

SWEEP_FILES = {
    "unknown model": (
        BASE.replace("majority-vote", "majorty-vote"),
        ["s.yaml:3", "majorty-vote", "majority-vote"],
    ),
    "unknown key": (BASE + "buget: {points: 3}\n", ["s.yaml:6", "buget", "budget"]),
    "wrong type": (BASE + "seeds: {report: many}\n", ["s.yaml:6", "seeds.report", "many"]),
    "no models": ("name: s\ndatasets: [ok]\n", ["s.yaml", "models"]),
    "unknown dataset": (BASE.replace("[ok]", "[labelme-2]"), ["labelme-2", "CROWDSWEEP_DATA"]),
    "unknown parameter": (
        BASE.replace("[majority-vote]", "[{name: dawid-skene, params: {smothing: 1}}]"),
        ["s.yaml", "smothing", "smoothing"],
    ),
    "parameter out of range": (
        BASE.replace("[majority-vote]", "[{name: dawid-skene, params: {smoothing: -1}}]"),
        ["s.yaml", "smoothing", "at least 0", "-1"],
    ),
    "space that is not the model's": (
        BASE.replace("[majority-vote]", "[{name: dawid-skene, search: {groups: {min: 1, max: 3}}}]"),
        ["s.yaml", "groups", "dawid-skene"],
    ),
    "range outside the model's": (
        BASE.replace("[majority-vote]", "[{name: dawid-skene, search: {smoothing: {min: -1.0, max: 1.0}}}]"),
        ["s.yaml", "smoothing", "at least 0"],
    ),
    "log_uniform": (
        BASE.replace(
            "[majority-vote]",
            "[{name: dawid-skene, search: {smoothing: {distribution: log_uniform, min: 0.1, max: 1}}}]",
        ),
        ["log_uniform_values"],
    ),
    "features missing": (BASE.replace("majority-vote", "soft-mv"), ["soft-mv", "features", "ok"]),
    "gold missing for the model": (BASE.replace("majority-vote", "ideal"), ["ideal", "ok"]),
    "gold missing for the metric": (BASE + "metric: {name: dev_accuracy, goal: maximize}\n", ["dev_accuracy", "ok"]),
    "unknown metric": (BASE + "metric: {name: dev_acuracy, goal: maximize}\n", ["dev_acuracy", "dev_accuracy"]),
    "unknown template": (BASE + "study: {template: sparseness}\n", ["sparseness", "sparsity"]),
    "not yaml": ("name: [s\n", ["s.yaml:2", "YAML"]),
    "empty sweep": ("", ["s.yaml", "got an empty file"]),
}


@pytest.mark.parametrize("mistake", SWEEP_FILES)
def test_sweep_file(place: Path, capsys: pytest.CaptureFixture[str], mistake: str) -> None:
    text, words = SWEEP_FILES[mistake]
    for command in ("plan", "run"):
        message = refused(capsys, command, sweep(place, text))
        for word in words:
            assert word in message, f"{word!r} is not in: {message}"


DATASETS = {
    "wrong column": ("item,worker,label\na,x,1\n", ["annotations.csv", "annotator", "worker"]),
    "empty file": ("", ["annotations.csv", "empty"]),
    "header only": ("item,annotator,label\n", ["annotations.csv"]),
    "one class only": ("item,annotator,label\na,x,1\nb,x,1\n", ["class"]),
    "wrong encoding": ("item,annotator,label\ncafé,x,1\nb,x,2\n".encode("latin-1"), ["annotations.csv", "UTF-8"]),
    "missing label": ("item,annotator,label\na,x,1\nb,x,\n", ["annotations.csv", "two classes", "label"]),
    "short row": ("item,annotator,label\na,x,1\nb,x\n", ["annotations.csv", "3"]),
}


@pytest.mark.parametrize("mistake", DATASETS)
def test_dataset(place: Path, capsys: pytest.CaptureFixture[str], mistake: str) -> None:
    rows, words = DATASETS[mistake]
    folder(place, "bad", rows)
    message = refused(capsys, "run", sweep(place, BASE.replace("[ok]", "[bad]")))
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"


def test_gold_outside_the_classes_is_refused_with_its_row(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classes = "label,name\nyes,yes\nno,no\n"
    folder(place, "bad", GOOD_ROWS, items="item,gold\na,yes\nb,maybe\n", classes=classes)
    message = refused(capsys, "data", "check", "bad")
    for word in ("items.csv", "row 2", "maybe", "yes"):
        assert word in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "nowhere.yaml"], ["nowhere.yaml"]),
        (["status", "crowdsweep-runs/none"], ["crowdsweep-runs/none", "crowdsweep run"]),
        (["results", "ok"], ["ok"]),
        (["models", "cmmm"], ["cmmm", "cmm"]),
        (["datasets", "gausians"], ["gausians", "gaussians"]),
        (["replay", "abc"], ["abc"]),
        (["rum"], ["rum", "run"]),
        (["run"], ["SWEEP"]),
        (["data", "check", "nowhere/at/all"], ["nowhere/at/all"]),
        (["data", "import", "crowd-kit", "nowhere.csv", "new"], ["nowhere.csv"]),
    ],
)
def test_command(place: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]) -> None:
    message = refused(capsys, *arguments)
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"


def test_set_goes_through_the_same_validator(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "run", sweep(place, BASE), "--set", "seeds.reprot=3")
    assert "reprot" in message
    assert "report" in message


def test_mistakes_leave_a_good_sweep_runnable(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["run", sweep(place, BASE), "--quiet"]) == 0
    assert "majority-vote" in capsys.readouterr().out
    assert run_command_line(["status", "crowdsweep-runs/s"]) == 0
    assert "5 done, 0 failed, 0 to go of 5 trials" in capsys.readouterr().out
