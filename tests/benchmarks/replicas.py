"""What stacking replicas buys: processor seconds of many fits in one batch against fits one by one, on one core.

    python tests/benchmarks/replicas.py [MODEL ...]

Three tables. Small networks cost their dispatch: `cmm` on Setup 1 (20 iterations), where 20 seeds may cost 3 fits, and
20 seeds of 20 restarts 40. Larger ones (384 features) cost their arithmetic: 20 seeds in a batch must not be slower
than one by one, and stay within 4 times the floor, which is the products that one fit makes (counted by torch) at the
rate of a large matrix product on this core. Nothing else is in it: of lia's 1.04 GFLOP, 0.90 are four passes of 1,024
rows through its network, forward and backward (2 * 3 * (384 * 128 + 128 * 30) - 2 * 384 * 128 each, as features need no
gradient), and what it makes of an answer, K * K exponentials, is no product. Of labels alone, what is deterministic is
fitted once, so that trials of 20 seeds cost little more than one, and those of `fmm` half of them one by one. Processor
time is counted, so that neighbours disturb little. Exit code 1 where a limit is broken. A new model needs a line in
LARGE only.
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
from beside_crowdkit import crowd
from torch.utils.flop_counter import FlopCounterMode

import crowdsweep as cs
from crowdsweep.data import catalogue, splits
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import CrowdDataset, Items, TrainingData
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext, fit_all
from crowdsweep.record.spec import TrialSpec
from crowdsweep.seeds import SeedStream
from crowdsweep.trial.runner import run_batch

SEEDS = 20
REPEATS = 3
CMM = {"hidden": [16], "dropout": 0.2, "iterations": 20, "protocol": "equal_budget"}
LARGE: Mapping[str, Mapping[str, Any]] = {
    "pd": {"epochs": 10, "patience": 10},
    "speelfc-d": {"epochs": 10},
    "ldl-nm": {"epochs": 5},
    "semi-lfc": {"epochs": 3},
    "lia": {"iterations": 2, "em_iterations": 1, "epochs": 2},
}
LABELS_ALONE: Mapping[str, float] = {"dawid-skene": 1.5, "glad": 1.5, "fmm": 10}
"""Trials of so many seeds are all that a batch of twenty may cost."""


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


def labels_alone(models: Sequence[str]) -> bool:
    """Prints what trials of 20 seeds cost in trials of one; returns whether a limit is broken."""
    base = in_memory(crowd(n_items=2_000, n_annotators=100, n_classes=4))
    print("\n2000 items, 5 labels each, 4 classes: trials of 20 seeds in one batch")
    print("model            one seed    20 seeds    seeds     limit")
    broken = False
    for model in models:
        trials(model, base, 1)
        rounds = [(trials(model, base, 1), trials(model, base, SEEDS)) for _ in range(REPEATS)]
        alone, together = (float(np.median(column)) for column in zip(*rounds, strict=True))
        broken |= together > LABELS_ALONE[model] * alone
        print(
            f"{model:<15}  {alone:<6.3f} s    {together:<6.3f} s    {together / alone:<8.1f}  {LABELS_ALONE[model]}",
            flush=True,
        )
    return broken


def in_memory(rows: Annotations) -> CrowdDataset:
    """Returns answers as a dataset, no item of which is kept for evaluation."""
    names = ("item", "annotator", "label")
    return cs.load({name: [f"{name}-{code}" for code in getattr(rows, name).tolist()] for name in names}).dataset


def trials(model: str, base: CrowdDataset, n_seeds: int) -> float:
    """Returns the processor seconds of one batch of trials."""
    specs = [
        TrialSpec(
            model=model,
            params=registered.full_params(model, {}),
            model_version=registered.model_info(model).version,
            dataset=base.name,
            dataset_params={"training": "all"},
            fingerprint=base.fingerprint,
            seed=seed,
        )
        for seed in range(n_seeds)
    ]
    return seconds(lambda: run_batch(specs, base, "cpu", lambda _: True))


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
    """Prints the tables."""
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help=f"cmm, or of {', '.join([*LARGE, *LABELS_ALONE])}; all by default")
    asked = parser.parse_args().models or ["cmm", *LARGE, *LABELS_ALONE]
    broken = small_networks() if "cmm" in asked else False
    broken |= labels_alone([model for model in LABELS_ALONE if model in asked]) if {*LABELS_ALONE} & {*asked} else False
    wide = [model for model in LARGE if model in asked]
    return int((large_networks(wide) if wide else False) | broken)


if __name__ == "__main__":
    sys.exit(main())
