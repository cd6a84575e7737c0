"""The JSON Schema that editors check sweep files by: it takes what the validator takes, refuses what it can tell."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft7Validator

from crowdsweep.cli.commands import run_command_line
from crowdsweep.data.catalogue import COMMON_PARAMS, FOLDER_PARAMS, check_params, names, source
from crowdsweep.errors import BadInput
from crowdsweep.files.located import parse_yaml
from crowdsweep.models import registered
from crowdsweep.search.dimensions import KEYS_OF
from crowdsweep.studies.contract import find_template, template_names
from crowdsweep.sweep.explain import whole_schema
from crowdsweep.sweep.starter.begin import begin_with_folder
from crowdsweep.sweepfile.checked import field_types
from crowdsweep.sweepfile.model_entries import MODEL_KEYS
from crowdsweep.sweepfile.read import config_to_mapping, parse_sweep
from crowdsweep.sweepfile.records import SweepConfig

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "search_spaces" / "README.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```(?:yaml|python) (\S+)\n(.*?)^```$", REFERENCE, re.MULTILINE | re.DOTALL))
EXAMPLES = {name: text for name, text in BLOCKS.items() if name.endswith(".yaml")}
PLUGINS = {name: text for name, text in BLOCKS.items() if name.startswith("plugins/")}
TWO_NETWORKS = {
    "network": {"values": ["linear", "mlp"]},
    "hidden": {"values": [[8], [8, 4]], "when": {"network": "mlp"}},
}
LEAST = {"name": "x", "datasets": ["anesthesia"], "models": ["majority-vote"]}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return whole_schema()


@pytest.fixture(scope="module")
def editor(schema: dict[str, Any]) -> Draft7Validator:
    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema)


def problems(editor: Draft7Validator, sweep: Any) -> list[str]:
    return [f"{error.json_path}: {error.message[:300]}" for error in editor.iter_errors(sweep)]


def refused(sweep: Any) -> bool:
    """Tells whether the validator refuses a sweep."""
    try:
        parse_sweep(sweep)
    except BadInput:
        return True
    return False


@pytest.mark.parametrize("path", sorted((ROOT / "search_spaces").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_sweep_files_that_come_along_are_valid(editor: Draft7Validator, path: Path) -> None:
    assert problems(editor, parse_yaml(path.read_text(encoding="utf-8"), path.name)[0]) == []


def test_the_examples_of_the_reference_are_valid_where_its_plugins_are(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    for name, text in PLUGINS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-P", "-m", "crowdsweep", "schema"]
    environment = {**os.environ, "CROWDSWEEP_PLUGINS": str(tmp_path / "plugins"), "PYTHONPATH": str(ROOT)}
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    editor = Draft7Validator(json.loads(printed))
    wrong = {name: problems(editor, parse_yaml(text, name)[0]) for name, text in EXAMPLES.items()}
    assert {name: said for name, said in wrong.items() if said} == {}


def test_a_template_of_a_plugin_is_unknown_without_it(editor: Draft7Validator) -> None:
    assert problems(editor, parse_yaml(EXAMPLES["effort.yaml"], "effort.yaml")[0]) != []


def test_the_sweep_files_that_init_writes_are_valid(editor: Draft7Validator, tmp_path: Path) -> None:
    rows = [f"i{item},a{who},{'yes' if (item * who) % 3 else 'no'}" for item in range(30) for who in range(6)]
    (tmp_path / "annotations.csv").write_text("\n".join(["item,annotator,label", *rows]) + "\n")
    (tmp_path / "items.csv").write_text("item,gold\n" + "".join(f"i{item},yes\n" for item in range(9)))
    written = begin_with_folder(tmp_path).texts
    assert set(written) == {"sweep.yaml", "redundancy.yaml"}
    for file in written:
        assert problems(editor, parse_yaml((tmp_path / file).read_text(), file)[0]) == []


@pytest.mark.parametrize("model", registered.model_names())
def test_a_models_parameters_and_space_are_valid(editor: Draft7Validator, model: str) -> None:
    full = {**LEAST, "models": [{"name": model, "params": registered.full_params(model, {})}]}
    assert problems(editor, full) == []
    space = json.loads(json.dumps(dict(registered.model_info(model).space)))
    searched = {**LEAST, "models": [{"name": model, "search": space}]}
    assert problems(editor, searched) == []
    assert problems(editor, json.loads(json.dumps(config_to_mapping(parse_sweep(searched))))) == []
    unknown = {**LEAST, "models": [{"name": model, "params": {"colour": 1}}]}
    assert problems(editor, unknown)
    by_default = {**LEAST, "models": [{"name": model, "search": "default"}]}
    assert bool(problems(editor, by_default)) is refused(by_default)


def model(**entry: Any) -> dict[str, Any]:
    return {**LEAST, "models": [entry]}


def searched(**shape: Any) -> dict[str, Any]:
    return model(name="dawid-skene", search={"smoothing": shape})


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {"name": "x", "datasets": ["anesthesia"]},
        {**LEAST, "name": "../x"},
        {**LEAST, "budgets": {"points": 3}},
        {**LEAST, "seeds": {"serch": 3}},
        {**LEAST, "seeds": {"report": "3"}},
        {**LEAST, "seeds": None},
        {**LEAST, "budget": {"failed_trials": 2}},
        {**LEAST, "budget": {"hours": 0}},
        {**LEAST, "engine": "dask"},
        {**LEAST, "pack": True},
        {**LEAST, "early_stop": "asha"},
        {**LEAST, "notify": "https://example.org"},
        {**LEAST, "protocol": "mine"},
        {**LEAST, "metric": "dev_acuracy"},
        {**LEAST, "metric": "heldout_loglik.snap"},
        {**LEAST, "metric": {"goal": "maximize"}},
        {**LEAST, "metric": []},
        {**LEAST, "metric": ["seconds", "dev_accuracy"]},
        {**LEAST, "metric": ["dev_accuracy", "hours"]},
        {**LEAST, "metric": {"name": "dev_kl", "further": ["labels"]}},
        {**LEAST, "study": {"annotators": [3]}},
        {**LEAST, "study": {"template": "sparcity"}},
        {**LEAST, "published": {"values": [{"model": "majority-vote", "dataset": "anesthesia", "metric": "test_kl"}]}},
        {**LEAST, "datasets": []},
        {**LEAST, "datasets": "anesthesia"},
        {**LEAST, "datasets": [{"name": "digits", "annotators": []}]},
        {**LEAST, "datasets": [{"name": "digits", "annotators": {"a": 1}}]},
        {**LEAST, "datasets": [{"scenario": "global"}]},
        {**LEAST, "models": ["dawid-skeen"]},
        model(params={}),
        model(name="dawid-skene", parms={}),
        model(name="dawid-skene", params={"smooting": 1}),
        model(name="dawid-skene", params={"smoothing": -1}),
        model(name="dawid-skene", params={"iterations": "ten"}),
        model(name="soft-mv", params={"network": "transformer"}),
        model(name="soft-mv", params={"hidden": [0]}),
        model(name="soft-mv", params={"network": "mlp", "filters": 8}),
        model(name="dawid-skene", search=[1]),
        model(name="dawid-skene", search={"groups": {"values": [1]}}),
        model(name="dawid-skene", search={"smoothing": 1}),
        searched(),
        searched(values=[]),
        searched(values=[0.1, "none"]),
        searched(min=0.1),
        searched(min=-0.5, max=1.0),
        searched(min=0.1, max=1.0, step=0.1),
        searched(distribution="log_uniform", min=-3, max=0),
        searched(distribution="normal", min=0.1, max=1.0),
        searched(distribution="q_uniform", min=0.1, max=1.0),
        searched(distribution="q_uniform", min=0.1, max=1.0, q=0),
        searched(values=[0.1], when={}),
    ],
    ids=lambda wrong: json.dumps(wrong)[-60:],
)
def test_what_the_validator_refuses_and_one_place_tells_is_refused(editor: Draft7Validator, wrong: Any) -> None:
    assert refused(wrong)
    assert problems(editor, wrong)


@pytest.mark.parametrize(
    "right",
    [
        {**LEAST, "early_stop": "wilcoxon"},
        {**LEAST, "sampler": "tpe"},
        {**LEAST, "study": "redundancy"},
        {**LEAST, "metric": "dev_kl.snap"},
        {**LEAST, "metric": {"name": "dev_kl"}},
        {**LEAST, "metric": ["dev_kl"]},
        {**LEAST, "metric": ["dev_accuracy", "seconds", "dev_kl.snap"]},
        {**LEAST, "metric": {"name": "dev_kl", "further": ["memory"]}},
        {**LEAST, "protocol": None, "budget": {"hours": None}},
        {**LEAST, "datasets": [{"name": ["digits", "gaussians"], "annotators": [10, 20], "redundancy": None}]},
        {**LEAST, "datasets": ["./mine", {"name": "../theirs", "features": "bert", "where": "platform=f8"}]},
        {**LEAST, "datasets": [{"name": "./mine", "features": ["none", {"text": "tfidf"}]}]},
        {**LEAST, "datasets": [{"name": "./mine", "features": {"text": "sentence-transformers/a/b"}}]},
        {**LEAST, "study": {"template": "redundancy", "labels_per_item": {"anesthesia": [1, 3]}}},
        {**LEAST, "published": {"table": "t", "values": []}},
        model(name="soft-mv", params={"network": "text_cnn", "filters": 8}),
        model(name="soft-mv", search=TWO_NETWORKS),
        model(name="two-stage", params={"aggregate": "glad"}),
        searched(value=1),
        searched(values=[1, 1.5]),
        searched(min=0.0, max=1.0),
        searched(min=0.1, max=1.0, q=0.1),
        searched(distribution="int_uniform", min=0, max=3),
        searched(distribution="normal", mu=9, sigma=1),
        searched(distribution="q_log_uniform_values", min=1, max=9.5, q=2),
        model(name="one-coin", search={"iterations": {"distribution": "q_uniform", "min": 1, "max": 9.5, "q": 2}}),
    ],
    ids=lambda right: json.dumps(right)[-60:],
)  # fmt: skip
def test_what_the_validator_takes_is_taken(editor: Draft7Validator, right: Any) -> None:
    assert not refused(right)
    assert problems(editor, right) == []


def keys_of(record: Any) -> Iterator[str]:
    """Yields the keys of a record, with those of the records and lists of records that it holds."""
    for field in fields(record):
        hint = field_types(record)[field.name]
        parts = [part for part in (hint, *get_args(hint)) if isinstance(part, type) and is_dataclass(part)]
        yield field.name
        for part in parts:
            yield from (f"{field.name}.{key}" for key in keys_of(part))


def keys_in(schema: dict[str, Any]) -> Iterator[str]:
    """Yields the keys of a mapping in a schema, with those of the mappings in it."""
    for key, takes in schema["properties"].items():
        yield key
        ways = [takes, *takes.get("anyOf", []), takes.get("items", {})]
        for way in ways:
            if "properties" in way:
                yield from (f"{key}.{inner}" for inner in keys_in(way))


def test_keys_are_those_of_the_validator(schema: dict[str, Any]) -> None:
    by_hand = ("datasets", "models", "study")
    ours = {key for key in keys_in(schema) if key.partition(".")[0] not in by_hand or "." not in key}
    theirs = {key for key in keys_of(SweepConfig) if key.partition(".")[0] not in by_hand or "." not in key}
    assert ours == theirs - {"source"} | {"extends"}
    _, entry = schema["properties"]["models"]["items"]["anyOf"]
    assert set(entry["properties"]) == set(MODEL_KEYS)
    _, dataset = schema["properties"]["datasets"]["items"]["anyOf"]
    simulated = {key for name in names() if (known := source(name)) for key in known.defaults}
    assert set(dataset["properties"]) == {"name", *COMMON_PARAMS, *FOLDER_PARAMS, *simulated}
    knobs = {knob for name in template_names() for knob in find_template(name).knobs}
    assert set(schema["properties"]["study"]["anyOf"][0]["properties"]) == {"template", *knobs}
    shape = schema["definitions"]["shape"]["properties"]
    assert set(shape) == {"distribution", "when", *(key for needed in KEYS_OF.values() for key in needed)}
    assert shape["distribution"] == {"enum": list(KEYS_OF)}
    for model_name in registered.model_names():
        known = {parameter.name for parameter, _ in registered.every_parameter(model_name)}
        assert set(schema["definitions"][f"params-{model_name}"]["properties"]) == known


def test_every_key_has_a_line_for_the_reader(schema: dict[str, Any]) -> None:
    silent = [key for key, takes in schema["properties"].items() if not takes.get("description")]
    silent += [
        f"{section}.{key}"
        for section, takes in schema["properties"].items()
        for key, inner in takes.get("properties", {}).items()
        if not inner.get("description")
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("param", "right", "wrong"),
    [
        ("scenario", ["individual", "global", None], ["both", 1]),
        ("training", ["split", "all", None], ["dev"]),
        ("redundancy", [1, 7, None], [0, 1.5, "2", True]),
        ("annotator_dropout", [0, 0.5, None], [-0.1, 1, "half"]),
        ("annotators", [1, 40, None], [0, 1.5, "2"]),
        ("crowd", ["setup1", "cifar", "bad-votes", None], ["setup2", 1]),
        ("labels_per_item", [0.5, 5, None], [0, "many"]),
        ("folds", [3, 10, None], [2, 3.5]),
    ],
)
def test_parameters_of_datasets_take_what_the_catalogue_takes(
    editor: Draft7Validator, param: str, right: list[Any], wrong: list[Any]
) -> None:
    for value in (*right, *wrong):
        sweep = {**LEAST, "datasets": [{"name": "digits", param: value}]}
        if value in right and not isinstance(value, bool):
            check_params({param: value}, (), "digits")
            assert problems(editor, sweep) == [], value
        else:
            with pytest.raises(BadInput):
                check_params({param: value}, (), "digits")
            assert problems(editor, sweep), value


def test_a_dataset_takes_its_own_parameters_alone(editor: Draft7Validator) -> None:
    for entry in (
        {"name": "anesthesia", "feature_seed": 3},
        {"name": "./mine", "feature_seed": 3},
        {"name": "digits", "features": "x"},
        {"name": "./mine", "features": {"text": "tfdf"}},
        {"name": "./mine", "features": {"text": "sentence-transformers/"}},
        {"name": "./mine", "features": {"words": "tfidf"}},
        {"name": "./mine", "features": {}},
    ):
        assert problems(editor, {**LEAST, "datasets": [entry]}), entry
    assert problems(editor, {**LEAST, "datasets": [{"name": "digits", "annotators": 3}]}) == []


def test_the_command_prints_it(schema: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(schema))
