"""What stacking replicas buys: processor seconds of many fits in one batch against fits one by one, on one core.

    python tests/benchmarks/replicas.py [MODEL ...]

Two tables. Small networks cost their dispatch: `cmm` on Setup 1 (20 iterations), where 20 seeds may cost 3 fits, and 20
seeds of 20 restarts 40. Larger ones (384 features) cost their arithmetic: 20 seeds in a batch must not be slower than
one by one, and stay within 4 times the floor, which is the products that one fit makes (counted by torch) at the rate
of a large matrix product on this core. Processor time is counted, so that neighbours disturb little. Exit code 1 where
a limit is broken. A new model needs a line in LARGE only.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from crowdsweep.data import catalogue, splits
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext, fit_all
from crowdsweep.seeds import SeedStream

SEEDS = 20
REPEATS = 3
CMM = {"hidden": [16], "dropout": 0.2, "iterations": 20, "protocol": "equal_budget"}
LARGE: Mapping[str, Mapping[str, Any]] = {
    "pd": {"epochs": 10, "patience": 10},
    "speelfc-d": {"epochs": 10},
    "ldl-nm": {"epochs": 5},
}


def seconds(work: Callable[[], object]) -> float:
    """Returns processor seconds."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def fit(model: str, params: Mapping[str, Any], data: Sequence[TrainingData]) -> float:
    """Returns the processor seconds of one batch."""
    built = registered.build_model(model, params)
    contexts = [FitContext(seeds=SeedStream(seed)) for seed in range(len(data))]
    return seconds(lambda: fit_all(built, data, contexts))


def small_networks() -> bool:
    """Prints what batches of cmm cost in fits; returns whether a limit is broken."""
    base = catalogue.load("gaussians", {"annotators": 1000})
    data = [splits.prepare(base, {}, seed).training for seed in range(SEEDS)]
    fit("cmm", {**CMM, "restarts": 1}, data[:1])
    one, seeds, restarts = [], [], []
    for _ in range(REPEATS):
        one += [fit("cmm", {**CMM, "restarts": 1}, data[s : s + 1]) for s in range(3)]
        seeds.append(fit("cmm", {**CMM, "restarts": 1}, data))
    restarts = [fit("cmm", {**CMM, "restarts": 20}, data)]
    alone = float(np.median(one))
    print(f"cmm, Setup 1, 20 iterations, one restart: {1e3 * alone:.0f} ms alone")
    print("batch                     seconds    fits alone    limit")
    broken = False
    for name, found, limit in (("20 seeds", seeds, 3), ("20 seeds x 20 restarts", restarts, 40)):
        cost = float(np.median(found))
        broken |= cost > limit * alone
        print(f"{name:<24}  {cost:<9.2f}  {cost / alone:<12.1f}  {limit}")
    return broken


def large_networks(models: Sequence[str]) -> bool:
    """Prints what 20 seeds cost batched, one by one, and as bare arithmetic; returns whether a limit is broken."""
    rate = product_rate()
    print(f"\n384 features, 1000 items, 10 labels each; matrix products of this core: {rate / 1e9:.0f} GFLOP/s")
    print("model        one by one    batched    floor      batched/one by one    batched/floor (limit 4)")
    data = [wide_data(seed) for seed in range(SEEDS)]
    broken = False
    for model in models:
        params = LARGE[model]
        fit(model, params, data[:1])
        with FlopCounterMode(display=False) as counter:
            fit(model, params, data[:1])
        floor = SEEDS * counter.get_total_flops() / rate
        rounds = [(sum(fit(model, params, [part]) for part in data), fit(model, params, data)) for _ in range(REPEATS)]
        in_turn, batched = (float(np.median(column)) for column in zip(*rounds, strict=True))
        broken |= batched > 1.05 * in_turn or batched > 4 * floor
        print(
            f"{model:<11}  {in_turn:<6.2f} s      {batched:<6.2f} s   {floor:<6.2f} s   "
            f"{batched / in_turn:<20.2f}  {batched / floor:.1f}"
        )
    return broken


def product_rate() -> float:
    """Returns the floating-point operations a second of a float32 product of 1024 x 1024 matrices."""
    left, right = torch.rand(2, 1024, 1024)
    torch.mm(left, right)
    return 2 * 1024**3 / min(seconds(lambda: torch.mm(left, right)) for _ in range(9))


def wide_data(seed: int) -> TrainingData:
    """Returns items of 384 features that decide their class, ten labels each by 100 annotators, 5 classes."""
    rng = np.random.default_rng(seed)
    n_items, n_classes, n_annotators = 1000, 5, 100
    features = rng.normal(size=(n_items, 384)).astype(np.float32)
    gold = (features @ rng.normal(size=(384, n_classes))).argmax(axis=1)
    item = np.repeat(np.arange(n_items), 10)
    label = np.where(rng.random(len(item)) < 0.7, gold[item], rng.integers(0, n_classes, len(item)))
    annotations = Annotations.of(
        item=item,
        annotator=rng.integers(0, n_annotators, len(item)),
        label=label,
        n_items=n_items,
        n_annotators=n_annotators,
        n_classes=n_classes,
    )
    return TrainingData(annotations=annotations, items=Items(n_items=n_items, features=features))


def main() -> int:
    """Prints both tables."""
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help=f"cmm, or of {', '.join(LARGE)}; all by default")
    asked = parser.parse_args().models or ["cmm", *LARGE]
    broken = small_networks() if "cmm" in asked else False
    wide = [model for model in LARGE if model in asked]
    return int((large_networks(wide) if wide else False) | broken)


if __name__ == "__main__":
    sys.exit(main())
