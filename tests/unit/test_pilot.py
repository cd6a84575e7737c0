"""Pilots, on a clock that the fitted model moves: what they measure, what they make of it, and when they give up."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from annotated_types import Ge
from fakes import FakeClock

from crowdsweep.cli.commands import run_command_line
from crowdsweep.data import catalogue
from crowdsweep.data.dataset import TrainingData, TrialData
from crowdsweep.data.splits import prepare
from crowdsweep.errors import FitFailed
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo
from crowdsweep.sweep import pilot
from crowdsweep.sweep.cost_estimate import TRIAL_OVERHEAD_S
from crowdsweep.sweep.pilot import (
    FEW_STEPS,
    MOST_ITEMS,
    REPLICAS,
    SURELY_LONG_S,
    Pilots,
    measured_cost,
    outputs_of,
    pilot_data,
)
from crowdsweep.sweep.plan import make_plan
from crowdsweep.sweep.plan_summary import plan_summary
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.views.terminal.plan import describe_plan

CLOCK = FakeClock()
FITS: list[tuple[int, int]] = []  # items and replicas of each fit
SETUP_S, ITEMS_S, ROWS_S, EPOCH_S = 0.01, 1e-6, 2e-6, 3e-6


def pretended(data: TrainingData, seconds: float, replicas: int = 1) -> FitResult:
    CLOCK.now += seconds
    FITS.append((data.n_items, replicas))
    return FitResult(item_probs=np.full((data.n_items, data.n_classes), 1 / data.n_classes))


@dataclass(frozen=True, kw_only=True)
class Steady:
    """So many seconds a row, without steps."""

    def fit(self, data: TrainingData, context: FitContext) -> FitResult:
        return pretended(data, SETUP_S + ROWS_S * len(data.annotations))


@dataclass(frozen=True, kw_only=True)
class Stepwise:
    """So many seconds a row and iteration, and so many others a row and epoch."""

    iterations: Annotated[int, Ge(1)] = 100
    epochs: Annotated[int, Ge(1)] = 30

    def fit(self, data: TrainingData, context: FitContext) -> FitResult:
        rows = len(data.annotations)
        return pretended(data, SETUP_S + rows * (ROWS_S * self.iterations + EPOCH_S * self.epochs))


@dataclass(frozen=True, kw_only=True)
class Batched:
    """A batch of any size takes as long as one fit."""

    iterations: Annotated[int, Ge(1)] = 3

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> Sequence[FitResult]:
        return [pretended(data[0], ROWS_S * len(data[0].annotations), len(data)), *(pretended(d, 0) for d in data[1:])]


@dataclass(frozen=True, kw_only=True)
class Slow:
    """Ten seconds a step, however few items there are."""

    iterations: Annotated[int, Ge(1)] = 8

    def fit(self, data: TrainingData, context: FitContext) -> FitResult:
        return pretended(data, 10.0 * self.iterations)


@dataclass(frozen=True, kw_only=True)
class Endless:
    """Reports, and goes on until it is told to stop."""

    def fit(self, data: TrainingData, context: FitContext) -> FitResult:
        step = 1
        while context.report(step, 0.0):
            CLOCK.now += 0.25
            step += 1
        return pretended(data, 0.0)


@dataclass(frozen=True, kw_only=True)
class Failing:
    def fit(self, data: TrainingData, context: FitContext) -> FitResult:
        raise FitFailed("never")


@dataclass(frozen=True, kw_only=True)
class WantsGold:
    def fit(self, data: TrainingData, context: FitContext) -> FitResult:
        assert context.gold is not None
        assert set(context.gold.item.tolist()) == set(range(data.n_items))
        return pretended(data, ROWS_S * len(data.annotations))


def info_of(model: type, **more: Any) -> ModelInfo:
    return ModelInfo(name="made-up", title="t", model=model, source="s", **more)


@pytest.fixture(scope="module")
def trial() -> TrialData:
    """1,100 items, 3 labels each."""
    base = catalogue.load("digits", {"annotators": 50, "labels_per_item": 3})
    return prepare(base, {"annotators": 50, "labels_per_item": 3}, 0)


@pytest.fixture(autouse=True)
def forget() -> None:
    FITS.clear()


def cost(model: type, trial: TrialData, params: dict[str, Any] | None = None, **more: Any):
    full = {"iterations": 100, "epochs": 30} if model is Stepwise else {}
    return measured_cost(info_of(model, **more), {**full, **(params or {})}, trial, CLOCK)


def test_a_line_in_annotations(trial: TrialData) -> None:
    measured = cost(Steady, trial)
    assert measured.seconds(0) == pytest.approx(SETUP_S)
    assert measured.seconds(10**6) == pytest.approx(SETUP_S + 10**6 * ROWS_S)
    assert {items for items, _ in FITS} == {MOST_ITEMS // 10, MOST_ITEMS // 2, MOST_ITEMS}


@pytest.mark.parametrize("params", [{}, {"iterations": 2000}, {"epochs": 1}, {"iterations": 5, "epochs": FEW_STEPS}])
def test_a_line_in_steps_of_either_kind(trial: TrialData, params: dict[str, int]) -> None:
    whole = {"iterations": 100, "epochs": 30, **params}
    by_row = ROWS_S * whole["iterations"] + EPOCH_S * whole["epochs"]
    measured = cost(Stepwise, trial, params)
    assert measured.seconds(10**5) == pytest.approx(SETUP_S + 10**5 * by_row)


def test_a_batch_is_measured_where_the_model_fits_one(trial: TrialData) -> None:
    measured = cost(Batched, trial, {"iterations": 3})
    assert {replicas for _, replicas in FITS} == {REPLICAS, 1}
    assert measured.seconds(10**6) == pytest.approx(10**6 * ROWS_S / REPLICAS)
    alone = cost(Batched, trial, {"iterations": 3}, deterministic=True)
    assert alone.seconds(10**6) == pytest.approx(10**6 * ROWS_S)


def test_a_slow_model_is_fitted_twice_on_a_tenth(trial: TrialData) -> None:
    measured = cost(Slow, trial, {"iterations": 80})
    assert [items for items, _ in FITS] == [MOST_ITEMS // 10] * 2
    rows = len(trial.training.annotations.of_items(np.arange(MOST_ITEMS // 10, dtype=np.int32)))
    assert measured.seconds(rows) == pytest.approx(10.0 * 80)
    assert measured.seconds(2 * rows) == pytest.approx(2 * 10.0 * 80)


def test_one_that_does_not_end_is_told_to_stop_and_stays_unknown(trial: TrialData) -> None:
    began = CLOCK.now
    assert cost(Endless, trial) is None
    assert SURELY_LONG_S < CLOCK.now - began < 2 * SURELY_LONG_S


def test_one_that_fails_stays_unknown(trial: TrialData) -> None:
    assert cost(Failing, trial) is None


def test_gold_goes_to_models_that_declare_it_and_to_no_other(trial: TrialData) -> None:
    assert cost(WantsGold, trial, needs=frozenset({"gold"})).seconds(10**6) == pytest.approx(10**6 * ROWS_S)
    assert cost(WantsGold, trial) is None


def test_a_single_item_is_enough(trial: TrialData) -> None:
    one = np.zeros(1, dtype=np.int32)
    training = replace(trial.training, annotations=trial.training.annotations.of_items(one))
    training = replace(training, items=trial.training.items.take(one), validation=None)
    measured = cost(Steady, replace(trial, training=training, gold=trial.gold.of_items(one, trial.training.n_items)))
    assert measured.seconds(len(training.annotations)) == pytest.approx(SETUP_S + ROWS_S * len(training.annotations))


@pytest.mark.parametrize("name", ["majority-vote", "dawid-skene", "soft-mv", "ideal"])
def test_real_models_can_be_measured(trial: TrialData, name: str) -> None:
    info = registered.model_info(name)
    measured = measured_cost(info, registered.full_params(name, {}), trial)
    assert measured is not None
    assert 0 < measured.seconds(len(trial.training.annotations)) < np.inf


PLUGIN = '''
"""A model that does not say what it costs."""

from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Ge

from crowdsweep.models.contract import FitResult, ModelInfo


@final
@dataclass(frozen=True, kw_only=True)
class Unpriced:
    iterations: Annotated[int, Ge(1)] = 50
    breaks: bool = False

    def fit(self, data, context):
        FITS.append(data.n_items)
        if self.breaks:
            raise RuntimeError("out of order")
        CLOCK[0] += 1e-3 * self.iterations
        probs = np.full((data.n_items, data.n_classes), 1 / data.n_classes)
        return FitResult(item_probs=probs, label_probs=lambda item, annotator: probs[item])


FITS, CLOCK = [], [0.0]
MODEL = ModelInfo(name="unpriced", title="t", model=Unpriced, source="s")
'''


@pytest.fixture
def unpriced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Adds the model, whose fits move the clock of pilots, and returns what it was fitted on."""
    (tmp_path / "unpriced.py").write_text(PLUGIN)
    monkeypatch.setenv("CROWDSWEEP_PLUGINS", str(tmp_path))
    module = registered.model_info("unpriced").model.fit.__globals__
    monkeypatch.setattr(pilot, "measured_cost", partial(measured_cost, clock=lambda: module["CLOCK"][0]))
    monkeypatch.setattr(Pilots, "_call", _in_this_process)
    return module["FITS"]


def _in_this_process(_: Pilots, function: Any, info: ModelInfo, params: Any, trial: TrialData) -> Any:
    """Calls as the process beside would, where the test can look."""
    return function(info, params, pilot_data(trial))


def test_a_plan_says_what_was_measured_and_what_is_unknown(unpriced: list[int]) -> None:
    broken = {"name": "unpriced", "label": "broken", "params": {"breaks": True}}
    searched = {"name": "unpriced", "label": "searched", "search": {"iterations": {"min": 40, "max": 60}}}
    mapping = {"name": "s", "datasets": ["anesthesia"], "models": ["majority-vote", "unpriced", broken, searched]}
    made = make_plan(parse_sweep({**mapping, "seeds": {"report": 20}}))
    assert unpriced == [20], "nothing is timed before somebody asks; a search tries whether its model predicts"
    summary = plan_summary(made)
    vote, good, bad = summary["cells"]
    assert [row["told_by"] for row in (vote, good, bad, *summary["searches"])] == [
        "formula",
        "pilot",
        "nothing",
        "pilot",
    ]
    assert good["seconds"] == pytest.approx(20 * (0.05 + TRIAL_OVERHEAD_S))
    assert bad["seconds"] is None
    known = [vote["seconds"], good["seconds"], summary["searches"][0]["seconds"]]
    assert summary["estimated_slot_seconds"] == pytest.approx(sum(known))
    words = describe_plan(made).splitlines()
    assert any(line.startswith("anesthesia\tunpriced\t20\t~") and "(measured)" in line for line in words)
    assert "anesthesia\tbroken\t20\tunknown\t" in words
    assert "(measured)" not in next(line for line in words if "majority-vote" in line)
    (total,) = (line for line in words if " on one slot" in line)
    assert total.endswith(" on one slot, and what takes an unknown time (1 of the lines above)")


def test_one_measurement_serves_every_size_of_a_study(unpriced: list[int]) -> None:
    study = {"template": "redundancy", "labels_per_item": [1, 2, 3]}
    mapping = {"name": "s", "datasets": ["anesthesia"], "models": ["unpriced"]}
    plan_summary(make_plan(parse_sweep(mapping)))
    once = len(unpriced)
    unpriced.clear()
    assert len(plan_summary(make_plan(parse_sweep({**mapping, "study": study})))["cells"]) == 4
    assert len(unpriced) == once


def test_the_command_says_so_too(unpriced: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.yaml").write_text(
        "name: s\ndatasets: [anesthesia]\nmodels: [{name: unpriced, params: {breaks: true}}]\n"
    )
    assert run_command_line(["plan", str(tmp_path / "s.yaml")]) == 0
    assert "\tunknown\t" in capsys.readouterr().out


HOW = '''
"""Does to its process what it is told to do."""

import os, signal, sys, time
from dataclasses import dataclass
from typing import final

from crowdsweep.models.contract import FitResult, ModelInfo


@final
@dataclass(frozen=True, kw_only=True)
class Hostile:
    how: str = "exit"
    smoothing: float = 0.0

    def fit(self, data, context):
        match self.how:
            case "exit":
                sys.exit(3)
            case "hard_exit":
                os._exit(3)
            case "parent":
                os.kill(os.getppid(), signal.SIGTERM)
                os.kill(os.getpid(), signal.SIGSEGV)
            case "interrupt":
                raise KeyboardInterrupt
            case "hang":
                signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
                time.sleep(3600)


MODEL = ModelInfo(name="hostile", title="t", model=Hostile, source="s")
'''


@pytest.mark.parametrize("how", ["exit", "hard_exit", "parent", "interrupt", "hang"])
def test_a_plan_is_made_whatever_a_model_does_to_its_process(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hostile.py").write_text(HOW)
    monkeypatch.setenv("CROWDSWEEP_PLUGINS", str(tmp_path))
    monkeypatch.setattr(pilot, "LONGEST_S", 2.0 if how == "hang" else 60.0)
    alone = {"name": "hostile", "label": "alone", "params": {"how": how}}
    searched = {"name": "hostile", "params": {"how": how}, "search": {"smoothing": {"min": 0.0, "max": 1.0}}}
    models = ["majority-vote", alone, searched]
    made = make_plan(parse_sweep({"name": "s", "datasets": ["anesthesia"], "models": models}))
    summary = plan_summary(made)
    assert [row["seconds"] is None for row in summary["cells"]] == [False, True]
    assert [row["seconds"] for row in summary["searches"]] == [None]


def test_the_process_beside_measures_as_this_one_does(trial: TrialData) -> None:
    info = registered.model_info("dawid-skene")
    with closing(Pilots()) as asked:
        measured = asked.cost("key", info, registered.full_params("dawid-skene", {}), lambda: trial)
        assert measured is not None
        assert 0 < measured.seconds(len(trial.training.annotations)) < np.inf
        assert asked.cost("key", info, {}, lambda: pytest.fail("it is known")) == measured
        for name in ("dawid-skene", "wawa"):
            info, params = registered.model_info(name), registered.full_params(name, {})
            assert asked.outputs(info, params, trial) == outputs_of(info, params, trial)
