"""What choosing a model by held-out answers costs in accuracy, on the public datasets whose gold tells.

    CROWDSWEEP_DATA=FOLDER python tests/benchmarks/choosing_without_gold.py [DATASET ...]

Of majority vote, multinomial, one-coin and Dawid-Skene, each at every point of its default smoothing and shrinkage,
the one with the highest held-out log-likelihood (mean over five splits, a tenth of the answers held out) is chosen; no
gold is looked at. Its accuracy, fitted to all answers, is then compared with that of the best of the four models, each
at the point that held-out answers choose for it (regret). Exit code 1 where the mean regret is above 0.75 points, or
the choice on pos-tagging (anonymous votes) is below 75 %.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from crowdsweep.data import catalogue, splits
from crowdsweep.data.dataset import CrowdDataset, TrainingData
from crowdsweep.metrics.heldout import heldout_loglik
from crowdsweep.metrics.items import accuracy
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext, FitResult, fit_all
from crowdsweep.seeds import SeedStream

MODELS = ("majority-vote", "multinomial", "one-coin", "dawid-skene")
SEARCHED = ("smoothing", "shrinkage")
SPLITS, HELD_OUT = 5, 0.1
MOST_REGRET = 0.75  # points, on average
LEAST = {"pos-tagging": 75.0}  # accuracy of the choice, %
# Every nominal dataset of the folder with gold for items that somebody labelled.
DATASETS = (
    "adult-content",
    "bluebirds",
    "dog",
    "face-sentiment",
    "labelme",
    "medical-causes",
    "medical-treats",
    "music-genre",
    "pos-tagging",
    "product",
    "rte",
    "sentiment-polarity",
    "sentiment-popularity-amt",
    "stemming",
    "temporal-ordering",
    "weather-sentiment-amt",
    "web-relevance",
    "word-similarity",
    "zencrowd-us",
)


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One model at one point: held-out log-likelihood (nats an answer), and accuracy (%) when fitted to all answers."""

    model: str
    point: Mapping[str, Any]
    heldout: float
    accuracy: float

    def __str__(self) -> str:
        """Returns the model and its point, as a sweep file would have them."""
        return " ".join([self.model, *(f"{name}={value}" for name, value in self.point.items())])


def points(model: str) -> list[dict[str, Any]]:
    """Returns the points of a model's default space, of what is searched here."""
    space = registered.model_info(model).space
    names = [name for name in SEARCHED if name in space]
    return [dict(zip(names, values, strict=True)) for values in product(*(space[name]["values"] for name in names))]


def fitted(model: str, point: Mapping[str, Any], data: Sequence[TrainingData]) -> list[FitResult]:
    """Returns fits of one model at one point, as one batch."""
    contexts = [FitContext(seeds=SeedStream(seed)) for seed in range(len(data))]
    return fit_all(registered.build_model(model, point), data, contexts)


def scores(dataset: CrowdDataset) -> list[Scored]:
    """Returns every model at every point."""
    everything = splits.prepare(dataset, {"training": "all"}, 0)
    parts = [splits.prepare(dataset, {"training": "all"}, seed, HELD_OUT) for seed in range(SPLITS)]
    train = everything.evaluation["train"]
    items, reference = train.scored[train.has_gold], train.reference[train.has_gold]
    found: list[Scored] = []
    for model in MODELS:
        for point in points(model):
            whole, *held = fitted(model, point, [everything.training, *(part.training for part in parts)])
            heldout = [
                heldout_loglik(one.label_probs, part.heldout)
                for one, part in zip(held, parts, strict=True)
                if one.label_probs is not None and part.heldout is not None
            ]
            percent = 100 * accuracy(reference, whole.item_probs[items])
            found.append(Scored(model=model, point=point, heldout=float(np.mean(heldout)), accuracy=percent))
    return found


def main() -> int:
    """Prints the table; returns 1 where a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=DATASETS)
    regrets: list[float] = []
    missed: list[str] = []
    print(f"{'dataset':26}" + "".join(f"{model:>15}" for model in MODELS) + f"{'regret':>8}  choice")
    for name in parser.parse_args().datasets:
        found = scores(catalogue.load(name, {"features": None}))
        bests = [max((one for one in found if one.model == model), key=lambda one: one.heldout) for model in MODELS]
        choice = max(bests, key=lambda one: one.heldout)
        regrets.append(max(one.accuracy for one in bests) - choice.accuracy)
        cells = "".join(f"{one.accuracy:15.2f}" for one in bests)
        print(f"{name:26}{cells}{regrets[-1]:8.2f}  {choice} ({choice.heldout:.4f})", flush=True)
        if choice.accuracy < LEAST.get(name, 0.0):
            missed.append(f"{name}: {choice.accuracy:.2f} %, below {LEAST[name]}")
    mean = float(np.mean(regrets))
    print(f"mean regret {mean:.2f} points over {len(regrets)} datasets (limit {MOST_REGRET})")
    if mean > MOST_REGRET:
        missed.append(f"mean regret {mean:.2f}, above {MOST_REGRET}")
    print(*missed, sep="\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
