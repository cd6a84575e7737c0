# ruff: noqa: E501 - sweep files and messages stand in one line each
"""Sweep files as people write them: what is meant comes out, or one message says where, what, and what to write."""

import json
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest
from optuna.distributions import FloatDistribution, IntDistribution

from crowdsweep.api.sweeps import _config as config_of_call
from crowdsweep.cli.commands import run_command_line
from crowdsweep.data.on_disk.description import read_description
from crowdsweep.errors import BadInput, Mistakes, SeveralMistakes, SpaceError, SweepFileError, suggestion
from crowdsweep.meant import instead
from crowdsweep.search.optuna_points import distribution_of
from crowdsweep.search.other_shapes import written_here
from crowdsweep.search.space import Space
from crowdsweep.sweep.plan import make_plan
from crowdsweep.sweepfile.read import config_to_mapping, load_sweep
from crowdsweep.sweepfile.records import SweepConfig

HEAD = "name: x\ndatasets: [anesthesia]\nmodels: [majority-vote]\n"
SEARCH = "name: x\ndatasets: [gaussians]\nmodels:\n  - name: cmm\n    search: {KEY: SHAPE}\n"


def read(tmp_path: Path, text: str | bytes, *overrides: str) -> SweepConfig:
    path = tmp_path / "s.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_sweep(path, overrides)


def refusal(tmp_path: Path, text: str | bytes, *overrides: str) -> str:
    with pytest.raises(BadInput) as raised:
        read(tmp_path, text, *overrides)
    return str(raised.value).replace(str(tmp_path), "").replace("/s.yaml", "FILE")


# What is written after HEAD, or in place of it where it begins with `name`, and the words that stand in the message.
WRONG: Sequence[tuple[str, Sequence[str]]] = [
    # YAML's traps
    ("early_stop: no", ["FILE:4: early_stop: expected a mapping of kind", "got False; write early_stop: {kind: median}, or leave it out"]),
    ("early_stop: ~", ["FILE:4: early_stop:", "got nothing; write"]),
    ("engine: no", ['FILE:4: engine: expected one of "inline", "ray"; got False']),
    ("tracking: off", ["FILE:4: tracking:", "write tracking: {enabled: false}"]),
    ("budget: {points: 1e3}", ["FILE:4: budget.points: expected integer", "got 1000.0; write 1000"]),
    ("budget:\n  points: 1,000", ["FILE:5: budget.points:", "got '1,000'; write 1000"]),
    ("budget: {points: 1,000}", ["FILE:4: expected text as a key, got 0; a comma begins another entry"]),
    ("seeds: {report: 5.0}", ["FILE:4: seeds.report:", "write 5"]),
    ("seeds: {report: '5'}", ["FILE:4: seeds.report:", "write 5"]),
    ("seeds: {report: 010}", ["FILE:4: YAML reads 010 as 8"]),
    ("seeds: {report: 0o10}", ["FILE:4: seeds.report:", "write 8"]),
    ("budget: {hours: 1:30}", ["FILE:4: YAML reads 1:30 as 90"]),
    ("budget:\n\tpoints: 3", ["FILE:5:", "indent with spaces, not with tabs"]),
    ("budget:\n  points: 3\n  points: 4", ["FILE:6: the key 'points' appears here and at FILE:5"]),
    ("---\nname: y", ["FILE:4:", "another document; one file is one sweep"]),
    ("seeds: {report:3}", ["FILE:4: seeds.report:3: unknown key", "a colon needs a space after it: report: 3"]),
    ("budget: {failed_trials: %10}", ["FILE:4:", "takes quotes"]),
    ("tracking: {experiment: 'me}", ["a quote or bracket is not closed"]),
    ("name: 2026-11-30\ndatasets: [anesthesia]\nmodels: [uniform]", ["FILE:1: name: expected text", 'write "2026-11-30"']),
    ("name: 42\ndatasets: [anesthesia]\nmodels: [uniform]", ["FILE:1: name: expected text; got 42; write \"42\""]),
    ("name: x\ndatasets:[anesthesia]\nmodels: [uniform]", ["FILE:3:", "a colon needs a space after it"]),
    ("name:x\ndatasets:[anesthesia]\nmodels:[uniform]", ["a colon needs a space after it: name: x"]),
    ("name: x\ndatasets: [*data]\nmodels: [uniform]", ["FILE:2:", "a text that begins with * takes quotes"]),
    ('name: x\ndatasets: ["C:\\data"]\nmodels: [uniform]', ["FILE:2:", "write single quotes"]),
    ("name: x\ndatasets: [anesthesia\nmodels: [uniform]", ["FILE:3:", "look at the brackets"]),
    ("name: x\ndatasets: [anesthesia]\nmodels:\n  – uniform\n  – glad", ["FILE:3: models: expected a list", "write [uniform, glad]"]),
    ("name: x\ndatasets: [anesthesia]\nmodels:\n  -uniform\n  -glad", ["write [uniform, glad]"]),
    ("name: x\ndatasets: [anesthesia]\nmodels:\n  * uniform\n", ["FILE:4:", "list entries begin with `- `"]),
    ("name: x\ndatasets: [anesthesia]\nmodels:\n  - name: dawid-skene\n  params: {smoothing: 1}", ["FILE:5:", "stands below its first key"]),
    ('name = "x"\n', ["got the text 'name = \"x\"'; this looks like TOML"]),
    ("name,datasets\nx,anesthesia\n", ["got the text", "is this the right file?"]),
    # keys
    ("budgets: {points: 3}", ["FILE:4: budgets: unknown key 'budgets'; did you mean 'budget'?"]),
    ("points: 20", ["FILE:4: points: unknown key 'points'; it belongs under `budget`"]),
    ("budget: {report: 5}", ["it belongs under `seeds`"]),
    ("redundancy: 3", ["it belongs under `datasets`"]),
    ("seed: 42", ["write seeds: {report: 5}, how many fits each point has"]),
    ("n_trials: 20", ["write budget: {points: 20}"]),
    ("budget: {n_trials: 20}", ["write `points`"]),
    ("budget: {timeout: 3600}", ["write `hours`"]),
    ("method: bayes", ["write sampler: {kind: tpe}"]),
    ("early_terminate: {type: hyperband}", ["write early_stop: {kind: median}"]),
    ("description: my first", ["write a comment, #"]),
    ("store: runs/x", ["`crowdsweep run SWEEP --store PLACE`"]),
    ("seeds.report: 3", ["keys with dots are for --set; write `report` inside of `seeds`"]),
    ("x-common: &d {smoothing: 1}", ["with &name, and *name elsewhere"]),
    ("search: {groups: {min: 1, max: 3}}", ["a search belongs to a model"]),
    ("program: train.py\nmethod: grid\nparameters: {lr: {min: 0.1, max: 1.0}}", ["3 mistakes", "FILE:4: program", "FILE:5: method", "FILE:6: parameters"]),
    # values
    ("budget: {hours: 2h}", ["FILE:4: budget.hours:", "got '2h'; write 2"]),
    ("budget: {hours: 90m}", ["write 1.5"]),
    ("budget: {trial_minutes: 30s}", ["write 0.5"]),
    ("checkpoint_minutes: 1.5 hours", ["write 90"]),
    ("budget: {failed_trials: 10%}", ["write 0.1"]),
    ("budget: {points: 0}", ["expected integer, at least 1"]),
    ("budget: {points: -5}", ["expected integer, at least 1", "got -5"]),
    ("budget: 20", ["write budget: {points: 20, hours: 2}"]),
    ("seeds: 5", ["FILE:4: seeds: expected a mapping of search, report, rescored; got 5; write seeds: {report: 5}"]),
    ("seeds: [0, 1, 2]", ["write seeds: {report: 5}, numbers of seeds"]),
    ("seeds: {report: [0, 1, 2]}", ["FILE:4: seeds.report: expected integer"]),
    ("sampler: {kind: TPESampler}", ['got \'TPESampler\'; write "tpe"']),
    ("sampler: {name: tpe}", ["FILE:4: sampler.name:", "write `kind`"]),
    ("engine: Ray", ['write "ray"']),
    ("protocol: Paper", ['write "paper"']),
    ("metric: {name: dev_kl, goal: min}", ['write "minimize"']),
    ("metric: {name: dev_kl, mode: min}", ["leave it out: the metric says it"]),
    ("metric: f1", ["unknown metric 'f1'; did you mean 'dev_macro_f1'?"]),
    ("resources: {gpus: 0.5}", ["did you mean 'gpu'?"]),
    ("resources: {num_gpus: 1, num_cpus: '2'}", ["2 mistakes", "write `gpu`", "write `cpu`"]),
    ("resources: {cpu: '2'}", ["write 2"]),
    ("resources: {memory: 4GB}", ["a slot asks for CPUs and GPUs"]),
    ("study: {name: redundancy}", ["expected template, one of redundancy, sparsity"]),
    ("study: {template: redundancy, knobs: {tolerance: 0.02}}", ["FILE:4: study.knobs: expected settings beside `template`"]),
    ("study: redundncy", ["did you mean 'redundancy'?"]),
    ("published: {values: [{model: majority-vote, dataset: anesthesia, metric: train_accuracy, value: 83}]}", ["published.values.0.value: expected a share", "write 0.83 for 83 %"]),
    # datasets and models
    ("name: x\ndataset: anesthesia\nmodels: [uniform]", ["FILE:2: dataset: unknown key 'dataset'; did you mean 'datasets'?"]),
    ("name: x\ndatasets: anesthesia\nmodels: [uniform]", ["FILE:2: datasets: expected a list", "write [anesthesia]"]),
    ("name: x\ndatasets: [anesthesia]\nmodels: uniform, glad", ["FILE:3: models: expected a list", "write [uniform, glad]"]),
    ("name: x\ndatasets: [anesthesia]\nmodels: {uniform: {}}", ["write a list of entries, the first `- name: uniform`"]),
    ("name: x\ndatasets: [{name: digits, params: {redundancy: 3}}]\nmodels: [uniform]", ["FILE:2: datasets.0.params:", "write parameters beside `name`"]),
    ("name: x\ndatasets:\n  - digits:\n      redundancy: 3\nmodels: [uniform]", ["FILE:3: datasets.0:", "write {name: digits, redundancy: …}"]),
    ("name: x\ndatasets: [{path: ./mine}]\nmodels: [uniform]", ["FILE:2: datasets.0:", "write `name` for `path`"]),
    ("name: x\ndatasets: [anesthesia]\nmodels: [{dawid-skene: {smoothing: 1}}]", ["FILE:3: models.0:", "write {name: dawid-skene, params: {…}}"]),
    ("name: x\ndatasets: [anesthesia]\nmodels: [[uniform, glad]]", ["FILE:3: models.0:", "write each as an entry of its own"]),
    ("name: x\ndatasets: [anesthesia]\nmodels: [ds]", ["unknown model 'ds'; did you mean 'dawid-skene'?"]),
    ("name: x\ndatasets: [anesthesia]\nmodels: [MajorityVote]", ["did you mean 'majority-vote'?"]),
    ("name: x\ndatasets: [anesthesia]\nmodels: [{name: dawid-skene, smoothing: 1}]", ["FILE:3: models.0.smoothing: 'smoothing' is a hyper-parameter: write params: {smoothing: …}"]),
    ("name: x\ndatasets: [anesthesia]\nmodels: [{name: dawid-skene, hyperparameters: {smoothing: 1}}]", ["write it as `params`"]),
    ("name: x\ndatasets: [anesthesia]\nmodels:\n  - name: dawid-skene\n    params:\n      smoothing: 0,5", ["FILE:6: models.0.params.smoothing:", "write 0.5"]),
    ("name: x\ndatasets: [anesthesia]\nmodels: [{name: dawid-skene, params: {smoothing: 10^-3}}]", ["write 0.001"]),
    ("name: x\ndatasets: [anesthesia]\nmodels: [{name: dawid-skene, params: {smoothing: [0.1, 1]}}]", ["write search: {smoothing: {values: [0.1, 1]}}"]),
    ("name: x\ndatasets: [anesthesia]\nmodels: [{name: dawid-skene, params: {smoothing: {min: 0.1, max: 1.0}}}]", ["ranges belong under `search`"]),
    ("name: x\ndatasets: [gaussians]\nmodels: [{name: cmm, params: {network: mlp, hidden: 64}}]", ["FILE:3: models.0.params.hidden:", "write [64]"]),
    ("name: x\ndatasets: [gaussians]\nmodels: [{name: cmm, search: true}]", ["FILE:3: models.0.search:", "write `default`"]),
    ("name: x\ndatasets: [gaussians]\nmodels: [{name: cmm, search: }]", ["leave it out to search nothing"]),
    ("name: x\ndatasets: [gaussians]\nmodels: [{name: cmm, search: {lr: {min: 0.1, max: 1.0}}}]", ["did you mean 'learning_rate'?"]),
    # extends
    ("name: y\nextends: nowhere.yaml", ["FILE:2: extends: there is no file '/nowhere.yaml'"]),
    ("name: y\nextends: s.yaml", ["extend each other in a cycle"]),
    ("name: y\nextends: [quickstart]", ["FILE:2: extends: expected text", 'write "quickstart"']),
    ("name: y\nextends: quickstart\nsampler: {sed: 3}", ["FILE:3: sampler.sed: unknown key 'sed'; did you mean 'seed'?"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), WRONG, ids=[text.replace("\n", " ")[-50:] for text, _ in WRONG])
def test_a_mistake_is_told_with_its_place_and_what_to_write(tmp_path: Path, text: str, words: Sequence[str]) -> None:
    said = refusal(
        tmp_path,
        text if text.startswith(("name", "program:", "<")) and "\n" in text and "method" not in text else HEAD + text,
    )
    for part in words:
        assert part in said, said


# The shape of a search as it is written, with the hyper-parameter, and what the message says to write.
SHAPES = [
    ("smoothing", "tune.loguniform(1e-4, 1)", "{distribution: log_uniform_values, min: 0.0001, max: 1}"),
    ("smoothing", "trial.suggest_float('smoothing', 1e-4, 1, log=True)", "{distribution: log_uniform_values, min: 0.0001, max: 1}"),
    ("smoothing", "suggest_float(0, 1)", "{min: 0.0, max: 1.0}"),
    ("groups", "trial.suggest_int('groups', 1, 8)", "{min: 1, max: 8}"),
    ("groups", "tune.randint(1, 9)", "{min: 1, max: 8}"),
    ("groups", "range(1, 9)", "{min: 1, max: 8}"),
    ("groups", "tune.choice([1, 2, 4])", "{values: [1, 2, 4]}"),
    ("groups", "{grid_search: [1, 2, 4]}", "{values: [1, 2, 4]}"),
    ("groups", "{choices: [1, 2]}", "{values: [1, 2]}"),
    ("groups", "{distribution: int, min: 1, max: 8}", "{min: 1, max: 8}"),
    ("groups", "{min: 1, max: 9, step: 2}", "{distribution: q_uniform, min: 1, max: 9, q: 2}"),
    ("smoothing", "{type: float, low: 1e-4, high: 1, log: true}", "{distribution: log_uniform_values, min: 0.0001, max: 1}"),
    ("smoothing", "{distribution: loguniform, min: 1e-4, max: 1}", "{distribution: log_uniform_values, min: 0.0001, max: 1}"),
    ("smoothing", "{distribution: log_uniform, min: -9, max: 0}", "write log_uniform_values with the limits themselves"),
    ("smoothing", "{distribution: normal, mean: 1, std: 0.1}", "{distribution: normal, mu: 1, sigma: 0.1}"),
    ("smoothing", "interval(0.1, 1)", "{min: 0.1, max: 1.0}"),
    ("smoothing", "0.1..1.0", "{min: 0.1, max: 1.0}"),
    ("smoothing", "[0.1, 1.0]", "{values: [0.1, 1.0]} to try both, or {min: 0.1, max: 1.0}"),
    ("smoothing", "0.1", "write it in `params`, or {value: 0.1}"),
    ("smoothing", "{values: 0.1}", "write [0.1]"),
    ("smoothing", "{values: ['0.1', '1']}", "write 0.1"),
    ("smoothing", "{min: '0.1', max: 1.0}", "write 0.1"),
    ("smoothing", "{min: 1.0, max: 1.0}", "write {value: 1.0}"),
    ("smoothing", "{min: 1.0, max: 0.1}", "expected min below max, got min 1.0 and max 0.1"),
    ("smoothing", "{distribution: log_uniform_values, min: 0, max: 1}", "expected a number above 0, got 0"),
    ("smoothing", "{min: 0, max: 1}", "write 0.0 and 1.0"),
    ("smoothing", "{valus: [1]}", "expected value, values, min and max, or distribution; got valus"),
    ("groups", "{min: 1.0, max: 10.0}", "write 1"),
    ("hidden", "{values: [16, 32]}", "write [16]"),
    ("hidden", "{values: [[16]], if: {network: mlp}}", "{values: [[16]], when: {network: mlp}}"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "shape", "write"), SHAPES, ids=[shape for _, shape, _ in SHAPES])
def test_a_range_of_another_tool_is_told_as_it_is_written_here(
    tmp_path: Path, key: str, shape: str, write: str
) -> None:
    said = refusal(tmp_path, SEARCH.replace("KEY", key).replace("SHAPE", f'"{shape}"' if "(" in shape else shape))
    assert f"FILE:5: models.0.search.{key}" in said
    assert write in said
    if write.startswith("{") and "when" not in write:  # what it says to write is taken
        taken = write.partition(" to try")[0]
        assert read(tmp_path, SEARCH.replace("KEY", key).replace("SHAPE", taken)).models[0].space.dimensions.keys() == {
            key
        }


def test_calls_are_parsed_and_never_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    for text in (f"open('{marker}', 'w')", f"choice(open('{marker}', 'w'))", "uniform(" * 90, "loguniform(1e999, x)"):
        written_here(text)
    assert not marker.exists()


# What is written, and what must come out.
RIGHT: Sequence[tuple[str | bytes, dict[str, Any]]] = [
    (HEAD.replace("\n", "\r\n"), {}),
    (b"\xef\xbb\xbf" + HEAD.encode(), {}),
    (f"%YAML 1.2\n---\n{HEAD}...\n", {}),
    (json.dumps({"name": "x", "datasets": ["anesthesia"], "models": ["majority-vote"]}), {}),
    (json.dumps({"name": "x", "datasets": ["anesthesia"], "models": ["majority-vote"]}, indent="\t"), {}),
    ('{"name": "x", "datasets": ["anesthesia"], "models": ["majority-vote"],}', {}),
    (f"{HEAD}budget: {{points: 1_000, hours: .5}} # comment", {"budget": {"points": 1000, "hours": 0.5, "failed_trials": 0.1}}),
    (f"{HEAD}tracking: {{enabled: no}}", {"tracking": {"experiment": "", "enabled": False, "register": ""}}),
    (f"{HEAD}sampler: gp", {"sampler": {"kind": "gp", "seed": 0, "parallel": 4, "warm_start": []}}),
    (f"{HEAD}early_stop: wilcoxon", {"early_stop": {"kind": "wilcoxon"}}),
    (f"{HEAD}study: redundancy", {"study": {"template": "redundancy"}}),
    (f"{HEAD}study: ~\nmetric: null", {}),
    (f"{HEAD}metric: dev_kl", {"metric": {"name": "dev_kl", "goal": "minimize"}}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "change"), RIGHT, ids=[repr(text)[-40:] for text, _ in RIGHT])
def test_what_is_meant_comes_out(tmp_path: Path, text: str | bytes, change: dict[str, Any]) -> None:
    plain = config_to_mapping(read(tmp_path, HEAD))
    assert config_to_mapping(read(tmp_path, text)) == {**plain, **change}


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}seeds: {{report: 0x{'f' * 5000}}}", SEARCH.replace("KEY: SHAPE", f"smoothing: {{min: 0x{'f' * 5000}, max: 1.0}}"),
        f"name: x\ndatasets: [{{name: digits, redundancy: 0x{'f' * 5000}}}]\nmodels: [uniform]", f"{HEAD}budget: {{hours: {'9' * 150}h}}",
        SEARCH.replace("KEY: SHAPE", "smoothing: {distribution: [1]}"), SEARCH.replace("KEY: SHAPE", "smoothing: {distribution: 1, min: {a: 1}}"),
        SEARCH.replace("KEY: SHAPE", f"smoothing: '{'-' * 200_000}'"), SEARCH.replace("KEY: SHAPE", f"smoothing: 'f({'(' * 90}'"),
        f"{HEAD}seeds: '{'a - ' * 200_000}'", "a:b" * 300_000, f"{HEAD}'': 1\n..: 2\n", HEAD + "\n".join(f"k{n}: 1" for n in range(500)),
    ],
    ids=lambda text: text[-30:],
)  # fmt: skip
def test_what_nobody_means_is_refused_shortly_and_soon(tmp_path: Path, text: str) -> None:
    before = process_time()
    assert len(refusal(tmp_path, text)) < 4100
    assert process_time() - before < 5


def test_a_kind_alone_is_a_section_for_set_and_extends(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(f"{HEAD}sampler: gp\nearly_stop: median\n")
    over = read(tmp_path, "name: y\nextends: base\nsampler: {seed: 3}\nearly_stop: {grace: 0.1}", "sampler.parallel=2")
    assert (over.sampler.kind, over.sampler.seed, over.sampler.parallel) == ("gp", 3, 2)
    assert (over.early_stop.kind, over.early_stop.grace) == ("median", 0.1)
    assert read(tmp_path, "name: y\nextends: base\nsampler: random").sampler.kind == "random"
    both = read(tmp_path, HEAD, "sampler=gp", "sampler.seed=5").sampler
    assert (both.kind, both.seed) == ("gp", 5)


def test_steps_are_those_that_optuna_searches() -> None:
    space = Space.parse({"a": {"min": 1, "max": 10, "q": 4}, "b": {"min": 0.5, "max": 2.0}, "c": {"min": 1, "max": 9}})
    assert list(Space.parse({"a": {"min": 1, "max": 10, "q": 4}}).enumerate()) == [{"a": 1}, {"a": 5}, {"a": 9}]
    assert "a: 1 to 9 in steps of 4" in str(space)
    found = {name: distribution_of(dimension) for name, dimension in space.dimensions.items()}
    assert found == {"a": IntDistribution(0, 2), "b": FloatDistribution(0.5, 2.0), "c": IntDistribution(1, 9)}


SEVERAL = """\
name: my sweep
datasets: [{name: digits, redundancy: {a: 1}}]
models:
  - dawid-skeen
  - {name: glad, parms: {}}
  - {name: cmm, params: {groups: 0, smooting: 1}, search: {iterations: {min: 9, max: 2}, steps: {low: 1, high: 3}}}
budget: {points: many, hour: 2}
engin: ray
"""


def test_all_mistakes_of_a_file_are_told_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SeveralMistakes) as raised:
        read(tmp_path, SEVERAL)
    places = [
        "8: engin", "1: name", "2: datasets.0.redundancy", "4: models.0.name", "5: models.1.parms",
        "6: models.2.params.smooting", "6: models.2.params.groups", "6: models.2.search.iterations",
        "6: models.2.search.steps", "7: budget.hour", "7: budget.points",
    ]  # fmt: skip
    said = [str(one).replace(str(tmp_path / "s.yaml"), "") for one in raised.value.mistakes]
    assert [
        message.partition(": expected")[0].partition(": unknown")[0].partition(": model ")[0][1:] for message in said
    ] == places
    assert str(raised.value).startswith("11 mistakes:\n")
    assert run_command_line(["plan", str(tmp_path / "s.yaml")]) == 2
    assert capsys.readouterr().err.count("s.yaml:") >= len(places)


def test_mistakes_in_the_data_are_told_together_and_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "annotations.csv").write_text("item,annotator,label\n1,a,yes\n1,b,no\n2,a,no\n2,b,no\n")
    text = (
        "name: x\ndatasets:\n  - bare\n  - {name: digits, redundncy: 3}\n  - anestesia\n  - ./missing\n"
        "models:\n  - ideal\n  - cmm\n  - majority-vote\n"
    )
    with pytest.raises(SeveralMistakes) as raised:
        make_plan(read(tmp_path, text))
    said = [str(one).replace(str(tmp_path / "s.yaml"), "") for one in raised.value.mistakes]
    assert [message.partition(": ")[0] + ": " + message.split(": ")[1] for message in said] == [
        ":8: models.0", ":9: models.1", ":4: datasets.1", ":5: datasets.2", ":6: datasets.3",
    ]  # fmt: skip
    assert "needs features of the training items and gold of the training items" in said[0]
    assert "did you mean 'redundancy'?" in said[2]
    assert "did you mean 'anesthesia'?" in said[3]


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        ("https://example.org/labels.csv", "`crowdsweep init FILE` makes one of a file that was downloaded"),
        ("'data/*'", "patterns are not expanded"),
        ("$HOME/data", "variables are not replaced"),
        ("'C:\\data\\mine'", "folders are separated by /"),
        ("data/labels.csv", "`crowdsweep init FILE` makes a dataset's folder of a file"),
        ("{name: digits, redundancy: '3'}", "write 3"),
        ("{name: digits, redundancy: '1,3'}", "write [1,3] for one dataset each"),
        ("{name: digits, annotator_dropout: 20%}", "write 0.2"),
        ("{name: digits, scenario: Global}", 'write "global"'),
    ],
)
def test_a_dataset_that_is_none_is_told_with_its_line(tmp_path: Path, dataset: str, words: str) -> None:
    with pytest.raises(BadInput) as raised:
        make_plan(read(tmp_path, f"name: x\ndatasets:\n  - {dataset}\nmodels: [uniform]\n"))
    assert str(raised.value).startswith(f"{tmp_path / 's.yaml'}:3: datasets.0: ")
    assert words in str(raised.value)


def test_a_setting_of_a_study_is_told_with_its_line(tmp_path: Path) -> None:
    text = f"{HEAD}study: {{template: redundancy, labels_per_item: '1,2', target: 90%, tolerence: 0.1}}\n"
    with pytest.raises(SeveralMistakes) as raised:
        make_plan(read(tmp_path, text))
    assert str(raised.value).count("s.yaml:4: study") == 3
    for words in ("write [1, 2]", "write 0.9", "did you mean 'tolerance'?"):
        assert words in str(raised.value)


def test_the_plan_says_what_was_understood(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "name: x\ndatasets: [gaussians]\nmodels:\n  - majority-vote\n  - name: cmm\n    params: {iterations: 3}\n"
        "    search:\n      groups: {min: 1, max: 9, q: 3}\n      smoothing: {distribution: log_uniform_values, min: 1e-3, max: 1}\n"
        "seeds: {search: 2, report: 7, rescored: 2}\nbudget: {hours: 0.5}\n"
    )
    (tmp_path / "s.yaml").write_text(text)
    assert run_command_line(["plan", str(tmp_path / "s.yaml")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "cmm: fixed iterations 3; searched groups: 1 to 7 in steps of 3; smoothing: 0.001 to 1, log scale" in out
    assert (
        "seeds: each searched point on 2 seeds, the best 2 points of each search on 7 others; each fixed point on 7"
        in out
    )
    assert "it stops after 0.5 hours of all its runs" in out
    assert "majority-vote:" not in out


def test_a_sweep_from_python_may_hold_pythons_types() -> None:
    given = {
        "name": "x",
        "datasets": [{"name": "digits", "redundancy": range(1, 3)}, Path("mine")],
        "models": ("majority-vote", {"name": "cmm", "search": {"groups": {"values": np.arange(1, 4)}}}),
        "seeds": {"report": np.int64(3)},
        "metric": None,
    }
    config = config_of_call(given, {})
    assert [dict(entry.params) for entry in config.datasets] == [{"redundancy": 1}, {"redundancy": 2}, {}]
    assert (config.seeds.report, config.models[1].space.size) == (3, 3)
    with pytest.raises(BadInput, match="expected texts as keys, got 3"):
        config_of_call({**given, 3: 4}, {})
    with pytest.raises(SweepFileError, match="datasets: expected a list"):
        config_of_call({**given, "datasets": {"digits"}}, {})


def test_a_misspelt_key_of_a_description_is_refused_and_notes_are_not(tmp_path: Path) -> None:
    (tmp_path / "dataset.yaml").write_text("title: t\nlicense: MIT\nurl: u\nscale: ordinal\n")
    assert read_description(tmp_path).scale == "ordinal"
    for text, words in (("Scale: ordinal", "did you mean 'scale'"), ("scale: Ordinal", 'write "ordinal"')):
        (tmp_path / "dataset.yaml").write_text(text)
        with pytest.raises(BadInput, match=words):
            read_description(tmp_path)


def collected(*errors: Exception, once: Sequence[str | None] = ()) -> None:
    """Meets these errors, each in a block of its own; what is no BadInput ends the collection."""
    with Mistakes() as mistakes:
        for number, error in enumerate(errors):
            with mistakes.apart(once=once[number] if once else None):
                raise error


def test_one_mistake_keeps_its_kind_and_the_same_one_counts_once() -> None:
    with pytest.raises(SpaceError, match=r"^a$"):
        collected(SpaceError("a"), SpaceError("a"))
    with pytest.raises(SeveralMistakes) as raised:
        collected(*(SweepFileError(f"number {n}") for n in range(20)), once=[*[None] * 15, *["x"] * 5])
    assert len(raised.value.mistakes) == 16
    assert str(raised.value).endswith("number 11\n… and 4 more")
    with pytest.raises(KeyError):
        collected(SpaceError("a"), KeyError())
    collected()


@pytest.mark.parametrize(
    ("given", "key", "says"),
    [
        ("1e-3", "", "; write 0.001"), ("1 000", "", "; write 1000"), ("0,5", "", "; write 0.5"), ("2d", "hours", "; write 48"),
        ("90 min", "trial_minutes", "; write 90"), ("2h", "points", ""), ("2**10", "", "; write 1024"), ("1/4", "", "; write 0.25"),
        ("9**999", "", ""), ("0/0", "", ""), ("1e999", "", ""), ("many", "", ""), (True, "", ""), ([7], "", "; write 7"), ({}, "", ""),
    ],
)  # fmt: skip
def test_the_number_that_was_meant(given: object, key: str, says: str) -> None:
    def fits(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300

    assert instead(given, fits, key=key) == says


def test_names_are_suggested_by_letters_initials_and_parts() -> None:
    known = ["dawid-skene", "majority-vote", "learning_rate", "dev_macro_f1"]
    for name, near in {"DawidSkene": 0, "mv": 1, "lr": 2, "f1": 3, "majority_vot": 1}.items():
        assert suggestion(name, known) == f"did you mean {known[near]!r}?"
    assert suggestion("", known) == suggestion("zz", known) == f"known: {', '.join(sorted(known))}"
