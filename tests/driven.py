"""A small sweep, and the event loop over it on a virtual clock."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fakes import FakeExecutor, HistorySearcher, MemoryJournal

from crowdsweep.record.events import (
    Event,
    Mirror,
    PointProposed,
    PointScored,
    PointsSelected,
)
from crowdsweep.record.spec import TrialSpec
from crowdsweep.search.contract import PointSearcher
from crowdsweep.sweep.cells import Search
from crowdsweep.sweep.driver import SweepOutcome, run_sweep
from crowdsweep.sweep.interrupts import Interrupts
from crowdsweep.sweep.plan import Plan
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.sweepfile.records import SweepConfig


def config_of(**changes: Any) -> SweepConfig:
    """A sweep with two fixed cells and one search over fractions."""
    mapping: dict[str, Any] = {
        "name": "tiny",
        "datasets": ["anesthesia"],
        "models": [
            "majority-vote",
            "uniform",
            {"name": "dawid-skene", "search": {"smoothing": {"min": 0.0, "max": 1.0}}},
        ],
        "budget": {"points": 10},
        "seeds": {"search": 3, "report": 5, "rescored": 2},
        "pack": 4,
    }
    return parse_sweep({**mapping, **changes})


def by_seed(spec: TrialSpec) -> Mapping[str, float]:
    smoothing = spec.params.get("smoothing", 0.0)
    return {"heldout_loglik": -((smoothing - 0.3) ** 2) + 0.001 * (spec.seed % 7), "train_accuracy": 0.5}


def drive(
    plan: Plan,
    journal: MemoryJournal,
    score: Callable[[TrialSpec], Mapping[str, float]] = by_seed,
    interrupts: Interrupts | None = None,
    mirrors: Sequence[Mirror] = (),
    kind: type[FakeExecutor] = FakeExecutor,
    make_searcher: Callable[[Search], PointSearcher] = lambda search: HistorySearcher(limit=search.limit),
    retry_failed: bool = False,
    **executor: Any,
) -> tuple[SweepOutcome, FakeExecutor]:
    slots = kind(score=score, **executor)
    outcome = run_sweep(
        plan,
        executor=slots,
        journal=journal,
        make_searcher=make_searcher,
        mirrors=mirrors,
        clock=slots.clock,
        watch=slots.clock,
        interrupts=interrupts,
        retry_failed=retry_failed,
    )
    return outcome, slots


def numbers(journal: MemoryJournal) -> dict[str, dict[str, float]]:
    return {key: dict(result.metrics) for key, result in journal.state.results.items()}


def decisions(journal: MemoryJournal) -> list[Event]:
    return [event for event in journal.events if isinstance(event, PointProposed | PointScored | PointsSelected)]


def by_point(journal: MemoryJournal) -> list[Event]:
    """The decisions, in an order that does not depend on when points were asked for."""
    return sorted(decisions(journal), key=lambda event: (type(event).__name__, getattr(event, "number", -1)))


RACING: dict[str, Any] = {"early_stop": {"kind": "wilcoxon"}, "seeds": {"search": 8, "report": 5, "rescored": 2}}
