"""What the engine costs a trial: `python tests/benchmarks/engine_overhead.py` prints milliseconds and ratios.

1,000 trials (seeds) of the `uniform` model on a tiny dataset, on two Ray actors of one CPU each, in these ways, one
after another in each of three rounds, so that other work on the machine meets all of them; medians count:

    actor      the plain actor call: two actors, one trial a call, at most two calls in flight on each; no driver
    engine     driver, journal on a local disk, MLflow off; one trial a batch
    packed     the same, 20 trials a batch
    mlflow     as `engine`, with MLflow on sqlite, until its last run is written and its database closed
    tune       Ray Tune with `reuse_actors=True`, two at a time (with fewer trials: its cost a trial is constant)
    bare       four calls of MLflow's client for each of as many trials as Tune gets, which write the same tags, params,
               metrics and dataset into the same database: no client of MLflow writes a run in less. Processor time
    mirror     what we write of the same trials, cells among them. Processor time

Promised: engine - actor <= 4 ms per trial, with one trial per batch too; tune >= 8 × engine; mlflow - engine <= 50 ms;
mirror <= 1.3 × bare.
"""

import argparse
import contextlib
import operator
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.update(RAY_USAGE_STATS_ENABLED="0", TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1", RAY_AIR_NEW_OUTPUT="0")

import ray
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param

from crowdsweep.app import run
from crowdsweep.engine.cluster import Cluster, connect
from crowdsweep.engine.executor import Batch
from crowdsweep.engine.ray_actors import RayExecutor
from crowdsweep.engine.ray_slot import slot_options
from crowdsweep.record.events import Event, Mirror, SweepFinished, SweepStarted
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.kinds import apply_event
from crowdsweep.record.plan_record import PlanRecord
from crowdsweep.record.shown import one_each, shown_trials
from crowdsweep.record.state import MutableState
from crowdsweep.resources import Resources
from crowdsweep.sweep.driver import run_sweep
from crowdsweep.sweep.environment import environment
from crowdsweep.sweep.plan import make_plan
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.sweepfile.records import SweepConfig
from crowdsweep.tracking.mlflow_connection import MlflowClient, MlflowConnection
from crowdsweep.tracking.mlflow_runs import MlflowMirror, reader_of, rebuild, tracking_uri
from crowdsweep.tracking.run_records import trial_record
from crowdsweep.trial.runner import run_batch

SLOTS = 2
WAYS = ("actor", "engine", "packed", "mlflow", "tune", "bare", "mirror")
PROMISES: dict[str, tuple[str, str, str, Callable[[float, float], float], Callable[[float], bool]]] = {
    "engine - plain call, one trial a batch": ("engine", "actor", "<= 4 ms", operator.sub, lambda ms: ms <= 4),
    "engine - plain call, packed": ("packed", "actor", "<= 4 ms", operator.sub, lambda ms: ms <= 4),
    "MLflow - engine, one trial a batch": ("mlflow", "engine", "<= 50 ms", operator.sub, lambda ms: ms <= 50),
    "Ray Tune / engine, one trial a batch": ("tune", "engine", ">= 8 x", operator.truediv, lambda x: x >= 8),
    "Ray Tune / engine, packed": ("tune", "packed", ">= 8 x", operator.truediv, lambda x: x >= 8),
    "our mirror / four bare calls": ("mirror", "bare", "<= 1.3 x", operator.truediv, lambda x: x <= 1.3),
}


class Shared(Cluster):
    """The cluster of this benchmark, which executors leave running."""

    def close(self) -> None: ...


class LastTrial:
    """A mirror that notes when the last trial had finished: what is left then is MLflow's backlog."""

    at = 0.0

    def handle(self, event: Event) -> None:
        if isinstance(event, SweepFinished):
            self.at = time.perf_counter()

    def close(self) -> None: ...


def sweep_of(trials: int, pack: int) -> SweepConfig:
    """Returns a sweep of a model whose fit costs nothing."""
    return parse_sweep(
        {
            "name": "overhead",
            "datasets": ["anesthesia"],
            "models": ["uniform"],
            "seeds": {"report": trials},
            "pack": pack,
            "tracking": {"experiment": "overhead"},
        }
    )


def timed(name: str, trials: int, work: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Runs and prints; returns milliseconds a trial."""
    began = clock()
    work()
    each = (clock() - began) / trials * 1000
    print(f"{name:<34}{each:>9.2f} ms per trial   ({trials} trials)", flush=True)
    return each


def plain_actors(trials: int) -> float:
    """One trial a call on two actors; the next goes out when one comes back."""
    plan = make_plan(sweep_of(trials, 1))
    (cell,) = plan.cells
    specs = cell.report_specs()
    place = [ray.put(next(iter(plan.bases.values())))]

    class Plain:
        base: Any = None

        def call(self, specs: Any, place: Any) -> Any:
            self.base = self.base or ray.get(place[0])
            return run_batch(specs, self.base, "cpu", lambda event: True)

    actors = [ray.remote(Plain).options(**slot_options(Resources())).remote() for _ in range(SLOTS)]
    ray.get([actor.call.remote(specs[:1], place) for actor in actors])

    def work() -> None:
        waiting, flying = list(specs), {}
        for actor in actors * 2:
            flying[actor.call.remote([waiting.pop()], place)] = actor
        while flying:
            ready, _ = ray.wait(list(flying), num_returns=1)
            for reference in ready:
                actor = flying.pop(reference)
                ray.get(reference)
                if waiting:
                    flying[actor.call.remote([waiting.pop()], place)] = actor

    each = timed("plain actor call", trials, work)
    for actor in actors:
        ray.kill(actor)
    return each


def engine(cluster: Cluster, trials: int, pack: int, mlflow: bool) -> float:
    """The whole engine on actors that are up already."""
    config = sweep_of(trials, pack)
    plan = make_plan(config)
    executor = RayExecutor(plan.bases, cluster)
    (cell,) = plan.cells
    for spec in cell.specs(range(trials, trials + SLOTS), "report"):  # of other seeds: slots start when work waits
        executor.submit(Batch(specs=[spec]))
    while len(executor.process_ids()) < SLOTS or executor.running:
        executor.poll(0.1)
    with tempfile.TemporaryDirectory() as folder:
        if mlflow:  # making its tables takes a second, once
            begun = SweepStarted(name="overhead", config={}, plan=PlanRecord(), environment={}, resumed=False, time=0.0)
            known = MutableState()
            apply_event(known, begun)
            rebuild(known.view(), tracking_uri(Path(folder)), "overhead")
        journal = Journal(Path(folder))
        last = LastTrial()
        mirrors: list[Mirror] = [last]
        if mlflow:
            mirrors.append(
                MlflowMirror(Path(folder), experiment="overhead", look=journal.snapshot, record=journal.handle)
            )

        def work() -> None:
            outcome = run_sweep(
                plan,
                executor=executor,
                journal=journal,
                mirrors=mirrors,
                environment=environment(),
            )
            if (outcome.status, outcome.finished, outcome.failed) != ("done", trials, 0):
                raise RuntimeError(f"the sweep did not end well: {outcome}")

        name = f"engine, pack {pack}" + (", MLflow on sqlite" if mlflow else "")
        began = time.perf_counter()
        each = timed(name, trials, work)
        print(f"{'':<34}{(last.at - began) / trials * 1000:>9.2f} until the last trial had finished")
        executor.close()
        journal.close()
        if mlflow and (written := finished_trials(Path(folder))) != trials:
            raise RuntimeError(f"MLflow has {written} of {trials} trials")
    return each


def finished_trials(store: Path) -> int:
    """Returns how many trials MLflow's database in a store has as FINISHED, with metrics."""
    question = """
        SELECT count(DISTINCT runs.run_uuid) FROM runs JOIN tags USING (run_uuid) JOIN metrics USING (run_uuid)
        WHERE tags.key = 'crowdsweep.kind' AND tags.value = 'trial' AND runs.status = 'FINISHED'
    """
    with contextlib.closing(sqlite3.connect(store / "mlflow.db")) as database:
        return database.execute(question).fetchone()[0]


def written_to_mlflow(trials: int, *, bare: bool) -> float:
    """Writes the runs of a sweep that has ended into a new database."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "store")
        config = sweep_of(trials, 20)
        run(replace(config, tracking=replace(config.tracking, enabled=False)), store, engine="inline", quiet=True)
        state = read_journal(store)
        door = MlflowConnection(tracking_uri(Path(folder)), "overhead")
        door.open()  # making its tables takes a second, once
        if not bare:
            ours = partial(rebuild, state, tracking_uri(Path(folder)), "overhead", read=reader_of(store))
            return timed("our mirror of a record", trials, ours, time.process_time)
        client = MlflowClient(tracking_uri(Path(folder)))
        (experiment,) = client.search_experiments(filter_string="name = 'overhead'")
        shown = one_each(shown_trials(state, every=True))
        told = [
            trial_record(shown[key], result, sweep="overhead", environment=state.environment)
            for key, result in state.results.items()
        ]

        def work() -> None:
            for one in told:
                created = client.create_run(experiment.experiment_id, 1, dict(one.tags), one.name).info.run_id
                metrics = [Metric(name, value, 1, 0) for name, value in one.metrics.items()]
                client.log_batch(created, metrics, [Param(name, value) for name, value in one.params.items()])
                data = Dataset(name=one.dataset, digest=one.fingerprint, source_type="crowdsweep", source=one.dataset)
                client.log_inputs(created, datasets=[DatasetInput(data, [InputTag("mlflow.data.context", "training")])])
                client.set_terminated(created)

        return timed("four bare calls of MLflow", trials, work, time.process_time)


def tune(trials: int) -> float:
    """The same trials under Ray Tune, which is given everything that makes it fast."""
    from ray import tune as ray_tune

    plan = make_plan(sweep_of(trials, 1))
    (cell,) = plan.cells
    specs = cell.report_specs()
    base = next(iter(plan.bases.values()))

    class Trainable(ray_tune.Trainable):
        def setup(self, config: dict[str, Any], base: Any = None) -> None:
            self._index, self._base = config["index"], base

        def step(self) -> dict[str, Any]:
            result = run_batch([specs[self._index]], self._base, "cpu", lambda event: True)[0]
            return {"status": result.status, "done": True}

        def reset_config(self, new_config: dict[str, Any]) -> bool:
            self._index = new_config["index"]
            return True

    def work() -> None:
        with tempfile.TemporaryDirectory() as folder:
            tuner = ray_tune.Tuner(
                ray_tune.with_parameters(Trainable, base=base),
                param_space={"index": ray_tune.grid_search(list(range(trials)))},
                tune_config=ray_tune.TuneConfig(reuse_actors=True, max_concurrent_trials=SLOTS),
                run_config=ray_tune.RunConfig(
                    storage_path=folder,
                    verbose=0,
                    checkpoint_config=ray_tune.CheckpointConfig(checkpoint_frequency=0, checkpoint_at_end=False),
                ),
            )
            if tuner.fit().num_errors:
                raise RuntimeError("trials failed under Ray Tune")

    return timed("Ray Tune, reuse_actors=True", trials, work)


def main() -> int:
    """Prints the tables; returns 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--tune-trials", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=WAYS, default=WAYS)
    asked = parser.parse_args()
    started = connect("local", cpus=SLOTS)
    cluster = Shared(started=True)
    ways: dict[str, Callable[[], float]] = {
        "actor": lambda: plain_actors(asked.trials),
        "engine": lambda: engine(cluster, asked.trials, 1, mlflow=False),
        "packed": lambda: engine(cluster, asked.trials, 20, mlflow=False),
        "mlflow": lambda: engine(cluster, asked.trials, 1, mlflow=True),
        "tune": lambda: tune(asked.tune_trials),
        "bare": lambda: written_to_mlflow(asked.tune_trials, bare=True),
        "mirror": lambda: written_to_mlflow(asked.tune_trials, bare=False),
    }
    rounds: list[dict[str, float]] = []
    for number in range(asked.rounds):
        print(f"round {number + 1} of {asked.rounds}; load average {os.getloadavg()[0]:.1f}", flush=True)
        rounds.append({name: way() for name, way in ways.items() if name in asked.only})
    started.close()
    return 0 if told(rounds) else 1


def told(rounds: list[dict[str, float]]) -> bool:
    """Prints the median and the range over the rounds; returns whether every promise's median is kept."""
    kept = True
    for name in rounds[0]:
        print(f"{name:<42}{_spread([one[name] for one in rounds])}  ms per trial")
    for name, (first, second, promise, value, holds) in PROMISES.items():
        if first in rounds[0] and second in rounds[0]:
            values = [value(one[first], one[second]) for one in rounds]
            good = holds(median(values))
            kept = kept and good
            print(f"{name:<42}{_spread(values)}  promised {promise:<9}{'kept' if good else 'NOT KEPT'}")
    return kept


def _spread(values: list[float]) -> str:
    return f"{median(values):>9.2f}  ({min(values):.2f} to {max(values):.2f})".ljust(30)


if __name__ == "__main__":
    sys.exit(main())
