"""What the command line says of models: readable in 80 columns, and spaces as files that can be searched as printed."""

import json
from pathlib import Path

import pytest
import yaml

from crowdsweep.cli.commands import run_command_line
from crowdsweep.models import registered
from crowdsweep.search.space import Space
from crowdsweep.sweepfile.read import load_sweep

SEARCHED = [name for name in registered.model_names() if registered.model_info(name).space]
CHOOSING = '''
"""A model whose parameters depend on one of them."""

from dataclasses import dataclass
from typing import Annotated, Any, final

from annotated_types import Ge

from crowdsweep.models.contract import ModelInfo
from crowdsweep.registry.parameters import Variants


@dataclass(frozen=True, kw_only=True)
class Plain:
    """A network.

    Attributes:
        width: of its one layer.
        depth: number of layers.
    """

    width: Annotated[int, Ge(1)] = 8
    depth: Annotated[int, Ge(1)] = 1


@dataclass(frozen=True, kw_only=True)
class Deep:
    depth: Annotated[int, Ge(1)] = 3


@dataclass(frozen=True, kw_only=True)
class Words:
    filters: Annotated[int, Ge(1)] = 64


@final
@dataclass(frozen=True, kw_only=True)
class Choosing:
    network: Annotated[Any, Variants(lambda: {"plain": Plain, "deep": Deep, "words": Words})] = Plain()
    rate: Annotated[float, Ge(0)]

    def fit(self, data, context):
        raise NotImplementedError


MODEL = ModelInfo(
    name="choosing",
    title="t",
    model=Choosing,
    source="s",
    cost=lambda shape, params: 1.0,
    space={"network": {"values": ("plain", "words")}, "filters": {"values": (3, 4), "when": {"network": "words"}}},
)
'''


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run_command_line(arguments) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", registered.model_names())
def test_a_model_is_told_in_eighty_columns_with_every_parameter(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "models", name)
    assert max(map(len, text.splitlines())) <= 80
    told = " ".join(text.split())
    for parameter in registered.parameters(name).values():
        facts = f" {parameter.allowed}; default {json.dumps(parameter.default)}"
        if (name, parameter.name) == ("two-stage", "smoothing"):  # means something else with each aggregator
            assert f" {parameter.name}: with " in told
            assert facts in told
        else:
            about = f": {parameter.about}" if parameter.about else ""
            assert " ".join(f"{parameter.name}{about}{facts}".split()) in told
    assert told.count("; searched: ") == len(registered.model_info(name).space)


@pytest.mark.parametrize("name", SEARCHED)
def test_a_space_is_printed_as_a_file_that_says_what_it_searches(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "models", name, "--space")
    assert Space.parse(yaml.safe_load(text)) == Space.parse(registered.model_info(name).space)
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert max(map(len, comments)) <= 80
    told = " ".join(line.removeprefix("# ") for line in comments)
    parameters = registered.parameters(name)
    for searched in registered.model_info(name).space:
        about = f": {parameters[searched].about}" if parameters[searched].about else ""
        assert f"{searched}{about} {parameters[searched].allowed}; default" in told


@pytest.mark.parametrize("name", SEARCHED)
def test_a_printed_space_can_be_searched_and_is_the_default(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "spaces").mkdir()
    (tmp_path / "spaces" / f"{name}.yaml").write_text(printed(capsys, "models", name, "--space"))
    spaces = []
    for search in (name, "default"):
        (tmp_path / "s.yaml").write_text(
            f"name: s\ndatasets: [digits]\nmodels:\n  - {{name: {name}, search: {search}}}\n"
        )
        spaces.append(load_sweep(tmp_path / "s.yaml").models[0].space)
    assert spaces[0] == spaces[1] != {}


def test_a_parameter_that_means_something_else_with_each_choice_is_told_for_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    described = json.loads(printed(capsys, "models", "two-stage", "--json"))["hyper-parameters"]
    about = described["smoothing"]["about"]
    for choice in ("dawid-skene", "majority-vote", "one-coin"):
        alone = json.loads(printed(capsys, "models", choice, "--json"))["hyper-parameters"]["smoothing"]["about"]
        assert f"with {choice}: {alone.rstrip('.')}" in about
    together = described["iterations"]["about"]  # those that say the same are told once
    assert together.count("limit of EM steps") == 1
    assert "with kos, m-msr: limit of rounds" in together


def test_where_there_is_nothing_to_search_or_no_name_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["models", "uniform", "--space"]) == 2
    assert "nothing can be searched in 'uniform'" in capsys.readouterr().err
    assert run_command_line(["models", "--space"]) == 2
    assert "--space: expected a model's name" in capsys.readouterr().err


def test_what_only_some_choices_bring_is_told_with_the_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "choosing.py").write_text(CHOOSING)
    monkeypatch.setenv("CROWDSWEEP_PLUGINS", str(tmp_path))
    lines = printed(capsys, "models", "choosing").splitlines()
    assert lines[lines.index("  width: of its one layer.") + 1] == (
        "      integer, at least 1; default 8; with network plain only"
    )
    assert lines[lines.index("  depth: number of layers.") + 1] == (
        "      integer, at least 1; default 1; with network plain or deep only"
    )
    assert lines[lines.index("  filters") + 1 :][:2] == [
        "      integer, at least 1; default 64; with network words only; searched: one of",
        "      3, 4",
    ]
    assert lines[lines.index("  rate") + 1] == "      number, at least 0; no default"
    described = json.loads(printed(capsys, "models", "choosing", "--json"))["hyper-parameters"]
    assert described["filters"] == {
        "default": 64,
        "allowed": "integer, at least 1",
        "about": "",
        "when": {"network": ["words"]},
    }
    assert "when" not in described["rate"]
    assert yaml.safe_load(printed(capsys, "models", "choosing", "--space")) == {
        "network": {"values": ["plain", "words"]},
        "filters": {"values": [3, 4], "when": {"network": "words"}},
    }
