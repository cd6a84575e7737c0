"""Searches of several objectives: the sweep file, the driver that goes on, the record, what is shown of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driven import by_point, config_of, decisions, drive
from fakes import FakeExecutor, HistorySearcher, Killed, MemoryJournal

from crowdsweep.analysis.sweep import analysed
from crowdsweep.analysis.trade_offs import front_table
from crowdsweep.errors import BadInput, CrowdsweepError
from crowdsweep.metrics.dominance import on_front
from crowdsweep.record.codec import decode, encode
from crowdsweep.record.events import Event, PointScored, TrialFinished
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.spec import TrialSpec
from crowdsweep.record.store_uri import Store
from crowdsweep.sweep.plan import Plan, make_plan
from crowdsweep.sweep.search_run import searcher_of
from crowdsweep.sweepfile.read import config_to_mapping, parse_sweep
from crowdsweep.units import show_seconds
from crowdsweep.views.figures.of_report import figures_of
from crowdsweep.views.page.page import render_page
from crowdsweep.views.terminal.plan import describe_plan
from crowdsweep.views.terminal.results import shown_results

SEVERAL: dict[str, Any] = {
    "metric": ["heldout_loglik", "seconds", "train_kl"],
    "models": ["majority-vote", {"name": "dawid-skene", "search": {"smoothing": {"min": 0.0, "max": 1.0}}}],
    "budget": {"points": 16},
    "sampler": {"kind": "nsga2"},
}


def several(**changes: Any) -> Plan:
    return make_plan(config_of(**{**SEVERAL, **changes}))


def score(spec: TrialSpec) -> Mapping[str, float]:
    smoothing = spec.params.get("smoothing", 0.0)
    luck = 0.001 * (spec.seed % 7)
    away = (smoothing - 0.3) ** 2
    return {"heldout_loglik": -away - luck, "train_kl": 0.5 + away + smoothing * luck}


class Timed(FakeExecutor):
    """Trials take as long as their point says: the larger, the shorter."""

    def poll(self, timeout_s: float) -> Sequence[Event]:
        return [self._timed(event) for event in super().poll(timeout_s)]

    def _timed(self, event: Event) -> Event:
        if not isinstance(event, TrialFinished):
            return event
        spec = next(spec for batch in self.batches for spec in batch.specs if spec.key == event.result.key)
        return TrialFinished(result=replace(event.result, wall_s=self.seconds(spec), peak_bytes=2**20))

    def seconds(self, spec: TrialSpec) -> float:
        return 2.0 - spec.params.get("smoothing", 0.0) + 0.01 * (spec.seed % 3)


class Noisy(Timed):
    """The same trial never takes as long again."""

    draws = np.random.default_rng(0)

    def seconds(self, spec: TrialSpec) -> float:
        return super().seconds(spec) + float(self.draws.exponential())


def ran(plan: Plan, events: list[Event] | None = None, kind: type[FakeExecutor] = Timed, **more: Any) -> MemoryJournal:
    journal = MemoryJournal(events)
    drive(plan, journal, score, kind=kind, make_searcher=searcher_of, **more)
    return journal


def kept(journal: MemoryJournal, folder: Path) -> Store:
    """The same events in a journal on a disk."""
    on_disk = Journal(folder)
    on_disk.handle_many(journal.events)
    on_disk.close()
    return folder


# The sweep file.


def test_a_list_and_a_mapping_say_the_same_and_come_back() -> None:
    listed = config_of(**SEVERAL)
    assert listed.metric is not None
    assert (listed.metric.name, listed.metric.goal) == ("heldout_loglik", "maximize")
    assert listed.metric.objectives == ("heldout_loglik", "seconds", "train_kl")
    mapping = {"name": "heldout_loglik", "further": ["seconds", "train_kl"]}
    assert config_of(**{**SEVERAL, "metric": mapping}) == listed
    assert parse_sweep(config_to_mapping(listed)) == listed


def test_of_one_objective_nothing_is_another() -> None:
    one = config_of(metric="heldout_loglik")
    assert config_of(metric=["heldout_loglik"]) == one
    assert config_to_mapping(one)["metric"] == {"name": "heldout_loglik", "goal": "maximize"}
    scored = PointScored(search="s", number=1, value=0.5)
    assert '"further"' not in encode(scored)
    assert decode(encode(scored)) == scored
    assert make_plan(config_of()).searches[0].key == make_plan(config_of(metric=["heldout_loglik"])).searches[0].key


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"metric": ["seconds", "heldout_loglik"]}, "metric.0: 'seconds' alone finds the fastest"),
        ({"metric": "memory"}, "metric.name: 'memory' alone finds the fastest"),
        ({"metric": []}, "metric: expected a list with at least one metric"),
        ({"metric": ["heldout_loglik", "labels"]}, "metric.1: expected a metric, seconds or memory, got 'labels'"),
        ({"metric": ["heldout_loglik", "second"]}, "metric.1.*second.*did you mean 'seconds'"),
        ({"metric": ["heldout_loglik", "test_accuracy"]}, "metric.1: a search must not see test scores"),
        ({"metric": ["heldout_loglik", "train_entropy"]}, "metric.1: metric 'train_entropy'"),
        ({"metric": ["heldout_loglik", "seconds", "seconds"]}, "metric.2: expected each objective once"),
        ({"metric": {"name": "heldout_loglik", "further": ["heldout_loglik"]}}, "metric.further.0: expected each"),
        ({"metric": {"name": "heldout_loglik", "further": "seconds"}}, "metric.further: expected a list"),
        ({"early_stop": {"kind": "median"}}, "early_stop.kind: expected none, since `metric` names several"),
        ({"metric": "heldout_loglik"}, "sampler.kind: expected several objectives with nsga2"),
    ],
)
def test_what_cannot_be_is_said_where_it_stands(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(CrowdsweepError, match=says):
        config_of(**{**SEVERAL, **changes})


def test_a_dataset_without_what_a_further_metric_needs_is_refused() -> None:
    with pytest.raises(CrowdsweepError, match="metric 'dev_accuracy' needs dev items"):
        several(metric=["heldout_loglik", "dev_accuracy"])


def test_a_plan_says_what_is_searched_for() -> None:
    told = describe_plan(several())
    assert "16 points by held-out log-likelihood, time per trial and train KL; sampler nsga2" in told
    idle = make_plan(config_of(metric=["heldout_loglik", "seconds"], models=["majority-vote"]))
    assert any("metric: seconds does nothing in this sweep" in note for note in idle.notes)


def test_other_objectives_are_another_search() -> None:
    keys = {several(metric=metric).searches[0].key for metric in (SEVERAL["metric"], SEVERAL["metric"][:2])}
    one = make_plan(config_of(**{**SEVERAL, "metric": "heldout_loglik", "sampler": {"kind": "tpe"}}))
    two = several(metric=SEVERAL["metric"][:2], sampler={"kind": "tpe"})
    assert len({*keys, one.searches[0].key, two.searches[0].key}) == 4


# The driver.


def test_a_point_is_told_the_means_of_what_its_rows_say() -> None:
    plan = several()
    state = ran(plan).state
    (search,) = plan.searches
    for proposal in state.proposals[search.key]:
        rows = [
            state.results[key]
            for key, roles in state.roles.items()
            if any(role.phase == "search" and role.point == proposal.point for role in roles)
        ]
        assert len(rows) == 3
        further = state.further[search.key][proposal.number]
        assert further[0] == pytest.approx(sum(row.wall_s for row in rows) / 3)
        assert further[1] == pytest.approx(sum(row.metrics["train_kl"] for row in rows) / 3)
    values = state.values[search.key]
    assert state.selected[search.key][0] == max(values, key=lambda number: values[number] or -9.0)


def test_samplers_are_told_logarithms_of_costs_and_the_record_keeps_the_costs() -> None:
    class Heard(HistorySearcher):
        def tell(self, number: int, value: float | None, further: Sequence[float] = ()) -> None:
            heard[number] = tuple(further)
            super().tell(number, value, further)

    plan, journal = several(), MemoryJournal()
    heard: dict[int, tuple[float, ...]] = {}
    drive(plan, journal, score, kind=Timed, make_searcher=lambda search: Heard(limit=search.limit))
    further = journal.state.further[plan.searches[0].key]
    assert heard == {number: (math.log(seconds), kl) for number, (seconds, kl) in further.items()}
    assert all(1.0 <= seconds <= 2.02 for seconds, _ in further.values())


@pytest.mark.parametrize("kind", ["nsga2", "tpe"])
def test_killed_anywhere_a_sweep_goes_on_as_it_would_have(kind: str) -> None:
    plan = several(sampler={"kind": kind})
    reference = ran(plan)
    for dies_after in range(0, len(reference.state.results), 7):
        journal = MemoryJournal()
        with pytest.raises(Killed):
            ran(plan, journal.events, slots=3, disorder=dies_after, die_after=dies_after)
        resumed = ran(plan, journal.events, disorder=dies_after + 1)
        assert by_point(resumed) == by_point(reference)


def test_what_was_measured_is_read_from_the_record_and_never_measured_again() -> None:
    """Half of the rows of trials are lost, and their fits take other times when they are run again: what the search was
    told stands, and so do its proposals."""
    plan = several()
    reference = ran(plan, kind=Noisy)
    lost = [event for n, event in enumerate(reference.events) if not isinstance(event, TrialFinished) or n % 2]
    assert len(lost) < len(reference.events)
    again = ran(plan, lost, kind=Noisy)
    assert by_point(again) == by_point(reference)
    assert again.state.results != reference.state.results
    assert decisions(ran(plan, kind=Noisy)) != decisions(reference), "another sweep measures other seconds"


def test_a_point_whose_seconds_are_measured_is_one_batch_however_many_slots_wait() -> None:
    """Alone, a fit of a batch takes longer than its share of a batch."""
    plans = {"seconds": several(), "none": several(metric=["heldout_loglik", "train_kl"])}
    for measured, plan in plans.items():
        slots: list[Timed] = []

        class Seen(Timed):
            def __post_init__(self) -> None:
                super().__post_init__()
                slots.append(self)  # noqa: B023

        ran(plan, kind=Seen, slots=50)
        sizes = {len(batch.specs) for batch in slots[0].batches if batch.specs[0].phase == "search"}
        assert sizes == ({3} if measured == "seconds" else {1}), measured


def test_a_trial_that_lacks_a_further_metric_fails_its_point() -> None:
    plan = several(budget={"points": 3, "failed_trials": 1.0})
    journal = MemoryJournal()
    drive(plan, journal, lambda spec: {"heldout_loglik": -1.0}, kind=Timed)
    assert set(journal.state.values[plan.searches[0].key].values()) == {None}
    failures = {one.failure.message for one in journal.state.results.values() if one.failure}
    assert failures == {"the search needs train_kl, which dawid-skene does not give here; it gives heldout_loglik"}


# Earlier sweeps.


def test_an_earlier_sweep_tells_all_objectives_or_says_why_not(tmp_path: Path) -> None:
    first = kept(ran(several()), tmp_path / "first")
    one = kept(
        ran(make_plan(config_of(**{**SEVERAL, "metric": "heldout_loglik", "sampler": {"kind": "random"}}))),
        tmp_path / "one",
    )
    fewer = several(metric=SEVERAL["metric"][:2], sampler={"kind": "tpe", "warm_start": [str(first)]})
    (search,) = fewer.searches
    earlier = read_journal(first)
    (key,) = earlier.proposals
    assert [told.further for told in search.told] == [
        further[:1] for _, further in sorted(earlier.further[key].items())
    ]
    assert ran(fewer).state.told[search.key].points == search.told
    with pytest.raises(CrowdsweepError, match="seconds, train_kl was no objective of its search of dawid-skene"):
        several(sampler={"kind": "tpe", "warm_start": [str(one)]})
    of_one = make_plan(
        config_of(
            **{**SEVERAL, "metric": "heldout_loglik", "sampler": {"kind": "tpe", "warm_start": [str(first)]}},
        )
    )
    assert [told.further for told in of_one.searches[0].told] == [()] * 16


# What is shown.


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return kept(ran(several()), tmp_path_factory.mktemp("several") / "sweep")


def test_the_front_is_of_what_the_search_was_told(store: Store) -> None:
    found = analysed(store)
    (one,) = found.trade_offs.values()
    state = found.state
    told = {n: (value, *state.further[one.search.key][n]) for n, value in state.values[one.search.key].items()}
    numbers = sorted(told)
    front = on_front(np.array([told[n] for n in numbers]), ["maximize", "minimize", "minimize"])
    assert sorted(point.number for point in one.front) == [
        n for n, stands in zip(numbers, front, strict=True) if stands
    ]
    assert 1 < len(one.front) < len(one.points) == 16
    for point in one.points:
        assert tuple(value.mean for value in point.values) == told[point.number]
        for value in point.values:
            assert value.n == 3
            assert value.low is not None
            assert value.low < value.mean
    table = front_table(state, [one])
    assert table["number"].to_pylist() == [point.number for point in one.front]
    assert table["seconds"].to_pylist() == [point.values[1].mean for point in one.front]
    assert table["selected"].to_pylist() == [point.number in one.search.selected for point in one.front]


def test_page_terminal_and_figures_show_the_front(store: Store) -> None:
    found = analysed(store)
    (one,) = found.trade_offs.values()
    page = render_page(found)
    search = page[page.index('<section id="search">') :]
    assert "held-out log-likelihood, nats (maximize); time per trial, s (minimize); train KL, nats (minimize)" in search
    assert search.count("<h4>Pareto front</h4>") == 1
    assert f"point {one.front[0].number}\\nheld-out log-likelihood" in search, "told where somebody points at it"
    text = shown_results(found, None)
    assert "Pareto front of the search of dawid-skene on anesthesia" in text
    lines = text[text.index("Pareto front of the search") :].splitlines()[2:]
    shown = [int(line.split("\t")[0]) for line in lines[: lines.index("")]]
    assert shown == [point.number for point in one.front[:12]], "the best by the first objective first"
    times = [show_seconds(point.values[1].mean) for point in one.front[:12]]
    assert [line.split("\t")[2] for line in lines[: lines.index("")]] == times, "as every other table says a time"
    assert all(f">{time} (" in search for time in times), "and on the page with its interval"
    titles = [figure.title for figure in figures_of(found)]
    assert titles.count("Pareto front of the search of dawid-skene on anesthesia") == 1
    assert any("looked for the Pareto front of that score and time per trial" in line for line in page.splitlines())


def test_of_one_objective_there_is_no_front(tmp_path: Path) -> None:
    plan = make_plan(config_of(budget={"points": 3}))
    journal = MemoryJournal()
    drive(plan, journal)
    found = analysed(kept(journal, tmp_path / "one"))
    assert found.trade_offs == {}
    assert "Pareto front of the search" not in render_page(found) + shown_results(found, None)
    with pytest.raises(BadInput, match="sweep 'tiny' has no Pareto front"):
        front_table(found.state, found.trade_offs.values())


def test_rows_that_no_search_wrote_are_left_out(tmp_path: Path) -> None:
    journal = ran(several())
    scored = [place for place, event in enumerate(journal.events) if isinstance(event, PointScored)]
    forged: list[tuple[float, ...]] = [(), (1.0,), (float("nan"), 0.5), (1.0, 0.5, 0.5)]
    for place, further in zip(scored, forged, strict=False):
        event = journal.events[place]
        assert isinstance(event, PointScored)
        journal.events[place] = replace(event, further=further)
    found = analysed(kept(MemoryJournal(journal.events), tmp_path / "forged"))
    (one,) = found.trade_offs.values()
    assert len(one.points) == 12
    assert "Pareto front" in render_page(found)
