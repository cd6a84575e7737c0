"""For whoever has a GPU: whether it agrees with the CPU, and what hundreds of seeds cost there as one batch.

    python tests/benchmarks/on_a_gpu.py [--device DEVICE] [--seeds N …] [--small] [--minutes M]

It takes less than eight minutes. First the tests marked `gpu` (posteriors within 1e-4 of the CPU's, the same winners,
the same bits twice); then, for `cmm` on Setup 1 and for `speelfc` and `ldl-nm` on items of 384 features, the seconds of
20, 100 and 400 seeds of one dataset in one batch, beside 20 on the CPU. Promised: 400 seeds cost at most 10 times what
20 do (a GPU has room for more replicas; what a step costs is its dispatch). Where torch sees no GPU it says so and ends
well. Exit code 1 where a test fails or the promise is broken. `--device cpu --small` runs it as its own test does.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crowdsweep.data import catalogue, splits
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models import devices, registered
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_all
from crowdsweep.seeds import SeedStream

TESTS = Path(__file__).parents[1] / "unit" / "test_on_a_gpu.py"
FEW = 20
"""Seeds that the others are held against."""
LIMIT = 10.0
"""What 20 times as many may cost."""
CELLS: Mapping[str, Mapping[str, Any]] = {
    "cmm": {"hidden": [16], "dropout": 0.2, "iterations": 20, "protocol": "equal_budget", "restarts": 1},
    "speelfc": {"epochs": 10, "steps": 0},
    "ldl-nm": {"epochs": 5, "steps": 0},
}


def data_for(model: str, *, small: bool) -> TrainingData:
    """Returns what a model is fitted to."""
    if model == "cmm":
        base = catalogue.load("gaussians", {"annotators": 20 if small else 1000})
        training = splits.prepare(base, {}, 0).training
        return training if not small else first_items(training, 40)
    return wide_data(n_items=40 if small else 1000, width=8 if small else 384)


def first_items(data: TrainingData, n_items: int) -> TrainingData:
    """Returns the first items and their answers alone."""
    rows, kept = data.annotations, np.arange(n_items)
    return TrainingData(annotations=rows.of_items(kept), items=data.items.take(kept))


def wide_data(n_items: int, width: int) -> TrainingData:
    """Returns items whose features decide their class, ten labels each by 100 annotators, 5 classes."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(n_items, width)).astype(np.float32)
    gold = (features @ rng.normal(size=(width, 5))).argmax(axis=1)
    item = np.repeat(np.arange(n_items), 10)
    annotations = Annotations.of(
        item=item,
        annotator=rng.integers(0, 100, len(item)),
        label=np.where(rng.random(len(item)) < 0.7, gold[item], rng.integers(0, 5, len(item))),
        n_items=n_items,
        n_annotators=100,
        n_classes=5,
    )
    return TrainingData(annotations=annotations, items=Items(n_items=n_items, features=features))


def seconds(model: str, data: TrainingData, n_seeds: int, device: str, *, small: bool = False) -> float:
    """Returns the seconds of so many seeds in one batch."""
    params = {name: 1 if small and name in ("epochs", "iterations") else value for name, value in CELLS[model].items()}
    built = registered.build_model(model, params)
    contexts = [FitContext(seeds=SeedStream(seed), device=device) for seed in range(n_seeds)]
    begun = time.perf_counter()
    fit_all(built, [data] * n_seeds, contexts)  # its results are arrays: nothing is left to wait for
    return time.perf_counter() - begun


def memory(device: str) -> str:
    """Returns the most memory of a GPU that was held since the last call."""
    if torch.device(device).type != "cuda":
        return "-"
    found = torch.cuda.max_memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    return f"{found / 2**20:.0f} MiB"


def benchmark(device: str, counts: Sequence[int], *, small: bool, until: float) -> bool:
    """Prints what seeds cost; returns whether the promise is broken."""
    print("\nmodel     device    seeds    seconds    ms a fit    to the fewest    GPU memory")
    broken = False
    for model in CELLS:
        data = data_for(model, small=small)
        seconds(model, data, 2, device, small=small)  # kernels are loaded
        memory(device)
        cells = [(device, count) for count in counts]
        few = 0.0
        for place, count in [*cells, *([("cpu", min(counts))] if device != "cpu" else [])]:
            if time.monotonic() > until:
                print(f"{model:<8}  {place:<8}  {count:<7}  left out: the time is over")
                continue
            took = seconds(model, data, count, place, small=small)
            few = few or took
            print(
                f"{model:<8}  {place:<8}  {count:<7}  {took:<9.2f}  {1e3 * took / count:<10.1f}  "
                f"{took / few:<15.1f}  {memory(device)}",
                flush=True,
            )
            broken |= place != "cpu" and (min(counts), count) == (FEW, FEW * 20) and took > LIMIT * few
    return broken


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tests and prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default=None, help="cuda:0 by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[FEW, 100, 20 * FEW])
    parser.add_argument("--small", action="store_true", help="tiny data")
    parser.add_argument("--minutes", type=float, default=7.0, help="after which nothing more is begun")
    asked = parser.parse_args(arguments)
    until = time.monotonic() + 60 * asked.minutes
    device = asked.device or "cuda:0"
    if reason := devices.why_unusable(device):
        print(f"skipped: {reason}")
        return 0
    failed = False
    if device != "cpu":
        name = torch.cuda.get_device_name(device)
        print(f"{name}, torch {torch.__version__}, CUDA {torch.version.cuda}", flush=True)
        failed = pytest.main(["-q", "-n", "0", "-m", "gpu", str(TESTS)]) != 0
    devices.prepare(device)
    broken = benchmark(device, sorted(asked.seeds), small=asked.small, until=until)
    return int(failed or broken)


if __name__ == "__main__":
    sys.exit(main())
