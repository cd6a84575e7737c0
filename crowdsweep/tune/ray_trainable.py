"""A model on a dataset as a trainable function of Ray Tune.

A checkpoint contains only the step that a trial had reached. A trial that starts from one trains again from the
beginning, without reports up to that step, and then goes on. So a trial that Tune restores has the same numbers as
without the interruption. Under population-based training, a trial that takes over another one's checkpoint has, from
that step on, the scores of a whole fit with its own hyper-parameters. That fit can be reproduced.
"""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from ray import tune

from crowdsweep.api.loading import load
from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.data.splits import data_version
from crowdsweep.errors import FitFailed
from crowdsweep.metrics.metric_table import by_held_out, check_metric_name
from crowdsweep.models import registered
from crowdsweep.record.events import TrialProgressed
from crowdsweep.record.result import TrialResult
from crowdsweep.record.spec import TrialSpec
from crowdsweep.registry.plugin_transfer import PluginFolder, plugin_folders, use_plugin_folders
from crowdsweep.search.space import Space
from crowdsweep.sweep.plan import SEARCH_SEED
from crowdsweep.sweepfile.records import Heldout
from crowdsweep.trial.learning_curve import CurveSpec
from crowdsweep.trial.runner import run_batch
from crowdsweep.tune.rounds import Round, Rounds

PROGRESS = "progress.json"


@dataclass(frozen=True, kw_only=True)
class Job:
    """Settings of a trainable, the same for all points.

    Attributes:
        model: registered name.
        fixed: hyper-parameters that are not searched.
        dataset: name or folder of the dataset.
        dataset_params: parameters of the dataset.
        metric: metric to report.
        seeds: number of fits of each point, side by side; the mean of their scores is reported.
        every: epochs or EM steps between reports.
        device: a torch device.
    """

    model: str
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    dataset: str
    dataset_params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    metric: str
    seeds: int
    every: int
    device: str

    def point_of(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what Tune drew, without conditional hyper-parameters that do not apply."""
        space = Space.parse(registered.model_info(self.model).space)
        given = {**self.fixed, **config}
        return {name: value for name, value in config.items() if space.is_active(name, given)}

    def specs(self, config: Mapping[str, Any], base: CrowdDataset) -> list[TrialSpec]:
        """Returns the trials of what Tune drew, one per seed.

        The seeds are those of searches, so that the seeds of a report remain unused.

        Raises:
            BadInput: the model does not accept the hyper-parameters.
        """
        point = self.point_of(config)
        heldout = Heldout().fraction if by_held_out(self.metric) else 0.0
        return [
            TrialSpec(
                model=self.model,
                params=registered.full_params(self.model, {**self.fixed, **point}),
                model_version=registered.model_info(self.model).version,
                dataset=self.dataset,
                dataset_params=self.dataset_params,
                fingerprint=base.fingerprint,
                seed=SEARCH_SEED + number,
                heldout_fraction=heldout,
                data_version=data_version(base, self.dataset_params, heldout),
                phase="search",
                point=point,
            )
            for number in range(self.seeds)
        ]


def trainable(
    model: str,
    data: Any,
    metric: str = "dev_accuracy",
    *,
    seeds: int = 1,
    params: Mapping[str, Any] | None = None,
    every: int = 1,
    device: str = "cpu",
    **dataset_params: Any,
) -> Callable[..., None]:
    """Returns a function for `ray.tune.Tuner` that fits a model with the hyper-parameters that Tune draws.

    Each report has the metric under its own name (mean over the seeds), `METRIC_sd` (standard deviation), and `step`,
    by which schedulers should count (`time_attr="step"`); the last one has the means of all metrics at the end of the
    fits. Only metrics of dev items, of models that predict them while they train, are reported during the fit;
    otherwise there is one report, at the end.

    Args:
        model: registered name of a model, also of a plug-in.
        data: a dataset folder, a catalogue name, or anything else that `crowdsweep.load` takes.
        metric: metric to report: `dev_accuracy`, `dev_kl`, `heldout_loglik`, …
        seeds: number of fits of each point, side by side as one batch.
        params: hyper-parameters that are not searched.
        every: epochs or EM steps between reports.
        device: a torch device; with `tune.with_resources(…, {"gpu": 1})`, "cuda".
        dataset_params: parameters of the dataset (`annotators=100`).

    Raises:
        BadInput: an argument cannot be used; the message says which.
    """
    check_metric_name(metric, "metric")
    loaded = load(data, **dataset_params)
    job = Job(
        model=model,
        fixed=dict(params or {}),
        dataset=loaded.source or loaded.dataset.name,
        dataset_params=dict(loaded.params),
        metric=metric,
        seeds=seeds,
        every=every,
        device=device,
    )
    registered.full_params(model, job.fixed)
    return tune.with_parameters(_fit, job=job, base=loaded.dataset, plugins=plugin_folders())


def _fit(config: Mapping[str, Any], job: Job, base: CrowdDataset, plugins: Sequence[PluginFolder]) -> None:
    """Runs one trial of Tune."""
    use_plugin_folders(plugins, Path.cwd())
    specs = job.specs(config, base)
    rounds, begins = Rounds([spec.key for spec in specs]), _step_of(tune.get_checkpoint())

    def tell(told: Sequence[Round]) -> None:
        for one in told:
            if one.step > begins:
                _report({job.metric: one.mean, f"{job.metric}_sd": one.deviation}, one.step)

    def report(event: TrialProgressed) -> bool:
        if event.score is not None:
            tell(rounds.take(event.key, event.step, event.score))
        return True

    results = run_batch(specs, base, job.device, report, CurveSpec(metric=job.metric, every=job.every))
    tell(rounds.rest())
    _report(_ends(results, job), max(begins, *(result.iterations for result in results)))


def _ends(results: Sequence[TrialResult], job: Job) -> dict[str, float]:
    """Returns the mean over the seeds of every metric that all of them have, and the reported one's standard deviation.

    Raises:
        FitFailed: a fit failed, or does not have the metric to report.
    """
    for result in results:
        if result.failure is not None:
            raise FitFailed(f"{job.model}: {result.failure.kind}: {result.failure.message}")
    names = set[str].intersection(*(set(result.metrics) for result in results))
    if job.metric not in names:
        known = ", ".join(sorted(names)) or "none"
        raise FitFailed(f"{job.model} on {job.dataset}: expected the metric {job.metric}, got {known}")
    means = {name: fmean(result.metrics[name] for result in results) for name in sorted(names)}
    return {**means, f"{job.metric}_sd": pstdev(result.metrics[job.metric] for result in results)}


def _report(metrics: Mapping[str, float], step: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / PROGRESS).write_text(json.dumps({"step": step}))
        tune.report({**metrics, "step": step}, checkpoint=tune.Checkpoint.from_directory(folder))


def _step_of(checkpoint: Any) -> int:
    """Returns the step in a trial's checkpoint; 0 without one."""
    if checkpoint is None:
        return 0
    with checkpoint.as_directory() as folder:
        return int(json.loads((Path(folder) / PROGRESS).read_text())["step"])
