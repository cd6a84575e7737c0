"""What is left to do: a plan less what the journal holds."""

from collections.abc import Callable

from crowdsweep.search.contract import PointSearcher
from crowdsweep.sinks.journal_state import JournalState
from crowdsweep.sweep.plan import Plan, Study
from crowdsweep.sweep.study_run import WINDOW, StudyRun

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
            window=WINDOW if study.learns else study.limit,
        )
        for study in plan.studies
    ]
