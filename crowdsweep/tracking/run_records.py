"""Records of trials and cells for MLflow, as plain values within its limits.

The limits are those of MLflow's REST interface. Longer texts are cut and end in `…`; they are never refused.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any, Literal

from crowdsweep.errors import plain
from crowdsweep.metrics.metric_table import HELDOUT, metric_kind
from crowdsweep.metrics.ranking import ranking_metric
from crowdsweep.metrics.wording import is_count
from crowdsweep.record.array_names import BASELINES, CLASSES, is_item_scores
from crowdsweep.record.artifacts import Artifact
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.spec import Phase, TrialSpec, canonical_json

KEY_LIMIT = 250
PARAM_LIMIT = 6000
TAG_LIMIT = 8000
DIGEST_LIMIT = 36
NAME_LIMIT = 500
ITEMS_A_BATCH = 100
METRICS_A_BATCH = 900
HISTORY_LIMIT = 60
"""Most points of a metric's history that MLflow gets: enough for its charts; writing a point takes 0.1 to 0.2 ms.
The journal has up to 500 points of the objective and 100 of the learning curve."""

PREFIX = "crowdsweep."
KIND, KEY, SWEEP, STATUS, PHASE = (PREFIX + name for name in ("kind", "key", "sweep", "status", "phase"))
ASKED, CHOSEN = PREFIX + "asked", PREFIX + "chosen"
INTERRUPTED, STORE = PREFIX + "interrupted", PREFIX + "store"
MODEL_DIGEST = PREFIX + "digest"
"""Tag of a logged model: digest of its weights."""
FILES = PREFIX + "files"
"""Tag of a cell's run, and of the top run: digest of its files, written after them."""
PARENT, NAME = "mlflow.parentRunId", "mlflow.runName"
MARKER = "…"

BETWEEN = " · "
"""Separator between the parts of a run's name."""

Kind = Literal["cell", "trial", "sweep"]
Ending = Literal["FINISHED", "FAILED", "KILLED"]
_IN_THE_FILE_ALONE = frozenset(
    {"brier", "ece", "entropy", "js", "kl_reverse", "js_annotators_crowd", "js_global", "js_global_weighted"}
)
OVER_SEEDS = "over_seeds.csv"
"""File of a cell: mean, standard deviation and n of each metric."""
ENDINGS: Mapping[Status, Ending] = {Status.OK: "FINISHED", Status.FAILED: "FAILED", Status.STOPPED: "KILLED"}
"""MLflow's status of a trial's run, by the trial's status."""
_UNUSUAL = re.compile(r"[^\w\-. :/]")
_UNSAFE = re.compile(r"[^\w\-]")


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """Content of one MLflow run.

    Attributes:
        kind, key: kind of the run (cell, trial or sweep), and the key of what it is of.
        tags, params: within MLflow's limits.
        metrics: last value of each metric; finite.
        histories: metric → (step, value), of metrics that were measured several times; for a metric that is also in
            `metrics`, the last value is the same.
        texts, arrays: artifacts by file name.
        seconds: time from its start to its end.
        dataset, fingerprint: dataset that the model was trained on, and its fingerprint; empty for a sweep.
    """

    kind: Kind
    key: str
    name: str
    tags: Mapping[str, str]
    params: Mapping[str, str]
    metrics: Mapping[str, float] = field(default_factory=dict)
    histories: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[str, Artifact] = field(default_factory=dict)
    status: Ending = "FINISHED"
    seconds: float = 0.0
    dataset: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, kw_only=True)
class CellTrial:
    """The part of a trial that a cell keeps for its summary.

    Attributes:
        phase, asked, chosen: as in the `ShownTrial`.
        metrics: metrics of a trial that is ok; else empty.
        confusion: confusion matrix [true][observed]; None where the model has none.
    """

    phase: Phase
    status: Status
    asked: bool = True
    chosen: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)
    confusion: Sequence[Sequence[float]] | None = None


def trial_record(trial: ShownTrial, result: TrialResult, *, sweep: str, environment: Mapping[str, str]) -> RunRecord:
    """Returns the nested run of a trial; its tags lack the parent's id, which is added later."""
    spec = trial.spec
    metrics = {name: value for name, value in result.metrics.items() if math.isfinite(value)}
    costs = {"wall_s": result.wall_s, "peak_bytes": float(result.peak_bytes), "iterations": float(result.iterations)}
    metrics.update((name, value) for name, value in costs.items() if math.isfinite(value))
    tags = {
        **_shared_tags(trial, kind="trial", key=spec.key, sweep=sweep),
        ASKED: _yes_or_no(trial.asked),
        PREFIX + "seed": str(spec.seed),
        PREFIX + "cell": spec.cell_key,
        STATUS: result.status,
        PHASE: spec.phase,
        PREFIX + "device": result.device,
        PREFIX + "trial_host": result.host,
        PREFIX + "batch_size": str(result.batch_size),
        PREFIX + "batch_wall_s": f"{result.batch_wall_s:.6g}",
        PREFIX + "converged": _yes_or_no(result.converged),
        **{PREFIX + name: value for name, value in environment.items()},
    }
    if "git_commit" in environment:
        tags["mlflow.source.git.commit"] = environment["git_commit"]
    strange = sorted(set(result.metrics) - set(metrics))
    strange += [] if all(map(math.isfinite, result.objective)) else ["objective"]
    if strange:
        tags[PREFIX + "non_finite"] = ", ".join(strange)
    if result.stopped_early is not None:
        tags[PREFIX + "stopped_early"] = str(result.stopped_early)
    texts: dict[str, str] = {}
    if result.confusion is not None:
        texts["confusion.json"] = _confusion_json(result.confusion)
    if result.failure is not None:
        tags[PREFIX + "failure_kind"] = result.failure.kind
        tags[PREFIX + "failure_message"] = result.failure.message
        texts["traceback.txt"] = result.failure.traceback or f"{result.failure.kind}: {result.failure.message}\n"
    return RunRecord(
        kind="trial",
        key=spec.key,
        name=_cut(BETWEEN.join((trial.label, trial.on, f"seed {spec.seed}")), KEY_LIMIT),
        tags=_fitting(tags, TAG_LIMIT),
        params={**params_of(spec), "seed": str(spec.seed)},
        metrics={_key(name): value for name, value in metrics.items()},
        histories=_histories(result, metrics),
        texts=texts,
        arrays={
            _file_name(name): artifact
            for name, artifact in result.kept.items()
            if artifact.digest and name not in (BASELINES, CLASSES) and not is_item_scores(name)
        },
        status=ENDINGS[result.status],
        seconds=result.wall_s,
        dataset=spec.dataset,
        fingerprint=spec.fingerprint,
    )


def cell_record(shown: ShownTrial, trials: Iterable[CellTrial], *, sweep: str) -> RunRecord:
    """Returns the parent run of a cell. Its metrics are the means over seeds of a few metrics, under their own names;
    the metric that ranks or chooses comes first. A file has mean, standard deviation and n of all metrics; tags have
    numbers of trials.

    Only trials that are asked for are summarised, or all trials where none is asked for. Where some of these are report
    trials, only report trials are summarised, because a search has chosen its points by their scores.
    """
    spec, known = shown.spec, list(trials)
    asked = [trial for trial in known if trial.asked]
    reported = [trial for trial in asked or known if trial.phase == "report"]
    used = reported or asked or known
    done = [trial.metrics for trial in used if trial.status is Status.OK]
    means: dict[str, float] = {}
    table = ["metric,mean,sd,n"]
    for name in sorted({name for one in done for name in one}):
        values = [one[name] for one in done if name in one and math.isfinite(one[name])]
        if values:
            means[name] = fmean(values)
            table.append(f"{name},{fmean(values)!r},{stdev(values) if len(values) > 1 else ''},{len(values)}")
    tags = {
        **_shared_tags(shown, kind="cell", key=spec.cell_key, sweep=sweep),
        PHASE: "report" if reported else "search",
        ASKED: _yes_or_no(bool(asked) or not known),
        CHOSEN: _yes_or_no(any(trial.chosen for trial in known)),
        **{f"{PREFIX}trials_{status}": str(sum(trial.status is status for trial in used)) for status in Status},
    }
    return RunRecord(
        kind="cell",
        key=spec.cell_key,
        name=cell_name(shown),
        tags=_fitting(tags, TAG_LIMIT),
        params=params_of(spec),
        metrics={_key(name): means[name] for name in _few(means, searched=not reported)},
        texts={OVER_SEEDS: "\n".join(table) + "\n"} if done else {},
        status="FAILED" if used and not done else "FINISHED",
        dataset=spec.dataset,
        fingerprint=spec.fingerprint,
    )


def _few(names: Iterable[str], *, searched: bool) -> list[str]:
    """Returns the metrics that a cell shows, in order. MLflow keeps the order in which metrics are first written, and
    its comparison of runs opens with the first one.

    Args:
        searched: whether they are of a search, which is scored on dev items or on held-out labels.
    """
    shown = [name for name in names if metric_kind(name) not in _IN_THE_FILE_ALONE and not is_count(name)]
    headed = shown
    if searched:
        headed = [name for name in shown if name.startswith("dev_")] or [HELDOUT] * (HELDOUT in shown) or shown
    first, _ = ranking_metric(headed)
    return sorted(shown, key=lambda name: (name != first, name))


def cell_name(shown: ShownTrial) -> str:
    """Returns the name of the run of a cell without a rank: its model, its dataset, and the searched parameters."""
    spec = shown.spec
    point = ", ".join(f"{name} {_text(value)}" for name, value in spec.point.items())
    parts = (shown.label, shown.on, point)
    return _cut(BETWEEN.join(part for part in parts if part), KEY_LIMIT)


def mean_confusion(trials: Iterable[CellTrial]) -> list[list[float]] | None:
    """Returns the mean of the crowd's confusion matrices over the reported trials; None where no trial has one."""
    reported = [trial for trial in trials if trial.asked and trial.phase == "report"]
    known = [trial.confusion for trial in reported if trial.confusion is not None]
    if not known:
        return None
    return [[fmean(cells) for cells in zip(*rows, strict=True)] for rows in zip(*known, strict=True)]


def _shared_tags(shown: ShownTrial, *, kind: Kind, key: str, sweep: str) -> dict[str, str]:
    spec = shown.spec
    return {
        KIND: kind,
        KEY: key,
        SWEEP: sweep,
        PREFIX + "label": shown.label,
        PREFIX + "model": spec.model,
        PREFIX + "model_version": str(spec.model_version),
        PREFIX + "dataset": spec.dataset,
        PREFIX + "fingerprint": spec.fingerprint,
        PREFIX + "point": canonical_json(dict(spec.point)),
        "mlflow.source.name": "crowdsweep",
    }


def params_of(spec: TrialSpec) -> dict[str, str]:
    """Returns hyper-parameters under their own names, dataset parameters as `dataset.NAME`, within MLflow's limits."""
    params = {
        "model": spec.model,
        "dataset": spec.dataset,
        "heldout_fraction": _text(spec.heldout_fraction),
        **{f"dataset.{name}": _text(value) for name, value in spec.dataset_params.items()},
        **{name: _text(value) for name, value in spec.params.items()},
    }
    return _fitting(params, PARAM_LIMIT)


def _histories(result: TrialResult, metrics: Mapping[str, float]) -> dict[str, list[tuple[int, float]]]:
    """Returns the histories of the objective and of the watched metric, whose curve ends with its final value."""
    histories: dict[str, list[tuple[int, float]]] = {}
    if objective := _thinned(list(enumerate(result.objective))):
        histories["objective"] = objective
    if result.curve:
        curve = list(result.curve)
        if result.watched in metrics:
            last = max(result.iterations, curve[-1][0])
            curve = [*(point for point in curve if point[0] < last), (last, metrics[result.watched])]
        histories[_key(result.watched)] = _thinned(curve)
    return histories


def _thinned(points: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Returns at most `HISTORY_LIMIT` evenly spaced points with the first and the last, without non-finite values."""
    last = len(points) - 1
    places: Iterable[int] = range(last + 1)
    if last >= HISTORY_LIMIT:
        places = (round(place * last / (HISTORY_LIMIT - 1)) for place in range(HISTORY_LIMIT))
    return [(points[place][0], float(points[place][1])) for place in places if math.isfinite(points[place][1])]


def _file_name(name: str) -> str:
    """Returns the file name of an array, which stays in its folder whatever name the model chose."""
    return f"{_UNSAFE.sub('_', name)[:NAME_LIMIT]}.npy"


def _confusion_json(confusion: Sequence[Sequence[float]]) -> str:
    rows = [[value if math.isfinite(value) else None for value in row] for row in confusion]
    return canonical_json({"rows": "true class", "columns": "observed class", "probabilities": rows})


def _yes_or_no(value: bool) -> str:
    return "true" if value else "false"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value)


def _fitting(values: Mapping[str, str], limit: int) -> dict[str, str]:
    return {_key(name): _cut(value, limit) for name, value in values.items()}


def _key(name: str) -> str:
    """Returns a name with the characters that MLflow allows: word characters, dashes, dots, spaces, colons, slashes."""
    return _UNUSUAL.sub("_", name)[:KEY_LIMIT]


def _cut(text: str, limit: int) -> str:
    text = plain(text)  # databases refuse lone surrogates, and some refuse null characters
    return text if len(text) <= limit else text[: limit - len(MARKER)] + MARKER
