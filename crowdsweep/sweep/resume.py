"""What is left to do: a plan less what the journal holds."""

from collections.abc import Callable

from crowdsweep.journal.state import JournalState
from crowdsweep.search.contract import PointSearcher
from crowdsweep.sweep.plan import Plan, Study
from crowdsweep.sweep.study_run import StudyRun

MakeSearcher = Callable[[Study], PointSearcher]


def resumed_studies(plan: Plan, state: JournalState, make_searcher: MakeSearcher) -> list[StudyRun]:
    """Returns the plan's studies, each where the journal left it."""
    return [
        StudyRun(
            study,
            plan,
            make_searcher(study),
            list(state.proposals.get(study.key, ()))[: study.limit],
            {n: value for n, value in state.values.get(study.key, {}).items() if n < study.limit},
            state.selected.get(study.key),
        )
        for study in plan.studies
    ]


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
