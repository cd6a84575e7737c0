"""Twenty slots that only sleep, under the engine's own loop: as the benchmark has a thousand, untimed."""

from collections import Counter
from functools import partial
from itertools import pairwise

import pytest
from driven import config_of
from fakes import HistorySearcher, MemoryJournal
from sleeping_slots import BEGAN, ENDED, SleepingPool

from crowdsweep.engine.cluster import Cluster
from crowdsweep.engine.ray_actors import RayExecutor
from crowdsweep.record.events import Event, TrialStarted
from crowdsweep.resources import Resources
from crowdsweep.sweep.cells import Search
from crowdsweep.sweep.driver import run_sweep
from crowdsweep.sweep.plan import make_plan

SLOTS, TRIALS = 20, 70


class Starts:
    """A mirror that notes which slot each trial began on."""

    def __init__(self) -> None:
        self.slots: dict[str, list[str]] = {}

    def handle(self, event: Event) -> None:
        if isinstance(event, TrialStarted):
            self.slots.setdefault(event.slot, []).append(event.key)

    def close(self) -> None: ...


def no_search(search: Search) -> HistorySearcher:
    return HistorySearcher(limit=search.limit)


@pytest.mark.ray
@pytest.mark.xdist_group("ray")
def test_twenty_slots_run_each_trial_once_and_one_at_a_time(ray_cluster: Cluster) -> None:
    plan = make_plan(config_of(models=["uniform"], seeds={"report": TRIALS}, pack=1))
    pool = partial(SleepingPool, sleep_s=0.2, processes=2)
    executor = RayExecutor(plan.bases, ray_cluster, [Resources(cpu=2 / SLOTS)], make_pool=pool)
    journal, starts = MemoryJournal(), Starts()
    try:
        assert executor.slots_for() == SLOTS
        outcome = run_sweep(plan, executor=executor, journal=journal, make_searcher=no_search, mirrors=[starts])
    finally:
        executor.close()
    results = journal.state.results
    assert (outcome.status, outcome.finished, outcome.ran) == ("done", TRIALS, TRIALS)
    assert Counter(key for keys in starts.slots.values() for key in keys) == dict.fromkeys(results, 1)
    assert 1 < len(starts.slots) <= SLOTS
    for keys in starts.slots.values():
        for one, other in pairwise(results[key].metrics for key in keys):
            assert other[BEGAN] >= one[ENDED], "a slot has one batch at a time"
