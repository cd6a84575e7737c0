"""Searchers: the contract that the driver relies on, over every sampler."""

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from crowdsweep.errors import SpaceError
from crowdsweep.search.contract import PointSearcher, Proposal, Sampler
from crowdsweep.search.grid import GridPoints
from crowdsweep.search.optuna_points import OptunaPoints
from crowdsweep.search.searchers import chosen_for, make_searcher
from crowdsweep.search.space import Space

NUMERIC = Space.parse(
    {
        "x": {"min": 0.0, "max": 1.0},
        "rate": {"distribution": "log_uniform_values", "min": 1e-4, "max": 1},
        "k": {"min": 1, "max": 10},
    }
)
MIXED = Space.parse(
    {
        "x": {"min": 0.0, "max": 1.0},
        "q": {"distribution": "q_uniform", "min": 0.1, "max": 0.45, "q": 0.1},
        "logq": {"distribution": "q_log_uniform_values", "min": 1, "max": 100, "q": 1},
        "z": {"distribution": "normal", "mu": 0, "sigma": 2},
        "network": {"values": ["linear", "mlp"]},
        "hidden": {"values": [[64], [128, 64]], "when": {"network": "mlp"}},
        "mixed": {"values": [None, True, 1, "1", 0.5]},
    }
)
SMALL = Space.parse({"a": {"values": [1, 2, 3]}, "b": {"values": ["u", "v", "w"]}})
ADAPTIVE = ["tpe", "gp", "random"]


def distance(point: dict[str, Any]) -> float:
    """Zero at x = 0.3, the best."""
    return -((point["x"] - 0.3) ** 2)


def play(
    searcher: PointSearcher, n: int, value: Callable[[Any], float | None] = distance, open_every: int = 0
) -> tuple[list[Proposal], dict[int, float | None]]:
    """Asks n times and tells each value at once, but leaves every so many open."""
    proposals: list[Proposal] = []
    values: dict[int, float | None] = {}
    for _ in range(n):
        proposal = searcher.ask()
        assert proposal is not None
        proposals.append(proposal)
        if open_every and proposal.number % open_every == open_every - 1:
            continue
        values[proposal.number] = value(proposal.point)
        searcher.tell(proposal.number, values[proposal.number])
    return proposals, values


def go_on(searcher: PointSearcher, proposals: list[Proposal], values: dict[int, float | None]) -> None:
    """Takes what an earlier searcher asked and was told."""
    for proposal in proposals:
        searcher.adopt(proposal)
    for number, value in values.items():
        searcher.tell(number, value)


def test_a_small_space_is_listed_whole_whatever_the_sampler() -> None:
    assert {chosen_for(SMALL, Sampler(kind=kind), 9)[0].kind for kind in (*ADAPTIVE, "grid")} == {"grid"}
    searcher = make_searcher(SMALL, Sampler(kind="grid"), "maximize", limit=9)
    assert isinstance(searcher, GridPoints)
    proposals, _ = play(searcher, 9, lambda point: float(point["a"]))
    assert [proposal.point for proposal in proposals] == list(SMALL.enumerate())
    assert [proposal.number for proposal in proposals] == list(range(9))
    assert searcher.ask() is None


def test_what_is_left_to_choose_follows_space_and_budget() -> None:
    wide = Space.parse({f"x{number}": {"min": 0.0, "max": 1.0} for number in range(7)})
    auto = Sampler()
    assert chosen_for(SMALL, auto, 9)[0].kind == chosen_for(SMALL, Sampler(kind="random"), 9)[0].kind == "grid"
    assert chosen_for(NUMERIC, auto, 200)[0].kind == "gp"
    found = {
        why: sampler.kind
        for sampler, why in (
            chosen_for(NUMERIC, auto, 201),
            chosen_for(MIXED, auto, 20),
            chosen_for(SMALL, auto, 8),
            chosen_for(wide, auto, 20),
        )
    }
    assert set(found.values()) == {"tpe"}
    assert len(found) == 3, "each says its own reason"
    assert (chosen_for(NUMERIC, Sampler(kind="random"), 20)[0].kind, chosen_for(NUMERIC, auto, 20)[0].learns) == (
        "random",
        True,
    )


def test_of_several_objectives_the_parzen_estimator_is_chosen_and_others_where_they_are_named() -> None:
    found = [
        chosen_for(space, Sampler(), n, several=True)[0].kind for space, n in [(SMALL, 9), (NUMERIC, 20), (MIXED, 300)]
    ]
    assert found == ["grid", "tpe", "tpe"]
    for kind in ("random", "gp", "nsga2"):
        assert chosen_for(NUMERIC, Sampler(kind=kind), 20, several=True)[0].kind == kind


def test_a_grid_without_end_is_refused() -> None:
    with pytest.raises(SpaceError, match="cannot list every point"):
        make_searcher(NUMERIC, Sampler(kind="grid"), "maximize", limit=9).ask()


def test_a_grid_goes_on_after_what_was_proposed() -> None:
    searcher = make_searcher(SMALL, Sampler(kind="grid"), "maximize", limit=100)
    first, values = play(searcher, 4, lambda point: 1.0)
    again = make_searcher(SMALL, Sampler(kind="grid"), "maximize", limit=100)
    go_on(again, first, values)
    rest, _ = play(again, 5, lambda point: 1.0)
    assert [proposal.point for proposal in [*first, *rest]] == list(SMALL.enumerate())
    assert [proposal.number for proposal in rest] == [4, 5, 6, 7, 8]
    assert again.ask() is None


@pytest.mark.parametrize("kind", ADAPTIVE)
@pytest.mark.parametrize("space", [NUMERIC, MIXED], ids=["numeric", "mixed"])
def test_points_lie_in_the_space_and_survive_json(kind: str, space: Space) -> None:
    searcher = make_searcher(space, Sampler(kind=kind), "maximize", limit=100)
    for proposal in play(searcher, 12)[0]:
        point = proposal.point
        assert json.loads(json.dumps(point)) == point
        assert {name for name in space.dimensions if space.is_active(name, point)} == set(point)
        assert 0 <= point["x"] <= 1
        if space is MIXED:
            assert point["q"] in [0.1, 0.2, 0.3, 0.4]
            assert point["logq"] in range(1, 101)
            assert isinstance(point["logq"], int)
            assert abs(point["z"]) <= 2 * 3.72
            assert ("hidden" in point) == (point["network"] == "mlp")
            assert any(point["mixed"] is known for known in [None, True, 1, "1", 0.5])
        else:
            assert 1e-4 <= point["rate"] <= 1
            assert point["k"] in range(1, 11)


@pytest.mark.parametrize("kind", ADAPTIVE)
@pytest.mark.parametrize(
    "space", [pytest.param(NUMERIC, id="numeric", marks=pytest.mark.long), pytest.param(MIXED, id="mixed")]
)
def test_a_restored_search_proposes_what_the_first_would_have(kind: str, space: Space) -> None:
    sampler = Sampler(kind=kind, seed=7)
    first = make_searcher(space, sampler, "maximize", limit=16)

    def value(point: Any) -> float | None:
        return None if point["x"] > 0.9 else distance(point)

    proposals, values = play(first, 9, value, open_every=5)
    stored = [Proposal(number=p.number, point=json.loads(json.dumps(dict(p.point)))) for p in proposals]
    second = make_searcher(space, sampler, "maximize", limit=16)
    go_on(second, stored, values)
    with pytest.raises(ValueError, match="expected proposal 9, the next one, got proposal 8"):
        second.adopt(stored[8])
    for _ in range(2):
        assert second.ask() == first.ask()
    for searcher in (first, second):
        searcher.tell(4, 0.25)  # one that was open
    assert second.ask() == first.ask()


@pytest.mark.parametrize("kind", ["tpe", "random"])
def test_the_seed_decides(kind: str) -> None:
    def points(seed: int) -> list[Any]:
        sampler = Sampler(kind=kind, seed=seed)
        return [p.point for p in play(make_searcher(NUMERIC, sampler, "maximize", limit=20), 7)[0]]

    assert points(0) == points(0)
    assert points(0) != points(1)


@pytest.mark.parametrize("kind", ADAPTIVE)
def test_suggestions_made_in_parallel_differ(kind: str) -> None:
    searcher = make_searcher(NUMERIC, Sampler(kind=kind), "maximize", limit=60)
    play(searcher, 16)
    asked = [searcher.ask() for _ in range(6)]
    xs = [proposal.point["x"] for proposal in asked if proposal is not None]
    assert len({round(x, 6) for x in xs}) == 6
    assert len({proposal.number for proposal in asked if proposal is not None}) == 6


@pytest.mark.parametrize(("kind", "n", "goal", "sign"), [("tpe", 60, "maximize", 1.0), ("gp", 14, "minimize", -1.0)])
def test_a_search_finds_the_better_end(kind: str, n: int, goal: str, sign: float) -> None:
    searcher = make_searcher(Space.parse({"x": {"min": 0.0, "max": 1.0}}), Sampler(kind=kind), goal, n)
    proposals, _ = play(searcher, n, lambda point: sign * distance(point))
    late = sorted(abs(proposal.point["x"] - 0.3) for proposal in proposals[-n // 3 :])
    assert late[len(late) // 2] < 0.1  # the median distance of uniform draws is 0.25


@pytest.mark.parametrize("kind", ADAPTIVE)
def test_no_point_comes_twice_and_the_space_runs_out(kind: str) -> None:
    searcher = OptunaPoints(SMALL, Sampler(kind=kind), "maximize", limit=100)
    proposals, _ = play(searcher, 9, lambda point: float(point["a"] == 2))
    assert sorted((p.point["a"], p.point["b"]) for p in proposals) == [(a, b) for a in (1, 2, 3) for b in "uvw"]
    assert searcher.ask() is None


def test_the_limit_ends_a_search() -> None:
    searcher = make_searcher(NUMERIC, Sampler(kind="tpe"), "maximize", limit=3)
    play(searcher, 3)
    assert searcher.ask() is None


@pytest.mark.parametrize(
    ("goal", "worst"), [("maximize", [0.5, 0.5, 0.5, 0.2, 0.2]), ("minimize", [0.5, 0.5, 0.5, 0.2, 0.5])]
)
def test_a_failed_point_is_worth_the_worst_so_far(goal: str, worst: list[float]) -> None:
    searcher = OptunaPoints(NUMERIC, Sampler(kind="tpe"), goal, limit=50)
    for value in (None, float("nan"), 0.5, 0.2, None):
        proposal = searcher.ask()
        assert proposal is not None
        searcher.tell(proposal.number, value)
    told = [trial.value for trial in searcher._optuna.trials if trial.state.name == "COMPLETE"]
    assert told == worst
    with pytest.raises(ValueError, match="expected a proposal without a result, got 4 again"):
        searcher.tell(4, None)
    assert searcher.ask() is not None


def test_a_search_of_which_nothing_succeeds_goes_on() -> None:
    searcher = OptunaPoints(NUMERIC, Sampler(kind="tpe"), "maximize", limit=20)
    assert len(play(searcher, 20, lambda _: None)[0]) == 20


def test_a_search_keeps_away_from_where_points_fail() -> None:
    """Of a space of which half fails, and where nothing else can be learnt; all of the late points fall there where
    failures are passed over."""
    searcher = OptunaPoints(Space.parse({"x": {"min": 0.0, "max": 1.0}}), Sampler(kind="tpe"), "maximize", limit=60)
    noise = iter(number * 7 % 11 / 11 for number in range(60))
    proposals, _ = play(searcher, 60, lambda point: (next(noise), None)[point["x"] > 0.5])
    assert sum(proposal.point["x"] > 0.5 for proposal in proposals[30:]) <= 15


def test_a_number_that_was_never_proposed_is_refused() -> None:
    searcher = OptunaPoints(NUMERIC, Sampler(kind="tpe"), "maximize", limit=50)
    with pytest.raises(ValueError, match="expected the number of a proposal below 0, got 0"):
        searcher.tell(0, 1.0)


def test_optuna_keeps_quiet_and_its_verbosity_is_put_back(capfd: pytest.CaptureFixture[str]) -> None:
    import optuna

    before = optuna.logging.get_verbosity()
    play(make_searcher(NUMERIC, Sampler(kind="tpe"), "maximize", limit=9), 3)
    assert capfd.readouterr().err == ""
    assert optuna.logging.get_verbosity() == before == logging.INFO


def test_optuna_is_imported_only_where_points_are_proposed_by_it() -> None:
    code = (
        "import sys; from crowdsweep.search.searchers import make_searcher, Space;"
        " from crowdsweep.search.contract import Sampler;"
        " make_searcher(Space.parse({'a': {'values': [1, 2]}}), Sampler(kind='grid'), 'maximize', 9).ask();"
        " sys.exit('optuna' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def trade_off(point: Any) -> tuple[float, float]:
    """The one is best at x = 0.2, the other at x = 0.8: the front lies between."""
    return -((point["x"] - 0.2) ** 2), (point["x"] - 0.8) ** 2


def play_several(searcher: PointSearcher, n: int, open_every: int = 0) -> list[Proposal]:
    """As `play`, by two objectives."""
    proposals: list[Proposal] = []
    for _ in range(n):
        proposal = searcher.ask()
        assert proposal is not None
        proposals.append(proposal)
        if not open_every or proposal.number % open_every != open_every - 1:
            value, *further = trade_off(proposal.point)
            searcher.tell(proposal.number, None if proposal.point["x"] > 0.97 else value, further)
    return proposals


@pytest.mark.parametrize(
    ("kind", "space", "n"),
    [
        ("tpe", NUMERIC, 20),
        ("tpe", MIXED, 20),
        pytest.param("gp", NUMERIC, 10, marks=pytest.mark.long),
        ("nsga2", NUMERIC, 40),
        ("nsga2", MIXED, 40),
        ("random", MIXED, 10),
    ],
)
def test_a_restored_search_of_several_objectives_proposes_what_the_first_would_have(
    kind: str, space: Space, n: int
) -> None:
    """Of a genetic algorithm over several generations, some points of which were open when the next one began."""

    def searcher() -> PointSearcher:
        return make_searcher(space, Sampler(kind=kind, seed=7), "maximize", 60, (), ["minimize"])

    first, second = searcher(), searcher()
    proposals = play_several(first, n, open_every=7)
    left = [number for number in range(n) if number % 7 == 6]
    for proposal in proposals:  # told in the order in which they were, as a driver that goes on does
        second.adopt(Proposal(number=proposal.number, point=json.loads(json.dumps(dict(proposal.point)))))
        if proposal.number not in left:
            value, *further = trade_off(proposal.point)
            second.tell(proposal.number, None if proposal.point["x"] > 0.97 else value, further)
    for _ in range(3):
        assert second.ask() == first.ask()
    for one in (first, second):
        one.tell(left[0], 0.25, [0.5])
    assert second.ask() == first.ask()


def test_generations_follow_each_other_and_learn() -> None:
    """Without generations nothing is learnt: every point would be of the first, which is drawn at random."""
    searcher = OptunaPoints(NUMERIC, Sampler(kind="nsga2"), "maximize", limit=60, further=["minimize"])
    proposals = play_several(searcher, 60)
    numbers = [
        trial.system_attrs["NSGAIISampler:generation"]
        for trial in searcher._optuna.trials
        if trial.state.name == "COMPLETE"
    ]
    assert numbers == sorted(numbers)
    assert max(numbers) >= 3
    inside = [0.15 <= proposal.point["x"] <= 0.85 for proposal in proposals]
    assert sum(inside[-24:]) >= 21, "on the front, or nearly; of uniform draws 70 %"


@pytest.mark.parametrize("kind", ["tpe", "nsga2"])
def test_what_earlier_searches_tried_is_told_by_all_objectives(kind: str) -> None:
    told = [({"x": x / 20, "rate": 0.1, "k": 3}, trade_off({"x": x / 20})) for x in range(21)]
    searcher = OptunaPoints(NUMERIC, Sampler(kind=kind), "maximize", 20, told, ["minimize"])
    first = searcher.ask()
    assert first is not None
    assert first.point["x"] == 0.2, "the best by the first objective"
    assert [trial.values for trial in searcher._optuna.trials if trial.state.name == "COMPLETE"] == [
        list(values) for _, values in told
    ]
    if kind == "nsga2":
        searcher.ask()
        assert searcher._optuna.trials[-1].system_attrs["NSGAIISampler:generation"] == 1, "they were the first"


def test_a_failed_point_is_worth_the_worst_of_each_objective() -> None:
    searcher = OptunaPoints(NUMERIC, Sampler(kind="tpe"), "maximize", limit=50, further=["minimize"])
    for value, *further in [(0.5, 2.0), (0.2, 1.0), (None,), (0.9, float("inf"))]:
        proposal = searcher.ask()
        assert proposal is not None
        searcher.tell(proposal.number, value, further)  # type: ignore[arg-type]
    told = [trial.values for trial in searcher._optuna.trials if trial.state.name == "COMPLETE"]
    assert told == [[0.5, 2.0], [0.2, 1.0], [0.2, 2.0], [0.2, 2.0]]
    searcher.ask()
    with pytest.raises(ValueError, match="expected a value of each of 2 objectives, got 1"):
        searcher.tell(4, 0.3)
