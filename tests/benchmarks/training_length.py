"""Accuracy over training length on music genre, linear classifier: speelfc and crowd-layer, with intervals.

    python tests/benchmarks/training_length.py FOLDER [--seeds 10] [--epochs 2000]

FOLDER is the dataset's. The first table is of dev items: a seed is one of ten folds of the training songs, whose gold
chooses a length. The second is of the test songs, which choose nothing (the split is the dataset's own, so that seeds
vary the fit alone). Each line is one moment: accuracies (%) as mean and 95 % interval over seeds, and the paired
differences from speelfc. An interval that contains zero claims no order. Below stands what the chosen lengths give on
the test songs; exit code 1 where that of speelfc is below 65.
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
from crowdsweep.data.dataset import CrowdDataset, EvaluationSet
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext, Predictor
from crowdsweep.models.fitting import fit_all
from crowdsweep.seeds import SeedStream

MOMENTS = (20, 50, 100, 200, 400, 700, 1000, 1500, 2000, 5000)
LEAST = 65.0
FIRST = "speelfc"
LINEAR: Mapping[str, Any] = {"network": "linear", "learning_rate": 3e-3, "standardise": False, "steps": 0}
MODELS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    FIRST: ("speelfc", LINEAR),
    "crowd-layer from 1": ("crowd-layer", LINEAR),
    "crowd-layer from 4": ("crowd-layer", {**LINEAR, "initial_scale": 4}),
}

Scores = dict[int, np.ndarray]  # by moment, one a seed


class Curve:
    """Takes a fit's reports and scores the classifier at some moments."""

    def __init__(self, items: EvaluationSet) -> None:
        self._items = items
        self.accuracy: dict[int, float] = {}

    def __call__(self, step: int, objective: float, predictor: Callable[[], Predictor] | None = None) -> bool:
        """See `Report`."""
        if step in MOMENTS and predictor is not None:
            said = predictor().predict(self._items.items, "classifier")[self._items.scored].argmax(axis=1)
            right = said == self._items.reference.argmax(axis=1)
            self.accuracy[step] = float(100 * right[self._items.has_gold].mean())
        return True


def curves(
    base: CrowdDataset, settings: Mapping[str, Any], part: str, options: argparse.Namespace
) -> dict[str, Scores]:
    """Fits all seeds of each model side by side and returns how each got on at every moment."""
    trials = [splits.prepare(base, settings, seed) for seed in range(options.seeds)]
    table: dict[str, Scores] = {}
    for name, (model, params) in MODELS.items():
        found = [Curve(trial.evaluation[part]) for trial in trials]
        contexts = [FitContext(seeds=SeedStream(seed), report=curve) for seed, curve in enumerate(found)]
        built = registered.build_model(model, {**params, "epochs": options.epochs})
        fit_all(built, [trial.training for trial in trials], contexts)
        moments = [moment for moment in MOMENTS if moment <= options.epochs]
        table[name] = {moment: np.array([curve.accuracy[moment] for curve in found]) for moment in moments}
    return table


def interval(values: np.ndarray) -> str:
    """Returns the mean with its 95 % interval (Student's)."""
    half = float(stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)) if len(values) > 1 else float("nan")
    return f"{values.mean():6.1f} ± {half:4.1f}"


def show(title: str, table: Mapping[str, Scores]) -> None:
    """Prints a line for each moment."""
    heads = [f"{name:<22}" + ("" if name == FIRST else f"{'less ' + FIRST:<16}") for name in table]
    print(title, f"{'epoch':<8}{''.join(heads)}", sep="\n", flush=True)
    for moment, first in table[FIRST].items():
        line = [f"{moment:<8}"]
        for name, own in table.items():
            line.append(f"{interval(own[moment]):<22}")
            line.append("" if name == FIRST else f"{interval(own[moment] - first):<16}")
        print("".join(line), flush=True)


def main() -> int:
    """Prints the tables; returns 1 where the length chosen for speelfc gives too little."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=2000)
    options = parser.parse_args()
    base = catalogue.load(str(options.folder), {})
    dev = curves(base, {"folds": 10}, "dev", options)
    show("dev songs", dev)
    test = curves(base, {}, "test", options)
    show("\ntest songs", test)
    print()
    chosen = {name: max(own, key=lambda moment, own=own: own[moment].mean()) for name, own in dev.items()}
    for name, moment in chosen.items():
        print(
            f"{name}: dev songs choose {moment} epochs, which give {interval(test[name][moment]).strip()} on test songs"
        )
    return int(test[FIRST][chosen[FIRST]].mean() < LEAST)


if __name__ == "__main__":
    sys.exit(main())
