"""As a newcomer does it, on files that nobody has seen before: file → init → run → label → labels.csv."""

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.csv as pa_csv
import pytest
from crowdkit.aggregation import DawidSkene

from crowdsweep.cli.commands import run_command_line
from crowdsweep.record.journal import read_journal

SMALL = ["seeds.report=2", "seeds.search=1", "budget.points=2", "tracking.enabled=false"]
SMALL_SWEEP = ["--engine", "inline", *(part for change in SMALL for part in ("--set", change))]


def answers_of_a_crowd(
    n_items: int, n_annotators: int, n_labels: int, classes: list[str]
) -> tuple[list[str], list[tuple[str, str, str]]]:
    """Returns the class of each item, and rows (item, annotator, label): every annotator answers, items in turn."""
    random = np.random.default_rng(n_annotators)
    gold = random.integers(0, len(classes), n_items)
    skill = random.uniform(0.5, 0.95, n_annotators)
    rows: dict[tuple[int, int], str] = {}
    for number in range(n_labels):
        item = number % n_items
        annotator = number if number < n_annotators else int(random.integers(n_annotators))
        right = random.random() < skill[annotator]
        rows[item, annotator] = classes[gold[item] if right else random.integers(len(classes))]
    return [classes[label] for label in gold], [(f"i{i}", f"a{a}", label) for (i, a), label in rows.items()]


def repeated(place: Path) -> tuple[list[str], pd.DataFrame]:
    """Labels are words with spaces, and some annotators answered an item again, now and then otherwise."""
    _, rows = answers_of_a_crowd(120, 15, 600, ["no entry", "give way", "zebra crossing"])
    rows += [(item, annotator, "give way") for item, annotator, _ in rows[::9]]
    write(place / "signs.csv", ("sign", "user_name", "verdict"), rows)
    return ["signs.csv"], table(rows)


def wide(place: Path) -> tuple[list[str], pd.DataFrame]:
    """A column for each annotator, many cells empty."""
    _, rows = answers_of_a_crowd(100, 6, 400, ["bad", "fair", "good"])
    cells = {(item, annotator): label for item, annotator, label in rows}
    people = sorted({annotator for _, annotator, _ in rows})
    lines = [[f"i{i}", *(cells.get((f"i{i}", who), "") for who in people)] for i in range(100)]
    write(place / "reviews.csv", ("review", *people), lines)
    return ["reviews.csv"], table(rows)


def gold_elsewhere(place: Path) -> tuple[list[str], pd.DataFrame]:
    """Gold of every fourth item, in another file."""
    gold, rows = answers_of_a_crowd(160, 20, 800, ["crow", "gull", "swift"])
    write(place / "birds.csv", ("image_id", "worker_id", "answer"), rows)
    write(place / "trusted.csv", ("image_id", "gold"), [(f"i{i}", gold[i]) for i in range(0, 160, 4)])
    return ["birds.csv", "--gold", "trusted.csv"], table(rows)


def ten_thousand_annotators(place: Path) -> tuple[list[str], pd.DataFrame]:
    """Most annotators gave one answer or two."""
    _, rows = answers_of_a_crowd(3000, 10_000, 15_000, ["for", "against"])
    write(place / "stances.csv", ("tweet", "annotator", "stance"), rows)
    return ["stances.csv"], table(rows)


def write(path: Path, header: tuple[str, ...], rows: list) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def table(rows: list[tuple[str, str, str]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["task", "worker", "label"])


def smoothed_dawid_skene(rows: pd.DataFrame, smoothing: float = 0.01) -> dict[str, str]:
    """Dawid and Skene's EM from the shares of votes, with pseudo-counts in every cell; dense in annotators."""
    (item, items), (annotator, annotators), (label, labels) = (
        pd.factorize(rows[column], sort=True) for column in ("task", "worker", "label")
    )
    posterior = np.zeros((len(items), len(labels)))
    np.add.at(posterior, (item, label), 1.0)
    posterior /= posterior.sum(axis=1, keepdims=True)
    for _ in range(100):
        confusion = np.full((len(annotators), len(labels), len(labels)), smoothing)
        for true in range(len(labels)):
            np.add.at(confusion[:, true], (annotator, label), posterior[item, true])
        confusion /= confusion.sum(axis=2, keepdims=True)
        log_joint = np.tile(np.log(posterior.mean(axis=0)), (len(items), 1))
        np.add.at(log_joint, item, np.log(confusion[annotator, :, label]))
        posterior = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
        posterior /= posterior.sum(axis=1, keepdims=True)
    return dict(zip(items, labels[posterior.argmax(axis=1)], strict=True))


def labels_in(folder: Path) -> dict[str, str]:
    return {row["item"]: row["label"] for row in pa_csv.read_csv(folder / "labels.csv").to_pylist()}


@pytest.mark.filterwarnings("ignore:The (inplace|copy) keyword")  # crowd-kit's, under pandas 3.1 (2026-11)
@pytest.mark.parametrize(
    "make", [repeated, wide, gold_elsewhere, pytest.param(ten_thousand_annotators, marks=pytest.mark.long)]
)
def test_from_a_file_to_labels(
    make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, rows = make(tmp_path)
    name = arguments[0].removesuffix(".csv")
    assert run_command_line(["init", *arguments]) == 0
    commands = [
        line.split("   ")[0].split() for line in capsys.readouterr().out.partition("next:\n  ")[2].split("\n  ")
    ]
    assert [command[:2] for command in commands] == [["crowdsweep", verb] for verb in ("plan", "run", "label")]
    assert run_command_line(commands[0][1:]) == 0
    assert f"sweep {name}" in capsys.readouterr().out
    assert run_command_line([*commands[1][1:], *SMALL_SWEEP]) == 0
    assert f"labels:  {' '.join(commands[2])}" in capsys.readouterr().out
    assert run_command_line(commands[2][1:]) == 0
    items = set(rows["task"])
    assert labels_in(Path("crowdsweep-runs") / name / "labels").keys() == items

    state = read_journal(Path("crowdsweep-runs") / name)
    ranked_by = "train_accuracy" if make is gold_elsewhere else "heldout_loglik"
    assert all(ranked_by in result.metrics for result in state.results.values() if result.failure is None)
    assert not [result for result in state.results.values() if result.failure is not None]

    unshrunk = ["--model", "dawid-skene", "--set", "shrinkage=0"]  # as crowd-kit's
    assert run_command_line(["label", name, *unshrunk, "--out", "named"]) == 0
    # Of annotators with one answer or two, pseudo-counts decide much, and crowd-kit has none.
    few = make is ten_thousand_annotators
    theirs = smoothed_dawid_skene(rows) if few else dict(DawidSkene(n_iter=1000, tol=1e-9).fit_predict(rows).items())
    trusted = Path("trusted.csv").read_text().splitlines()[1:] if make is gold_elsewhere else []
    gold = dict(line.split(",") for line in trusted)
    assert labels_in(Path("named")) == theirs | gold


def test_a_folder_is_run_by_its_default_and_by_its_own_sweep_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _, rows = answers_of_a_crowd(60, 8, 240, ["yes", "no"])
    Path("my labels").mkdir()
    write(Path("my labels/annotations.csv"), ("item", "annotator", "label"), rows)
    assert run_command_line(["plan", "my labels"]) == 0
    planned = capsys.readouterr()
    assert "dawid-skene" in planned.out
    assert "crowdsweep init 'my labels'" in planned.err
    assert run_command_line(["run", "my labels", *SMALL_SWEEP]) == 0
    state = read_journal(Path("crowdsweep-runs/my-labels"))
    assert state.config["models"][0]["name"] == "majority-vote"
    assert state.config["seeds"] == {"search": 1, "report": 2, "rescored": 1}
    assert not Path("my labels/sweep.yaml").exists()

    assert run_command_line(["run", "my labels", *SMALL_SWEEP]) == 0  # nothing is done twice
    assert len(read_journal(Path("crowdsweep-runs/my-labels")).results) == len(state.results)

    assert run_command_line(["init", "my labels"]) == 0
    assert run_command_line(["init", "my labels"]) == 2
    assert "already exists" in capsys.readouterr().err
    text = Path("my labels/sweep.yaml").read_text()
    assert "  - majority-vote\n" in text
    Path("my labels/sweep.yaml").write_text("name: mine\ndatasets: [.]\nmodels: [uniform]\n")
    assert run_command_line(["plan", "my labels"]) == 0
    printed = capsys.readouterr()
    assert "sweep mine" in printed.out
    assert "sweep.yaml" in printed.err


def test_how_many_labels_an_item_needs_is_asked_by_the_second_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, _ = gold_elsewhere(tmp_path)
    assert run_command_line(["init", *arguments]) == 0
    assert run_command_line(["run", "birds/redundancy.yaml", *SMALL_SWEEP]) == 0
    page = Path("crowdsweep-runs/birds-redundancy/report.html").read_text()
    assert "labels per item" in page
