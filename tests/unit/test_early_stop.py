"""Early stopping in a sweep: what is compared with what hangs on numbers alone, and a stop is part of the record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from driven import by_point, drive, numbers
from fakes import FakeExecutor, Killed, MemoryJournal

from crowdsweep.data import catalogue
from crowdsweep.errors import SweepFileError
from crowdsweep.models import registered
from crowdsweep.record.bar import Bar
from crowdsweep.record.codec import decode, encode
from crowdsweep.record.events import Event, TrialFinished, TrialPlanned
from crowdsweep.record.result import Status, StoppedEarly, TrialResult
from crowdsweep.record.spec import TrialSpec
from crowdsweep.sweep.plan import SEARCH_SEED, Plan, make_plan
from crowdsweep.sweep.plan_summary import plan_summary
from crowdsweep.sweep.search_run import searcher_of
from crowdsweep.sweepfile.read import config_to_mapping, parse_sweep
from crowdsweep.sweepfile.records import SweepConfig
from crowdsweep.trial.learning_curve import CurveSpec
from crowdsweep.trial.runner import run_batch
from crowdsweep.views.terminal.plan import describe_plan

N_POINTS, STEPS, PARALLEL = 12, 5, 2
MODEL = {"name": "soft-mv", "search": {"learning_rate": {"min": 0.01, "max": 1.0}}}
MEDIAN = {"kind": "median", "quantile": 0.5, "grace": 0.3}


def config_of(**changes: Any) -> SweepConfig:
    mapping: dict[str, Any] = {
        "name": "stopped",
        "datasets": [{"name": "digits", "annotators": 20}],
        "models": [MODEL],
        "metric": "dev_accuracy",
        "budget": {"points": N_POINTS},
        "seeds": {"search": 2, "report": 2},
        "sampler": {"kind": "random", "parallel": PARALLEL},
        "early_stop": MEDIAN,
        "pack": 1,
    }
    return parse_sweep({**mapping, **changes})


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(config_of())


def full_curve(spec: TrialSpec) -> list[tuple[int, float]]:
    """Of a fit: the better its learning rate, the higher, and rising. The two seeds rank points the other way round."""
    quality = spec.params["learning_rate"]
    if spec.seed == SEARCH_SEED + 1:
        quality = 1.0 - quality
    return [(10 * step, quality * (0.5 + 0.1 * step)) for step in range(1, STEPS + 1)]


@dataclass
class TrainingExecutor(FakeExecutor):
    """Trials have curves, and end where their bars say."""

    bars: dict[str, Bar] = field(default_factory=dict[str, Bar])

    def poll(self, timeout_s: float) -> Sequence[Event]:
        for batch in self.batches:
            self.bars |= batch.curve_spec.bars
        specs = {spec.key: spec for batch in self.batches for spec in batch.specs}
        return [
            TrialFinished(result=self._trained(specs[event.result.key])) if isinstance(event, TrialFinished) else event
            for event in super().poll(timeout_s)
        ]

    def _trained(self, spec: TrialSpec) -> TrialResult:
        whole, stop, n = full_curve(spec), None, 0
        while stop is None and n < len(whole):
            n += 1
            stop = self.bars[spec.key].stop(whole[:n]) if spec.key in self.bars else None
        return TrialResult(
            key=spec.key,
            status=Status.STOPPED if stop else Status.OK,
            metrics={"dev_accuracy": whole[n - 1][1]},
            curve=whole[:n],
            watched="dev_accuracy",
            iterations=whole[n - 1][0],
            stopped_early=stop,
        )


def train(plan: Plan, journal: MemoryJournal, **how: Any) -> FakeExecutor:
    _, slots = drive(plan, journal, by_nothing, kind=TrainingExecutor, make_searcher=searcher_of, **how)
    return slots


def by_nothing(spec: TrialSpec) -> Mapping[str, float]:
    return {}


def stops(journal: MemoryJournal) -> dict[str, StoppedEarly]:
    return {key: stop for key, result in journal.state.results.items() if (stop := result.stopped_early) is not None}


def expected_stops(plan: Plan, journal: MemoryJournal) -> dict[tuple[int, int], int]:
    """Returns (point, seed) → step, by the rule written out: against the whole fits of points 0 … n - parallel."""
    (search,) = plan.searches
    proposals = journal.state.proposals[search.key]
    ended: dict[tuple[int, int], int] = {}
    for n, proposal in enumerate(proposals):
        for seed in plan.searches[0].seeds:
            curves = [
                full_curve(search.cell.specs([seed], "search", proposals[m].point)[0])
                for m in range(n - PARALLEL + 1)
                if (m, seed) not in ended
            ]
            own = [score for _, score in full_curve(search.cell.specs([seed], "search", proposal.point)[0])]
            if len(curves) < 3:
                continue
            for place in range(1, STEPS - 1):  # 10 steps are grace, and at 50 nothing is left
                there = sorted(curve[place][1] for curve in curves)
                middle = len(there) // 2
                median = there[middle] if len(there) % 2 else (there[middle - 1] + there[middle]) / 2
                if max(own[: place + 1]) < median:
                    ended[n, seed] = 10 * (place + 1)
                    break
    return ended


def test_fits_are_held_against_those_of_points_parallel_numbers_before(plan: Plan) -> None:
    journal = MemoryJournal()
    train(plan, journal, slots=3)
    (search,) = plan.searches
    number_of = {proposal.point["learning_rate"]: proposal.number for proposal in journal.state.proposals[search.key]}
    found = {
        (number_of[spec.params["learning_rate"]], spec.seed): stop.step
        for key, stop in stops(journal).items()
        for spec in [journal.state.specs[key]]
    }
    assert found == expected_stops(plan, journal)
    assert len(found) > N_POINTS // 2
    assert {key for key in stops(journal) if journal.state.specs[key].phase == "report"} == set()


def test_a_stopped_point_is_worth_what_it_had(plan: Plan) -> None:
    journal = MemoryJournal()
    train(plan, journal)
    (search,) = plan.searches
    for proposal in journal.state.proposals[search.key]:
        specs = [
            replace(spec, early_stop=search.key) for spec in search.cell.specs(search.seeds, "search", proposal.point)
        ]
        own = [journal.state.results[spec.key] for spec in specs]
        mean = sum(result.curve[-1][1] for result in own) / len(own)
        assert journal.state.values[search.key][proposal.number] == pytest.approx(mean)


@pytest.mark.parametrize("kind", ["random", "tpe"])
def test_stops_do_not_depend_on_slots_timing_packs_or_a_driver_that_dies(kind: str) -> None:
    plan = make_plan(config_of(sampler={"kind": kind, "parallel": PARALLEL}))
    reference = MemoryJournal()
    train(plan, reference, slots=1)
    assert stops(reference)
    packed = make_plan(config_of(sampler={"kind": kind, "parallel": PARALLEL}, pack=20))
    for disorder in range(3):
        other = MemoryJournal()
        train(packed if disorder else plan, other, disorder=disorder, slots=5)
        assert (by_point(other), numbers(other), stops(other)) == (
            by_point(reference),
            numbers(reference),
            stops(reference),
        )
    for dies_after in range(0, len(reference.state.results), 3):
        journal = MemoryJournal()
        with pytest.raises(Killed):
            train(plan, journal, slots=4, disorder=dies_after, die_after=dies_after)
        resumed = MemoryJournal(journal.events)
        before = set(resumed.state.results)
        slots = train(plan, resumed, disorder=dies_after + 1)
        assert before.isdisjoint(slots.ran), "a finished trial was run again"
        assert (by_point(resumed), numbers(resumed), stops(resumed)) == (
            by_point(reference),
            numbers(reference),
            stops(reference),
        )


def test_a_lost_result_comes_back_with_the_same_stop(plan: Plan) -> None:
    """Whatever row the journal lost, its trial is compared with the same fits again."""
    reference = MemoryJournal()
    train(plan, reference)
    for lost in list(stops(reference))[:3]:
        rows = [e for e in reference.events if not (isinstance(e, TrialFinished) and e.result.key == lost)]
        journal = MemoryJournal(rows)
        assert train(plan, journal).ran == [lost]
        assert stops(journal) == stops(reference)


def test_its_trials_are_of_that_search_alone(plan: Plan) -> None:
    """A fit that was stopped is no fit of a search without early stopping, or with another rule."""
    journal = MemoryJournal()
    train(plan, journal)
    whole = make_plan(config_of(early_stop={"kind": "none"}))
    other = make_plan(config_of(early_stop={**MEDIAN, "quantile": 0.4}))
    assert len({each.searches[0].key for each in (plan, whole, other)}) == 3
    train(whole, journal)
    state = journal.state
    searched = {key for key, spec in state.specs.items() if spec.phase == "search"}
    assert len(searched) == 2 * 2 * N_POINTS
    assert not any(state.results[key].stopped_early for key in searched if not state.specs[key].early_stop)


def test_a_stop_is_a_row_of_the_record() -> None:
    stop = StoppedEarly(step=20, best=0.25, bar=0.5, n_rivals=7)
    event = TrialFinished(result=TrialResult(key="a" * 16, status=Status.STOPPED, stopped_early=stop))
    assert decode(encode(event)) == event
    whole = TrialFinished(result=TrialResult(key="a" * 16, status=Status.OK))
    assert "stopped_early" not in encode(whole)


def test_the_key_of_a_trial_names_the_search_only_where_it_may_be_stopped(plan: Plan) -> None:
    spec = plan.searches[0].cell.specs([1], "search", {"learning_rate": 0.5})[0]
    stoppable = replace(spec, early_stop="b" * 16)
    assert stoppable.key != spec.key
    assert stoppable.cell_key == spec.cell_key
    assert decode(encode(TrialPlanned(spec=stoppable))) == TrialPlanned(spec=stoppable)
    assert "early_stop" not in encode(TrialPlanned(spec=spec))


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"budget": {"points": 30}}, True),
        ({"pack": 7}, True),
        ({"early_stop": {**MEDIAN, "grace": 0.4}}, False),
        ({"report_every": 5}, False),
        ({"sampler": {"kind": "random", "parallel": 3}}, False),
    ],
)
def test_what_decides_the_stops_decides_which_search_it_is(plan: Plan, change: dict[str, Any], same: bool) -> None:
    assert (make_plan(config_of(**change)).searches[0].key == plan.searches[0].key) is same


def test_a_plan_says_what_early_stopping_does(plan: Plan) -> None:
    words = "fits stopped below the median of earlier points, from 30 % of their length on"
    assert plan_summary(plan)["searches"][0]["early_stop"] == words
    assert words in describe_plan(plan)
    assert plan.notes == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"models": ["soft-mv"]}, "nothing is searched"),
        ({"metric": "heldout_loglik", "models": [{"name": "dawid-skene", "search": "default"}]},
         "heldout_loglik is not scored while a fit goes on; dev metrics are"),
        ({"budget": {"points": 4}},
         "no search has as many points: the first that is compared is number 5: sampler.parallel + 3"),
    ],
)  # fmt: skip
def test_a_plan_says_where_it_does_nothing(changes: dict[str, Any], why: str) -> None:
    assert make_plan(config_of(**changes)).notes == [f"early_stop: median does nothing in this sweep: {why}"]


def test_its_settings_are_checked_and_kept() -> None:
    assert config_to_mapping(config_of())["early_stop"] == MEDIAN
    assert config_to_mapping(config_of(early_stop={"kind": "none"}))["early_stop"] == {"kind": "none"}
    assert parse_sweep(config_to_mapping(config_of())) == config_of()
    for wrong, said in (
        ({"kind": "median", "quantile": 1.0}, "early_stop.quantile: expected number, above 0, below 1"),
        ({"kind": "median", "grace": -0.1}, "early_stop.grace: expected number, at least 0, below 1"),
        ({"kind": "wilcoxon", "grace": 0.1}, "early_stop.grace: expected it only with kind: median"),
        ({"quantile": 0.5}, "early_stop.quantile: expected it only with kind: median, got kind: none"),
    ):
        with pytest.raises(SweepFileError, match=said):
            config_of(early_stop=wrong)


def spec_of(seed: int, epochs: int = 12) -> TrialSpec:
    base = catalogue.load("digits", {"annotators": 20})
    params = {"epochs": epochs, "hidden": [8], "learning_rate": 0.003, "steps": 0, "patience": None}
    return TrialSpec(
        model="soft-mv",
        params=registered.full_params("soft-mv", params),
        model_version=1,
        dataset="digits",
        dataset_params={"annotators": 20},
        fingerprint=base.fingerprint,
        seed=seed,
        early_stop="c" * 16,
    )


def test_a_fit_ends_in_its_slot_with_the_numbers_that_it_has_then() -> None:
    """One seed of three has a bar: the others do not notice."""
    base, specs = catalogue.load("digits", {"annotators": 20}), [spec_of(seed) for seed in range(3)]
    curve_spec = CurveSpec(metric="dev_accuracy", every=2)
    whole = run_batch(specs, base, "cpu", lambda _: True, curve_spec)
    bar = Bar(steps=[5], values=[1.0], end=11, higher_is_better=True, n_rivals=3)
    some = run_batch(specs, base, "cpu", lambda _: True, replace(curve_spec, bars={specs[1].key: bar}))
    stopped = some[1]
    assert stopped.status is Status.STOPPED
    assert stopped.stopped_early is not None
    assert (stopped.stopped_early.step, stopped.iterations, stopped.stopped_early.n_rivals) == (6, 6, 3)
    assert stopped.stopped_early.best == max(score for _, score in stopped.curve)
    assert list(stopped.curve) == list(whole[1].curve)[:3]
    short = run_batch([spec_of(1, epochs=6)], base, "cpu", lambda _: True, curve_spec)[0]
    assert dict(stopped.metrics) == pytest.approx(dict(short.metrics), rel=1e-6)
    for place in (0, 2):
        assert some[place].status is Status.OK
        assert some[place].stopped_early is None
        assert dict(some[place].metrics) == pytest.approx(dict(whole[place].metrics), rel=1e-6)
