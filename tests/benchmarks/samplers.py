"""Which sampler finds more in a search of a model on real answers: `python tests/benchmarks/samplers.py [DATASET ...]`.

Spaces are of numbers alone, and the value of a point is the mean log-likelihood of the fifth of all answers that was
held out. A search has four points open, as a sweep's has. Printed of each model and dataset, by number of points: the
median over searches (other seeds) of what is still missing to the best value that any of them found, as a share of what
the first random point misses. Promised, since `sampler.kind: auto` rests on it: over all of them, a Gaussian process
misses less than the Parzen estimator at the last number of points, and that no more than random search.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import process_time
from typing import Any, Literal

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.data.on_disk.folder import read_folder
from crowdsweep.data.splits import prepare
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.record.spec import canonical_json
from crowdsweep.search.contract import Proposal, Sampler
from crowdsweep.search.searchers import make_searcher
from crowdsweep.search.space import Space
from crowdsweep.seeds import SeedStream

PARALLEL = Sampler().parallel
KINDS: tuple[Literal["random", "tpe", "gp"], ...] = ("random", "tpe", "gp")
SHOWN = (10, 20, 40)


def log(low: float, high: float) -> Mapping[str, Any]:
    return {"distribution": "log_uniform_values", "min": low, "max": high}


SPACES = {
    "dawid-skene": {"smoothing": log(0.001, 10), "shrinkage": {"min": 0.0, "max": 10.0}},
    "glad": {"ability_spread": log(0.05, 10), "easiness_spread": log(0.05, 10)},
    "mace": {"spamming_prior": log(0.01, 10), "label_prior": log(0.01, 30)},
    "pgm-bp": {"item_clusters": {"min": 2, "max": 12}, "annotator_clusters": {"min": 1, "max": 8}},
    "fmm": {
        "item_clusters": {"min": 2, "max": 40},
        "label_pseudocount": log(0.005, 3),
        "cluster_pseudocount": log(0.1, 5),
    },
}


def objective(model: str, dataset: CrowdDataset) -> Callable[[Mapping[str, Any]], float]:
    """Returns the value of a point, which is fitted once."""
    trial = prepare(dataset, {}, 0, 0.2)
    heldout = trial.heldout
    if heldout is None:
        raise ValueError(f"{dataset}: expected answers that can be held out")
    known: dict[str, float] = {}

    def value(point: Mapping[str, Any]) -> float:
        name = canonical_json(dict(point))
        if name not in known:
            fitted = fit_one(registered.build_model(model, point), trial.training, FitContext(seeds=SeedStream(0)))
            probs = fitted.label_probs(heldout.item, heldout.annotator)
            said = probs[np.arange(len(heldout)), heldout.label]
            known[name] = float(np.log(np.maximum(said, 1e-12)).mean())
        return known[name]

    return value


def best_by_points(
    space: Space, sampler: Sampler, limit: int, value: Callable[[Mapping[str, Any]], float]
) -> tuple[list[float], float]:
    """Returns the best value after each point, and the processor seconds of the sampler."""
    searcher, asked_s = make_searcher(space, sampler, "maximize", limit), 0.0
    waiting: list[Proposal] = []
    best: list[float] = []
    while len(best) < limit:
        began = process_time()
        while len(waiting) < PARALLEL and (proposal := searcher.ask()) is not None:
            waiting.append(proposal)
        asked_s += process_time() - began
        if not waiting:
            break
        told = waiting.pop(0)
        found = value(told.point)
        searcher.tell(told.number, found)
        best.append(max(found, *best[-1:]) if best else found)
    return best + best[-1:] * (limit - len(best)), asked_s


def main() -> int:
    """Prints a line a model, dataset and sampler; returns 1 where the promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "datasets", nargs="*", default=["rte", "bluebirds", "dog"], help="folders below CROWDSWEEP_DATA"
    )
    parser.add_argument("--models", nargs="*", default=list(SPACES))
    parser.add_argument("--searches", type=int, default=15)
    asked = parser.parse_args()
    missing: dict[str, list[np.ndarray]] = {kind: [] for kind in KINDS}
    for name in asked.datasets:
        dataset = read_folder(Path(os.environ["CROWDSWEEP_DATA"], name))
        for model in asked.models:
            value, space = objective(model, dataset), Space.parse(SPACES[model])
            runs = {
                kind: [
                    best_by_points(space, Sampler(kind=kind, seed=seed), max(SHOWN), value)
                    for seed in range(asked.searches)
                ]
                for kind in KINDS
            }
            found = {kind: np.array([best for best, _ in its]) for kind, its in runs.items()}
            top, first = max(best.max() for best in found.values()), np.median(found["random"][:, 0])
            for kind, best in found.items():
                share = (top - best) / max(top - first, 1e-12)
                missing[kind].append(share)
                at = ", ".join(f"{n}: {np.median(share[:, n - 1]):.3f}" for n in SHOWN)
                seconds = np.median([seconds for _, seconds in runs[kind]])
                print(f"{name:<12}{model:<14}{kind:<8}missing after {at}; sampler {seconds:.1f} s", flush=True)
    last = {kind: float(np.mean([np.median(share[:, -1]) for share in shares])) for kind, shares in missing.items()}
    for n in SHOWN:
        at = {kind: np.mean([np.median(share[:, n - 1]) for share in shares]) for kind, shares in missing.items()}
        print(f"mean of medians after {n} points: " + ", ".join(f"{kind} {share:.3f}" for kind, share in at.items()))
    kept = last["gp"] < last["tpe"] <= last["random"]
    print(f"promised: gp < tpe <= random   {'kept' if kept else 'NOT KEPT'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
