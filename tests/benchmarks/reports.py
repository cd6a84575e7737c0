"""Reading and reporting large records: seconds and memory of `report`, `results`, `status` and going on.

    PYTHONPATH=tests python tests/benchmarks/reports.py [--trials N]

The trials are made up: ten models on twenty datasets, each with a search of points (three seeds each), of which twenty
trials are reported. Each command runs in a process of its own, as a person types it; going on is reading the record
as `run` does. Promised at 100,000 trials, which are 264,000 rows: the report in 20 s and 0.5 GB, results in 5.6 s and
0.33 GB, status in 8.2 s and 0.35 GB, going on in 5.2 s and 0.28 GB (processor time). That is up to a quarter more than
was measured at load average 25 on two cores; without other work it was 12.6, 4.1, 5.8 and 3.4 s, and as much memory.
Exit code 1 where one is broken.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from journals import made_up_search, made_up_sweep, made_up_trials

from crowdsweep.record.events import Event
from crowdsweep.record.journal import Journal

MODELS = ("dawid-skene", "mace", "glad", "one-coin", "wawa", "zero-based-skill", "kos", "snorkel", "fmm", "pgm-bp")
N_DATASETS, SEARCH_SEEDS, REPORT_SEEDS = 20, 3, 20
PROMISED = {"report": (20.0, 500.0), "results": (5.6, 330.0), "status": (8.2, 350.0), "go on": (5.2, 280.0)}
GO_ON = """
import sys
from pathlib import Path
from crowdsweep.record.journal import Journal
Journal(Path(sys.argv[1])).close()
"""


def events(n_trials: int) -> Iterator[Event]:
    """Yields the events of made-up searches and their reports."""
    random = np.random.default_rng(0)
    n_points = max(1, (n_trials // (len(MODELS) * N_DATASETS) - REPORT_SEEDS) // SEARCH_SEEDS)
    for place, model in enumerate(MODELS):
        for number in range(N_DATASETS):
            search, dataset = f"{model} {number}", f"d{number:02}"
            points = [{"smoothing": float(value)} for value in random.random(n_points)]
            values = (0.7 + 0.01 * place + 0.05 * random.random(n_points)).tolist()
            best = int(np.argmax(values))
            yield from made_up_search(search, model, dataset, points, values, [best])
            for point in points:
                scores = [{"dev_accuracy": float(score)} for score in 0.7 + 0.1 * random.random(SEARCH_SEEDS)]
                yield from made_up_trials(model, dataset, scores, point=point, phase="search", search=search)
            numbers = 0.7 + 0.01 * place + 0.02 * random.standard_normal((REPORT_SEEDS, 2))
            scores = [{"test_accuracy": float(a), "test_macro_f1": float(b)} for a, b in numbers]
            yield from made_up_trials(model, dataset, scores, point=points[best], search=search, first_seed=100)


def measured(command: list[str]) -> tuple[float, float]:
    """Returns processor seconds and the peak of resident memory in MB."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command} ended with {status}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1000


def write(store: Path, n_trials: int) -> None:
    """Writes the record of a sweep."""
    began = time.process_time()
    journal = Journal(store)
    models = [{"name": name, "params": {}, "search": {"smoothing": {"min": 0, "max": 1}}} for name in MODELS]
    journal.handle_many(made_up_sweep(events(n_trials), models=models))
    journal.close()
    print(f"{n_trials:,} trials, written in {time.process_time() - began:.1f} s", flush=True)


def main() -> int:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100_000)
    n_trials = parser.parse_args().trials
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        # In a process of its own: the peak of a child is never below what its parent holds when it begins.
        writer = get_context("spawn").Process(target=write, args=(store, n_trials))
        writer.start()
        writer.join()
        broken = 0
        for name, command in {
            "report": ["-m", "crowdsweep", "report", str(store)],
            "results": ["-m", "crowdsweep", "results", str(store)],
            "status": ["-m", "crowdsweep", "status", str(store)],
            "go on": ["-c", GO_ON, str(store)],
        }.items():
            seconds, megabytes = measured([sys.executable, *command])
            limit_s, limit_mb = PROMISED[name]
            broken += seconds > limit_s or megabytes > limit_mb
            print(f"{name:<8} {seconds:>6.1f} s of {limit_s:g}   {megabytes:>6.0f} MB of {limit_mb:g}", flush=True)
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
