"""Runs one batch of trials in this process: prepares the data of each seed, fits all together, scores each.

Uses no engine. A model's failure is a result: the batch is halved until the failing trial runs alone, and the others
get the same numbers as they would have alone. An interrupt, and an exception outside a model's code, pass through.
"""

import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module

import numpy as np

from crowdsweep.arrays import Objective
from crowdsweep.data import splits
from crowdsweep.data.dataset import CrowdDataset, TrialData
from crowdsweep.errors import DataError, FitFailed
from crowdsweep.models import registered
from crowdsweep.models.checkpoints import NO_CHECKPOINT, CheckpointRefused
from crowdsweep.models.contract import DataShape, FitContext, FitResult, Model, ModelInfo, Need, Predictor
from crowdsweep.models.fitting import fit_points
from crowdsweep.models.needs import check_needs
from crowdsweep.record.artifacts import within_limit
from crowdsweep.record.events import TrialProgressed
from crowdsweep.record.result import (
    CROWD_CONFUSION,
    MISSING_PLUGIN,
    MOST_CLASSES_INLINE,
    Failure,
    Status,
    StoppedEarly,
    TrialResult,
)
from crowdsweep.record.spec import TrialSpec, canonical_json
from crowdsweep.seeds import SeedStream
from crowdsweep.trial import memory
from crowdsweep.trial.baselines import baseline_scores
from crowdsweep.trial.checkpoints import BatchCheckpoints, CheckpointSettings, FitCheckpoint, Progress, made_by
from crowdsweep.trial.fit_checks import checked_fit
from crowdsweep.trial.flags import evidence_of, flags_of
from crowdsweep.trial.item_scores import item_scores
from crowdsweep.trial.learning_curve import NO_CURVE, CurveSpec, thinned_curve
from crowdsweep.trial.memory import of_memory, out_of_memory_failure, release_memory, within_memory
from crowdsweep.trial.model_calls import ModelFault, failure_of, guarded
from crowdsweep.trial.scoring import score, score_of, scored_items

Report = Callable[[TrialProgressed], bool]
"""Takes a trial's report; returns whether the trial goes on."""
MOST_OBJECTIVE_VALUES = 500


class NonFiniteObjective(FitFailed):
    """The objective of a step of the fit is infinite or NaN."""


class NonFiniteMetric(FitFailed):
    """A metric is infinite or NaN."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Batch:
    """Arguments of `run_batch` that all trials of a batch share."""

    base: CrowdDataset
    device: str
    report: Report
    curve_spec: CurveSpec
    checkpoints: BatchCheckpoints | None


@dataclass(eq=False)
class _Fit:
    """One fit and its trials: several where the seed changes nothing."""

    specs: list[TrialSpec]
    model: Model
    trial: TrialData
    curve_spec: CurveSpec
    wall_s: float  # seconds of this fit, for all its trials together
    checkpoint: FitCheckpoint | None = None
    resumed: int = 0  # step of the checkpoint that it resumed from; reports up to it are not repeated
    step: int = 0  # last reported step
    began: float = 0.0
    share: float = 1.0  # of the time of the fits that run side by side
    curve: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    goes_on: bool = True
    stops: dict[str, StoppedEarly] = field(default_factory=dict[str, StoppedEarly])  # by trial key
    raised: BaseException | None = None  # what `report` raised: not the model's fault

    def begin(self, share: float) -> None:
        """Begins the fit (again), from its checkpoint where it has one.

        Args:
            share: this fit's share of the time of those that run side by side.
        """
        first = self.checkpoint is not None and not self.began
        self.curve, self.goes_on, self.stops, self.resumed, self.step = [], True, {}, 0, 0
        self.began, self.share = time.perf_counter(), share
        if self.checkpoint is None:
            return
        progress = self.checkpoint.begin()
        self.resumed = self.step = progress.step
        self.wall_s += progress.wall_s if first else 0.0
        for point in progress.curve:
            self.take_score(*point)

    def take_score(self, step: int, score: float) -> None:
        """Adds a point to the learning curve, and notes which trials the bar of early stopping ends there."""
        self.curve.append((step, score))
        for spec in self.specs:
            bar = self.curve_spec.bars.get(spec.key)
            if bar is not None and spec.key not in self.stops and (stop := bar.stop(self.curve)) is not None:
                self.stops[spec.key] = stop

    def progress(self) -> Progress:
        """Returns the fit's progress, for its checkpoint."""
        return Progress(step=self.step, curve=tuple(self.curve), wall_s=self.wall_s + self.elapsed_s())

    def end(self) -> None:
        """Adds the elapsed time to `wall_s`; raises what `report` or the checkpoint's `emit` raised during the fit."""
        raised = self.raised or (self.checkpoint and self.checkpoint.raised)
        if raised:
            raise raised
        self.wall_s += self.elapsed_s()

    def starts_again(self, fault: ModelFault) -> bool:
        """Drops the fit's checkpoint if that is what the model refused; returns whether it did.

        The fit then begins anew.
        """
        refused = isinstance(fault.__cause__, CheckpointRefused)
        return refused and self.checkpoint is not None and self.checkpoint.refuse(str(fault))

    def elapsed_s(self) -> float:
        """Returns the fit's share of the seconds since it began."""
        return (time.perf_counter() - self.began) * self.share


def run_batch(
    specs: Sequence[TrialSpec],
    base: CrowdDataset,
    device: str,
    report: Report,
    curve_spec: CurveSpec = NO_CURVE,
    checkpoints: CheckpointSettings | None = None,
) -> list[TrialResult]:
    """Runs trials on one base dataset and returns their results in the order of the specs.

    Args:
        specs: trials of one cell or of several; those of the same model are fitted as one batch where their
            hyper-parameters agree in all but what the model `varies`.
        base: the dataset that their fingerprints name.
        device: torch device of the slot.
        report: called with each trial's reports; where it returns False the trial ends, with status `stopped` (trials
            that share a fit end once it returns False for all of them). An exception that it raises ends the batch.
        curve_spec: which learning curve to record, and the bars of early stopping.
        checkpoints: settings of checkpoints, with those to resume from; None for no checkpoints.
    """
    started = time.perf_counter()
    memory.reset_peak()
    if device != "cpu":
        from crowdsweep.models import devices  # noqa: PLC0415 - torch takes seconds to import, and few models need it

        devices.prepare(device)
    varied = {name: _varied_by(name) for name in {spec.model for spec in specs}}
    cells: dict[str, list[TrialSpec]] = {}
    for spec in specs:
        cells.setdefault(spec.batch_key(varied[spec.model]), []).append(spec)
    results: dict[str, TrialResult] = {}
    batch = _Batch(
        base=base,
        device=device,
        report=report,
        curve_spec=curve_spec,
        checkpoints=None if checkpoints is None else BatchCheckpoints(checkpoints),
    )
    for members in cells.values():
        run = partial(_run_cell, batch=batch)
        results.update((result.key, result) for result in within_memory(run, members, device))
    facts = {
        "batch_wall_s": time.perf_counter() - started,
        "batch_size": len(specs),
        "peak_bytes": memory.peak_bytes(),
        "device": device,
        "host": socket.gethostname(),
    }
    return [replace(results[spec.key], **facts) for spec in specs]


def look_up_models(specs: Sequence[TrialSpec]) -> None:
    """Imports the models of trials ahead of time, and what their fits and scores would import late: seconds that the
    first trial of a process would be said to cost. What cannot be imported fails trials later."""
    for name in {spec.model for spec in specs}:
        with suppress(ModelFault):
            guarded(registered.model_info)(name)
    late = ["scipy.optimize"] + ["torch"] * ("crowdsweep.models.lazy_torch" in sys.modules)
    with suppress(Exception):
        for module in late:
            import_module(module)


def _varied_by(name: str) -> frozenset[str]:
    """Returns what a model `varies`; of one that cannot be imported nothing: `_run_cell` says why."""
    with suppress(ModelFault):
        return guarded(registered.model_info)(name).varies
    return frozenset()


def _run_cell(specs: list[TrialSpec], batch: _Batch) -> list[TrialResult]:
    try:
        info = guarded(registered.model_info)(specs[0].model)
    except ModelFault as fault:  # a plug-in that this machine lacks or cannot import, although the driver could
        failure = replace(failure_of(fault), kind=MISSING_PLUGIN)
        return [_failed(spec, failure, 0.0) for spec in specs]
    points: dict[str, list[TrialSpec]] = {}
    for spec in specs:
        points.setdefault(canonical_json(dict(spec.params)), []).append(spec)
    models: dict[str, Model] = {}  # by trial key
    results: list[TrialResult] = []
    for members in points.values():
        try:
            model = guarded(registered.build_model)(members[0].model, members[0].params)
        except ModelFault as fault:
            results += [_failed(spec, failure_of(fault), 0.0) for spec in members]
        else:
            models.update((spec.key, model) for spec in members)
    if not models:
        return results
    needs = info.needs_of(next(iter(models.values())), batch.base.items)
    fits, refused = _prepare([spec for spec in specs if spec.key in models], models, batch, info, needs)
    results += refused
    if batch.checkpoints is not None and info.checkpoints:
        for fit in fits:
            maker = partial(made_by, fit.specs[0], type(fit.model), batch.device, batch.curve_spec)
            fit.checkpoint = batch.checkpoints.of([spec.key for spec in fit.specs], maker, fit.progress)
    contexts = [_context(fit, batch, sees_gold="gold" in needs) for fit in fits]
    for fit, outcome in zip(fits, _fit(info, fits, contexts), strict=True):
        results += _finish(fit, outcome, info, sees_gold="gold" in needs)
    return results


def _prepare(
    specs: list[TrialSpec], models: Mapping[str, Model], batch: _Batch, info: ModelInfo, needs: frozenset[Need]
) -> tuple[list[_Fit], list[TrialResult]]:
    """Prepares the data of each trial, and returns the fits to make and the results of trials whose data are refused.

    Trials share their data where the seed does not change these, and share the fit where it does not change the model
    either.
    """
    fits: dict[str, _Fit] = {}
    made: dict[str, TrialData] = {}
    refused: list[TrialResult] = []
    base = batch.base
    for spec in specs:
        started = time.perf_counter()
        seed_matters = splits.seed_matters(base, spec.dataset_params, spec.heldout_fraction)
        data = [dict(spec.dataset_params), spec.heldout_fraction, spec.seed if seed_matters else None]
        of_data = canonical_json(data)
        one = spec.cell_key if info.deterministic and not seed_matters else spec.key
        if one in fits:
            fits[one].specs.append(spec)
            continue
        try:
            if of_data not in made:
                trial = splits.prepare(base, spec.dataset_params, spec.seed, spec.heldout_fraction)
                check_needs(info, needs, trial, base.name)
                made[of_data] = trial
        except DataError as error:
            refused.append(_failed(spec, failure_of(error), time.perf_counter() - started))
            continue
        fits[one] = _Fit([spec], models[spec.key], made[of_data], batch.curve_spec, time.perf_counter() - started)
    return list(fits.values()), refused


def _context(fit: _Fit, batch: _Batch, *, sees_gold: bool) -> FitContext:
    """Returns the context of a fit. Its reports are scored here, so that the model never sees gold."""

    def report_each(step: int, objective: float, predictor: Callable[[], Predictor] | None = None) -> bool:
        step, objective, score = int(step), float(objective), None
        if step <= fit.resumed:  # repeated after resuming: it was reported before, and the fit went on
            return True
        fit.step = step
        if predictor is not None and fit.curve_spec.is_due(step):
            score = _score_now(fit.curve_spec.metric, predictor, fit.trial)
        if score is not None:
            fit.take_score(step, score)
        told = [TrialProgressed(key=spec.key, step=step, objective=objective, score=score) for spec in fit.specs]
        try:
            answers = [batch.report(event) for event in told]  # all are reported, whatever the answers
            fit.goes_on = any(
                answer and spec.key not in fit.stops for answer, spec in zip(answers, fit.specs, strict=True)
            )
        except BaseException as error:
            fit.raised = error
            raise
        return fit.goes_on

    return FitContext(
        seeds=SeedStream(fit.specs[0].seed).child("fit"),
        device=batch.device,
        gold=fit.trial.gold if sees_gold else None,
        report=report_each,
        checkpoint=NO_CHECKPOINT if fit.checkpoint is None else fit.checkpoint,
    )


def _score_now(metric: str, predictor: Callable[[], Predictor], trial: TrialData) -> float | None:
    """Returns a score of a running fit; None where its predictor fails: the end of the fit will show why."""
    try:
        return score_of(metric, guarded(predictor)(), trial)
    except (ModelFault, FitFailed):
        return None


def _shares(fits: Sequence[_Fit], info: ModelInfo) -> list[float]:
    """Returns each fit's share of the time of all: equal ones, or of several points in proportion to their costs."""
    params, costs = [fit.specs[0].params for fit in fits], list[float]()
    if info.cost is not None and any(own != params[0] for own in params):
        with suppress(ModelFault):
            cost = guarded(info.cost)
            costs = [cost(DataShape.of(fit.trial.training), own) for fit, own in zip(fits, params, strict=True)]
    if not costs or not all(0 < cost < np.inf for cost in costs):
        return [1 / len(fits)] * len(fits)
    return [cost / sum(costs) for cost in costs]


def _fit(info: ModelInfo, fits: Sequence[_Fit], contexts: Sequence[FitContext]) -> list[FitResult | Failure]:
    """Fits all as one batch; halves a batch that raises until each failing fit runs alone."""
    if not fits:
        return []
    for fit, share in zip(fits, _shares(fits, info), strict=True):
        fit.begin(share)
    if fits[0].checkpoint is not None:
        fits[0].checkpoint.tell()
    fault: ModelFault | None = None
    fitted: list[FitResult] = []
    try:
        fitted = guarded(fit_points)([fit.model for fit in fits], [fit.trial.training for fit in fits], contexts)
    except ModelFault as raised:
        fault = raised
        if of_memory(fault):
            release_memory(fault, contexts[0].device)
    for fit in fits:
        fit.end()
    if fault is None:
        return list(fitted)
    if sum(fit.starts_again(fault) for fit in fits):  # not `any`: the fault does not say whose it was
        return _fit(info, fits, contexts)
    if len(fits) == 1:
        return [out_of_memory_failure(fault) if of_memory(fault) else failure_of(fault)]
    half = len(fits) // 2
    return [*_fit(info, fits[:half], contexts[:half]), *_fit(info, fits[half:], contexts[half:])]


def _finish(fit: _Fit, fitted: FitResult | Failure, info: ModelInfo, *, sees_gold: bool) -> list[TrialResult]:
    started = time.perf_counter()
    reported = any(spec.phase == "report" for spec in fit.specs)
    outcome = fitted if isinstance(fitted, Failure) else _scored(fitted, fit.trial, info, sees_gold, reported)
    wall_s = (fit.wall_s + time.perf_counter() - started) / len(fit.specs)
    if isinstance(outcome, Failure):
        return [_failed(spec, outcome, wall_s) for spec in fit.specs]
    status = Status.OK if fit.goes_on else Status.STOPPED
    facts = {
        "status": status,
        "curve": thinned_curve(fit.curve),
        "watched": fit.curve_spec.metric if fit.curve else "",
        "resumed": fit.resumed,
        "wall_s": wall_s,
    }
    stops = {} if fit.goes_on else fit.stops
    return [replace(outcome, key=spec.key, stopped_early=stops.get(spec.key), **facts) for spec in fit.specs]


def _scored(
    fitted: FitResult, trial: TrialData, info: ModelInfo, sees_gold: bool, reported: bool
) -> TrialResult | Failure:
    """Scores one fit; returns a result without a key, or a failure.

    Args:
        sees_gold: whether the model was given gold; it is not flagged then.
        reported: whether a trial of the report is among the fit's: the scores of single items and of the baselines are
            kept then.
    """
    try:
        fitted = checked_fit(fitted, trial.training)
        if not np.isfinite(fitted.objective).all():
            step = int(np.flatnonzero(~np.isfinite(fitted.objective))[0])
            raise NonFiniteObjective(f"the objective is {fitted.objective[step]} at step {step}: the fit diverged")
        items = scored_items(fitted, trial)
        metrics, confusion = score(fitted, trial, items)
        if confusion is not None and not np.isfinite(confusion).all():
            raise FitFailed("the annotators' confusion matrices are not finite; smooth more")
        for name, value in metrics.items():
            if not np.isfinite(value):
                raise NonFiniteMetric(f"{name} is {value}: something that the model gives is no probability")
        arrays = dict(fitted.extras)
        if reported:
            arrays |= item_scores(metrics, items, trial) | baseline_scores(trial)
        if confusion is not None and len(confusion) > MOST_CLASSES_INLINE:
            arrays[CROWD_CONFUSION], confusion = confusion, None
        artifacts, left_out = within_limit(arrays)
        evidence = evidence_of(trial, gold=reported)
    except (ModelFault, FitFailed) as error:
        if of_memory(error):  # `within_memory` tries again with fewer trials
            raise
        return failure_of(error)
    return TrialResult(
        key="",
        status=Status.OK,
        metrics=metrics,
        objective=thinned(fitted.objective),
        confusion=None if confusion is None else confusion.tolist(),
        artifacts=artifacts,
        kept=left_out,
        flags=() if sees_gold else flags_of(info, fitted.item_probs, trial.training, evidence),
        iterations=fitted.iterations,
        converged=fitted.converged,
    )


def thinned(objective: Objective) -> list[float]:
    """Returns at most `MOST_OBJECTIVE_VALUES` values, evenly spaced, with the first and the last among them."""
    if len(objective) > MOST_OBJECTIVE_VALUES:
        objective = objective[np.linspace(0, len(objective) - 1, MOST_OBJECTIVE_VALUES).round().astype(np.int64)]
    return objective.tolist()


def _failed(spec: TrialSpec, failure: Failure, wall_s: float) -> TrialResult:
    return TrialResult(key=spec.key, status=Status.FAILED, failure=failure, wall_s=wall_s)
