"""The cost of a trial whose model states no cost formula, measured by short fits; and what such a fit brings.

The model is fitted, at its parameters, to the first items of the dataset (at most `MOST_ITEMS`) and to half of them,
with few epochs and iterations where it has such parameters. The seconds of a whole trial are extrapolated linearly in
steps and in annotations; a fit that stops early takes less. All that takes a couple of seconds, unless a fit on a tenth
of those items takes long: then that fit is all that is measured.

Models are fitted in a process beside this one, as trials of the inline engine: whatever a model does there, a plan is
made.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdsweep.data.dataset import Gold, TrainingData, TrialData
from crowdsweep.engine.work import BUG, DONE, Call
from crowdsweep.engine.worker import Forkserver, WorkerDied, bug_of
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext, FitResult, FitsMany, ModelInfo, Predictor, fit_unchecked
from crowdsweep.registry.parameters import build
from crowdsweep.seeds import SeedStream
from crowdsweep.trial.model_calls import ModelFault, guarded

MOST_ITEMS = 200
FEW_ITEMS = 20
FEW_STEPS = 4
STEPS = ("epochs", "iterations")
REPLICAS = 5  # fitted side by side where the model can, as a batch fits its trials
LONGEST_FIT_S = 0.3  # that is waited for on all the items of a pilot
SURELY_LONG_S = 2.0  # after which a fit that counts no steps is told to stop
WORTH_REPEATING_S = 0.05
REPEATS = 3
LONGEST_S = 60.0  # of all fits of one pilot, the import of its model among them


@dataclass(frozen=True, kw_only=True)
class LinearCost:
    """Seconds of one trial against its annotations: a straight line."""

    fixed_s: float
    annotation_s: float

    def seconds(self, n_annotations: int) -> float:
        """Returns the seconds of a trial on so many annotations."""
        return self.fixed_s + self.annotation_s * n_annotations


def measured_cost(
    info: ModelInfo, params: Mapping[str, Any], trial: TrialData, clock: Callable[[], float] = time.perf_counter
) -> LinearCost | None:
    """Measures a model; None where it cannot be fitted so, or where nothing bounds how long that takes.

    Args:
        info: the model.
        params: all its hyper-parameters.
        trial: a dataset that brings what the model needs.
        clock: seconds.
    """
    pilot = _Pilot(info=info, params=params, trial=trial, clock=clock)
    try:
        return pilot.cost()
    except (ModelFault, TimeoutError):
        return None


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What a fit of a model brings, beside what it says of the items that trained.

    Attributes:
        label_probs: probabilities of answers that it has not seen.
        uses: the names of the ways in which it labels unseen items, the usual one first; empty where it labels none.
        annotators: what it says of annotators.
    """

    label_probs: bool
    uses: tuple[str, ...]
    annotators: bool


def outputs_of(info: ModelInfo, params: Mapping[str, Any], trial: TrialData) -> Outputs | None:
    """Returns what a short fit on a few items brings; None where it cannot be fitted so: its trials will say why.

    Args:
        info, params, trial: as for `measured_cost`.
    """
    pilot = _Pilot(info=info, params=params, trial=trial, clock=time.perf_counter)
    try:
        (fitted, *_) = pilot.fit(_first_items(trial, min(FEW_ITEMS, trial.training.n_items)), {}, 1)
        uses = () if fitted.predictor is None else tuple(guarded(list)(fitted.predictor.uses))
    except (ModelFault, TimeoutError):
        return None
    return Outputs(label_probs=fitted.label_probs is not None, uses=uses, annotators=fitted.annotators is not None)


def pilot_data(trial: TrialData) -> TrialData:
    """Returns what of a dataset pilots are fitted to."""
    n_items = min(MOST_ITEMS, trial.training.n_items)
    training, gold = _first_items(trial, n_items)
    return TrialData(training=training, code=trial.code[:n_items], gold=gold, evaluate=dict)


@dataclass(frozen=True, kw_only=True)
class _Pilot:
    info: ModelInfo
    params: Mapping[str, Any]
    trial: TrialData
    clock: Callable[[], float]

    @property
    def steps(self) -> dict[str, int]:
        """How many epochs and iterations are wanted, where that is more than a few."""
        many = {name: self.params[name] for name in STEPS if isinstance(self.params.get(name), int)}
        return {name: wanted for name, wanted in many.items() if wanted > FEW_STEPS}

    def cost(self) -> LinearCost:
        """Returns the line through half the items and all of them; through none and a tenth where a fit takes long."""
        n_items = min(MOST_ITEMS, self.trial.training.n_items)
        tenth, half, whole = (_first_items(self.trial, max(1, n_items // part)) for part in (10, 2, 1))
        long_s = LONGEST_FIT_S * tenth[0].n_items / n_items
        first_s = self._fit_s(tenth, {})
        if first_s > long_s:  # perhaps only because something is used for the first time
            first_s = self._fit_s(tenth, {})
        if first_s > long_s or half[0].n_items == n_items:
            most = max((wanted / FEW_STEPS for wanted in self.steps.values()), default=1.0)
            return LinearCost(fixed_s=0.0, annotation_s=first_s * most / len(tenth[0].annotations))
        half_s, whole_s = self._trial_s(half), self._trial_s(whole)
        few, many = len(half[0].annotations), len(whole[0].annotations)
        annotation_s = max(0.0, (whole_s - half_s) / max(1, many - few))
        return LinearCost(fixed_s=max(0.0, whole_s - annotation_s * many), annotation_s=annotation_s)

    def _trial_s(self, sample: tuple[TrainingData, Gold]) -> float:
        """Returns the seconds of a fit with all its steps, from fits with few and with twice as many of each kind."""
        few_s = self._best_s(sample, {})
        total_s = few_s
        for name, wanted in self.steps.items():
            more = min(2 * FEW_STEPS, wanted)
            step_s = (self._best_s(sample, {name: more}) - few_s) / (more - FEW_STEPS)
            total_s += max(0.0, step_s) * (wanted - FEW_STEPS)
        return total_s

    def _best_s(self, sample: tuple[TrainingData, Gold], steps: Mapping[str, int]) -> float:
        best_s = self._fit_s(sample, steps)
        for _ in range(REPEATS - 1):
            if best_s < WORTH_REPEATING_S:
                best_s = min(best_s, self._fit_s(sample, steps))
        return best_s

    def _fit_s(self, sample: tuple[TrainingData, Gold], steps: Mapping[str, int]) -> float:
        """Returns a trial's share of the seconds of one fit, with few steps of each kind but those that are given."""
        many = issubclass(self.info.model, FitsMany) and not self.info.deterministic
        n = REPLICAS if many else 1
        begun = self.clock()
        self.fit(sample, steps, n)
        return (self.clock() - begun) / n

    def fit(self, sample: tuple[TrainingData, Gold], steps: Mapping[str, int], n: int) -> Sequence[FitResult]:
        """Returns `n` fits side by side.

        Raises:
            ModelFault: they failed.
            TimeoutError: they were told to stop.
        """
        training, gold = sample
        params = {**self.params, **dict.fromkeys(self.steps, FEW_STEPS), **steps}
        if "steps" in params:  # the fewest, which a network on few items would make however few are asked for
            params["steps"] = 0
        model = guarded(build)(self.info.model, params, f"model {self.info.name!r}")
        begun = self.clock()
        stopped = False

        def report(step: int, objective: float, predictor: Callable[[], Predictor] | None = None) -> bool:  # noqa: ARG001
            nonlocal stopped
            stopped = not self.steps and self.clock() - begun > SURELY_LONG_S
            return not stopped

        contexts = [
            FitContext(
                seeds=SeedStream(seed).child("fit"),
                gold=gold if "gold" in self.info.needs_of(model) else None,
                report=report,
            )
            for seed in range(n)
        ]
        fitted = guarded(fit_unchecked)(model, [training] * n, contexts)
        if stopped:
            raise TimeoutError(f"{self.info.name} was far from done after {SURELY_LONG_S} s")
        return fitted


def _first_items(trial: TrialData, n_items: int) -> tuple[TrainingData, Gold]:
    """Returns the first training items with their gold, and nothing that does not grow with them."""
    items = np.arange(n_items, dtype=np.int32)
    training = trial.training
    return (
        TrainingData(
            annotations=training.annotations.of_items(items),
            items=training.items.take(items),
            scale=training.scale,
            annotator_features=training.annotator_features,
        ),
        trial.gold.of_items(items, training.n_items),
    )


class Pilots:
    """Fits models for a moment; the process is started with the first of them."""

    def __init__(self) -> None:
        self._forkserver = Forkserver()
        self._costs: dict[str, LinearCost | None] = {}

    def cost(
        self, key: str, info: ModelInfo, params: Mapping[str, Any], trial: Callable[[], TrialData]
    ) -> LinearCost | None:
        """Returns what `measured_cost` finds, once for each key; None also where the model ends its process or hangs.

        Args:
            key: of what decides it.
            info: the model.
            params: all its hyper-parameters.
            trial: makes a dataset that brings what the model needs.
        """
        if key not in self._costs:
            self._costs[key] = self._call(measured_cost, info, params, trial())
        return self._costs[key]

    def outputs(self, info: ModelInfo, params: Mapping[str, Any], trial: TrialData) -> Outputs | None:
        """Returns what `outputs_of` does; None also where the model ends its process or hangs."""
        return self._call(outputs_of, info, params, trial)

    def close(self) -> None:
        """Ends the process; may be called twice."""
        self._forkserver.close()

    def _call(self, function: Callable[..., Any], info: ModelInfo, params: Mapping[str, Any], trial: TrialData) -> Any:
        """Has the process call a function of `pilot`; None where it does not return."""
        until = time.monotonic() + LONGEST_S
        try:
            call = Call(function=_called, arguments=(function, info.name, params, pilot_data(trial)))
            self._forkserver.worker().send(call)
            while (left_s := until - time.monotonic()) > 0:
                match self._forkserver.receive(left_s):
                    case (str() as kind, result) if kind == DONE:
                        return result
                    case (str() as kind, (text, trace)) if kind == BUG:
                        raise bug_of(text, trace)
                    case _:
                        pass
        except WorkerDied:
            pass
        self._forkserver.kill_worker()
        return None


def _called(function: Callable[..., Any], name: str, params: Mapping[str, Any], trial: TrialData) -> Any:
    """Calls a function of `pilot` in the process, which finds the model by its name."""
    try:
        info = guarded(registered.model_info)(name)
    except ModelFault:
        return None
    return function(info, params, trial)
