"""`label` of a dataset needs neither a sweep nor a model's name."""

from pathlib import Path

import numpy as np
import pyarrow.csv as pa_csv
import pytest
import yaml

import crowdsweep as cs
from crowdsweep.cli.commands import run_command_line

ROWS = [
    *(f"{item},{who},{'cat' if item % 2 else 'dog'}" for item in range(12) for who in ("ann", "bob", "cleo")),
    *(f"{item},dan,{'dog' if item % 2 else 'cat'}" for item in range(12)),  # always the other one
]
SEVERAL = ["0,ann,red|blue", "0,bob,red", "1,ann,blue", "1,bob,blue"]


def folder_of(place: Path, rows: list[str], scale: str = "nominal") -> Path:
    place.mkdir()
    (place / "annotations.csv").write_text("\n".join(["item,annotator,label", *rows]) + "\n")
    (place / "dataset.yaml").write_text(f"name: {place.name}\nscale: {scale}\n")
    return place


def labels_in(folder: Path) -> dict[int, str]:
    return {row["item"]: row["label"] for row in pa_csv.read_csv(folder / "labels.csv").to_pylist()}


def test_without_a_model_it_is_hierarchical_dawid_skene(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder_of(Path("pets"), ROWS)
    assert run_command_line(["label", "pets", "--out", "out"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("hierarchical-dawid-skene: the default for labels alone; `crowdsweep init` writes")
    assert labels_in(Path("out")) == {item: "cat" if item % 2 else "dog" for item in range(12)}
    named = cs.fit("hierarchical-dawid-skene", "pets").labels
    assert labels_in(Path("out")) == {int(row["item"]): row["label"] for row in named.to_pylist()}
    recipe = yaml.safe_load(Path("out/label.yaml").read_text())
    assert (recipe["model"], recipe["params"]["smoothing"]) == ("hierarchical-dawid-skene", 1.0)
    # Its hyper-parameters can be set, as those of a model that is named.
    assert run_command_line(["label", "pets", "--set", "smoothing=3", "--out", "out"]) == 0
    assert yaml.safe_load(Path("out/label.yaml").read_text())["params"]["smoothing"] == 3


def test_of_several_classes_an_item_it_is_the_same_model_of_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of(tmp_path / "colours", SEVERAL, "multilabel")
    assert run_command_line(["label", str(folder), "--out", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.startswith("hierarchical-dawid-skene: the default for labels alone")
    assert labels_in(tmp_path / "out")[1] == "blue"


def test_where_most_items_have_one_label_it_is_the_vote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What one says whom nobody contradicts is the label; as many items with two tell how people err."""
    draws = np.random.default_rng(0)
    only = {item: int(label) for item, label in enumerate(draws.integers(3, size=60))}
    rows = [f"{item},w{item % 7},{label}" for item, label in only.items()]
    for more, model in ((59, "majority-vote: most items have one label, which"), (60, "hierarchical-dawid-skene: the")):
        again = [f"{60 + n},w{(n + place) % 7},{n % 3}" for n in range(more) for place in (0, 1)]
        folder = folder_of(tmp_path / f"sparse-{more}", rows + again)
        assert run_command_line(["label", str(folder), "--out", str(tmp_path / f"out-{more}")]) == 0
        assert capsys.readouterr().out.startswith(model)
    found = labels_in(tmp_path / "out-59")
    assert {item: int(found[item]) for item in only} == only


def test_nothing_is_said_of_who_has_nobody_beside_them(tmp_path: Path) -> None:
    """What others answer of these items is nothing; neither rounding nor a prior makes a spammer of anyone."""
    rows = [
        f"{item},{who},{'cat' if item % 3 else 'dog'}" for item in range(40) for who in ("ann", "bob")[item % 2 :][:1]
    ]
    people = cs.fit("hierarchical-dawid-skene", str(folder_of(tmp_path / "alone", rows))).annotators
    assert people is not None
    assert [(one["spammer"], one["spammer_p"]) for one in people.to_pylist()] == [("unclear", 1.0)] * 2
