"""Pilots: short fits that measure the cost of a model without a cost formula, or find out what its fits bring.

A pilot fits the model, at its parameters, to the first items of the dataset (at most `MOST_ITEMS`) and to half of them,
with few epochs and iterations where the model has such parameters. It extrapolates the seconds of a whole trial
linearly in steps and in annotations; a fit that stops early takes less. A pilot takes a couple of seconds, unless a fit
on a tenth of those items takes long: then it measures that fit alone.

Models are fitted in a separate process, as trials of the inline engine are: whatever a model does there, the plan is
still made.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdsweep.data.dataset import Gold, TrainingData, TrialData
from crowdsweep.engine.worker import Forkserver, WorkerDied
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext, FitResult, FitsMany, FitsPoints, ModelInfo, Predictor
from crowdsweep.models.fitting import fit_unchecked
from crowdsweep.registry.parameters import build
from crowdsweep.seeds import SeedStream
from crowdsweep.trial.model_calls import ModelFault, guarded

MOST_ITEMS = 200
FEW_ITEMS = 20
FEW_STEPS = 4
STEPS = ("epochs", "iterations")
REPLICAS = 5  # fits side by side, as in a batch, where the model can do so
LONGEST_FIT_S = 0.3  # on all items of a pilot; a slower model is timed on a tenth of them only
SURELY_LONG_S = 2.0  # after which a fit whose steps a pilot cannot cut is told to stop
WORTH_REPEATING_S = 0.05
REPEATS = 3
LONGEST_S = 60.0  # for one pilot: the import of its model and all fits


@dataclass(frozen=True, kw_only=True)
class LinearCost:
    """Seconds of one trial as a linear function of its number of annotations."""

    fixed_s: float
    annotation_s: float

    def seconds(self, n_annotations: int) -> float:
        """Returns the seconds of a trial with `n_annotations` annotations."""
        return self.fixed_s + self.annotation_s * n_annotations


def measured_cost(
    info: ModelInfo, params: Mapping[str, Any], trial: TrialData, clock: Callable[[], float] = time.perf_counter
) -> LinearCost | None:
    """Measures the cost of a model; None where a pilot cannot fit it, or where nothing bounds how long a fit takes.

    Args:
        params: all its hyper-parameters.
        trial: a dataset that has what the model needs.
    """
    pilot = _Pilot(info=info, params=params, trial=trial, clock=clock)
    try:
        return pilot.cost()
    except (ModelFault, TimeoutError):
        return None


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What a fit of a model brings besides labels of the training items.

    Attributes:
        label_probs: whether it gives probabilities to labels that it has not seen.
        uses: names of the ways in which it labels unseen items, the usual one first; empty where it labels none.
        annotators: whether it describes annotators.
    """

    label_probs: bool
    uses: tuple[str, ...]
    annotators: bool


def outputs_of(info: ModelInfo, params: Mapping[str, Any], trial: TrialData) -> Outputs | None:
    """Returns what a short fit on a few items brings; None where a pilot cannot fit the model: its trials say why."""
    pilot = _Pilot(info=info, params=params, trial=trial, clock=time.perf_counter)
    try:
        (fitted, *_) = pilot.fit(_first_items(trial, min(FEW_ITEMS, trial.training.n_items)), {}, 1)
        uses = () if fitted.predictor is None else tuple(guarded(list)(fitted.predictor.uses))
    except (ModelFault, TimeoutError):
        return None
    return Outputs(label_probs=fitted.label_probs is not None, uses=uses, annotators=fitted.annotators is not None)


def pilot_data(trial: TrialData) -> TrialData:
    """Returns the part of a dataset that pilots use."""
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
        """Number of epochs and of iterations that the parameters ask for, where it exceeds `FEW_STEPS`."""
        many = {name: self.params[name] for name in STEPS if isinstance(self.params.get(name), int)}
        return {name: wanted for name, wanted in many.items() if wanted > FEW_STEPS}

    def cost(self) -> LinearCost:
        """Returns the line through the costs of half the items and of all items.

        Where a fit takes long, the line goes through zero and the cost of a tenth of the items.
        """
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
        """Returns the seconds of a fit with all its steps.

        They are extrapolated from fits with few steps and with twice as many of each kind.
        """
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
        """Returns one trial's share of the seconds of one fit.

        Kinds of steps that `steps` does not name have `FEW_STEPS` each.
        """
        many = issubclass(self.info.model, (FitsMany, FitsPoints)) and not self.info.deterministic
        n = REPLICAS if many else 1
        begun = self.clock()
        self.fit(sample, steps, n)
        return (self.clock() - begun) / n

    def fit(self, sample: tuple[TrainingData, Gold], steps: Mapping[str, int], n: int) -> Sequence[FitResult]:
        """Returns `n` fits side by side.

        Raises:
            ModelFault: the fits failed.
            TimeoutError: the fits took long and were told to stop.
        """
        training, gold = sample
        params = {**self.params, **dict.fromkeys(self.steps, FEW_STEPS), **steps}
        if "steps" in params:  # a minimum: few epochs on few items would be raised to it
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
    """Returns the first training items with their annotations and gold."""
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
    """The pilots of a plan, which run in one process that the first of them starts."""

    def __init__(self) -> None:
        self._forkserver = Forkserver()
        self._costs: dict[str, LinearCost | None] = {}

    def cost(
        self, key: str, info: ModelInfo, params: Mapping[str, Any], trial: Callable[[], TrialData]
    ) -> LinearCost | None:
        """Returns what `measured_cost` finds, measured once for each key.

        Returns None also where the model ends its process or hangs.

        Args:
            key: identifies everything that decides the cost.
        """
        if key not in self._costs:
            self._costs[key] = self._call(measured_cost, info, params, trial())
        return self._costs[key]

    def outputs(self, info: ModelInfo, params: Mapping[str, Any], trial: TrialData) -> Outputs | None:
        """Returns what `outputs_of` finds; None also where the model ends its process or hangs."""
        return self._call(outputs_of, info, params, trial)

    def close(self) -> None:
        """Ends the process; may be called twice."""
        self._forkserver.close()

    def _call(self, function: Callable[..., Any], info: ModelInfo, params: Mapping[str, Any], trial: TrialData) -> Any:
        """Calls a function of this module in the process; None where the process dies, or `LONGEST_S` pass."""
        try:
            return self._forkserver.call(_called, function, info.name, params, pilot_data(trial), timeout_s=LONGEST_S)
        except (WorkerDied, TimeoutError):
            self._forkserver.kill_worker()
            return None


def _called(function: Callable[..., Any], name: str, params: Mapping[str, Any], trial: TrialData) -> Any:
    """Calls a function of this module, in the process, with the model of that name; None where it does not load."""
    try:
        info = guarded(registered.model_info)(name)
    except ModelFault:
        return None
    return function(info, params, trial)
