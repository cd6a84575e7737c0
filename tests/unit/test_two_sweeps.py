"""Two sweeps beside each other: what they were asked differently, and their scores, paired where the trials match."""

import json
from pathlib import Path

import pytest

from crowdsweep import app
from crowdsweep.analysis.two_sweeps import differences
from crowdsweep.cli.commands import run_command_line
from crowdsweep.sweepfile.read import parse_sweep

BASE = {
    "name": "one",
    "datasets": [{"name": "gaussians", "items": 60, "annotators": 20}],
    "models": ["majority-vote", {"name": "dawid-skene", "params": {"smoothing": 0.01}}],
    "seeds": {"report": 6},
    "engine": "inline",
    "tracking": {"enabled": False},
}
SECOND = {
    **BASE,
    "name": "two",
    "datasets": [{"name": "gaussians", "annotators": 20, "items": 60}],  # the same, in another order
    "models": [
        {"name": "dawid-skene", "params": {"smoothing": 500.0}},  # so much that all annotators are alike
        "majority-vote",
        "one-coin",
    ],
    "seeds": {"report": 4},
    "tracking": {"enabled": False, "experiment": "second"},
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    folder = tmp_path_factory.mktemp("two")
    other_data = {**BASE, "datasets": [{"name": "gaussians", "items": 60, "annotators": 20, "feature_seed": 7}]}
    for name, sweep in (("a", BASE), ("b", SECOND), ("c", other_data)):
        app.run(parse_sweep(sweep), folder / name, quiet=True)
    return folder / "a", folder / "b", folder / "c"


def test_what_sweep_files_say_differently_is_told_by_name() -> None:
    first = {"name": "x", "seeds": {"report": 5}, "models": [{"name": "a", "params": {"k": 1}}, {"name": "b"}]}
    second = {"name": "y", "seeds": {"report": 6}, "models": [{"name": "c"}, {"name": "a", "params": {"k": 2, "l": 3}}]}
    assert differences(first, second) == [
        ("seeds.report", [5, 6]),
        ("models.a.params.k", [1, 2]),
        ("models.a.params.l", [None, 3]),
        ("models.b", [{"name": "b"}, None]),
        ("models.c", [None, {"name": "c"}]),
    ]
    assert differences(first, {**first, "name": "z", "models": first["models"][::-1]}) == []
    twice = {"datasets": [{"name": "d", "k": 1}, {"name": "d", "k": 2}]}
    assert differences(twice, {"datasets": [{"name": "d", "k": 1}, {"name": "d", "k": 4}]}) == [
        ("datasets.d#2.k", [2, 4])
    ]


def test_scores_are_paired_over_the_seeds_that_both_have(
    stores: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, _ = stores
    assert run_command_line(["compare", str(first), str(second), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    keys = [row["key"] for row in told["differences"]]
    assert keys == ["models.dawid-skene.params.smoothing", "models.one-coin", "seeds.report", "tracking.experiment"]
    vote, skene, coin = sorted(
        told["scores"], key=lambda row: ["majority-vote", "dawid-skene", "one-coin"].index(row["model"])
    )
    assert {row["metric"] for row in told["scores"]} == {"train_accuracy"}
    assert (vote["difference"], vote["seeds"], vote["second_is"]) == (0.0, 4, "the same")
    assert (coin["first"], coin["difference"], coin["second_is"]) == (None, None, "new")
    by_seed: list[dict[int, float]] = []
    for store in (first, second):
        assert run_command_line(["results", str(store), "--format", "json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        by_seed.append({row["seed"]: row["train_accuracy"] for row in rows if row["model"] == "dawid-skene"})
    means = [sum(found[seed] for seed in range(4)) / 4 for found in by_seed]
    assert (skene["first"], skene["second"]) == (pytest.approx(means[0]), pytest.approx(means[1]))
    assert skene["difference"] == pytest.approx(means[1] - means[0])
    assert skene["difference"] < 0
    assert skene["low"] < skene["difference"] < skene["high"]
    assert skene["second_is"] == "not comparable: in A 1 of 6 seeds collapsed, in B 4 of 4 trials are flagged"
    assert skene["p_holm"] is None


def test_as_a_table_and_with_other_data(stores: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    first, second, other = stores
    assert run_command_line(["compare", str(first), str(second)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"A: one ({first})", f"B: two ({second})"]
    assert "seeds.report\t6\t4" in lines
    assert "models.one-coin\t–\tthere" in lines
    assert 'tracking.experiment\t""\tsecond' in lines  # an empty text is not an empty cell
    (vote,) = (line.split("\t") for line in lines if "\tmajority-vote\t" in line)
    assert vote[2] == vote[3]
    assert vote[4:] == ["+0.0", "", "the same", "4"]
    assert run_command_line(["compare", str(first), str(first)]) == 0
    assert "their sweep files do not differ" in capsys.readouterr().out
    assert run_command_line(["compare", str(first), str(other), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert {row["second_is"] for row in scores} == {"missing", "new"}, "datasets with other parameters are others"
    assert run_command_line(["compare", str(first), "nowhere"]) == 2
