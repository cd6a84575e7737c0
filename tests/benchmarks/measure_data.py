"""Time and peak memory of large data: simulated crowds of a million annotators, a CSV of ten million rows.

    python tests/benchmarks/measure_data.py

Each measurement runs in a process of its own; peak memory is that of the process, imports included.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from crowdsweep.data import catalogue
from crowdsweep.data.on_disk.folder import read_folder
from crowdsweep.data.splits import prepare

_CSV_ROWS = 10_000_000


def crowd(items_per_class: int) -> str:
    params = {"annotators": 1_000_000, "items": items_per_class}
    rows = prepare(catalogue.load("gaussians", params), params, 0).training.annotations
    return f"{rows.n_items:,} items, {len(rows):,} labels, {rows.n_active_annotators:,} of 1,000,000 annotators active"


def write_csv(folder: Path) -> None:
    draws = np.random.default_rng(0)
    names = {"item": ("item", 1_000_000), "annotator": ("worker", 50_000), "label": ("", 5)}
    schema = pa.schema([(name, pa.string()) for name in names])
    with pa_csv.CSVWriter(folder / "annotations.csv", schema) as writer:
        for _ in range(_CSV_ROWS // 500_000):
            codes = {name: draws.integers(size, size=500_000) for name, (_, size) in names.items()}
            columns = [[f"{names[name][0]}{code}" for code in codes[name].tolist()] for name in names]
            writer.write_table(pa.table(columns, schema=schema))


def load(folder: Path) -> str:
    data = read_folder(folder)
    size = (folder / "annotations.csv").stat().st_size / 1e6
    return f"{len(data.annotations):,} rows ({size:.0f} MB) of {data.items.n_items:,} items"


def measured(measure: Callable[[], str]) -> None:
    started = time.perf_counter()
    text = measure()
    # Not ru_maxrss: that starts from what the parent held.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    peak = int(status["VmHWM"].split()[0]) / 1024
    print(f"{text}: {time.perf_counter() - started:.1f} s, peak {peak:.0f} MB")


def main() -> None:
    if len(sys.argv) == 3:
        kind, value = sys.argv[1:]
        measured((lambda: crowd(int(value))) if kind == "crowd" else (lambda: load(Path(value))))
        return
    with tempfile.TemporaryDirectory() as place:
        write_csv(Path(place))
        for kind, value in (("crowd", "1092"), ("crowd", "444445"), ("load", place)):
            subprocess.run([sys.executable, __file__, kind, value], check=True)


if __name__ == "__main__":
    main()
