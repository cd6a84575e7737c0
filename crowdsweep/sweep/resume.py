"""What is left to do: a plan less what the journal holds."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from crowdsweep.journal.state import JournalState
from crowdsweep.search.contract import PointSearcher
from crowdsweep.sweep.cells import Search
from crowdsweep.sweep.plan import Plan
from crowdsweep.sweep.search_run import SearchRun

MakeSearcher = Callable[[Search], PointSearcher]


class SearchFailed(Exception):
    """A search's own proposer raised; `__cause__` is what it raised. The other searches go on."""


class _Guarded:
    """A searcher, all that its methods raise turned into `SearchFailed`."""

    def __init__(self, searcher: PointSearcher) -> None:
        self._searcher = searcher

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._searcher, name)

        def call(*args: Any) -> Any:
            try:
                return method(*args)
            except Exception as error:
                raise SearchFailed(f"{type(error).__name__}: {error}") from error

        return call


def resumed_searches(
    plan: Plan, state: JournalState, make_searcher: MakeSearcher, *, again: bool = False
) -> list[SearchRun]:
    """Returns the plan's searches, each where the journal left it.

    Args:
        plan, state: what is wanted, and what is known.
        make_searcher: makes a new searcher for a search.
        again: whether failed trials are run again; a search then forgets what its points are worth from the first on
            that failed, and works it out again. The points that it has asked for stay.
    """
    return [
        SearchRun(
            search,
            plan,
            cast("PointSearcher", _Guarded(make_searcher(search))),
            list(state.proposals.get(search.key, ()))[: search.limit],
            _standing(
                {n: value for n, value in state.values.get(search.key, {}).items() if n < search.limit}, again=again
            ),
            state.selected.get(search.key),
        )
        for search in plan.searches
    ]


def _standing(values: Mapping[int, float | None], *, again: bool) -> dict[int, float | None]:
    failed = min((number for number, value in values.items() if value is None), default=None) if again else None
    return {number: value for number, value in values.items() if failed is None or number < failed}


def hours_spent(state: JournalState, slots: int) -> float:
    """Returns for how many hours earlier drivers worked on a sweep.

    A driver that died left no word of its end: where the trials that finished took longer, on as many slots as there
    are now, than the drivers that ended well were there for, that counts.
    """
    begun = [event.time for event in state.started]
    spans = [
        event.time - max((time for time in begun if time <= event.time), default=event.time) for event in state.finished
    ]
    trials = sum(result.wall_s for result in state.results.values())
    return max(sum(spans), trials / max(1, slots)) / 3600
