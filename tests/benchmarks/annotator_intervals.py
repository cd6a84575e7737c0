"""How often the 95 % intervals of annotators.csv cover.

    CROWDSWEEP_DATA=FOLDER python tests/benchmarks/annotator_intervals.py [--models A,B] [--simulated N] [DATASET ...]

On simulated crowds, whose errors are independent: the true accuracy of each annotator. Promised: 90 to 97 % of them.
On public datasets: the share that is right by gold, of annotators at least 80 % of whose answers have gold (people err
alike there, which no answer shows; intervals are wider where the others are surer than answers bear out). Promised: at
least 85 %, over all annotators of all datasets. Gold is not looked at by the intervals. Exit code 1 where either is
broken, over all models together.
"""

import argparse
import os
import sys
from collections import defaultdict
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from choosing_without_gold import DATASETS
from simulated_crowds import crowds

from crowdsweep.data import catalogue
from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.errors import CrowdsweepError
from crowdsweep.labelling.crowd_tables import crowd_tables
from crowdsweep.labelling.fitted import fit_everything
from crowdsweep.labelling.labelled import labelled_items

MODELS = ("majority-vote", "one-coin", "hierarchical-dawid-skene", "dawid-skene")
Found = list[tuple[np.ndarray, np.ndarray]]
"""Whether intervals cover, and by how much the accuracy is off."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--simulated", type=int, default=24)
    # word-similarity's labels carry probabilities, most of them against the label that they stand by.
    parser.add_argument("datasets", nargs="*", default=[name for name in DATASETS if name != "word-similarity"])
    asked = parser.parse_args()
    simulated: dict[str, Found] = defaultdict(list)
    public: dict[str, Found] = defaultdict(list)
    for crowd in crowds(asked.simulated):
        for model in asked.models.split(","):
            table = _table(model, crowd.data)
            if table is not None:
                code = np.array([int(name[1:]) for name in table["annotator"].to_pylist()])
                simulated[model].append(_held_against(table, crowd.accuracy[code], np.ones(len(code), dtype=bool)))
    for name in asked.datasets:
        data = catalogue.load(str(Path(os.environ["CROWDSWEEP_DATA"]) / name), {})
        for model in asked.models.split(","):
            table = _table(model, data)
            if table is None:
                continue
            right, known = (table[column].to_numpy() for column in ("gold_right", "gold_n"))
            enough = known >= 0.8 * table["answers"].to_numpy()
            public[model].append(_held_against(table, right / np.maximum(known, 1), enough))
            print(f"{name} {model}: {public[model][-1][0].mean():.1%} of {enough.sum()}", flush=True)
    ranges = (_print("simulated crowds", simulated, 0.9, 0.97), _print("public datasets", public, 0.85, 1.0))
    return 0 if all(ranges) else 1


def _table(model: str, data: CrowdDataset):
    try:
        return crowd_tables(labelled_items(fit_everything(model, {}, data, {}, n_seeds=1))).annotators
    except CrowdsweepError:  # it cannot take votes
        return None


def _held_against(table, accuracy: np.ndarray, counted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    said, low, high = (table[name].to_numpy() for name in ("accuracy", "accuracy_low", "accuracy_high"))
    covers = (low - 1e-9 <= accuracy) & (accuracy <= high + 1e-9)
    return covers[counted], (said - accuracy)[counted]


def _print(title: str, found: dict[str, Found], least: float, most: float) -> bool:
    print(f"\n{title}: intervals that cover, mean error of the accuracy")
    for model, parts in found.items():
        print(f"{model:26} {_mean(parts, 0):.1%} {_mean(parts, 1):+.3f}")
    together = _mean([part for parts in found.values() for part in parts], 0)
    print(f"{'all':26} {together:.1%}", flush=True)
    return least <= together <= most


def _mean(parts: Found, which: int) -> float:
    return float(np.concatenate([part[which] for part in parts]).mean())


if __name__ == "__main__":
    sys.exit(main())
