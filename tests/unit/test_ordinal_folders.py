"""From ratings to a dataset whose classes have an order, and to the sweep that it begins with."""

import csv
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import yaml

import crowdsweep as cs
from crowdsweep.cli.commands import run_command_line
from crowdsweep.errors import BadInput, DataError
from crowdsweep.importing.file_to_folder import import_file
from crowdsweep.importing.rows import FileOptions
from crowdsweep.models import registered
from crowdsweep.record.journal import read_journal
from crowdsweep.sweep.plan import make_plan
from crowdsweep.sweepfile.read import parse_sweep

WORDS = ("bad", "fair", "good", "great")


def ratings(steps: tuple[str, ...], *, gold: bool = False) -> list[list[str]]:
    """Returns rows of sixty items, each rated by five of twelve annotators, off by a step now and then."""
    random = np.random.default_rng(len(steps))
    true = random.integers(len(steps), size=60)
    rows = [["item", "annotator", "label", *(["gold"] if gold else [])]]
    for item in range(60):
        for who in random.permutation(12)[:5]:
            said = int(np.clip(true[item] + random.choice([-1, 0, 0, 0, 1]), 0, len(steps) - 1))
            rows.append([f"i{item}", f"w{who}", steps[said], *([steps[true[item]]] if gold else [])])
    return rows


def written(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def init(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], steps: tuple[str, ...], *options: str
) -> tuple[str, dict[str, str]]:
    """Returns what `init` says, and dataset.yaml."""
    place = tmp_path / "rated"
    code = run_command_line(["init", str(written(tmp_path / "file.csv", ratings(steps))), str(place), *options])
    said = capsys.readouterr()
    assert code == 0, said.err
    return said.out + said.err, yaml.safe_load((place / "dataset.yaml").read_text())


ONE_TO_TEN = tuple(map(str, range(1, 11)))


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        (("1", "2", "3", "4", "5"), "the classes are the numbers 1 to 5: .* repeat the command with --scale ordinal"),
        (("-1", "0", "1"), "the classes are the numbers -1 to 1"),
        (("0", "1", "2"), ""),  # as the codes of categories
        (("1", "2"), ""),
        (("1", "2", "7"), ""),
        (WORDS, ""),
    ],
)
def test_numbers_that_look_like_ratings_are_pointed_out(
    steps: tuple[str, ...], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said, about = init(tmp_path, capsys, steps)
    assert about["scale"] == "nominal"
    assert ("--scale ordinal" in said) == bool(told)
    if told:
        assert re.search(told, " ".join(said.split()))


def test_a_scale_that_was_told_is_kept_and_its_model_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said, about = init(tmp_path, capsys, ONE_TO_TEN, "--scale", "ordinal")
    assert about["scale"] == "ordinal"
    assert "--scale" not in said
    assert cs.load(tmp_path / "rated").classes == ONE_TO_TEN
    models = yaml.safe_load((tmp_path / "rated" / "sweep.yaml").read_text())["models"]
    names = [model if isinstance(model, str) else model["name"] for model in models]
    assert {"ordinal-dawid-skene", "hierarchical-dawid-skene", "dawid-skene"} <= set(names)


def test_words_are_in_the_order_of_the_alphabet_until_somebody_changes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said, about = init(tmp_path, capsys, WORDS, "--scale", "ordinal")
    assert about["scale"] == "ordinal"
    assert "put the rows of classes.csv" in said


def test_who_says_nominal_is_asked_no_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said, about = init(tmp_path, capsys, ("1", "2", "3"), "--scale", "nominal")
    assert about["scale"] == "nominal"
    assert "ordinal" not in said


def test_answers_of_several_classes_have_no_such_scale(tmp_path: Path) -> None:
    source = tmp_path / "potato.csv"
    written(source, [["user", "instance_id", "q:::1", "q:::2"], ["u", "a", "1", "2"], ["v", "a", "1", ""]])
    with pytest.raises(DataError, match="expected answers of one class each for a scale that is ordinal"):
        import_file("potato", source, FileOptions(scale="ordinal"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_a_sweep_on_ratings_says_how_far_off_models_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path / "stars.csv", ratings(("1", "2", "3", "4", "5"), gold=True))
    place, store = tmp_path / "stars", tmp_path / "store"
    assert (
        run_command_line(
            shlex.split(
                f"data import csv {file} {place} --item item --annotator annotator "
                "--label label --gold gold --scale ordinal"
            )
        )
        == 0
    )
    settings = ["engine=inline", "tracking.enabled=false", "seeds.report=2"]
    changes = [part for one in settings for part in ("--set", one)]
    sweep = tmp_path / "s.yaml"
    sweep.write_text(f"name: s\ndatasets: [{place}]\nmodels: [majority-vote, ordinal-dawid-skene]\n")
    assert run_command_line(["run", str(sweep), "--store", str(store), *changes]) == 0, capsys.readouterr().err
    for result in read_journal(store).results.values():
        assert {"train_mae", "train_weighted_kappa", "train_wasserstein"} <= set(result.metrics)
    page = (store / "report.html").read_text()
    assert "train mean absolute error, steps" in page
    assert "train weighted kappa" in page
    assert "train Wasserstein distance, steps" in page


def test_without_an_order_its_model_is_refused_before_anything_runs(tmp_path: Path) -> None:
    given = {"name": "s", "datasets": ["anesthesia"], "models": ["ordinal-dawid-skene"], "engine": "inline"}
    with pytest.raises(BadInput, match=r"'ordinal-dawid-skene' needs classes in an order.* `scale: ordinal`"):
        make_plan(parse_sweep(given))
    two_stage = registered.build_model("two-stage", {"aggregate": "ordinal-dawid-skene"})
    assert registered.model_info("two-stage").needs_of(two_stage) == {"features", "order"}


def test_a_table_in_python_says_it_too(tmp_path: Path) -> None:
    header, *rows = ratings(WORDS[::-1])
    table = dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))
    data = cs.load(table, classes=WORDS, scale="ordinal")
    assert data.dataset.scale == "ordinal"
    assert data.classes == WORDS
    fit = cs.fit("ordinal-dawid-skene", data)
    assert fit.fitted.dataset.scale == "ordinal"
    with pytest.raises(BadInput, match="needs classes in an order"):
        cs.fit("ordinal-dawid-skene", cs.load(table))
    data.save(tmp_path / "saved")
    assert cs.load(tmp_path / "saved").dataset.scale == "ordinal"
    with pytest.raises(BadInput, match=r"by the key `scale` of its dataset\.yaml"):
        cs.load(tmp_path / "saved", scale="ordinal")


@pytest.mark.unchecked  # a person's mistake, which types would tell first
def test_a_scale_that_is_none_is_told_in_words() -> None:
    header, *rows = ratings(WORDS[::-1])
    table = dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))
    with pytest.raises(BadInput, match="scale: expected nominal, ordinal or multilabel, got 'ordered'"):
        cs.load(table, scale="ordered")  # pyright: ignore[reportArgumentType]
