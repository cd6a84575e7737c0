"""Points of a search in one batch: which trials may share it, and that none is disturbed by the others."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from driven import config_of, drive, numbers
from fakes import FakeClock, Killed, MemoryJournal
from written_models import VOTES, dataset, silent, specs_of

from crowdsweep.data import splits
from crowdsweep.data.dataset import CrowdDataset, TrialData
from crowdsweep.models import registered
from crowdsweep.record.bar import Bar
from crowdsweep.record.events import TrialProgressed
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.record.spec import TrialSpec
from crowdsweep.sweep.plan import make_plan
from crowdsweep.sweep.queues import Waiting
from crowdsweep.sweep.search_run import searcher_of
from crowdsweep.sweepfile.records import Resources
from crowdsweep.trial import runner
from crowdsweep.trial.learning_curve import CurveSpec
from crowdsweep.trial.runner import run_batch

CPU, CURVE = Resources(), CurveSpec(metric="dev_accuracy", every=1)

# `share` may differ in a batch and `width` may not. A poisoned fit takes its batch with it.
PROBE = (
    VOTES
    + """
@final
@dataclass(frozen=True, kw_only=True)
class Probe:
    share: float = 0.5
    width: int = 1
    poison: int = -1

    @staticmethod
    def fit_points(models, data, contexts):
        CALLS.append([(model.share, context.seeds.seed) for model, context in zip(models, contexts)])
        if any(model.poison == context.seeds.seed for model, context in zip(models, contexts)):
            raise ZeroDivisionError("poisoned")
        for model, context in zip(models, contexts):
            context.report(1, model.share)
        return [replace(votes(*one), objective=np.full(3, model.share)) for model, *one in zip(models, data, contexts)]
"""
)
VARIES = 'predicts_labels=True, varies=frozenset({"share", "poison"})'


@pytest.fixture
def calls(add_model: Callable[..., list[Any]]) -> list[Any]:
    """The calls of a model that fits points side by side."""
    return add_model("probe-points", PROBE, VARIES)


def trials(n_seeds: int, **params: Any) -> list[TrialSpec]:
    return specs_of("probe-points", dataset(), range(n_seeds), params=params, phase="search")


def taken(waiting: Waiting, idle: int = 1) -> list[list[float]]:
    """Returns the shares of each batch, until nothing waits."""
    batches: list[list[float]] = []
    while (batch := waiting.take(CPU, idle)) is not None:
        batches.append([spec.params["share"] for spec in batch[0]])
    return batches


@pytest.mark.usefixtures("calls")
def test_points_fill_a_batch_as_long_as_all_their_trials_fit() -> None:
    waiting = Waiting(pack=8)
    for number in range(5):
        waiting.add(trials(3, share=number), CURVE, CPU)
    assert taken(waiting) == [[0, 0, 0, 1, 1, 1], [2, 2, 2, 3, 3, 3], [4, 4, 4]]
    assert not waiting


@pytest.mark.usefixtures("calls")
def test_points_are_spread_over_idle_slots() -> None:
    waiting = Waiting(pack=20)
    for number in range(6):
        waiting.add(trials(2, share=number), CURVE, CPU)
    assert taken(waiting, idle=3)[0] == [0, 0, 1, 1]


@pytest.mark.usefixtures("calls")
def test_who_shares_no_batch() -> None:
    first = trials(2, share=0)
    others: dict[str, tuple[list[TrialSpec], CurveSpec, bool]] = {
        "another setting that may not differ": (trials(2, share=1, width=2), CURVE, False),
        "another dataset": ([replace(spec, fingerprint="another") for spec in trials(2, share=1)], CURVE, False),
        "other data": ([replace(spec, dataset_params={"redundancy": 1}) for spec in trials(2, share=1)], CURVE, False),
        "another learning curve": (trials(2, share=1), CurveSpec(metric="dev_accuracy", every=5), False),
        "a search by costs": (trials(2, share=1), CURVE, True),
    }
    for why, (specs, curve, whole) in others.items():
        waiting = Waiting(pack=20)
        waiting.add(first, CURVE, CPU)
        waiting.add(specs, curve, CPU, whole=whole)
        assert taken(waiting) == [[0, 0], [1, 1]], why


@pytest.mark.parametrize(("model", "phase"), [("dawid-skene", "search"), ("cmm", "report")])
def test_a_model_that_varies_nothing_and_the_report_share_no_batch(model: str, phase: str) -> None:
    waiting = Waiting(pack=20)
    for smoothing in (0.1, 0.2):
        specs = specs_of(model, dataset(), range(2), params={"smoothing": smoothing}, phase=phase)
        waiting.add(specs, CURVE, CPU)
    assert [len(waiting.take(CPU, 1)[0]) for _ in range(2)] == [2, 2]  # pyright: ignore[reportOptionalSubscript]


@pytest.mark.usefixtures("calls")
def test_each_trial_keeps_its_bar() -> None:
    waiting, specs = Waiting(pack=20), [trials(2, share=number) for number in range(2)]
    bars = {spec.key: bar(0.1 * number) for number, spec in enumerate([*specs[0], *specs[1]])}
    for own in specs:
        waiting.add(own, replace(CURVE, bars={spec.key: bars[spec.key] for spec in own}), CPU)
    batch = waiting.take(CPU, 1)
    assert batch is not None
    assert batch[1].bars == bars


def bar(value: float) -> Bar:
    """A bar from step 2 on."""
    return Bar(steps=[2], values=[value], end=100, higher_is_better=True, n_rivals=3)


def comparable(result: TrialResult) -> TrialResult:
    return replace(result, wall_s=0.0, batch_wall_s=0.0, batch_size=1, peak_bytes=0)


def alone(spec: TrialSpec) -> TrialResult:
    return comparable(run_batch([spec], dataset(), "cpu", silent, CURVE)[0])


def test_a_batch_of_points_is_one_fit_and_each_seeds_data_are_made_once(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, made = splits.prepare, list[int]()

    def counted(base: CrowdDataset, params: Mapping[str, Any], seed: int, heldout: float) -> TrialData:
        made.append(seed)
        return prepare(base, params, seed, heldout)

    monkeypatch.setattr(splits, "prepare", counted)
    specs = [
        replace(spec, dataset_params={"redundancy": 1}) for share in (0.1, 0.2, 0.3) for spec in trials(2, share=share)
    ]
    reports: list[TrialProgressed] = []
    results = run_batch(specs, dataset(), "cpu", lambda event: reports.append(event) is None)
    assert calls == [[(share, seed) for share in (0.1, 0.2, 0.3) for seed in (0, 1)]]
    assert made == [0, 1]
    assert [result.key for result in results] == [spec.key for spec in specs]
    assert [result.objective[0] for result in results] == [0.1, 0.1, 0.2, 0.2, 0.3, 0.3]
    assert [event.key for event in reports] == [spec.key for spec in specs]


def test_what_may_not_differ_parts_a_batch(calls: list[Any]) -> None:
    run_batch([*trials(1, share=0.1), *trials(1, share=0.2, width=2)], dataset(), "cpu", silent)
    assert calls == [[(0.1, 0)], [(0.2, 0)]]


def test_a_point_that_fails_fails_alone(calls: list[Any]) -> None:
    specs = [*trials(3, share=0.1), *trials(3, share=0.2, poison=1), *trials(3, share=0.3)]
    results = run_batch(specs, dataset(), "cpu", silent, CURVE)
    assert [spec.key for spec, one in zip(specs, results, strict=True) if one.failure] == [specs[4].key]
    assert len(calls[0]) == 9
    for place in (0, 3, 5, 8):
        assert comparable(results[place]) == alone(specs[place])


@pytest.mark.usefixtures("calls")
def test_a_point_whose_settings_the_model_refuses_fails_alone() -> None:
    specs = [*trials(2, share=0.1), *trials(2, share=0.2)]
    refused = [replace(spec, params={**spec.params, "share": "much"}) for spec in specs[2:]]
    results = run_batch([*specs[:2], *refused], dataset(), "cpu", silent)
    assert [result.status for result in results] == ["ok", "ok", "failed", "failed"]
    assert results[3].failure is not None
    assert "share" in results[3].failure.message


@pytest.mark.parametrize(
    ("cost", "shares"),
    [
        ("lambda shape, params: params['share']", [0.25, 0.75]),
        ("lambda shape, params: -1.0", [0.5, 0.5]),
        ("lambda shape, params: 1 / 0", [0.5, 0.5]),
        ("None", [0.5, 0.5]),
    ],
)
def test_points_share_the_time_by_what_they_cost(
    add_model: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch, cost: str, shares: list[float]
) -> None:
    """Where the model's formula says so; equally where it is of no use."""
    name, clock = f"probe-cost-{len(cost)}", FakeClock()
    add_model(name, PROBE, f"{VARIES})\nMODEL = replace(MODEL, cost={cost}")
    monkeypatch.setattr(runner, "time", SimpleNamespace(perf_counter=clock))

    def takes_a_second(_: TrialProgressed) -> bool:
        clock.now += 1.0
        return True

    specs = [spec for share in (0.2, 0.6) for spec in specs_of(name, dataset(), range(1), params={"share": share})]
    results = run_batch(specs, dataset(), "cpu", takes_a_second)
    assert [result.wall_s for result in results] == pytest.approx([2.0 * share for share in shares])


SHORT = {"hidden": [4], "restarts": 2, "iterations": 6, "steps": 0, "network": "mlp"}


@pytest.mark.parametrize(
    "model", ["cmm", *(pytest.param(name, marks=pytest.mark.long) for name in ("cmm-individual", "dl-em"))]
)
def test_no_point_is_disturbed_by_one_that_is_stopped(model: str) -> None:
    """By its bar, or by whoever listens; what is left of both is what is left of them alone."""
    points = [{"smoothing": 0.1}, {"learning_rate": 0.01}, {"iterations": 9}, {"tolerance": 0.1}]
    base, known = dataset(), registered.parameters(model)
    if "groups" in known:
        points[0]["groups"] = 5
    specs = [spec for point in points for spec in specs_of(model, base, range(2), params={**SHORT, **point})]
    barred, dropped = specs[2].key, specs[5].key
    curve = replace(CURVE, bars={barred: bar(2.0)})

    def listens(event: TrialProgressed) -> bool:
        return event.key != dropped or event.step < 3

    together = run_batch(specs, base, "cpu", listens, curve)
    assert together[2].stopped_early is not None
    assert {result.status for place, result in enumerate(together) if place not in (2, 5)} == {Status.OK}
    assert (together[2].iterations, together[5].iterations) == (2, 3)
    assert {result.batch_size for result in together} == {8}
    for spec, result in zip(specs, together, strict=True):
        (own,) = run_batch([spec], base, "cpu", listens, curve)
        assert comparable(result) == comparable(own)


def by_share(spec: TrialSpec) -> dict[str, float]:
    return {"heldout_loglik": spec.params["share"] - 0.01 * (spec.seed % 7)}


@pytest.mark.usefixtures("calls")
def test_a_sweep_packs_the_points_of_a_search_and_no_number_depends_on_it() -> None:
    """Nor on a driver that dies in the middle of a batch of several points."""
    search = {"name": "probe-points", "search": {"share": {"min": 0.0, "max": 1.0}}}
    found: dict[int, dict[str, dict[str, float]]] = {}
    for pack, sizes in ((1, {1}), (3, {3}), (12, {6, 12})):
        plan, journal = make_plan(config_of(models=[search], sampler={"kind": "random"}, pack=pack)), MemoryJournal()
        run = partial(drive, plan, score=by_share, slots=1, make_searcher=searcher_of)
        with pytest.raises(Killed):
            run(journal, die_after=17)
        written = len(journal.state.results)
        resumed = MemoryJournal(journal.events)
        outcome, slots = run(resumed)
        assert 12 <= written < 18
        assert (outcome.status, outcome.ran) == ("done", outcome.planned - written)
        assert {len(batch.specs) for batch in slots.batches[:-1] if batch.specs[0].phase == "search"} <= sizes
        found[pack] = numbers(resumed)
    assert found[1] == found[3] == found[12]
