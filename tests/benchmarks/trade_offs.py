"""Which sampler finds more of a Pareto front: `python tests/benchmarks/trade_offs.py [DATASET ...]`.

Searches of models on real answers by two objectives: the log-likelihood of the fifth of all answers that was held out,
and the processor seconds of the fit. A point is fitted once, so that all samplers see the same numbers; a search has
four points open, as a sweep's has. Printed of each model and dataset, by number of points: the median over searches of
the hypervolume that is missing, as a share of that of all points that any of them tried, in units of their range
(seconds as logarithms). Promised, since `sampler.kind: auto` rests on it: over all of them, the Parzen estimator misses
less than random search and the genetic algorithm at the last number of points.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from time import process_time
from typing import Any, Literal

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from samplers import log

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

KINDS: tuple[Literal["random", "tpe", "nsga2", "gp"], ...] = ("random", "tpe", "nsga2", "gp")
SPACES = {
    "mace": {"iterations": {"min": 1, "max": 60}, "label_prior": log(0.01, 30), "spamming_prior": log(0.01, 10)},
    "fmm": {
        "item_clusters": {"min": 2, "max": 40},
        "iterations": {"min": 2, "max": 100},
        "label_pseudocount": log(0.005, 3),
    },
}
Values = tuple[float, float]


class Fits:
    """The values of points, each fitted once."""

    def __init__(self, model: str, dataset: CrowdDataset) -> None:
        self.model, self.trial = model, prepare(dataset, {}, 0, 0.2)
        self.known: dict[str, Values] = {}

    def __call__(self, point: Mapping[str, Any]) -> Values:
        name, heldout = canonical_json(dict(point)), self.trial.heldout
        if heldout is None:
            raise ValueError("expected answers that can be held out")
        if name not in self.known:
            began = process_time()
            fitted = fit_one(
                registered.build_model(self.model, point), self.trial.training, FitContext(seeds=SeedStream(0))
            )
            seconds = process_time() - began
            said = fitted.label_probs(heldout.item, heldout.annotator)[np.arange(len(heldout)), heldout.label]
            self.known[name] = float(np.log(np.maximum(said, 1e-12)).mean()), seconds
        return self.known[name]


def searched(space: Space, sampler: Sampler, limit: int, fits: Fits) -> tuple[list[Values], float]:
    """Returns the values of the points of a search, in their order, and the processor seconds of its sampler."""
    searcher, asked_s = make_searcher(space, sampler, "maximize", limit, (), ["minimize"]), 0.0
    waiting: list[Proposal] = []
    values: list[Values] = []
    while len(values) < limit:
        began = process_time()
        while len(waiting) < sampler.parallel and (proposal := searcher.ask()) is not None:
            waiting.append(proposal)
        asked_s += process_time() - began
        told = waiting.pop(0)
        values.append(fits(told.point))
        searcher.tell(told.number, values[-1][0], [float(np.log(values[-1][1]))])  # as a sweep tells costs
    return values, asked_s


def area(losses: np.ndarray) -> float:
    """Returns the area of the unit square that points dominate; both losses lie in [0, 1], lower is better."""
    covered, height = 0.0, 1.0
    for x, y in sorted(map(tuple, losses)):
        if y < height:
            covered, height = covered + (1.0 - x) * (height - y), y
    return covered


def main() -> int:
    """Prints a line a model, dataset and sampler; returns 1 where the promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=["bluebirds", "dog"], help="folders below CROWDSWEEP_DATA")
    parser.add_argument("--searches", type=int, default=6)
    parser.add_argument("--points", type=int, nargs="*", default=[20, 40, 120])
    parser.add_argument("--gp-points", type=int, default=40, help="most that a Gaussian process is asked for")
    asked = parser.parse_args()
    missing: dict[tuple[str, int], list[float]] = {}
    for name in asked.datasets:
        dataset = read_folder(Path(os.environ["CROWDSWEEP_DATA"], name))
        for model, shapes in SPACES.items():
            fits, space = Fits(model, dataset), Space.parse(shapes)
            runs = {
                (kind, n): [searched(space, Sampler(kind=kind, seed=seed), n, fits) for seed in range(asked.searches)]
                for kind in KINDS
                for n in asked.points
                if kind != "gp" or n <= asked.gp_points
            }
            every = np.array([(-loglik, np.log(seconds)) for loglik, seconds in fits.known.values()])
            low, high = every.min(axis=0), np.percentile(every, 90, axis=0)  # a few points are bad beyond interest

            def scaled(values: Any, low: np.ndarray = low, high: np.ndarray = high) -> np.ndarray:
                losses = np.array([(-loglik, np.log(seconds)) for loglik, seconds in values])
                return np.clip((losses - low) / (high - low), 0.0, 1.0)

            best = area(scaled(fits.known.values()))
            for (kind, n), its in runs.items():
                share = float(np.median([1.0 - area(scaled(values)) / best for values, _ in its]))
                missing.setdefault((kind, n), []).append(share)
                seconds = np.median([seconds for _, seconds in its])
                print(
                    f"{name:<12}{model:<8}{kind:<8}{n:>4} points: missing {share:.3f}; sampler {seconds:.1f} s",
                    flush=True,
                )
    for (kind, n), shares in missing.items():
        print(f"mean of medians, {kind:<8}{n:>4} points: {np.mean(shares):.3f}")
    last = {kind: float(np.mean(missing[kind, max(asked.points)])) for kind in ("tpe", "random", "nsga2")}
    kept = last["tpe"] < min(last["random"], last["nsga2"])
    print(f"promised: tpe < random and nsga2 after {max(asked.points)} points   {'kept' if kept else 'NOT KEPT'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
