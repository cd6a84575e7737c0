"""What to write for keys that other tools have, or that belong to another place of a sweep file.

A key of the sweep file at a wrong place (`points: 20` beside `budget`) is found by the records. The words of other
tools (Optuna, Ray Tune, W&B, Hydra, MLflow) stand in a table, by the section that they are found in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import get_type_hints

from crowdsweep.data.catalogue import COMMON_PARAMS
from crowdsweep.sweepfile.records import SweepConfig

_SPACE = "a search belongs to a model: models: [{name: cmm, search: {groups: {min: 1, max: 10}}}]"
_POINTS, _HOURS = "write budget: {points: 20}", "write budget: {hours: 2}"
_METRIC = "write metric: dev_accuracy; whether more is better follows from it"
_STOP = "write early_stop: {kind: median}"
_SAMPLER = "write sampler: {kind: tpe}"
_STORE = "a file does not say it; `crowdsweep run SWEEP --store PLACE` does"
_CLUSTER = "a file does not say it; `crowdsweep run SWEEP --address ADDRESS` does"
_COMMENT = "write a comment, # and the text"
_NO_CODE = "crowdsweep fits models by their names and runs no program; leave it out"
_SEEDS = "write seeds: {report: 5}, how many fits each point has; the sampler's own is sampler: {seed: 0}"
_CHOSEN = "Optuna's own settings are chosen by crowdsweep; leave it out"
_GRACE = "write `grace`, a share of a fit's usual length"
_REPORT = "write `report`, how many fits each reported point has"
_SLOT = "write resources: {cpu: 1, gpu: 0.5}"
_MLFLOW = "write tracking: {experiment: NAME, uri: URI}"
_MEMORY = "a slot asks for CPUs and GPUs; memory that a cluster counts goes into custom resources of another name"
_KIND, _GOAL = "write `kind`", "leave it out: the metric says it; or write goal: maximize, goal: minimize"
_FIXED = "write it as `params`, a mapping of hyper-parameters to values"

_WORDS: Mapping[str, Mapping[str, str]] = {
    "": {
        **dict.fromkeys(("search", "search_space", "space", "parameters", "parameter_space"), _SPACE),
        **dict.fromkeys(("params", "grid", "hparams", "hyperparameters"), _SPACE),
        **dict.fromkeys(("n_trials", "num_trials", "max_trials", "num_samples", "run_cap", "trials"), _POINTS),
        **dict.fromkeys(("timeout", "time_budget", "time_budget_s", "max_hours"), _HOURS),
        **dict.fromkeys(("objective", "goal", "direction", "mode", "optimize"), _METRIC),
        **dict.fromkeys(("early_terminate", "early_stopping", "scheduler", "pruner"), _STOP),
        **dict.fromkeys(("method", "algorithm", "search_alg", "optimizer", "sweeper"), _SAMPLER),
        **dict.fromkeys(("store", "output", "output_dir", "out_dir", "storage", "local_dir", "log_dir"), _STORE),
        **dict.fromkeys(("address", "cluster", "ray", "ray_address"), _CLUSTER),
        **dict.fromkeys(("description", "title", "notes", "comment", "author", "version"), _COMMENT),
        **dict.fromkeys(("program", "command", "project", "entity", "script", "hydra"), _NO_CODE),
        **dict.fromkeys(("gpus", "cpus", "num_gpus", "num_cpus", "n_gpus", "n_cpus", "memory", "slots"), _SLOT),
        **dict.fromkeys(("mlflow", "wandb", "tracking_uri", "logging", "logger", "experiment_name"), _MLFLOW),
        **dict.fromkeys(("seed", "random_seed", "n_seeds", "repeats"), _SEEDS),
        "labels_per_item": "it belongs under `study`: {template: redundancy, labels_per_item: [1, 3, 5]}",
        **dict.fromkeys(("defaults", "base", "include", "inherit"), "write extends: FILE, of the sweep to build on"),
        "data": "write `datasets`, a list",
    },
    "budget": {
        **dict.fromkeys(("trials", "n_trials", "num_samples", "max_trials", "run_cap"), "write `points`"),
        **dict.fromkeys(("timeout", "minutes", "seconds", "time", "max_time"), "write `hours`: 0.5 is half an hour"),
        "failures": "write `failed_trials`, a share",
    },
    "metric": dict.fromkeys(("mode", "direction", "maximize", "minimize"), _GOAL),
    "sampler": {
        **dict.fromkeys(("name", "type", "method", "algorithm"), _KIND),
        **dict.fromkeys(("n_startup_trials", "multivariate", "constant_liar"), _CHOSEN),
    },
    "early_stop": {
        **dict.fromkeys(("name", "type", "pruner"), _KIND),
        **dict.fromkeys(("min_iter", "n_warmup_steps", "grace_period"), _GRACE),
    },
    "seeds": {
        **dict.fromkeys(("count", "n", "number", "final", "eval", "test"), _REPORT),
        **dict.fromkeys(("train", "tune", "tuning"), "write `search`, fits of each searched point"),
    },
    "resources": {
        **dict.fromkeys(("num_cpus", "CPU", "cores", "threads"), "write `cpu`"),
        **dict.fromkeys(("num_gpus", "GPU"), "write `gpu`"),
        **dict.fromkeys(("memory", "mem", "ram", "object_store_memory"), _MEMORY),
        "accelerator_type": "write labels: {ray.io/accelerator-type: A100}",
    },
    "tracking": {
        **dict.fromkeys(("tracking_uri", "url", "server"), "write `uri`"),
        **dict.fromkeys(("experiment_name", "project", "name"), "write `experiment`"),
        **dict.fromkeys(("mlflow", "disabled", "active"), "write `enabled`, true or false"),
    },
    "models": {
        **dict.fromkeys(("parameters", "space", "search_space", "grid"), "write `search` or `params`"),
        **dict.fromkeys(("hyperparameters", "hparams", "args", "kwargs", "config", "settings", "fixed"), _FIXED),
        **dict.fromkeys(("dataset", "data"), "write `datasets`, a list of this sweep's datasets"),
        **dict.fromkeys(("id", "title", "alias"), "write `label`"),
        **dict.fromkeys(("seeds", "seed"), "seeds are the same for every model: seeds: {report: 5} beside `models`"),
        **dict.fromkeys(("gpu", "cpu", "gpus", "cpus"), "write resources: {gpu: 1} in the model's entry"),
    },
}  # fmt: skip
_FREE = ("x-", "_", ".")  # how other tools mark keys that only hold an anchor
EXAMPLES: Mapping[str, str] = {
    "budget": "budget: {points: 20, hours: 2}",
    "seeds": "seeds: {report: 5}, numbers of seeds, which are 0, 1, …",
    "sampler": "sampler: {kind: tpe}",
    "early_stop": "early_stop: {kind: median}, or leave it out for none",
    "resources": "resources: {cpu: 1, gpu: 0.5}",
    "tracking": "tracking: {enabled: false}, or {uri: URI, experiment: NAME}",
    "notify": "notify: {url: https://…}",
    "heldout": "heldout: {fraction: 0.1}",
    "published": 'published: {table: "Table 3", values: [{model: NAME, dataset: NAME, metric: NAME, value: 0.8}]}',
    "study": "study: {template: redundancy}",
    "params": "params: {smoothing: 0.1}",
}
"""How to write a section that is given as something else than a mapping."""


def right_place(key: str, section: str) -> str:
    """Returns what to write for an unknown key; empty where it is probably a spelling mistake.

    Args:
        key: the key.
        section: the section that it was found in; empty for the top of the file, `models` for a model's entry.
    """
    words = _WORDS.get(section, {})
    if told := words.get(key) or words.get(key.lower().replace("-", "_")):
        return told
    if ":" in key:
        return f"a colon needs a space after it: {key.replace(':', ': ')}"
    if "." in key:
        above, _, last = key.rpartition(".")
        return f"keys with dots are for --set; write `{last}` inside of `{above.replace('.', '`, `')}`"
    if key.startswith(_FREE):
        return "a value that several places share is written where it stands first, with &name, and *name elsewhere"
    if homes := [home for home in _homes(key) if home != section]:
        return f"it belongs under {' or '.join(f'`{home}`' for home in homes)}"
    return ""


def _homes(key: str) -> Sequence[str]:
    """Returns the sections that have a key."""
    types = get_type_hints(SweepConfig)
    homes = [name for name, kind in types.items() if is_dataclass(kind) and key in {part.name for part in fields(kind)}]
    return [*homes, *(["datasets"] if key in COMMON_PARAMS else [])]
