"""How busy one driver keeps a thousand slots: `python tests/benchmarks/thousand_slots.py`.

Batches of one trial sleep on slots that are calls of asynchronous actors (`sleeping_slots`), so that two cores can have
a thousand of them. Two ways, one after the other in each of some rounds, each with a Ray cluster of its own:

    ray      a loop of a few lines over the same actors: one streaming call a slot, `ray.wait`, the next call
    engine   driver, journal on a local disk, Ray in its process beside it

Printed of each: the share of the time that slots were asleep, from the moment when all had something to do until the
last batch began; batches a second in that time; processor time a batch of the driver, and of the process of Ray where
it is another. Promised: 80 % busy. What else the machine does meets both ways, so that their ratio says more than the
shares where it is not quiet.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import NoReturn

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])  # of the process beside the driver
sys.path.append(os.environ["PYTHONPATH"])

import ray
from sleeping_slots import BEGAN, ENDED, sleeping_slots

from crowdsweep.engine.cluster import connect
from crowdsweep.engine.ray_proxy import RayProxy, RaySettings, start_process
from crowdsweep.record.journal import Journal
from crowdsweep.record.spec import TrialSpec
from crowdsweep.resources import Resources
from crowdsweep.sweep.cells import Search
from crowdsweep.sweep.driver import run_sweep
from crowdsweep.sweep.plan import Plan, make_plan
from crowdsweep.sweepfile.read import parse_sweep

PROCESSES = 4
PROMISED = 0.8


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is asked for: so many slots, batches and seconds a batch."""

    slots: int
    batches: int
    sleep_s: float


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run: share of the slots' time, batches a second, and processor milliseconds a batch."""

    busy: float
    rate: float
    driver_ms: float
    ray_ms: float = 0.0

    def __str__(self) -> str:
        return (
            f"{100 * self.busy:6.1f} % busy {self.rate:7.0f} batches a second; processor time a batch: "
            f"driver {self.driver_ms:.2f} ms, process of Ray {self.ray_ms:.2f} ms"
        )


def busy_share(when: Sequence[tuple[float, float]], size: Size) -> tuple[float, float]:
    """Returns the share of the slots' time in which they slept, and batches a second, while there was work for all.

    Args:
        when: begin and end of each batch.
        size: what was asked for.
    """
    begins = sorted(began for began, _ in when)
    first, last = begins[size.slots - 1], begins[-1]
    slept = sum(max(0.0, min(ended, last) - max(began, first)) for began, ended in when)
    return slept / (size.slots * (last - first)), (len(begins) - size.slots) / (last - first)


def plan_of(size: Size) -> Plan:
    """Returns one cell of as many seeds as there are batches."""
    sweep = {
        "name": "thousand",
        "datasets": ["anesthesia"],
        "models": ["uniform"],
        "seeds": {"report": size.batches},
        "pack": 1,
    }
    return make_plan(parse_sweep(sweep))


def specs_of(plan: Plan) -> list[TrialSpec]:
    """Returns its trials."""
    (cell,) = plan.cells
    return list(cell.report_specs())


def bare(size: Size) -> Measured:
    """A loop over Ray's calls, and nothing else."""
    specs = specs_of(plan_of(size))
    started = connect("local")
    handles = [sleeping_slots(size.sleep_s) for _ in range(PROCESSES)]
    ray.get([handle.why_unusable.remote() for handle in handles])
    used = time.process_time()

    def begun(handle: object) -> object:
        return handle.run.options(num_returns="streaming").remote([specs.pop()], "", [], None)

    flying = {begun(handle := handles[n % PROCESSES]): handle for n in range(size.slots)}
    when: list[tuple[float, float]] = []
    while flying:
        ready, _ = ray.wait(list(flying), num_returns=1)
        if len(flying) > 1:
            ready, _ = ray.wait(list(flying), num_returns=len(flying), timeout=0)
        for stream in ready:
            handle = flying.pop(stream)
            when += [(one.metrics[BEGAN], one.metrics[ENDED]) for one in ray.get(next(stream))]
            if specs:
                flying[begun(handle)] = handle
    used = time.process_time() - used
    started.close()
    busy, rate = busy_share(when, size)
    return Measured(busy=busy, rate=rate, driver_ms=1000 * used / size.batches)


def engine(size: Size) -> Measured:
    """The driver, as a sweep has it."""
    plan = plan_of(size)
    resources = Resources(cpu=len(os.sched_getaffinity(0)) / size.slots)
    settings = RaySettings(address="local", resources=[resources], trial_minutes=None)
    sleeping = f"sleep_s={size.sleep_s}, processes={PROCESSES}"
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder))
        program = f"from sleeping_slots import serve; serve({{}}, {sleeping})"
        executor = RayProxy(plan.bases, settings, start_process(program))
        beside = executor._ray.process.pid
        used, beside_used = time.process_time(), processor_s(beside)
        try:
            outcome = run_sweep(plan, executor=executor, journal=journal, make_searcher=none)
            used, beside_used = time.process_time() - used, processor_s(beside) - beside_used
        finally:
            executor.close()
            journal.close()
        if (outcome.status, outcome.finished) != ("done", size.batches):
            raise RuntimeError(f"the sweep did not end well: {outcome}")
        results = journal.state.results.values()
    busy, rate = busy_share([(one.metrics[BEGAN], one.metrics[ENDED]) for one in results], size)
    return Measured(
        busy=busy,
        rate=rate,
        driver_ms=1000 * used / size.batches,
        ray_ms=1000 * beside_used / size.batches,
    )


def none(search: Search) -> NoReturn:
    """Makes no searcher: nothing is searched here."""
    raise RuntimeError(f"expected no search, got {search}")


def processor_s(pid: int) -> float:
    """Returns the processor time that a process has used, in seconds."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Prints each run and the medians; returns 1 where the promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slots", type=int, default=1000)
    parser.add_argument("--sleep", type=float, default=2.0)
    parser.add_argument("--batches", type=int, default=12_000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    size = Size(slots=asked.slots, batches=asked.batches, sleep_s=asked.sleep)
    ways: dict[str, Callable[[], Measured]] = {"ray": partial(bare, size), "engine": partial(engine, size)}
    runs: dict[str, list[Measured]] = {name: [] for name in ways}
    for _ in range(asked.rounds):
        for name, way in ways.items():
            runs[name].append(way())
            print(f"{name:<8}{runs[name][-1]}   (load average {os.getloadavg()[0]:.1f})", flush=True)
    busy = {name: median(one.busy for one in measured) for name, measured in runs.items()}
    ratio = median(ours.rate / its.rate for ours, its in zip(runs["engine"], runs["ray"], strict=True))
    kept = busy["engine"] >= PROMISED
    print(
        f"medians: ray {busy['ray']:.0%} busy, engine {busy['engine']:.0%}, engine / ray {ratio:.2f} batches a second"
    )
    print(f"promised: {PROMISED:.0%} busy   {'kept' if kept else 'NOT KEPT'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
