"""Short fits for the contract checks of models, and checks that every result must pass."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models import registered
from crowdsweep.models.checkpoints import TrainingState
from crowdsweep.models.contract import AnnotatorModel, FitContext, FitResult, ModelInfo, Predictor
from crowdsweep.models.fitting import fit_one
from crowdsweep.seeds import SeedStream
from crowdsweep.testing.small_data import SmallData, small_data

# What keeps a fit of the checks short, where a model has such a parameter.
SHORT = {"epochs": 3, "fold_epochs": 3, "restarts": 2, "iterations": 8, "hidden": [5], "steps": 0, "patience": None}


def short_params(info: ModelInfo) -> dict[str, Any]:
    """Returns parameters that keep a fit short, where the model has such."""
    names = registered.parameters(info.name)
    return {name: value for name, value in SHORT.items() if name in names}


def short_model(info: ModelInfo, **params: Any) -> Any:
    """Returns the model with parameters that keep a fit short, but for those given that it has."""
    names = registered.parameters(info.name)
    given = {name: value for name, value in params.items() if name in names}
    return registered.build_model(info.name, {**short_params(info), **given})


def other_value(info: ModelInfo, name: str) -> Any:
    """Returns another value of a number than short fits have: a larger one, or the largest of the search space."""
    space = info.space.get(name, {})
    value = registered.full_params(info.name, short_params(info))[name]
    others = [one for one in (*space.get("values", ()), space.get("max")) if one not in (None, value)]
    return max(others) if others else value + 1


ONE_RESTART = {"restarts": 1}


def found_steps(info: ModelInfo) -> str | None:
    """Returns the hyper-parameter that says how many steps the objective has, by fits; None where there are none."""
    data = small_data()
    for name in ("epochs", "iterations"):
        if name in registered.parameters(info.name):
            asked = short_model(info, **{name: 2}, **ONE_RESTART)
            if len(fit_one(asked, data.training, context_for(info, data)).objective) == 2:
                return name
    return None


@dataclass
class Listener:
    """Takes reports, and stops a fit after some steps.

    Attributes:
        until: the step after which it stops the fit; None for never.
        last: the predictor of the last report.
    """

    until: int | None = None
    steps: list[int] = field(default_factory=list[int])
    objectives: list[float] = field(default_factory=list[float])
    last: Predictor | None = None

    def __call__(self, step: int, objective: float, predictor: Callable[[], Predictor] | None = None) -> bool:
        """See `Report`."""
        self.steps.append(step)
        self.objectives.append(objective)
        self.last = None if predictor is None else predictor()
        return self.until is None or step < self.until


def context_for(info: ModelInfo, data: SmallData, seed: int = 0) -> FitContext:
    """Returns what the runner would give: gold only to a model that declares the need."""
    return FitContext(seeds=SeedStream(seed), gold=data.gold if "gold" in info.needs else None)


def fit(info: ModelInfo, data: SmallData, seed: int = 0) -> FitResult:
    """Fits the model with short parameters."""
    return fit_one(registered.build_model(info.name, short_params(info)), data.training, context_for(info, data, seed))


class RecordedCheckpoint:
    """A `Checkpoint` that is always due.

    Attributes:
        written: by training, what was written last; empty where nothing was.
        asked: trainings that went on from what was given.
    """

    keeps = is_due = True

    def __init__(self, states: Mapping[str, TrainingState] | None = None) -> None:
        """Takes what a fit goes on from."""
        self._states = dict(states or {})
        self.written: Mapping[str, TrainingState] = {}
        self.asked: set[str] = set()

    def found(self, training: str) -> TrainingState | None:
        """See `Checkpoint.found`."""
        if training in self._states:
            self.asked.add(training)
        return self._states.get(training)

    def put(self, training: str, state: TrainingState) -> None:
        """See `Checkpoint.put`."""
        self._states[training] = state

    def write(self) -> None:
        """See `Checkpoint.write`."""
        self.written = dict(self._states)


@cache
def recorded_fit(info_name: str) -> tuple[FitResult, RecordedCheckpoint]:
    """Returns the fit on the standard data, and what it wrote down; made once for all checks that only look at it."""
    info, data, checkpoint = registered.model_info(info_name), small_data(), RecordedCheckpoint()
    return fit_one(
        short_model(info), data.training, replace(context_for(info, data), checkpoint=checkpoint)
    ), checkpoint


def standard_fit(info_name: str) -> FitResult:
    """Returns the fit on the standard data, made once."""
    return recorded_fit(info_name)[0]


def must(held: bool, otherwise: str) -> None:
    """Raises AssertionError with that message unless it held."""
    if not held:
        raise AssertionError(otherwise)


def must_be_probs(probs: np.ndarray, shape: tuple[int, ...], what: str, *, sums: bool = True) -> None:
    """Checks shape, type and range; and, unless they are independent, that the last axis sums to one."""
    must(probs.shape == shape, f"{what}: expected shape {shape}, got {probs.shape}")
    must(probs.dtype == np.float64, f"{what}: expected float64, got {probs.dtype}")
    must(bool((probs >= 0).all() and (probs <= 1 + 1e-9).all()), f"{what}: expected values in [0, 1]")
    if sums:
        np.testing.assert_allclose(probs.sum(axis=-1), 1.0, atol=1e-6, err_msg=what)


def must_be_valid(fitted: FitResult, data: TrainingData) -> None:
    """Checks everything of a fit that can be checked without knowing the model."""
    sums = data.scale != "multilabel"
    size = (data.n_items, data.n_classes)
    must_be_probs(fitted.item_probs, size, "item_probs", sums=sums)
    must(bool(np.isfinite(fitted.objective).all()), f"objective: expected finite values, got {fitted.objective}")
    if fitted.annotators is not None:
        _must_be_annotators(fitted.annotators, data)
    if fitted.label_probs is not None and data.n_items and data.n_annotators:
        item = np.repeat(np.arange(data.n_items, dtype=np.int32), 2)
        annotator = (np.arange(len(item)) % data.n_annotators).astype(np.int32)
        must_be_probs(fitted.label_probs(item, annotator), (len(item), data.n_classes), "label_probs", sums=sums)
        if fitted.unseen_label_probs is not None:
            probs = fitted.unseen_label_probs(data.items, item, annotator)
            must_be_probs(probs, (len(item), data.n_classes), "unseen_label_probs", sums=sums)
    if fitted.predictor is not None:
        must_be_predictor(fitted.predictor, data.items, data.n_classes, sums)


def _must_be_annotators(annotators: AnnotatorModel, data: TrainingData) -> None:
    size = (data.n_classes, 2, 2) if data.scale == "multilabel" else (data.n_classes, data.n_classes)
    must(annotators.n_annotators == data.n_annotators, f"annotators: it covers {annotators.n_annotators}")
    codes = np.arange(data.n_annotators)[::-1]
    matrices = annotators.confusion(codes)
    must_be_probs(matrices, (data.n_annotators, *size), "confusion matrices")
    np.testing.assert_allclose(annotators.confusion(codes[:1]), matrices[:1], atol=1e-12, err_msg="chunks differ")
    shared = annotators.global_confusion()
    if shared is not None:
        must_be_probs(shared, size, "global confusion")


def must_be_predictor(predictor: Predictor, items: Items, n_classes: int, sums: bool) -> None:
    """Checks each use on all of these items and on one of them."""
    must(len(predictor.uses) > 0 and len(set(predictor.uses)) == len(predictor.uses), f"uses: {predictor.uses}")
    for use in predictor.uses:
        for part in (items, items.take(np.arange(min(1, items.n_items)))):
            must_be_probs(predictor.predict(part, use), (part.n_items, n_classes), f"predictions ({use})", sums=sums)


def must_agree(first: FitResult, second: FitResult, tolerance: float) -> None:
    """Checks that two fits give the same numbers, wherever both can be asked."""
    for (what, one), (_, other) in zip(fitted_numbers(first), fitted_numbers(second), strict=True):
        np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance, err_msg=what)


def fitted_numbers(fitted: FitResult) -> Iterator[tuple[str, np.ndarray]]:
    """Yields what a fit says, by what it is: of its items, of annotators, of items that are read anew."""
    yield "item_probs", fitted.item_probs
    yield "objective", fitted.objective
    if fitted.annotators is not None:
        yield "confusion matrices", fitted.annotators.confusion(np.arange(fitted.annotators.n_annotators))
    if fitted.predictor is not None:
        for use in fitted.predictor.uses:
            yield f"predictions ({use})", fitted.predictor.predict(small_data().training.items, use)
