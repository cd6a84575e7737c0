"""`extends` in sweep files: what overrides what, where a mistake is told, what is refused, what the record keeps."""

import json
from pathlib import Path
from typing import Any

import pytest
from data_folders import folder_of
from jsonschema import Draft7Validator

import crowdsweep as cs
from crowdsweep import app
from crowdsweep.errors import BadInput, SweepFileError
from crowdsweep.files.located import parse_yaml
from crowdsweep.record.events import SweepStatus
from crowdsweep.sweep.driver import SweepOutcome
from crowdsweep.sweep.explain import whole_schema
from crowdsweep.sweepfile.named import sweep_folder
from crowdsweep.sweepfile.read import config_to_mapping, load_sweep, parse_sweep
from crowdsweep.sweepfile.records import SweepConfig

BASE = """\
name: base
datasets: [anesthesia, {name: digits, annotators: 50}]
models:
  - majority-vote
  - {name: dawid-skene, label: ds.sharp, params: {smoothing: 0.1, iterations: 50}}
  - name: cmm
    datasets: [digits]
    search:
      groups: {min: 1, max: 4}
      smoothing: {values: [0.1, 1]}
study: {template: redundancy, labels_per_item: [1, 2]}
budget: {points: 8, hours: 2}
seeds: {search: 4, report: 7}
sampler: {kind: random, seed: 3}
published:
  table: "theirs"
  values: [{model: ds.sharp, dataset: digits, metric: test_accuracy, value: 0.5}]
"""


@pytest.fixture
def sweep(tmp_path: Path):
    """Writes sweep files and loads the last one."""

    def load(*overrides: str, **files: str) -> SweepConfig:
        for name, text in files.items():
            (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
        return load_sweep(tmp_path / f"{[*files][-1]}.yaml", overrides)

    return load


def mapping(config: SweepConfig) -> dict[str, Any]:
    return {key: value for key, value in config_to_mapping(config).items() if key != "name"}


def test_a_file_that_changes_nothing_is_the_other_by_another_name(sweep) -> None:
    mine = sweep(base=BASE, mine="{name: mine, extends: base.yaml}")
    assert mine.name == "mine"
    assert mapping(mine) == mapping(sweep(base=BASE))


SAMPLER: dict[str, Any] = {"parallel": 4, "warm_start": []}


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ("seeds: {report: 9}", {"seeds": {"search": 4, "report": 9, "rescored": 1}}),
        ("budget: {hours: null, points: 3}", {"budget": {"points": 3, "failed_trials": 0.1}}),
        ("budget: null", {"budget": {"points": 20, "failed_trials": 0.1}}),
        ("sampler: {kind: tpe}", {"sampler": {**SAMPLER, "kind": "tpe", "seed": 0}}),  # says which: whole
        ("sampler: {seed: 5}", {"sampler": {**SAMPLER, "kind": "random", "seed": 5}}),
        ("study: {labels_per_item: [3]}", {"study": {"template": "redundancy", "labels_per_item": [3]}}),
        ("study: {template: redundancy}", {"study": {"template": "redundancy"}}),
        ("datasets: [anesthesia]\nmodels: [majority-vote]", {"datasets": [{"name": "anesthesia"}]}),
        ("datasets: {digits: {annotators: 6}, anesthesia: null}", {"datasets": [{"name": "digits", "annotators": 6}]}),
        ("pack: 3", {"pack": 3}),
    ],
)  # fmt: skip
def test_what_overrides_what(sweep, change: str, wanted: dict[str, Any]) -> None:
    found = mapping(sweep(base=BASE, mine=f"name: mine\nextends: base\n{change}\n"))
    base = mapping(sweep(base=BASE))
    expected = {**base, **wanted}
    if "models:" in change:
        assert [entry["name"] for entry in found.pop("models")] == ["majority-vote"]
        del expected["models"]
    assert found == expected


def test_what_null_takes_back_has_its_default(sweep) -> None:
    found = sweep(base=BASE, mine="name: mine\nextends: base\nstudy: null\npublished: null\nsampler: null\n")
    assert (found.study, found.published.values, found.sampler.kind) == (None, (), "auto")


def test_models_are_changed_by_their_names(sweep) -> None:
    change = """\
name: mine
extends: base
models:
  majority-vote: null
  ds.sharp: {params: {smoothing: 0.2}}
  cmm: {search: {groups: {values: [2]}, smoothing: null}, params: {smoothing: 1}}
"""
    sharp, cmm = sweep(base=BASE, mine=change).models
    assert (sharp.label, dict(sharp.params)) == ("ds.sharp", {"smoothing": 0.2, "iterations": 50})
    assert dict(cmm.params) == {"smoothing": 1}
    assert cmm.space.to_mapping() == {"groups": {"values": [2]}}
    assert list(cmm.datasets) == ["digits"]


def test_three_files_and_an_override_are_taken_in_order(sweep) -> None:
    files = {
        "base": BASE,
        "middle": "{name: middle, extends: base, seeds: {report: 8}, pack: 5, engine: inline}",
        "mine": "{name: mine, extends: middle, seeds: {search: 2}, pack: 6}",
    }
    found = sweep("pack=7", "models.ds.sharp.params.smoothing=0.3", **files)
    assert (found.seeds.search, found.seeds.report, found.pack, found.engine) == (2, 8, 7, "inline")
    assert found.models[1].params["smoothing"] == 0.3


def test_a_sweep_that_comes_along_is_extended_by_name(sweep, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    theirs = load_sweep(sweep_folder() / "quickstart.yaml")
    for name in ("mine", "quickstart"):  # also by a file of its own name, which does not mean itself
        mine = sweep(**{name: "name: mine\nextends: quickstart\nmodels: {cmm: {params: {iterations: 7}}}\n"})
        assert mine.seeds == theirs.seeds
        assert mine.models[5].params["iterations"] == 7
        assert not caplog.records
    (tmp_path / "sparsity.yaml").write_text(BASE)
    assert sweep(mine="{name: mine, extends: sparsity}").sampler.seed == 3
    assert "mine.yaml:1: extends: " in caplog.text
    assert "this file or folder is used" in caplog.text


@pytest.mark.parametrize(
    ("base", "mine", "message"),
    [
        (BASE.replace("report: 7", "report: no"), "", r"base\.yaml:13: seeds\.report: expected integer"),
        (BASE, "seeds: {report: no}", r"mine\.yaml:3: seeds\.report: expected integer"),
        (BASE.replace("0.1, iter", "-1, iter"), "models: {majority-vote: null}", r"base\.yaml:5: models\.0\.params"),
        (BASE, "models: {ds.sharp: {params: {smoothing: -1}}}", r"mine\.yaml:3: models\.1\.params\.smoothing"),
        (BASE, "models: {cmn: null}", r"mine\.yaml:3: models\.cmn: nothing here is called 'cmn'; .*'cmm'"),
        (BASE, "models: {cmm: 3}", r"mine\.yaml:3: models\.cmm: expected a mapping of what changes, or null .* got 3"),
        (BASE, "colour: red", r"mine\.yaml:3: colour: unknown key 'colour'"),
        (BASE, "extend: base", r"unknown key 'extend'; did you mean 'extends'"),
        (BASE.replace("pack", "pakc") + "pakc: 3\n", "", r"mine\.yaml:2: extends: expected a sweep file"),
        ("[1, 2]", "", r"mine\.yaml:2: extends: expected a sweep file"),
        ("a: [", "", r"mine\.yaml:2: extends: .*base\.yaml:\d: this is not YAML; look at"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_where_it_stands(sweep, base: str, mine: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        sweep(base=base, mine=f"name: mine\nextends: base.yaml\n{mine}\n")


def test_what_cannot_be_extended_is_told(sweep, tmp_path: Path) -> None:
    for given, message in (
        ("bsae", r"mine\.yaml:1: extends: there is no sweep file 'bsae' here, .* did you mean 'base'"),
        ("bsae.yaml", r"mine\.yaml:1: extends: there is no file '.*bsae\.yaml'; did you mean 'base\.yaml'"),
        (".", r"mine\.yaml:1: extends: .*expected a YAML file, got a folder"),
        ("3", r"mine\.yaml:1: extends: expected text; got 3"),
        ("[base]", r"mine\.yaml:1: extends: expected text"),
        ('"a\\0b"', r"mine\.yaml:1: extends: there is no sweep file"),
    ):
        with pytest.raises(SweepFileError, match=message):
            sweep(base=BASE, mine=f"{{name: mine, extends: {given}}}")
    with pytest.raises(SweepFileError, match="--set extends=base: extends: expected in the sweep file"):
        sweep("extends=base", base=BASE)
    with pytest.raises(SweepFileError, match="a sweep needs name, datasets and models; name is missing"):
        sweep(base=BASE, mine="extends: base")


def test_files_that_extend_each_other_are_refused(sweep) -> None:
    with pytest.raises(
        SweepFileError, match=r"mine\.yaml:1: extends: these files extend each other in a cycle: .*mine\.ya"
    ):
        sweep(mine="{name: mine, extends: mine.yaml}")
    with pytest.raises(
        SweepFileError, match=r"b\.yaml:1: extends: .* cycle: .*a\.yaml → .*b\.yaml → .*a\.yaml; remove one"
    ):
        sweep(b="{name: b, extends: a}", a="{name: a, extends: b}")
    many = {f"s{n}": f"{{name: s, extends: s{n - 1}}}" for n in range(1, 12)}
    with pytest.raises(SweepFileError, match="at most 10 sweep files that extend each other"):
        sweep(s0=BASE, **many)


def test_what_is_no_sweep_file_is_not_cited(sweep, tmp_path: Path) -> None:
    for text in (
        "password: hunter2",
        "hunter2",
        "- hunter2",
        "a: !hunter2 1",
        "{hunter2: 1, hunter2: 2}",
        "hunter2: [",
    ):
        (tmp_path / "secret").write_text(text)
        with pytest.raises(SweepFileError) as raised:
            sweep(mine="{name: mine, extends: ./secret}")
        assert "hunter2" not in str(raised.value)


def test_relative_paths_begin_beside_the_file_they_stand_in(sweep, tmp_path: Path, monkeypatch) -> None:
    answers = "item,annotator,label\n1,a,x\n1,b,y\n2,a,x\n2,b,x\n"
    for place in ("shared", "mine", "here"):
        (tmp_path / place).mkdir()
        folder_of(tmp_path / place / "pets", annotations=answers)
    (tmp_path / "shared" / "spaces").mkdir()
    (tmp_path / "shared" / "spaces" / "narrow.yaml").write_text("smoothing: {values: [0.5]}\n")
    base = "{name: base, datasets: [pets], models: [{name: dawid-skene, search: narrow, datasets: [pets]}]}"
    (tmp_path / "shared" / "base.yaml").write_text(base)
    mine = tmp_path / "mine" / "sweep.yaml"
    monkeypatch.chdir(tmp_path / "here")
    for change, wanted, override in (
        ("", "shared/pets", []),
        (", datasets: [pets], models: [majority-vote]", "mine/pets", []),
        (", models: [majority-vote]", "here/pets", ["datasets=[pets]"]),
    ):
        mine.write_text(f"{{name: mine, extends: ../shared/base.yaml{change}}}")
        found = load_sweep(mine, override)
        assert [entry.name for entry in found.datasets] == [str(tmp_path / wanted)]
        assert bool(found.models[0].space.dimensions) is not bool(change)


def test_printed_values_of_what_was_replaced_may_stand(sweep) -> None:
    found = sweep(base=BASE, mine="{name: mine, extends: base, models: [majority-vote], study: null}")
    assert found.published.values[0].model == "ds.sharp"
    left_out = sweep(base=BASE, mine="{name: mine, extends: base, models: {ds.sharp: null}}")
    assert left_out.published == found.published
    with pytest.raises(BadInput, match=r"unknown model 'ds\.shrp'"):
        sweep(base=BASE.replace("{model: ds.sharp", "{model: ds.shrp"), mine="{name: mine, extends: base}")


def test_python_extends_too_and_the_record_keeps_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record keeps what `config_to_mapping` says of the sweep that is run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.yaml").write_text(BASE)
    asked: list[SweepConfig] = []

    def run(config: SweepConfig, *_: Any, **__: Any) -> SweepOutcome:
        asked.append(config)
        return SweepOutcome(status=SweepStatus.INTERRUPTED, planned=4, finished=1, failed=0, ran=1, dropped=True)

    monkeypatch.setattr(app, "run", run)
    with pytest.raises(KeyboardInterrupt):
        cs.run({"name": "mine", "extends": "base", "models": {"cmm": None}}, overrides={"pack": 4})
    kept = json.loads(json.dumps(config_to_mapping(asked[0])))
    assert "extends" not in kept
    assert (kept["name"], kept["pack"], kept["seeds"]["report"]) == ("mine", 4, 7)
    assert [entry["label"] for entry in kept["models"]] == ["majority-vote", "ds.sharp"]
    assert parse_sweep(kept) == asked[0]


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("{name: mine, extends: base}", True),
        ("{name: mine, extends: base, models: {cmm: {params: {iterations: 2}}, majority-vote: null}}", True),
        ("{name: mine, extends: base, study: {labels_per_item: [3]}, budget: {hours: null}, engine: null}", True),
        ("{name: mine, extends: base, seeds: null, metric: null, published: null, pack: null}", True),
        ("{name: mine, extends: base, models: [majority-vote]}", True),
        ("{extends: base}", False),
        ("{name: mine, extends: 3}", False),
        ("{name: mine, extends: base, seeds: {reprt: 3}}", False),
        ("{name: mine, extends: base, models: {cmm: 3}}", False),
        ("{name: mine, datasets: [digits], models: {cmm: {}}}", False),
        ("{name: mine, datasets: [digits], models: [cmm], engine: null}", False),
        ("{name: mine, datasets: [digits], models: [cmm], study: {annotators: [3]}}", False),
    ],
)
def test_editors_know_it(text: str, fits: bool, sweep, editor: Draft7Validator) -> None:
    assert editor.is_valid(parse_yaml(text, "mine.yaml")[0]) is fits
    try:
        sweep(base=BASE, mine=text)
    except BadInput:
        assert not fits
    else:
        assert fits


@pytest.fixture(scope="module")
def editor() -> Draft7Validator:
    schema = whole_schema()
    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema)
