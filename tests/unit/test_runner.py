"""One batch in this process: failures stay with the guilty, metrics appear where they apply, interrupts pass."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from written_models import COUNTING, PREDICTING, VOTES, dataset, silent, specs_of

from crowdsweep.record.events import TrialProgressed
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.record.spec import canonical_json
from crowdsweep.seeds import SeedStream
from crowdsweep.trial import runner
from crowdsweep.trial.runner import run_batch, thinned

# In a batch one poisoned replica takes the others with it, as an exception in stacked arithmetic does.
POISONED = (
    VOTES
    + """
@final
@dataclass(frozen=True, kw_only=True)
class Probe:
    poison: tuple[int, ...] = ()

    def fit_batch(self, data, contexts):
        CALLS.append([context.seeds.seed for context in contexts])
        for context in contexts:
            if context.seeds.seed in self.poison:
                raise ZeroDivisionError(f"seed {context.seeds.seed} is poisoned")
        return [votes(part, context) for part, context in zip(data, contexts)]
"""
)


DIVERGING = (
    VOTES
    + """
@final
@dataclass(frozen=True, kw_only=True)
class Probe:
    where: str = "objective"

    def fit_batch(self, data, contexts):
        CALLS.append(len(data))
        results = [votes(part, context) for part, context in zip(data, contexts)]
        bad = [i for i, context in enumerate(contexts) if context.seeds.seed == 1]
        for i in bad:
            if self.where == "objective":
                results[i] = replace(results[i], objective=np.array([0.0, np.nan]))
            if self.where == "probs":
                results[i] = replace(results[i], item_probs=np.full_like(results[i].item_probs, np.nan))
            if self.where == "confusion":
                matrices = np.full((data[i].n_annotators, data[i].n_classes, data[i].n_classes), np.nan)
                results[i] = replace(results[i], annotators=ConfusionMatrices(matrices=matrices))
            if self.where == "label_probs":
                results[i] = replace(results[i], label_probs=lambda item, annotator: np.full((len(item), 2), np.nan))
            if self.where == "raising":
                results[i] = replace(results[i], label_probs=lambda item, annotator: 1 / 0)
            if self.where == "predictor":
                results[i] = replace(results[i], predictor=Broken())
        return results

class Broken:
    uses = ("plain",)
    def predict(self, items, use):
        return np.zeros((1, 1))
"""
)


def comparable(result: TrialResult) -> TrialResult:
    return replace(result, wall_s=0.0, batch_wall_s=0.0, batch_size=1, peak_bytes=0)


def test_the_guilty_fail_alone_and_the_others_get_what_they_would_have_had(add_model: Callable[..., list[Any]]) -> None:
    calls = add_model("probe-poisoned", POISONED)
    base = dataset()
    specs = specs_of("probe-poisoned", base, params={"poison": [2, 5]})
    results = run_batch(specs, base, "cpu", silent)
    assert [result.key for result in results] == [spec.key for spec in specs]
    assert [result.status for result in results] == ["failed" if seed in (2, 5) else "ok" for seed in range(8)]
    failure = results[2].failure
    assert failure is not None
    assert (failure.kind, failure.message) == ("ZeroDivisionError", "seed 2 is poisoned")
    assert "fit_batch" in failure.traceback
    assert calls[0] == list(range(8))
    assert [2] in calls
    alone = [run_batch([spec], base, "cpu", silent)[0] for spec in specs if spec.seed not in (2, 5)]
    together = [result for result in results if result.status is Status.OK]
    assert [comparable(result) for result in together] == [comparable(result) for result in alone]


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("objective", "NonFiniteObjective"),
        ("probs", "FitFailed"),
        ("confusion", "FitFailed"),
        ("label_probs", "NonFiniteMetric"),
        ("raising", "ZeroDivisionError"),
        ("predictor", "FitFailed"),
    ],
)
def test_a_replica_that_goes_bad_fails_alone_without_a_second_fit(
    add_model: Callable[..., list[Any]], where: str, kind: str
) -> None:
    calls = add_model(f"probe-diverging-{where.replace('_', '-')}", DIVERGING)
    base = dataset()
    specs = specs_of(f"probe-diverging-{where.replace('_', '-')}", base, params={"where": where}, heldout_fraction=0.2)
    results = run_batch(specs, base, "cpu", silent)
    assert [result.status for result in results] == ["ok", "failed", *["ok"] * 6]
    assert results[1].failure is not None
    assert results[1].failure.kind == kind
    assert results[1].metrics == {}
    assert calls == [8]


def test_a_deterministic_model_is_fitted_once_where_the_seed_changes_nothing(
    add_model: Callable[..., list[Any]],
) -> None:
    calls = add_model("probe-once", COUNTING, "deterministic=True")
    base = dataset()
    reports: list[TrialProgressed] = []
    specs = specs_of("probe-once", base)
    results = run_batch(specs, base, "cpu", lambda event: reports.append(event) is None)
    assert calls == [0]
    assert len({result.key for result in results}) == 8
    assert len({canonical_json(dict(result.metrics)) for result in results}) == 1
    assert reports == [TrialProgressed(key=spec.key, step=1, objective=0.5) for spec in specs]
    calls.clear()
    run_batch(specs_of("probe-once", base, heldout_fraction=0.2), base, "cpu", silent)
    assert calls == list(range(8))
    calls.clear()
    run_batch(specs_of("probe-once", base, dataset_params={"redundancy": 1}), base, "cpu", silent)
    assert calls == list(range(8))


@pytest.mark.parametrize(
    ("need", "lacking", "says"),
    [
        ("features", {"features": False}, "needs features of the training items"),
        ("text", {}, "needs text of the training items"),
        ("annotators", {"anonymous": True}, "needs known annotators"),
        ("gold", {"gold": False}, "needs gold of the training items"),
    ],
)
def test_data_without_what_the_model_needs_fail_the_trial(
    add_model: Callable[..., list[Any]], need: str, lacking: dict[str, bool], says: str
) -> None:
    add_model(f"probe-needs-{need}", COUNTING, f"needs=frozenset({{{need!r}}})")
    base = dataset(**lacking)
    (result,) = run_batch(specs_of(f"probe-needs-{need}", base, range(1)), base, "cpu", silent)
    assert result.failure is not None
    assert result.failure.kind == "DataError"
    assert says in result.failure.message
    assert "probe" in result.failure.message


def test_gold_is_handed_only_to_who_declares_the_need(add_model: Callable[..., list[Any]]) -> None:
    calls = add_model("probe-gold", PREDICTING, "needs=frozenset({'gold'})")
    base = dataset()
    run_batch(specs_of("probe-gold", base, range(1)), base, "cpu", silent)
    assert [len(gold) for gold in calls] == [6]  # of the training items only


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_passes_through(add_model: Callable[..., list[Any]], stop: type[BaseException]) -> None:
    add_model(f"probe-interrupted-{stop.__name__.lower()}", COUNTING)
    base = dataset()

    def interrupt(event: TrialProgressed) -> bool:
        raise stop

    with pytest.raises(stop):
        run_batch(specs_of(f"probe-interrupted-{stop.__name__.lower()}", base), base, "cpu", interrupt)


def test_our_own_bugs_still_raise(add_model: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    add_model("probe-bug", COUNTING)
    base = dataset()
    monkeypatch.setattr(runner, "score", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_batch(specs_of("probe-bug", base), base, "cpu", silent)


def test_a_model_that_this_machine_lacks_fails_its_trials(add_model: Callable[..., list[Any]]) -> None:
    add_model("probe-here", COUNTING)
    base = dataset()
    absent = [replace(spec, model="probe-elsewhere") for spec in specs_of("probe-here", base, range(2))]
    results = run_batch([*absent, *specs_of("probe-here", base, range(1))], base, "cpu", silent)
    assert [result.status for result in results] == ["failed", "failed", "ok"]
    assert results[0].failure is not None
    assert "did you mean 'probe-here'" in results[0].failure.message


def test_cost_is_shared_out(add_model: Callable[..., list[Any]]) -> None:
    add_model("probe-cost", COUNTING)
    base = dataset()
    results = run_batch(specs_of("probe-cost", base), base, "cpu", silent)
    batch_wall_s = results[0].batch_wall_s
    assert all(result.batch_wall_s == batch_wall_s for result in results)
    assert all(result.batch_size == 8 for result in results)
    assert 0 < sum(result.wall_s for result in results) <= batch_wall_s
    assert all(2**24 < result.peak_bytes < 2**36 for result in results)
    assert all(result.device == "cpu" and result.host for result in results)


def test_batches_mix_points_and_keep_their_order(add_model: Callable[..., list[Any]]) -> None:
    calls = add_model("probe-mixed", POISONED)
    base = dataset()
    first = specs_of("probe-mixed", base, range(3))
    second = specs_of("probe-mixed", base, range(3), params={"poison": [7]})
    mixed = [first[0], second[0], first[1], second[1], first[2], second[2]]
    results = run_batch(mixed, base, "cpu", silent)
    assert [result.key for result in results] == [spec.key for spec in mixed]
    assert calls == [[0, 1, 2], [0, 1, 2]]


def test_long_objectives_are_thinned_with_both_ends_kept() -> None:
    values = np.arange(12_345.0)
    kept = thinned(values)
    assert len(kept) == 500
    assert (kept[0], kept[-1]) == (0.0, 12_344.0)
    assert kept == sorted(set(kept))
    assert thinned(np.arange(500.0)) == list(range(500))
    assert thinned(np.empty(0)) == []


def test_seeds_of_a_fit_are_those_of_the_trial(add_model: Callable[..., list[Any]]) -> None:
    calls = add_model("probe-seeds", COUNTING)
    base = dataset()
    run_batch(specs_of("probe-seeds", base, range(3, 5)), base, "cpu", silent)
    assert calls == [3, 4]
    assert SeedStream(3).child("fit").integer("x") != SeedStream(3).child("crowd").integer("x")
