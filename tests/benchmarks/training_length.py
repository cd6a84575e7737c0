"""Test accuracy over training length on music genre, linear classifier: speelfc and crowd-layer, with intervals.

    python tests/benchmarks/training_length.py FOLDER [--seeds 5] [--epochs 1000]

FOLDER is the dataset's. Each line is one moment: accuracies (%) as mean and 95 % interval over seeds (the split is the
dataset's own, so that seeds vary the fit alone), and the paired differences from speelfc. An interval that contains
zero claims no order. Exit code 1 where speelfc's mean at the end is below 65.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from scipy import stats

from crowdsweep.data import catalogue, splits
from crowdsweep.data.dataset import EvaluationSet
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext, Predictor, fit_all
from crowdsweep.seeds import SeedStream

MOMENTS = (20, 50, 100, 200, 400, 700, 1000, 2000, 5000)
LEAST = 65.0
LINEAR: Mapping[str, Any] = {"network": "linear", "learning_rate": 3e-3}
MODELS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "speelfc": ("speelfc", LINEAR),
    "crowd-layer from 1": ("crowd-layer", LINEAR),
    "crowd-layer from 4": ("crowd-layer", {**LINEAR, "initial_scale": 4}),
}


class Curve:
    """Takes a fit's reports and scores the classifier at some moments."""

    def __init__(self, test: EvaluationSet) -> None:
        self._test = test
        self.accuracy: dict[int, float] = {}

    def __call__(self, step: int, objective: float, predictor: Callable[[], Predictor] | None = None) -> bool:
        """See `Report`."""
        if step in MOMENTS and predictor is not None:
            said = predictor().predict(self._test.items, "classifier")[self._test.scored].argmax(axis=1)
            self.accuracy[step] = float(100 * (said == self._test.reference.argmax(axis=1)).mean())
        return True


def curves(folder: Path, model: str, params: Mapping[str, Any], seeds: int) -> list[Curve]:
    """Fits all seeds side by side and returns how each got on."""
    base = catalogue.load(str(folder), {})
    trials = [splits.prepare(base, {}, seed) for seed in range(seeds)]
    found = [Curve(trial.evaluation["test"]) for trial in trials]
    contexts = [FitContext(seeds=SeedStream(seed), report=curve) for seed, curve in enumerate(found)]
    fit_all(registered.build_model(model, params), [trial.training for trial in trials], contexts)
    return found


def interval(values: np.ndarray) -> str:
    """Returns the mean with its 95 % interval (Student's)."""
    half = float(stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)) if len(values) > 1 else float("nan")
    return f"{values.mean():6.1f} ± {half:4.1f}"


def main() -> int:
    """Prints the table; returns 1 where speelfc ends too low."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=1000)
    options = parser.parse_args()
    table: dict[str, list[Curve]] = {}
    for name, (model, params) in MODELS.items():
        table[name] = curves(options.folder, model, {**params, "epochs": options.epochs}, options.seeds)
    print(
        "epoch   "
        + "".join(f"{name:<22}{'' if place == 0 else 'less speelfc  ':<16}" for place, name in enumerate(table))
    )
    last = 0.0
    for moment in (m for m in MOMENTS if m <= options.epochs):
        scores = {name: np.array([curve.accuracy[moment] for curve in own]) for name, own in table.items()}
        last = float(scores["speelfc"].mean())
        line = [f"{moment:<8}"]
        for name, own in scores.items():
            line.append(f"{interval(own):<22}{interval(own - scores['speelfc']) if name != 'speelfc' else '':<16}")
        print("".join(line), flush=True)
    return int(last < LEAST)


if __name__ == "__main__":
    sys.exit(main())
