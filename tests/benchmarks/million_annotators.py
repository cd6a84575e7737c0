"""A million annotators: seconds and peak memory of each model, against the limits that the project promises.

    python tests/benchmarks/million_annotators.py [--size SIZE] [MODEL ...]

`small` is `gaussians` with its 2,457 training items (12,000 labels), limit 4 GB; `large` has a million training items
(5 million labels), limit 8 GB; aggregators and the classifiers of Mena and Nanculef run there as they are. On
`few-items` and `many-items` each annotator has five labels, on 2,000 and on 100,000 items, limit 8 GB; there every
model that is listed makes one iteration or epoch, or refuses at once. Every model runs in a process of its own, so that
each peak is its own; the simulation is in it. Exit code 1 where a limit is broken, or a fit breaks.
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
AS_THEY_ARE = (
    *("majority-vote", "wawa", "zero-based-skill", "one-coin", "dawid-skene", "hierarchical-dawid-skene"),
    *("multinomial", "glad", "mace", "mmce", "kos", "m-msr", "snorkel", "metal", "dl-em", "cmm"),
)
BRIEF = {"iterations": 1, "epochs": 1, "em_iterations": 1, "restarts": 1, "sweeps": 1, "folds": 2, "fold_epochs": 1}


def settings(model: str, size: str) -> Mapping[str, Any]:
    """Returns the hyper-parameters that differ from the defaults."""
    from crowdsweep.models import registered

    if size in JOINT:
        return JOINT[size] if model in ("dl-em", "cmm") else {}
    return {name: value for name, value in BRIEF.items() if name in registered.full_params(model, {})}


def measure(model: str, size: str) -> dict[str, Any]:
    """Simulates, fits, and returns what it cost this process; GB are 10**9 bytes."""
    from crowdsweep.data import catalogue, splits
    from crowdsweep.errors import CrowdsweepError
    from crowdsweep.models import registered
    from crowdsweep.models.contract import FitContext
    from crowdsweep.models.fitting import fit_one
    from crowdsweep.seeds import SeedStream

    begun = time.perf_counter()
    base = catalogue.load("gaussians", {"annotators": N_ANNOTATORS, **SIZES[size]})
    trial = splits.prepare(base, {}, 0)
    simulated = time.perf_counter()
    model_of = registered.build_model(model, settings(model, size))
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
    parser.add_argument("models", nargs="*", help="names as `crowdsweep models` lists them; all that the size is for")
    parser.add_argument("--size", choices=list(SIZES), action="append")
    parser.add_argument("--here", action="store_true", help="measure in this process and print JSON")
    options = parser.parse_args()
    sizes = options.size or list(SIZES)
    if options.here:
        print(json.dumps(measure(options.models[0], sizes[0])))
        return 0
    from crowdsweep.models import registered

    print(
        "model                     items      labels     active     simulate  fit       steps  accuracy  peak GB  limit"
    )
    broken = False
    for size in sizes:
        for model in options.models or (AS_THEY_ARE if size in JOINT else registered.model_names()):
            command = [sys.executable, __file__, "--here", "--size", size, model]
            ended = subprocess.run(command, check=False, capture_output=True, text=True)
            if ended.returncode:
                broken = True
                last = (ended.stderr.strip() or "killed").splitlines()[-1]
                print(f"{model:<24}  broke with {ended.returncode}: {last}", flush=True)
                continue
            found = json.loads(ended.stdout)
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
