"""From a CSV of many labels to a dataset's folder and to labels: processor time and peak memory of each command.

    python tests/benchmarks/large_inputs.py [--rows N] [--folder FOLDER]

The labels are made up: ten of each item, by N / 200 annotators who are right in seven of ten cases. `init` makes the
folder, `data check` reads it, and `label` fits majority-vote and says everything that is known of items, annotators and
single answers; then models of labels alone are fitted to the folder as read. Each runs in a process of its own, as a
person types it. Promised per million labels of five classes, on top of a second and 300 MB for what is imported:
`PROMISED` and `FITS` (`--rows 1e8 --without label` takes half an hour and 8 GB); then of 10,000 items and as many
classes, with ten labels each: `MANY_CLASSES`. Exit code 1 where one of these is broken.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

PROMISED = {"init": (8.0, 90.0), "data check": (4.0, 60.0), "label": (40.0, 110.0)}
"""Processor seconds and MB for each million labels."""
FITS = {"majority-vote": (4.0, 80.0), "one-coin": (5.0, 80.0), "dawid-skene": (8.0, 100.0)}
"""As `PROMISED`, reading included."""
FIT = """
import sys
from pathlib import Path
from crowdsweep.data import splits
from crowdsweep.data.on_disk.folder import read_folder
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.seeds import SeedStream
training = splits.prepare(read_folder(Path(sys.argv[1])), {}, 0).training
fit_one(registered.build_model(sys.argv[2], {}), training, FitContext(seeds=SeedStream(0)))
"""
MANY_CLASSES = {"init": (10.0, 500.0), "data check": (10.0, 500.0), "label": (60.0, 1000.0)}
"""Processor seconds and MB."""
Limits = dict[str, tuple[float, float]]
_PIECE = 1_000_000
_ACCURACY = 0.7


def named(prefix: str, codes: np.ndarray) -> Any:
    """Returns the texts prefix0, prefix1, …, as Arrow has them."""
    join: Any = pc.binary_join_element_wise
    return join(prefix, pa.array(codes).cast(pa.string()), "")


def write_labels(path: Path, n_rows: int, n_classes: int) -> None:
    """Writes a CSV with the columns item, annotator and label."""
    draws = np.random.default_rng(0)
    n_items, n_annotators = max(n_rows // 10, 1), max(n_rows // 200, 3)
    truth = draws.integers(n_classes, size=n_items)
    schema = pa.schema([(name, pa.string()) for name in ("item", "annotator", "label")])
    with pa_csv.CSVWriter(path, schema) as writer:
        for start in range(0, n_rows, _PIECE):
            size = min(_PIECE, n_rows - start)
            item, annotator = draws.integers(n_items, size=size), draws.integers(n_annotators, size=size)
            label = np.where(draws.random(size) < _ACCURACY, truth[item], draws.integers(n_classes, size=size))
            columns = [named("item", item), named("worker", annotator), named("c", label)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def measured(command: list[str]) -> tuple[float, float]:
    """Returns processor seconds and the peak of resident memory in MB."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, *command], env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {status}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1000


def keeps(place: Path, n_rows: int, n_classes: int, limits: Limits) -> bool:
    """Prints what labels take, and tells whether each command stays within its limits."""
    place.mkdir(parents=True, exist_ok=True)
    file, folder, labels = place / "answers.csv", place / "dataset", place / "labels"
    write_labels(file, n_rows, n_classes)
    print(f"{n_rows:,} labels of {n_classes:,} classes, {file.stat().st_size / 1e6:,.0f} MB", flush=True)
    kept = True
    commands = {
        "init": ["-m", "crowdsweep", "init", str(file), str(folder)],
        "data check": ["-m", "crowdsweep", "data", "check", str(folder)],
        "label": ["-m", "crowdsweep", "label", str(folder), "--model", "majority-vote", "--out", str(labels)],
        **{model: ["-c", FIT, str(folder), model] for model in FITS},
    }
    for name, command in commands.items():
        if name not in limits:
            continue
        (seconds, megabytes), (limit_s, limit_mb) = measured(command), limits[name]
        kept &= seconds <= limit_s and megabytes <= limit_mb
        print(f"{name:<13} {seconds:>7.1f} s of {limit_s:g}   {megabytes:>7.0f} MB of {limit_mb:g}", flush=True)
    return kept


def main() -> int:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=10_000_000)
    parser.add_argument("--folder", type=Path, help="where files are made, and stay; by default they go")
    parser.add_argument("--without", nargs="*", default=[], help="commands or models that are left out", metavar="NAME")
    options = parser.parse_args()
    million = options.rows / 1e6
    limits = {name: (s * million + 1.0, mb * million + 300.0) for name, (s, mb) in {**PROMISED, **FITS}.items()}
    limits = {name: limit for name, limit in limits.items() if name not in options.without}
    with tempfile.TemporaryDirectory() as temporary:
        place = options.folder or Path(temporary)
        kept = [
            keeps(place / "labels-of-few", options.rows, 5, limits),
            keeps(place / "labels-of-many", 100_000, 10_000, MANY_CLASSES),
        ]
    return int(not all(kept))


if __name__ == "__main__":
    sys.exit(main())
