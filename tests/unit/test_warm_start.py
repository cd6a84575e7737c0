"""Searches that are told first what earlier sweeps found: what is told, that it decides nothing else, and that a sweep
goes on as it began."""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from driven import by_seed, config_of, decisions, drive, numbers
from fakes import Killed, MemoryJournal

from crowdsweep.analysis.status import sweep_status
from crowdsweep.analysis.sweep import analysed
from crowdsweep.analysis.trial_table import results_table
from crowdsweep.errors import SweepFileError
from crowdsweep.models import registered
from crowdsweep.record.events import PointsTold, ToldPoint
from crowdsweep.record.journal import Journal
from crowdsweep.record.naming import told_words
from crowdsweep.record.spec import TrialSpec
from crowdsweep.sweep.plan import Plan, make_plan
from crowdsweep.sweep.plan_summary import plan_summary
from crowdsweep.sweep.search_run import searcher_of
from crowdsweep.sweepfile.read import config_to_mapping, parse_sweep
from crowdsweep.views.report_files import write_report
from crowdsweep.views.terminal.plan import describe_plan
from crowdsweep.views.terminal.stores import describe_status

TWO = {"smoothing": {"min": 0.0, "max": 1.0}, "shrinkage": {"min": 0.0, "max": 10.0}}


def model(search: Mapping[str, Any] | str = TWO, **keys: Any) -> list[Any]:
    return [{"name": "dawid-skene", "search": search, **keys}]


def bowl(spec: TrialSpec) -> dict[str, float]:
    """Zero at smoothing 0.3 and shrinkage 6, the best, whatever the seed."""
    return {"heldout_loglik": -(away(spec.params) ** 2), "train_accuracy": 0.5}


def away(params: Mapping[str, Any]) -> float:
    return ((params["smoothing"] - 0.3) ** 2 + (params["shrinkage"] / 10 - 0.6) ** 2) ** 0.5


def kept(journal: MemoryJournal, folder: Path) -> Path:
    """The record of a sweep, on a disk."""
    on_disk = Journal(folder)
    on_disk.handle_many(journal.events)
    on_disk.close()
    return folder


def swept(folder: Path, **changes: Any) -> Path:
    """An earlier sweep that has ended."""
    plan = make_plan(config_of(name="first", **{"models": model(), **changes}))
    journal = MemoryJournal()
    drive(plan, journal, bowl, make_searcher=searcher_of)
    return kept(journal, folder)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return swept(tmp_path_factory.mktemp("stores") / "first", budget={"points": 12}, sampler={"kind": "random"})


def warm(first: Path, **changes: Any) -> Any:
    sampler = {"kind": "tpe", "warm_start": [str(first)], **changes.pop("sampler", {})}
    return config_of(name="second", sampler=sampler, **{"models": model(), **changes})


def test_whole_numbers_of_a_space_are_told_of_a_model_that_takes_fractions(tmp_path: Path) -> None:
    """A space lists 0 and 1, what ran had 0.0 and 1.0: the point is still one of this space."""
    lists = {"smoothing": {"values": [0, 1]}, "shrinkage": {"values": [0, 3]}}
    earlier = swept(tmp_path / "first", models=model(lists), budget={"points": 4}, sampler={"kind": "grid"})
    (search,) = make_plan(warm(earlier, models=model(lists), budget={"points": 3})).searches
    told = {(one.point["smoothing"], one.point["shrinkage"]) for one in search.told}
    assert told == {(smoothing, shrinkage) for smoothing in (0, 1) for shrinkage in (0, 3)}
    assert {type(value) for one in search.told for value in one.point.values()} == {int}


def test_what_was_told_is_marked_and_counts_for_nothing_else(first: Path, tmp_path: Path) -> None:
    plan = make_plan(warm(first))
    cold = make_plan(config_of(models=model(), sampler={"kind": "tpe"}))
    (search,) = plan.searches
    earlier = analysed(first).state
    (key,) = earlier.proposals
    assert [dict(one.point) for one in search.told] == [dict(one.point) for one in earlier.proposals[key]]
    assert [one.value for one in search.told] == [value for _, value in sorted(earlier.values[key].items())]
    assert (plan.n_trials, search.limit) == (cold.n_trials, cold.searches[0].limit)
    assert search.key != cold.searches[0].key
    assert "12 points taken from first" in describe_plan(plan)
    assert plan_summary(plan)["searches"][0]["told"] == {"first": 12}
    journal = MemoryJournal()
    outcome, slots = drive(plan, journal, bowl, make_searcher=searcher_of)
    assert outcome.planned == len(slots.ran) == plan.n_trials
    assert len(journal.state.proposals[search.key]) == search.limit
    assert journal.state.told == {search.key: PointsTold(search=search.key, points=search.told)}
    status = sweep_status(journal.state)
    assert status["told"] == Counter(point.source for point in search.told), "each earlier sweep by its name"
    assert f"its searches began with points of earlier sweeps: {told_words(status['told'])}" in describe_status(
        status, "done", None
    )
    best = max(search.told, key=lambda one: one.value)
    assert journal.state.proposals[search.key][0].point == best.point, "only what is its own can be selected"
    store = kept(journal, tmp_path / "second")
    assert len(results_table(analysed(store).state, "all")) == plan.n_trials
    page = write_report(store).read_text()
    assert f"{search.limit} points tried" in page
    assert "12 points taken from first" in page[page.index('<section id="search">') :]
    assert "given points of earlier sweeps on the same data: 12 points taken from first." in page


def tried_until_near(plan: Plan, told: Callable[[ToldPoint], bool]) -> int:
    """The number of points until one lies near the best, of a search that is told only some of what it would be."""
    (search,) = plan.searches
    searcher = searcher_of(replace(search, told=tuple(filter(told, search.told))))
    while (proposal := searcher.ask()) is not None and away(proposal.point) > 0.08:
        searcher.tell(proposal.number, -(away(proposal.point) ** 2))
    return search.limit if proposal is None else proposal.number + 1


def test_a_warm_search_finds_the_optimum_in_fewer_points(tmp_path: Path) -> None:
    """It hears of no point that is as near, so that it has to find one itself."""
    counts: dict[str, list[int]] = {"cold": [], "warm": []}
    for number in range(4):
        random = {"kind": "random", "seed": 50 + number}
        store = swept(tmp_path / f"first{number}", budget={"points": 20}, sampler=random, seeds=ONE)
        for seed in range(4):
            plan = make_plan(warm(store, sampler={"seed": 10 * number + seed}, budget={"points": 40}))
            counts["cold"].append(tried_until_near(plan, lambda one: False))
            counts["warm"].append(tried_until_near(plan, lambda one: away(one.point) > 0.16))
    assert median(counts["warm"]) < median(counts["cold"]), counts
    assert sum(counts["warm"]) < 0.8 * sum(counts["cold"]), counts


ONE = {"search": 1, "report": 1, "rescored": 1}


def test_killed_anywhere_it_goes_on_as_it_began_without_the_earlier_sweep(first: Path, tmp_path: Path) -> None:
    store = Path(shutil.copytree(first, tmp_path / "first"))
    config = warm(store)
    plan = make_plan(config)
    reference = MemoryJournal()
    drive(plan, reference, bowl, make_searcher=searcher_of)
    begun = MemoryJournal()
    with pytest.raises(Killed):
        drive(plan, begun, bowl, make_searcher=searcher_of, die_after=7)
    shutil.rmtree(store)
    with pytest.raises(SweepFileError, match="warm_start"):
        make_plan(config)
    for events in (begun.events, *(reference.events[:cut] for cut in range(2, len(reference.events), 40))):
        resumed = MemoryJournal(list(events))
        again = make_plan(config, resumed.state.told)
        assert [(one.key, one.told) for one in again.searches] == [(one.key, one.told) for one in plan.searches]
        drive(again, resumed, bowl, make_searcher=searcher_of, disorder=3)
        assert decisions(resumed) == decisions(reference)
        assert numbers(resumed) == numbers(reference)


def test_a_search_that_has_begun_hears_nothing_more(first: Path, tmp_path: Path) -> None:
    """Neither of an earlier sweep that has gone on, nor where it was told nothing; another name is another search."""
    other = swept(tmp_path / "first", budget={"points": 4}, sampler={"kind": "random", "seed": 1})
    narrow = model({"smoothing": {"min": 2.0, "max": 3.0}})
    models = [*model(), {**narrow[0], "label": "elsewhere"}]
    plan, grown = make_plan(warm(other, models=models)), make_plan(warm(first, models=models))
    assert [len(one.told) for one in plan.searches] == [4, 0]
    assert any("has nothing to learn from for the search of elsewhere on anesthesia" in note for note in plan.notes)
    journal = MemoryJournal()
    drive(plan, journal, bowl_of_any, make_searcher=searcher_of)
    assert [len(journal.state.told[one.key].points) for one in plan.searches] == [4, 0]
    again = MemoryJournal(list(journal.events))
    outcome, _ = drive(grown, again, bowl_of_any, make_searcher=searcher_of)
    assert (outcome.ran, decisions(again)) == (0, decisions(journal))
    renamed = make_plan(warm(Path(shutil.copytree(first, tmp_path / "again")), models=models))
    assert {one.key for one in renamed.searches}.isdisjoint(one.key for one in plan.searches)


def bowl_of_any(spec: TrialSpec) -> dict[str, float]:
    return bowl(replace(spec, params={"shrinkage": 0.0, **spec.params}))


def test_a_lost_row_is_read_from_the_earlier_sweep_again(first: Path) -> None:
    plan = make_plan(warm(first))
    reference = MemoryJournal()
    drive(plan, reference, bowl, make_searcher=searcher_of)
    (lost,) = [place for place, event in enumerate(reference.events) if isinstance(event, PointsTold)]
    resumed = MemoryJournal([*reference.events[:lost], *reference.events[lost + 1 :]])
    outcome, _ = drive(plan, resumed, bowl, make_searcher=searcher_of)
    assert outcome.ran == 0
    assert (resumed.state.told, decisions(resumed)) == (reference.state.told, decisions(reference))


def test_only_points_of_todays_space_are_told(first: Path) -> None:
    """Whatever the ranges were then, and of what is fixed today."""
    inner = {"smoothing": {"min": 0.2, "max": 0.7}, "shrinkage": {"min": 0.0, "max": 10.0}}
    everything = list(make_plan(warm(first)).searches[0].told)
    (search,) = make_plan(warm(first, models=model(inner))).searches
    assert [one.point for one in search.told] == [
        one.point for one in everything if 0.2 <= one.point["smoothing"] <= 0.7
    ]
    assert 0 < len(search.told) < len(everything)
    held = everything[3].point["shrinkage"]
    (search,) = make_plan(
        warm(first, models=model({"smoothing": TWO["smoothing"]}, params={"shrinkage": held}))
    ).searches
    assert [dict(one.point) for one in search.told] == [{"smoothing": everything[3].point["smoothing"]}]


def test_several_sweeps_tell_a_point_once(first: Path, tmp_path: Path) -> None:
    same = Path(shutil.copytree(first, tmp_path / "copy"))
    more = swept(tmp_path / "more", budget={"points": 5}, sampler={"kind": "random", "seed": 9})
    plan = make_plan(warm(first, sampler={"warm_start": [str(first), str(more)]}))
    assert plan_summary(plan)["searches"][0]["told"] == {"first": 12, "more": 5}
    plan = make_plan(warm(first, sampler={"warm_start": [str(first), str(same)]}))
    assert plan_summary(plan)["searches"][0]["told"] == {"first": 12}


def test_a_gaussian_process_is_told_no_more_than_it_can_learn_from(tmp_path: Path) -> None:
    many = swept(tmp_path / "many", budget={"points": 260}, sampler={"kind": "random"}, seeds=ONE)
    told = make_plan(warm(many, sampler={"kind": "tpe"})).searches[0].told
    thinned = make_plan(warm(many, sampler={"kind": "auto"})).searches[0].told
    assert (len(told), len(thinned)) == (260, 200)
    assert [one for one in told if one in thinned] == list(thinned), "in the order in which they were tried"
    assert max(told, key=lambda one: one.value) in thinned
    middle = median(one.value for one in told)
    assert sum(one.value > middle for one in thinned) == 100


def test_points_of_another_metric_are_not_told(tmp_path: Path) -> None:
    digits: dict[str, Any] = {"datasets": [{"name": "digits", "annotators": 20}], "seeds": ONE}
    by_likelihood = swept(tmp_path / "first", metric="heldout_loglik", budget={"points": 2}, **digits)
    with pytest.raises(SweepFileError, match="it searched dawid-skene by heldout_loglik, not by train_accuracy"):
        make_plan(warm(by_likelihood, metric="train_accuracy", **digits))


PRIOR = {"spamming_prior": {"min": 0.1, "max": 1.0}}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"datasets": [{"name": "anesthesia", "redundancy": 2}]}, "it searched dawid-skene on other data"),
        ({"datasets": ["gaussians"]}, "it searched dawid-skene on other data"),
        ({"models": model({"smoothing": {"min": 2.0, "max": 3.0}})}, "lie outside of the space, or were fitted with"),
        ({"models": model(params={"iterations": 7})}, "with other settings or another version"),
        ({"heldout": {"fraction": 0.2}}, "with other settings or another version"),
        ({"models": [{"name": "mace", "search": PRIOR}]}, "it has no point of mace that was scored in a search"),
    ],
)
def test_an_earlier_sweep_that_has_nothing_is_refused(first: Path, changes: Mapping[str, Any], why: str) -> None:
    with pytest.raises(SweepFileError, match=why) as caught:
        make_plan(warm(first, **changes))
    begins = f"second: sampler.warm_start.0: {first} holds nothing for a search of this sweep: "
    assert str(caught.value).startswith(begins)
    assert "\n" not in str(caught.value)


def test_points_of_another_version_of_the_model_are_not_told(first: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = registered.model_info("dawid-skene")
    plain = registered.model_info
    newer = replace(info, version=info.version + 1)
    monkeypatch.setattr(registered, "model_info", lambda name: newer if name == info.name else plain(name))
    with pytest.raises(SweepFileError, match="another version"):
        make_plan(warm(first))


@pytest.mark.parametrize(
    ("sampler", "says"),
    [
        ({"kind": "random", "warm_start": ["x"]}, r"sampler\.warm_start: .* a sampler that learns .*random"),
        ({"warm_start": "x"}, r"sampler\.warm_start: expected .*list"),
        ({"warm_start": [3]}, r"sampler\.warm_start"),
        ({"warm_start": ["a/x", "b/x"]}, r"warm_start\.1: a record called 'x' is already at sampler\.warm_start\.0"),
        ({"warm_start": ["ftp://a/x"]}, r"sampler\.warm_start\.0: ftp://"),
        ({"warm_start": ["~nobody-here/x"]}, r"sampler\.warm_start\.0: "),
    ],
)
def test_what_cannot_be_told_from_is_refused_where_it_stands(sampler: Mapping[str, Any], says: str) -> None:
    with pytest.raises(SweepFileError, match=says):
        config_of(sampler=sampler)


def test_an_earlier_sweep_that_is_not_there_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(SweepFileError, match=r"second: sampler\.warm_start\.0: .*nowhere: no journal here"):
        make_plan(warm(tmp_path / "nowhere"))


def test_where_nothing_learns_it_is_said_that_nothing_is_told(first: Path) -> None:
    plan = make_plan(warm(first, models=model({"smoothing": {"values": [0.1, 0.2]}})))
    assert plan.notes[-1:] == ["sampler.warm_start does nothing in this sweep: no search of it learns from points"]
    journal = MemoryJournal()
    drive(plan, journal, by_seed)
    assert not journal.state.told


def test_it_is_found_beside_the_sweep_file_or_by_its_name(
    first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(first, tmp_path / "crowdsweep-runs/first")
    named = warm(Path("first"))
    assert list(named.sampler.warm_start) == [str((tmp_path / "crowdsweep-runs/first").resolve())]
    shutil.copytree(first, tmp_path / "files/first")
    mapping = {**config_to_mapping(named), "sampler": {"warm_start": ["first"]}}
    beside = parse_sweep(mapping, str(tmp_path / "files/sweep.yaml"))
    assert list(beside.sampler.warm_start) == [str((tmp_path / "files/first").resolve())]
    recorded = json.loads(json.dumps(config_to_mapping(beside)))
    assert parse_sweep(recorded).sampler == beside.sampler
