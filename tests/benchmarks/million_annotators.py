"""A million annotators: seconds and peak memory of each model, against the limits that the project promises.

    python tests/benchmarks/million_annotators.py [--size SIZE] [MODEL ...]

`small` is `gaussians` with its 2,457 training items (12,000 labels), limit 4 GB; `large` has a million training items
(5 million labels), limit 8 GB. `few-items` and `many-items` have five labels of each annotator, on 2,000 and on 100,000
items; there every aggregator makes one iteration, or refuses at once. Every model runs in a process of its own, so that
each peak is its own; the simulation is in it. Exit code 1 where a limit is broken. A new model needs a line in MODELS.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

N_ANNOTATORS = 1_000_000
SIZES: Mapping[str, Mapping[str, Any]] = {
    "small": {"items": 1_092, "labels_per_item": 5.0},
    "large": {"items": 444_445, "labels_per_item": 5.0},
    "few-items": {"items": 889, "labels_per_item": 2_500.0},
    "many-items": {"items": 44_445, "labels_per_item": 50.0},
}
LIMIT_GB = {"small": 4.0, "large": 8.0, "few-items": 8.0, "many-items": 8.0}
JOINT = {
    "small": {"restarts": 1, "iterations": 20, "protocol": "equal_budget"},
    "large": {"restarts": 1, "iterations": 5, "protocol": "equal_budget"},
}
ONCE = {"few-items": {"iterations": 1}, "many-items": {"iterations": 1}}
MODELS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "majority-vote": {},
    "wawa": {},
    "zero-based-skill": ONCE,
    "one-coin": ONCE,
    "dawid-skene": ONCE,
    "hierarchical-dawid-skene": ONCE,
    "multinomial": ONCE,
    "glad": ONCE,
    "mace": ONCE,
    "mmce": ONCE,
    "kos": ONCE,
    "m-msr": ONCE,
    "snorkel": ONCE,
    "metal": ONCE,
    "crowdlab": {size: {"folds": 2, "fold_epochs": 1, "epochs": 1} for size in SIZES},
    "dl-em": JOINT,
    "cmm": JOINT,
}


def measure(model: str, size: str) -> dict[str, Any]:
    """Simulates, fits, and returns what it cost this process; GB are 10**9 bytes."""
    from crowdsweep.data import catalogue, splits
    from crowdsweep.errors import CrowdsweepError
    from crowdsweep.models import registered
    from crowdsweep.models.contract import FitContext, fit_one
    from crowdsweep.seeds import SeedStream

    begun = time.perf_counter()
    base = catalogue.load("gaussians", {"annotators": N_ANNOTATORS, **SIZES[size]})
    trial = splits.prepare(base, {}, 0)
    simulated = time.perf_counter()
    model_of = registered.build_model(model, MODELS.get(model, {}).get(size, {}))
    try:
        result = fit_one(model_of, trial.training, FitContext(seeds=SeedStream(0)))
    except CrowdsweepError as refused:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
        return {"model": model, "refused": str(refused), "fit_s": time.perf_counter() - simulated, "peak_gb": peak}
    fitted = time.perf_counter()
    reference = trial.evaluation["train"]
    right = (result.item_probs[reference.scored].argmax(axis=1) == reference.reference.argmax(axis=1)).mean()
    return {
        "model": model,
        "items": trial.training.n_items,
        "labels": len(trial.training.annotations),
        "active": trial.training.annotations.n_active_annotators,
        "simulated_s": simulated - begun,
        "fit_s": fitted - simulated,
        "iterations": result.iterations,
        "accuracy": float(right),
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "limit_gb": LIMIT_GB[size],
    }


def main() -> int:
    """Runs each model in a process of its own and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(MODELS), help=f"of {', '.join(MODELS)}")
    parser.add_argument("--size", choices=list(SIZES), action="append")
    parser.add_argument("--here", action="store_true", help="measure in this process and print JSON")
    options = parser.parse_args()
    sizes = options.size or list(SIZES)
    if options.here:
        print(json.dumps(measure(options.models[0], sizes[0])))
        return 0
    print(
        "model                     items      labels     active     simulate  fit       steps  accuracy  peak GB  limit"
    )
    broken = False
    for size in sizes:
        for model in options.models:
            command = [sys.executable, __file__, "--here", "--size", size, model]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            broken |= found["peak_gb"] > LIMIT_GB[size]
            if "refused" in found:
                print(
                    "{model:<24}  refused after {fit_s:.1f} s, {peak_gb:.2f} GB: {refused}".format(**found), flush=True
                )
                continue
            print(
                "{model:<24}  {items:<9}  {labels:<9}  {active:<9}  {simulated_s:<6.1f} s  {fit_s:<6.1f} s  "
                "{iterations:<5}  {accuracy:<8.3f}  {peak_gb:<7.2f}  {limit_gb:.0f}".format(**found),
                flush=True,
            )
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
