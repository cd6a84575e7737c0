# ruff: noqa: E501 - messages are quoted whole
"""Sweep files: what is accepted, what comes out, and what a person reads when something is wrong."""

import json
from pathlib import Path

import pytest

from crowdsweep.errors import BadInput, SpaceError, SweepFileError, UnknownName
from crowdsweep.sweepfile.read import config_to_mapping, load_sweep, parse_sweep
from crowdsweep.sweepfile.records import DatasetEntry, Metric, ModelEntry, PublishedValue, SweepConfig

FULL = """\
name: full-sweep
datasets:
  - anesthesia
  - {name: gaussians, annotators: [100, 1000], scenario: [individual, global]}
models:
  - majority-vote
  - {name: dawid-skene, label: ds-fixed, params: {smoothing: 1e-2}}
  - name: dawid-skene
    search:
      smoothing: {distribution: log_uniform_values, min: 1e-4, max: 1}
metric: {name: heldout_loglik, goal: maximize}
budget: {points: 7, hours: 2, failed_trials: 0.2}
seeds: {search: 4, report: 10, rescored: 2}
sampler: {kind: random, seed: 5}
early_stop: {kind: wilcoxon}
resources: {cpu: 2, gpu: 0.5}
engine: inline
tracking: {experiment: other, enabled: false}
study: {template: sparsity, annotators: [10, 20]}
protocol: equal_budget
heldout: {fraction: 0.2}
pack: 5
report_every: 3
published:
  table: "a table"
  values:
    - {model: ds-fixed, dataset: anesthesia, metric: train_accuracy, value: 0.9, dataset_params: {scenario: global}}
"""
SMALL = """\
name: small
datasets: [anesthesia]
models:
  - majority-vote
  - name: dawid-skene
    search:
      smoothing: {values: [0, 0.01, 0.1]}
"""


@pytest.fixture
def sweep(tmp_path: Path):
    """Writes a sweep file and loads it."""

    def load(text: str = SMALL, *overrides: str) -> SweepConfig:
        path = tmp_path / "sweep.yaml"
        path.write_text(text, encoding="utf-8")
        return load_sweep(path, overrides)

    return load


def test_every_key_arrives(sweep) -> None:
    config = sweep(FULL)
    assert config.name == "full-sweep"
    assert config.models[0] == ModelEntry(name="majority-vote")
    assert config.models[1] == ModelEntry(name="dawid-skene", label="ds-fixed", params={"smoothing": 0.01})
    assert config.models[2].space.to_mapping() == {
        "smoothing": {"distribution": "log_uniform_values", "min": 1e-4, "max": 1.0}
    }
    assert config.metric == Metric(name="heldout_loglik", goal="maximize")
    assert (config.budget.points, config.budget.hours, config.budget.failed_trials) == (7, 2, 0.2)
    assert (config.seeds.search, config.seeds.report, config.seeds.rescored) == (4, 10, 2)
    assert (config.sampler.kind, config.sampler.seed) == ("random", 5)
    assert (config.early_stop.kind, config.engine, config.protocol) == ("wilcoxon", "inline", "equal_budget")
    assert (config.pack, config.report_every) == (5, 3)
    assert (config.resources.cpu, config.resources.gpu) == (2, 0.5)
    assert (config.tracking.experiment, config.tracking.enabled) == ("other", False)
    assert config.study is not None
    assert (config.study.template, config.study.knobs) == ("sparsity", {"annotators": [10, 20]})
    assert config.heldout.fraction == 0.2
    assert config.published.values == (
        PublishedValue(
            model="ds-fixed",
            dataset="anesthesia",
            metric="train_accuracy",
            value=0.9,
            dataset_params={"scenario": "global"},
        ),
    )


def test_a_list_in_a_dataset_is_an_axis(sweep) -> None:
    assert sweep(FULL).datasets == (
        DatasetEntry(name="anesthesia"),
        DatasetEntry(name="gaussians", params={"annotators": 100, "scenario": "individual"}),
        DatasetEntry(name="gaussians", params={"annotators": 100, "scenario": "global"}),
        DatasetEntry(name="gaussians", params={"annotators": 1000, "scenario": "individual"}),
        DatasetEntry(name="gaussians", params={"annotators": 1000, "scenario": "global"}),
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("tracking.register=a/b", "expected letters, digits"),
        ("tracking.enabled=false", "expected tracking.enabled: true"),
        ("datasets=[anesthesia, gaussians]", "expected one dataset, whose recommended model is registered, got 2"),
    ],
)
def test_a_model_is_registered_by_a_name_where_mlflow_tracks_one_dataset(sweep, change: str, said: str) -> None:
    assert sweep(SMALL, "tracking.register=my labels").tracking.register == "my labels"
    with pytest.raises(SweepFileError, match=rf"tracking\.register: {said}"):
        sweep(SMALL, "tracking.register=my labels", change)


def test_defaults_are_those_that_the_design_names(sweep) -> None:
    config = sweep("name: least\ndatasets: [anesthesia]\nmodels: [majority-vote]\n")
    assert (config.seeds.report, config.seeds.search, config.budget.points) == (5, 3, 20)
    assert (config.sampler.kind, config.sampler.seed, config.engine) == ("auto", 0, "ray")
    assert (config.resources.cpu, config.resources.gpu, config.budget.failed_trials) == (1, 0, 0.1)
    assert (config.metric, config.study, config.protocol, config.early_stop.kind) == (None, None, None, "none")
    assert (config.pack, config.report_every) == (20, 10)


@pytest.mark.parametrize("text", [FULL, SMALL])
def test_the_canonical_form_gives_the_same_sweep_back(sweep, text: str) -> None:
    config = sweep(text)
    stored = json.loads(json.dumps(config_to_mapping(config), allow_nan=False))
    assert parse_sweep(stored, config.source) == config
    assert config_to_mapping(parse_sweep(stored, config.source)) == stored


def test_set_changes_values_before_they_are_checked(sweep) -> None:
    config = sweep(
        SMALL,
        "seeds.report=9",
        "models.0.params.votes=hard",
        "models.1.search.smoothing.values.2=0.5",
        "datasets.0=digits",
    )
    assert config.seeds.report == 9
    assert config.models[0].params == {"votes": "hard"}
    assert config.models[1].space.to_mapping()["smoothing"]["values"] == [0, 0.01, 0.5]
    assert config.datasets == (DatasetEntry(name="digits"),)


def test_the_default_space_is_the_models(sweep) -> None:
    from crowdsweep.models import registered

    default = registered.model_info("dawid-skene").space
    config = sweep("name: x\ndatasets: [anesthesia]\nmodels: [{name: dawid-skene, search: default}]\n")
    assert set(config.models[0].space.dimensions) == set(default)
    assert "smoothing" in default
    fixed = sweep(
        "name: x\ndatasets: [anesthesia]\nmodels: [{name: dawid-skene, params: {smoothing: 1}, search: default}]\n"
    )
    assert set(fixed.models[0].space.dimensions) == set(default) - {"smoothing"}


@pytest.mark.parametrize("name", ["spaces/ds.wide.yaml", "ds.wide.yaml", "ds.wide", "spaces/ds.wide"])
def test_a_file_of_spaces_is_found_beside_the_sweep_file(sweep, tmp_path: Path, name: str) -> None:
    (tmp_path / "spaces").mkdir()
    (tmp_path / "spaces" / "ds.wide.yaml").write_text("smoothing: {values: [0, 7]}\n")
    config = sweep(f"name: x\ndatasets: [anesthesia]\nmodels: [{{name: dawid-skene, search: {name}}}]\n")
    assert config.models[0].space.to_mapping() == {"smoothing": {"values": [0, 7]}}


def test_folders_of_datasets_are_looked_up_beside_the_sweep_file(sweep, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "digits").mkdir()
    config = sweep("name: x\ndatasets: [./mine, data/other, digits]\nmodels: [majority-vote]\n")
    assert [entry.name for entry in config.datasets] == [
        str(tmp_path / "mine"),
        str(tmp_path / "data" / "other"),
        "digits",  # a built-in name wins over a folder
    ]
    assert sweep("name: x\ndatasets: [mine]\nmodels: [majority-vote]\n").datasets[0].name == str(tmp_path / "mine")


def test_a_model_can_be_limited_to_some_datasets(sweep, tmp_path: Path) -> None:
    config = sweep("name: x\ndatasets: [digits, anesthesia]\nmodels: [{name: uniform, datasets: [digits]}, one-coin]\n")
    assert [entry.datasets for entry in config.models] == [("digits",), ()]
    assert parse_sweep(config_to_mapping(config), config.source) == config
    with pytest.raises(UnknownName) as raised:
        sweep("name: x\ndatasets: [digits]\nmodels:\n  - {name: uniform, datasets: [digit]}\n")
    assert str(raised.value) == (
        f"{tmp_path / 'sweep.yaml'}:4: models.0.datasets.0: unknown dataset of this sweep 'digit'; did you mean 'digits'?"
    )


def test_printed_values_may_outlive_the_models_that_set_replaces(sweep) -> None:
    assert len(sweep(FULL, "models=[uniform]", "datasets=[digits]").published.values) == 1


def test_the_goal_follows_from_the_metric(sweep) -> None:
    assert sweep(SMALL + "metric: dev_kl\n").metric == Metric(name="dev_kl", goal="minimize")
    assert sweep(SMALL + "metric: {name: dev_accuracy}\n").metric == Metric(name="dev_accuracy", goal="maximize")
    assert sweep(SMALL + "metric: dev_kl.snap\n").metric == Metric(name="dev_kl.snap", goal="minimize")


# (sweep file, what the message must say); FILE stands for its path.
MISTAKES = {
    "unknown key": ("budgets: {points: 3}", SweepFileError, "FILE:8: budgets: unknown key 'budgets'; did you mean 'budget'?"),
    "unknown key inside": ("seeds: {serch: 3}", SweepFileError, "FILE:8: seeds.serch: unknown key 'serch'; did you mean 'search'?"),
    "text for a number": ("budget:\n  points: many", SweepFileError, "FILE:9: budget.points: expected integer, at least 1, at most 1000000; got 'many'"),
    "number as text": ("seeds: {report: '3'}", SweepFileError, "FILE:8: seeds.report: expected integer, at least 1, at most 1000000; got '3'; write 3"),
    "more than anybody means": ("seeds: {search: 1_000_001}", SweepFileError, "FILE:8: seeds.search: expected integer, at least 1, at most 1000000; got 1000001"),
    "true for a number": ("pack: true", SweepFileError, "FILE:8: pack: expected integer, at least 1; got True"),
    "no step at all": ("report_every: 0", SweepFileError, "FILE:8: report_every: expected integer, at least 1; got 0"),
    "unknown rule": ("early_stop: {kind: asha}", SweepFileError, "FILE:8: early_stop.kind: expected one of \"none\", \"median\", \"wilcoxon\"; got 'asha'"),
    "text for a section": ("seeds: wilcoxon", SweepFileError, "FILE:8: seeds: expected a mapping of search, report, rescored; got 'wilcoxon'; write seeds: {report: 5}, numbers of seeds, which are 0, 1, …"),
    "published, a text": ("published: {values: none}", SweepFileError, "FILE:8: published.values: expected a list, got 'none'; write [none]"),
    "published, wrong params": ("published: {values: [{model: fmm, dataset: a, metric: test_kl, value: 1, dataset_params: [1]}]}", SweepFileError, "FILE:8: published.values.0.dataset_params: expected mapping from text to (text, or integer, or number, or true or false, or null); got [1]"),
    "out of range": ("budget: {failed_trials: 2}", SweepFileError, "FILE:8: budget.failed_trials: expected number, at least 0, at most 1; got 2"),
    "endless": ("budget: {hours: .inf}", SweepFileError, "FILE:8: budget.hours: expected number, above 0, or null; got inf"),
    "no such choice": ("engine: dask", SweepFileError, "FILE:8: engine: expected one of \"inline\", \"ray\"; got 'dask'"),
    "a section left empty": ("seeds:", SweepFileError, "FILE:8: seeds: expected a mapping of search, report, rescored; got nothing; write seeds: {report: 5}, numbers of seeds, which are 0, 1, …"),
    "a list for a mapping": ("sampler: [tpe]", SweepFileError, "FILE:8: sampler: expected a mapping of kind, seed, parallel, warm_start; got ['tpe']; write sampler: {kind: tpe}"),
    "a key twice": ("name: again", SweepFileError, "FILE:8: the key 'name' appears here and at FILE:1; keep one"),
    "unknown metric": ("metric: dev_acuracy", UnknownName, "FILE:8: metric.name: unknown metric 'dev_acuracy'; did you mean 'dev_accuracy'?"),
    "goal the wrong way": ("metric: {name: dev_kl, goal: maximize}", SweepFileError, "FILE:8: metric.goal: expected minimize, since a lower dev_kl is better; got maximize"),
    "search by test": ("metric: test_kl", SweepFileError, "FILE:8: metric.name: a search must not see test scores; write dev_kl, or heldout_loglik"),
    "unknown template": ("study: {template: sparcity}", UnknownName, "FILE:8: study.template: unknown study template 'sparcity'; did you mean 'sparsity'?"),
    "no template": ("study: {annotators: [3]}", SweepFileError, "FILE:8: study: expected template, one of redundancy, sparsity"),
    "published, no such model": ("published: {values: [{model: dawid, dataset: anesthesia, metric: test_kl, value: 1}]}", UnknownName, "FILE:8: published.values.0.model: unknown model 'dawid'; did you mean 'dawid-skene'?"),
    "published, no value": ("published:\n  values:\n    - {model: fmm, dataset: anesthesia, metric: test_kl}", SweepFileError, "FILE:10: published.values.0: value is missing; expected model, dataset, metric, value, dataset_params"),
    "grid too large": ("sampler: {kind: grid}\nbudget: {points: 2}", SweepFileError, "FILE:6: models.1.search: the grid has 3 points, budget.points is 2"),
    "not YAML": ("budget: {points: 3", SweepFileError, "FILE:9: this is not YAML: expected ',' or '}', but got '<stream end>'; look at the brackets, and at the commas and quotes between them"),
    "tabs": ("budget:\n\tpoints: 3", SweepFileError, "FILE:9: this is not YAML: found character '\\t' that cannot start any token; indent with spaces, not with tabs"),
    "key not text": ("3: 4", SweepFileError, "FILE:8: expected text as a key, got 3; put it in quotes"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_its_place(sweep, tmp_path: Path, mistake: str) -> None:
    line, kind, message = MISTAKES[mistake]
    with pytest.raises(kind) as raised:
        sweep(SMALL + line + "\n")
    assert str(raised.value) == message.replace("FILE", str(tmp_path / "sweep.yaml"))


ENTRY_MISTAKES = {
    "unknown model": ("name: dawid-skeen", UnknownName, "FILE:4: models.0.name: unknown model 'dawid-skeen'; did you mean 'dawid-skene'?"),
    "unknown key": ("name: dawid-skene, parms: {}", SweepFileError, "FILE:4: models.0.parms: unknown key 'parms'; did you mean 'params'?"),
    "unknown parameter": ("name: dawid-skene, params: {smooting: 1}", SweepFileError, "FILE:4: models.0.params.smooting: model 'dawid-skene': unknown parameter 'smooting'; did you mean 'smoothing'?"),
    "wrong parameter": ("name: dawid-skene, params: {smoothing: -1}", SweepFileError, "FILE:4: models.0.params.smoothing: model 'dawid-skene', parameter 'smoothing': expected number, at least 0; got -1"),
    "not the model's space": ("name: dawid-skene, search: {groups: {min: 1, max: 3}}", SpaceError, "FILE:4: models.0.search.groups: model 'dawid-skene': unknown parameter 'groups'; known:"),
    "one end too far": ("name: dawid-skene, search: {smoothing: {min: -0.5, max: 1.0}}", SpaceError, "FILE:4: models.0.search.smoothing: model 'dawid-skene', parameter 'smoothing': expected number, at least 0; got -0.5"),
    "one choice wrong": ("name: dawid-skene, search: {smoothing: {values: [0.1, none]}}", SpaceError, "FILE:4: models.0.search.smoothing: model 'dawid-skene', parameter 'smoothing': expected number, at least 0; got \"none\""),
    "whole numbers by accident": ("name: dawid-skene, search: {smoothing: {min: 0, max: 1}}", SpaceError, "FILE:4: models.0.search.smoothing: 'smoothing' takes real numbers, but min 0 and max 1 mean whole numbers; write 0.0 and 1.0, or distribution: int_uniform"),
    "fractions for a whole number": ("name: dawid-skene, search: {iterations: {distribution: uniform, min: 1, max: 9}}", SpaceError, "FILE:4: models.0.search.iterations: model 'dawid-skene', parameter 'iterations': expected integer"),
    "fixed and searched": ("name: dawid-skene, params: {smoothing: 1}, search: {smoothing: {values: [1, 2]}}", SpaceError, "FILE:4: models.0.search.smoothing: 'smoothing' is both fixed in params and searched; remove one"),
    "log_uniform": ("name: dawid-skene, search: {smoothing: {distribution: log_uniform, min: -3, max: 0}}", SpaceError, "FILE:4: models.0.search.smoothing.distribution: 'log_uniform' is not supported: its limits are exponents of e; write log_uniform_values with the limits themselves"),
    "no such space file": ("name: dawid-skene, search: defalt", SweepFileError, "FILE:4: models.0.search: there is no file of spaces 'defalt'; did you mean 'default'?"),
    "nothing to search": ("name: uniform, search: default", SweepFileError, "FILE:4: models.0.search: nothing can be searched in 'uniform'; leave `search` out"),
    "no name": ("params: {}", SweepFileError, "FILE:4: models.0: expected a model's name, or a mapping with `name`; got {'params': {}}"),
    "the same again": ("name: majority-vote}\n  - {name: majority-vote", SweepFileError, "FILE:5: models.1: 'majority-vote' is already at FILE:4: models.0; give one of them a `label`"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", ENTRY_MISTAKES)
def test_a_mistake_in_a_model_is_told_with_its_place(sweep, tmp_path: Path, mistake: str) -> None:
    entry, kind, message = ENTRY_MISTAKES[mistake]
    with pytest.raises(kind) as raised:
        sweep(f"name: x\ndatasets: [anesthesia]\nmodels:\n  - {{{entry}}}\n")
    assert str(raised.value).startswith(message.replace("FILE", str(tmp_path / "sweep.yaml")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "FILE: expected a sweep, got an empty file"),
        ("- a\n", "expected a mapping of name"),
        ("name: x\nmodels: [majority-vote]\n", "FILE: a sweep needs name, datasets and models; datasets is missing"),
        ("name: a b\ndatasets: [anesthesia]\nmodels: [uniform]\n", "FILE:1: name: expected letters, digits"),
        ("name: ../x\ndatasets: [anesthesia]\nmodels: [uniform]\n", "FILE:1: name: expected letters, digits"),
        ("name: x\ndatasets: anesthesia\nmodels: [uniform]\n", "FILE:2: datasets: expected a list with at least one dataset"),
        ("name: x\ndatasets: [anesthesia, anesthesia]\nmodels: [uniform]\n", "FILE:2: datasets.1: this dataset is already at FILE:2: d"),
        ("name: x\ndatasets: [{name: digits, labels: {a: 1}}]\nmodels: [uniform]\n", "FILE:2: datasets.0.labels: expected text, a"),
        ("name: x\ndatasets:\n  - {name: digits, labels: []}\nmodels: [uniform]\n", "FILE:3: datasets.0.labels: expected a value, or"),
    ],
)  # fmt: skip
def test_a_wrong_frame_is_told(sweep, tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SweepFileError) as raised:
        sweep(text)
    assert message.replace("FILE", str(tmp_path / "sweep.yaml")) in str(raised.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seeds.report=no", "--set seeds.report=no: seeds.report: expected integer, at least 1, at most 1000000; got False"),
        ("seeds.report", "--set seeds.report: expected key=value, for example --set seeds.report=10"),
        ("models.5.params.smoothing=1", "--set models.5.params.smoothing=1: models: expected a position 0 … 1 of this list, got 5"),
        ("models.cmm=1", "--set models.cmm=1: models: nothing here is called 'cmm'; there are majority-vote, dawid-skene"),
        ("models.1.search.smoothing.valus=[1]", "--set models.1.search.smoothing.valus=[1]: models.1.search.smoothing.valus: unknown key 'valus' of categorical; did you mean 'values'?"),
        ("pack.most=3", "--set pack.most=3: pack.most: unknown key"),
        ("seeds={", "--set seeds={:1: this is not YAML"),
    ],
)  # fmt: skip
def test_a_wrong_override_is_told(sweep, override: str, message: str) -> None:
    text = SMALL if not override.startswith("pack") else SMALL + "pack: 3\n"
    if override.startswith("pack"):
        message = "--set pack.most=3: pack: expected a mapping or a list to set 'most' in, got 3"
    with pytest.raises(BadInput) as raised:
        sweep(text, override)
    assert str(raised.value).startswith(message)


def test_a_missing_file_and_a_wrong_encoding_are_told(tmp_path: Path) -> None:
    with pytest.raises(SweepFileError, match=r"there is no file '.*nowhere\.yaml'"):
        load_sweep(tmp_path / "nowhere.yaml")
    (tmp_path / "somewhere.yaml").touch()
    with pytest.raises(SweepFileError, match=r"there is no file '.*somewere\.yaml'; did you mean 'somewhere\.yaml'\?"):
        load_sweep(tmp_path / "somewere.yaml")
    with pytest.raises(SweepFileError, match="expected a YAML file, got a folder"):
        load_sweep(tmp_path)
    (tmp_path / "latin.yaml").write_bytes("name: é".encode("latin-1"))
    with pytest.raises(SweepFileError, match=r"latin\.yaml: expected text in UTF-8, got byte 6 that is not"):
        load_sweep(tmp_path / "latin.yaml")


def test_a_mistake_in_a_file_of_spaces_names_that_file(sweep, tmp_path: Path) -> None:
    (tmp_path / "spaces").mkdir()
    wide = tmp_path / "spaces" / "wide.yaml"
    wide.write_text("# wide\nsmoothing: {values: [-1]}\n")
    with pytest.raises(SpaceError) as raised:
        sweep("name: x\ndatasets: [anesthesia]\nmodels: [{name: dawid-skene, search: wide}]\n")
    assert str(raised.value).startswith(f"{wide}:2: smoothing: model 'dawid-skene', parameter 'smoothing': expected")


def test_aliases_and_merges_are_read_and_bombs_refused(sweep) -> None:
    config = sweep(
        "name: x\ndatasets: [anesthesia]\nmodels:\n"
        "  - &ds {name: dawid-skene, params: {smoothing: 1}}\n"
        "  - {<<: *ds, label: again, params: {smoothing: 2}}\n"
    )
    assert [entry.params["smoothing"] for entry in config.models] == [1, 2]
    levels = "\n".join(f"  - &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9))
    with pytest.raises(SweepFileError, match="expands to more than 20000 values"):
        sweep(f"name: x\nmodels: [uniform]\ndatasets:\n  - &a0 [x]\n{levels}\n")
    with pytest.raises(SweepFileError, match="is inside the value that it refers to"):
        sweep("name: x\nmodels: [uniform]\ndatasets: &me [*me]\n")


def test_python_objects_are_never_built(sweep) -> None:
    with pytest.raises(
        SweepFileError, match=r"sweep\.yaml:1: expected plain YAML, got the tag 'tag:yaml\.org,2002:python/obj"
    ):
        sweep("name: !!python/object/apply:os.getcwd []\n")
    with pytest.raises(SweepFileError, match="this is not YAML: could not determine a constructor"):
        sweep("name: !!python/name:os.getcwd\n")


CHOOSING = '''
"""A model whose parameters depend on one of them."""

from dataclasses import dataclass
from typing import Annotated, Any, final

from annotated_types import Ge

from crowdsweep.models.contract import ModelInfo
from crowdsweep.registry.parameters import Variants


@dataclass(frozen=True, kw_only=True)
class Plain:
    width: Annotated[int, Ge(1)] = 8


@dataclass(frozen=True, kw_only=True)
class Words:
    filters: Annotated[int, Ge(1)] = 64


@final
@dataclass(frozen=True, kw_only=True)
class Choosing:
    network: Annotated[Any, Variants(lambda: {"plain": Plain, "words": Words})] = Plain()
    epochs: Annotated[int, Ge(1)] = 5

    def fit(self, data, context):
        raise NotImplementedError


MODEL = ModelInfo(name="choosing", title="t", model=Choosing, source="s", cost=lambda shape, params: 1.0)
'''


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("params: {network: words, filters: 3}", ""),
        ("params: {filters: 3, network: words}", ""),
        ("search: {network: {values: [plain, words]}, filters: {values: [1, 2], when: {network: words}}}", ""),
        ("params: {network: words}, search: {filters: {values: [1, 2]}}", ""),
        (
            "params: {network: words, width: 3}",
            "params.width: model 'choosing', parameter 'width': expected beside net",
        ),
        (
            "params: {filters: 3}",
            "params.filters: model 'choosing', parameter 'filters': expected beside net",
        ),
        (
            "params: {network: words, filters: 0}",
            "params.filters: model 'choosing', parameter 'filters': expected inte",
        ),
        (
            "search: {filters: {values: [1, 2]}}",
            "search.filters: model 'choosing', parameter 'filters': expected besid",
        ),
    ],
)
def test_parameters_of_what_was_chosen_go_together(
    sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, says: str
) -> None:
    (tmp_path / "choosing.py").write_text(CHOOSING)
    monkeypatch.setenv("CROWDSWEEP_PLUGINS", str(tmp_path))
    text = f"name: x\ndatasets: [anesthesia]\nmodels:\n  - {{name: choosing, {entry}}}\n"
    if not says:
        assert sweep(text).models[0].name == "choosing"
        return
    with pytest.raises(BadInput) as raised:
        sweep(text)
    assert str(raised.value).startswith(f"{tmp_path / 'sweep.yaml'}:4: models.0.{says}")
