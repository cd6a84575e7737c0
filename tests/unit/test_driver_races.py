"""The event loop and points that are raced: not all get all their seeds."""

from collections import Counter
from collections.abc import Mapping

import pytest
from driven import RACING, by_point, by_seed, config_of, drive, numbers
from fakes import Killed, MemoryJournal

from crowdsweep.record.events import (
    Event,
)
from crowdsweep.record.spec import TrialSpec
from crowdsweep.sweep.plan import SEARCH_SEED, Plan, make_plan


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(config_of())


@pytest.fixture(scope="module")
def raced() -> Plan:
    return make_plan(config_of(**RACING))


def searched(journal: MemoryJournal, plan: Plan) -> list[list[int]]:
    """The search seeds that each point of the only search ran on, counted from the first."""
    (search,) = plan.searches
    ran: dict[float, list[int]] = {}
    for key in journal.state.results:
        spec = journal.state.specs[key]
        if spec.phase == "search":
            ran.setdefault(spec.params["smoothing"], []).append(spec.seed - SEARCH_SEED)
    return [sorted(ran[proposal.point["smoothing"]]) for proposal in journal.state.proposals[search.key]]


def losses(plan: Plan, journal: MemoryJournal) -> list[float]:
    (search,) = plan.searches
    return [(proposal.point["smoothing"] - 0.3) ** 2 for proposal in journal.state.proposals[search.key]]


def test_pruned_points_are_not_run_on_all_seeds(raced: Plan) -> None:
    """`by_seed` differs between points by the same at every seed, so a point is pruned if and only if it is worse
    than the best that it is held against: those at least four numbers earlier, all seeds of which were run."""
    journal = MemoryJournal()
    outcome, slots = drive(raced, journal)
    seeds, loss = searched(journal, raced), losses(raced, journal)
    whole, stopped = list(range(8)), list(range(4))
    expected: list[list[int]] = []
    for number in range(10):
        rivals = [loss[rival] for rival in range(number - 3) if expected[rival] == whole]
        expected.append(stopped if rivals and loss[number] > min(rivals) else whole)
    assert seeds == expected
    assert stopped in seeds
    assert outcome.status == "done"
    assert Counter(slots.ran) == dict.fromkeys(journal.state.specs, 1)
    assert outcome.planned == outcome.finished == sum(map(len, seeds)) + 2 * 5 + 2 * 5


def test_a_stopped_point_is_worth_the_best_less_what_it_is_behind_on_the_same_seeds(raced: Plan) -> None:
    """The first seeds are easier by 10: a point that skipped the others must not look better for it."""

    def score(spec: TrialSpec) -> Mapping[str, float]:
        easier = 10.0 if spec.seed - SEARCH_SEED < 4 else 0.0
        return {"heldout_loglik": by_seed(spec)["heldout_loglik"] + easier}

    journal = MemoryJournal()
    drive(raced, journal, score)
    (search,) = raced.searches
    values, loss = journal.state.values[search.key], losses(raced, journal)
    mean = sum(0.001 * ((SEARCH_SEED + seed) % 7) for seed in range(8)) / 8 + 5.0
    assert [values[number] for number in range(10)] == pytest.approx([mean - part for part in loss])
    assert journal.state.selected[search.key][0] == loss.index(min(loss))


@pytest.mark.parametrize(("kind", "slots"), [("tpe", 1), ("tpe", 3), ("random", 50)])
def test_races_do_not_depend_on_slots_timing_or_a_driver_that_dies(kind: str, slots: int) -> None:
    plan = make_plan(config_of(**RACING, sampler={"kind": kind}))
    reference = MemoryJournal()
    drive(plan, reference)
    assert list(range(4)) in searched(reference, plan)
    for disorder in range(3):
        other = MemoryJournal()
        drive(plan, other, disorder=disorder, slots=slots)
        assert (by_point(other), numbers(other)) == (by_point(reference), numbers(reference))
    for dies_after in range(0, len(reference.state.results), 11):
        journal = MemoryJournal()
        with pytest.raises(Killed):
            drive(plan, journal, slots=slots, disorder=dies_after, die_after=dies_after)
        resumed = MemoryJournal(journal.events)
        before = set(resumed.state.results)
        outcome, again = drive(plan, resumed, disorder=dies_after + 1)
        assert before.isdisjoint(again.ran), "a finished trial was run again"
        assert (by_point(resumed), numbers(resumed)) == (by_point(reference), numbers(reference))
        assert outcome.planned == outcome.finished == len(reference.state.results)


def test_a_point_that_fails_in_its_first_seeds_gets_no_more(raced: Plan) -> None:
    def poisoned(spec: TrialSpec) -> Mapping[str, float]:
        if spec.phase == "search" and spec.params["smoothing"] < 0.3 and spec.seed == SEARCH_SEED:
            raise ValueError("boom")
        return by_seed(spec)

    plan = make_plan(config_of(**RACING, budget={"points": 10, "failed_trials": 1.0}))
    journal = MemoryJournal()
    drive(plan, journal, poisoned)
    (search,) = plan.searches
    failed = [number for number, value in journal.state.values[search.key].items() if value is None]
    assert failed
    assert all(searched(journal, plan)[number] == list(range(4)) for number in failed)


def test_trials_that_were_run_for_another_metric_fail_a_point_and_not_the_sweep() -> None:
    """The metric of the sweep file was changed: the first points are asked for again, and lack it."""
    events: list[Event] = []
    drive(make_plan(config_of(metric="train_kl")), MemoryJournal(events), lambda spec: {"train_kl": 1.0})
    changed = make_plan(config_of(metric="train_js"))
    journal = MemoryJournal(events)
    outcome, _ = drive(changed, journal, lambda spec: {"train_js": 1.0})
    assert outcome.status == "done"
    values = journal.state.values[changed.searches[0].key]
    assert values[0] is None
    assert 1.0 in values.values()
