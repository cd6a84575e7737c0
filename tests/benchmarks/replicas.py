"""What stacking replicas buys: processor seconds of many fits in one batch against fits one by one, on one core.

    python tests/benchmarks/replicas.py [MODEL ...]

Four tables. Small networks cost their dispatch: `cmm` on Setup 1 (20 iterations), where 20 seeds may cost 3 fits, and
20 seeds of 20 restarts 40. A random search of 60 points and 20 seeds by the inline engine, ten points in a batch
(`pack: 200`), its journal, data and scores included, has to be 8 times as fast as a loop over the same fits alone on
data that are there already, which is what joblib does on one core. One of 20 points and 3 seeds has to be 1.5 times as
fast as with a batch for each point. Larger networks (384 features) cost their arithmetic: 20 seeds in a batch must not
be slower than one by one, and stay within 4 times the floor, which is the products that one fit makes (counted by
torch) at the rate of a large matrix product on this core. Nothing else is in it: of lia's 1.04 GFLOP, 0.90 are four
passes of 1,024 rows through its network, forward and backward (2 * 3 * (384 * 128 + 128 * 30) - 2 * 384 * 128 each, as
features need no gradient), and what it makes of an answer, K * K exponentials, is no product. Of labels alone, what is
deterministic is fitted once, so that trials of 20 seeds cost little more than one, and those of `fmm` half of them one
by one. Processor time is counted, so that neighbours disturb little. Exit code 1 where a limit is broken. A new model
needs a line in LARGE only.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
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
from crowdsweep.engine.inline import InlineExecutor
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_all, fit_one
from crowdsweep.record.journal import Journal
from crowdsweep.record.result import TrialResult
from crowdsweep.record.spec import TrialSpec
from crowdsweep.seeds import SeedStream
from crowdsweep.sweep.driver import run_sweep
from crowdsweep.sweep.plan import make_plan
from crowdsweep.sweep.search_run import searcher_of
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.trial.runner import run_batch

SEEDS = 20
REPEATS = 3
CMM = {"hidden": [16], "dropout": 0.2, "iterations": 20, "protocol": "equal_budget"}
SHARED: Mapping[str, Mapping[str, Any]] = {
    "cmm": {"annotators": 1000},
    "cmm-individual": {"annotators": 100, "scenario": "individual"},
    "dl-em": {"annotators": 100, "scenario": "individual"},
}
"""Models whose points share a batch: the parameters of their dataset."""
LENGTHS = {"steps", "iterations"}  # not searched here: fits are as long as in the other tables
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


def points_of_a_search(models: Sequence[str]) -> bool:
    """Prints what searches cost against fits alone and against a batch for each point; returns whether a limit is
    broken."""
    print("\nA random search by the inline engine, one restart, 20 iterations; processor seconds")
    print("model             points x seeds    engine    fits alone    engine, a batch a point    times")
    broken = False
    for model in models:
        if model == "cmm":
            cost, known = search_seconds(model, 60, SEEDS, pack=200)
            alone = fits_alone(model, known)
            broken |= alone < 8 * cost
            print(
                f"{model:<16}  60 x {SEEDS:<13}{cost:<10.1f}{alone:<38.1f}{alone / cost:.1f} (at least 8)", flush=True
            )
        together, _ = search_seconds(model, 20, 3, pack=20)
        apart, known = search_seconds(model, 20, 3, pack=3)
        alone = fits_alone(model, known)
        broken |= apart < 1.5 * together
        print(
            f"{model:<16}  20 x 3             {together:<10.1f}{alone:<14.1f}{apart:<24.1f}"
            f"{alone / together:.1f}, {apart / together:.1f} (at least 1.5)",
            flush=True,
        )
    return broken


def search_seconds(model: str, points: int, seeds: int, pack: int) -> tuple[float, list[tuple[TrialSpec, TrialResult]]]:
    """Returns the processor seconds of a search beyond those of one with a single trial, and its trials."""
    least, _ = search_of(model, 1, 1, pack)
    cost, known = search_of(model, points, seeds, pack)
    return cost - least, known


def search_of(model: str, points: int, seeds: int, pack: int) -> tuple[float, list[tuple[TrialSpec, TrialResult]]]:
    """Returns the processor seconds of a random search on Setup 1, its worker's among them, and its trials."""
    space = {name: values for name, values in registered.model_info(model).space.items() if name not in LENGTHS}
    config = parse_sweep(
        {
            "name": "points",
            "datasets": [{"name": "gaussians", **SHARED[model]}],
            "models": [{"name": model, "params": {**CMM, "restarts": 1}, "search": space}],
            "sampler": {"kind": "random"},
            "budget": {"points": points},
            "seeds": {"search": seeds, "report": 1, "rescored": 1},
            "pack": pack,
        }
    )
    plan = make_plan(config)
    begun = processor_seconds()
    with tempfile.TemporaryDirectory() as folder, closing(Journal(Path(folder))) as journal:
        with closing(InlineExecutor(plan.bases)) as executor:
            outcome = run_sweep(plan, executor=executor, journal=journal, make_searcher=searcher_of)
            cost = processor_seconds() - begun
        if (outcome.status, outcome.failed) != ("done", 0):
            raise RuntimeError(f"the sweep did not end well: {outcome}")
        state = journal.state
        known = [(spec, state.results[key]) for key, spec in state.specs.items() if spec.phase == "search"]
    return cost, known


def processor_seconds() -> float:
    """Returns what this process and its descendants have taken so far."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            ticks[int(path.parent.name)] = sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    for _ in parents:  # as long as there are more
        more = {process for process, parent in parents.items() if parent in ours} - ours
        if not more:
            break
        ours |= more
    return sum(ticks[process] for process in ours) / os.sysconf("SC_CLK_TCK")


def fits_alone(model: str, known: Sequence[tuple[TrialSpec, TrialResult]]) -> float:
    """Returns the processor seconds of all fits one by one, by one seed of twenty points; data are prepared and nothing
    is scored. Five of the trials run alone, and have to have the metrics that the search has."""
    base = catalogue.load("gaussians", SHARED[model])
    points: dict[str, list[TrialSpec]] = {}
    for spec, _ in known:
        points.setdefault(spec.cell_key, []).append(spec)
    sample = [own[place % len(own)] for place, own in enumerate(points.values())][:20]
    cost = 0.0
    for spec in sample:
        built = registered.build_model(model, spec.params)
        training = splits.prepare(base, spec.dataset_params, spec.seed, spec.heldout_fraction).training
        context = FitContext(seeds=SeedStream(spec.seed).child("fit"))
        cost += seconds(partial(fit_one, built, training, context))
    results = {spec.key: result for spec, result in known}
    for spec in sample[:5]:
        (own,) = run_batch([spec], base, "cpu", lambda _: True)
        np.testing.assert_allclose(
            list(own.metrics.values()), [results[spec.key].metrics[name] for name in own.metrics], rtol=1e-9
        )
    return cost * len(known) / len(sample)


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
    every = [*SHARED, *LARGE, *LABELS_ALONE]
    parser.add_argument("models", nargs="*", help=f"of {', '.join(every)}; all by default")
    asked = parser.parse_args().models or every
    broken = small_networks() if "cmm" in asked else False
    sharing = [model for model in SHARED if model in asked]
    broken |= points_of_a_search(sharing) if sharing else False
    broken |= labels_alone([model for model in LABELS_ALONE if model in asked]) if {*LABELS_ALONE} & {*asked} else False
    wide = [model for model in LARGE if model in asked]
    return int((large_networks(wide) if wide else False) | broken)


if __name__ == "__main__":
    sys.exit(main())
