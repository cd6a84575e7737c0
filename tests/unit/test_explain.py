"""`explain`: every key, metric and model has a text, and what is called otherwise is told with what is near."""

import re

import pytest

import crowdsweep as cs
from crowdsweep.cli.commands import run_command_line
from crowdsweep.errors import BadInput
from crowdsweep.metrics.metric_table import METRICS, NAMES_WITH_A_GOAL
from crowdsweep.models import registered
from crowdsweep.sweep.explain import explain, keys
from crowdsweep.sweepfile.model_entries import MODEL_KEYS
from crowdsweep.sweepfile.read import SWEEP_KEYS


def in_one_line(name: str) -> str:
    return " ".join(explain(name).split())


def test_every_key_is_explained() -> None:
    known = keys()
    assert {key for key in known if "." not in key} == {*SWEEP_KEYS, "extends"}
    assert {key for key in known if key.startswith("models.")} >= {f"models.{key}" for key in MODEL_KEYS}
    assert {"datasets.scenario", "datasets.features", "study.template", "study.annotators", "metric.goal"} <= set(known)
    for key, found in known.items():
        assert in_one_line(key).startswith(f"{key}, a key of sweep files: "), key
        assert len(found.about) > 5, key
        assert "typing" not in found.takes, key


def test_a_key_is_told_with_what_it_takes_and_what_is_in_it() -> None:
    assert in_one_line("budget.points") == (
        "budget.points, a key of sweep files: how many points, settings of the searched hyper-parameters, each search "
        "tries. It takes integer, at least 1, at most 1000000; default 20."
    )
    assert in_one_line("points") == in_one_line("budget.points")
    told = explain("seeds").splitlines()
    assert told[0] == "seeds, a key of sweep files: how many fits each point has."
    assert [line.partition(":")[0].strip() for line in told[1:] if line.startswith("  seeds.")] == [
        "seeds.search",
        "seeds.report",
        "seeds.rescored",
    ]
    assert {line.partition(",")[0] for line in explain("kind").splitlines() if ", a key" in line} == {
        "sampler.kind",
        "early_stop.kind",
    }


@pytest.mark.parametrize("name", [*METRICS, *NAMES_WITH_A_GOAL, "dev_kl.snap"])
def test_every_metric_is_explained(name: str) -> None:
    told = in_one_line(name)
    assert told.startswith(f"{name}, a metric (")
    assert re.search(r"(higher|lower|neither way) is better", told)


def test_a_metric_is_told_with_its_unit_and_its_names() -> None:
    told = in_one_line("test_accuracy")
    assert "share of items whose most probable class is right" in told
    assert "Values: a share, shown in percent, at least 0, at most 1, higher is better." in told
    assert told.endswith("Scores items; its name starts with their split: train_accuracy, dev_accuracy, test_accuracy.")
    assert "at most 0, higher is better" in in_one_line("heldout_loglik")


@pytest.mark.parametrize("name", registered.model_names())
def test_every_model_is_explained_by_its_file(name: str) -> None:
    told = in_one_line(name)
    info = registered.model_info(name)
    assert " ".join(f"{name}, a model: {info.title}".split()) in told
    assert " ".join(info.source.split()) in told
    for parameter in registered.parameters(name):
        assert f" {parameter}" in told


def test_a_model_is_told_with_its_idea_symbols_source_and_ranges() -> None:
    told = explain("mace")
    assert "Each annotator has a probability of spamming" in " ".join(told.split())
    assert "theta_j    probability that annotator j spams, Beta" in told  # the table stays a table
    assert "Hovy et al. (2013)" in told
    assert "number, above 0; default 0.5" in told
    prose = [line for line in told.splitlines() if not line.startswith(" ")]
    assert max(map(len, prose)) <= 80


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("budget.point", "'budget.points'"),
        ("macee", "'mace'"),
        ("acuracy", "'accuracy'"),
        ("early_stp", "'early_stop'"),
    ],
)
def test_what_is_called_otherwise_is_told_with_what_is_near(name: str, near: str) -> None:
    with pytest.raises(
        BadInput, match=f"'{name}' is not a key of sweep files, a metric or a model; did you mean .*{near}"
    ):
        explain(name)


@pytest.mark.parametrize("name", ["", "qqqqqq", "a\0b", "x" * 5000, "test_js_global", "../x"])
def test_what_is_nothing_is_told(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explain", name]) == 2
    said = capsys.readouterr().err
    assert "is not a key of sweep files, a metric or a model" in said
    assert len(said) < 900


def test_the_command_and_python_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explain", "sampler"]) == 0
    assert capsys.readouterr().out == cs.explain("sampler") + "\n"
