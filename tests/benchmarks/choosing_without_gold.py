"""What choosing a model by held-out answers costs in accuracy, on the public datasets whose gold tells.

    CROWDSWEEP_DATA=FOLDER python tests/benchmarks/choosing_without_gold.py [--defaults] [DATASET ...]

The candidates are those that `crowdsweep init` proposes for labels alone (features and texts are taken out), each at
the point of `POINTS` with the highest held-out log-likelihood (mean over five splits, a tenth of the answers held out),
or with `--defaults` at its defaults; no gold is looked at. Regret is the accuracy of the best candidate, fitted to all
answers, less that of

- `choice`: the candidate with the highest held-out log-likelihood, which a sweep recommends;
- `of three`, `of two thirds`: the mean of the posteriors of so many candidates that predict held-out answers best;
- `above vote`: the mean of all candidates that predict held-out answers no worse than the vote.

Exit code 1 where the mean regret of the choice or of two thirds is above 1.0.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from crowdsweep.data import catalogue, splits
from crowdsweep.data.dataset import CrowdDataset, TrainingData
from crowdsweep.metrics.heldout import heldout_loglik
from crowdsweep.metrics.items import accuracy_of_each
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.fitting import fit_all
from crowdsweep.seeds import SeedStream
from crowdsweep.sweep.starter.choices import choose, facts_of

# What is searched.
POINTS: Mapping[str, Mapping[str, Sequence[float]]] = {
    "multinomial": {"smoothing": (0.01, 1)},
    "one-coin": {"shrinkage": (1, 3, 10, 30)},
    "dawid-skene": {"smoothing": (0.01, 0.1, 1), "shrinkage": (0, 1, 3)},
    "hierarchical-dawid-skene": {"smoothing": (0.01, 0.1, 1, 3)},
    "mace": {"spamming_prior": (0.1, 0.5, 1), "label_prior": (0.1, 1, 10)},
    "glad": {"ability_spread": (0.5, 1, 2), "easiness_spread": (0.5, 1, 2)},
}
BY_ITSELF = ("mace", "glad")  # of these one number at a time is changed
SPLITS, HELD_OUT = 5, 0.1
LIMITS = {"choice": 1.0, "of two thirds": 1.0}  # mean regret, points
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """One model at one point.

    Attributes:
        model: its name.
        point: hyper-parameters that are not its defaults.
        heldout: held-out log-likelihood, nats an answer.
        posterior: of the items with gold, when fitted to all answers.
    """

    model: str
    point: Mapping[str, Any]
    heldout: float
    posterior: np.ndarray

    def __str__(self) -> str:
        """Returns the model and its point, as a sweep file would have them."""
        return " ".join([self.model, *(f"{name}={value}" for name, value in self.point.items())])


def points(model: str, *, defaults: bool) -> list[dict[str, Any]]:
    """Returns the points that are tried of a model, its defaults first."""
    if defaults or model not in POINTS:
        return [{}]
    usual, values = registered.full_params(model, {}), POINTS[model]
    if model in BY_ITSELF:
        return [{}, *({name: one} for name, ones in values.items() for one in ones if one != usual[name])]
    return [dict(zip(values, ones, strict=True)) for ones in product(*values.values())]


def fitted(model: str, point: Mapping[str, Any], data: Sequence[TrainingData]) -> list[FitResult]:
    """Returns fits of one model at one point, as one batch."""
    contexts = [FitContext(seeds=SeedStream(seed)) for seed in range(len(data))]
    return fit_all(registered.build_model(model, point), data, contexts)


def searched(dataset: CrowdDataset, *, defaults: bool) -> tuple[list[Scored], np.ndarray]:
    """Returns every candidate at the point that held-out answers choose for it, and the gold."""
    everything = splits.prepare(dataset, {"training": "all"}, 0)
    parts = [splits.prepare(dataset, {"training": "all"}, seed, HELD_OUT) for seed in range(SPLITS)]
    train = everything.evaluation["train"]
    items, reference = train.scored[train.has_gold], train.reference[train.has_gold]
    found: list[Scored] = []
    for chosen in choose(facts_of(dataset, {"training": "all"}), dataset.name):
        model, tried, started = chosen.candidate.name, list[Scored](), time.perf_counter()
        if chosen.left_out or "gold" in registered.model_info(model).needs:
            continue
        for point in points(model, defaults=defaults):
            whole, *held = fitted(model, point, [everything.training, *(part.training for part in parts)])
            heldout = [
                heldout_loglik(one.label_probs, part.heldout)
                for one, part in zip(held, parts, strict=True)
                if one.label_probs is not None and part.heldout is not None
            ]
            posterior = whole.item_probs[items]
            tried.append(Scored(model=model, point=point, heldout=float(np.mean(heldout)), posterior=posterior))
        found.append(max(tried, key=lambda one: one.heldout))
        spent = f"{len(tried)} points, {time.perf_counter() - started:.1f} s"
        print(f"{dataset.name} {model}: {spent}", file=sys.stderr, flush=True)
    return found, reference


Rule = Callable[[Sequence[Scored]], Sequence[Scored]]  # from candidates, the best by held-out answers first


def above_vote(ranked: Sequence[Scored]) -> Sequence[Scored]:
    """Returns the candidates that predict held-out answers no worse than the vote."""
    vote = next(one.heldout for one in ranked if one.model == "majority-vote")
    return [one for one in ranked if one.heldout >= vote]


RULES: Mapping[str, Rule] = {
    "choice": lambda ranked: ranked[:1],
    "of three": lambda ranked: ranked[:3],
    "of two thirds": lambda ranked: ranked[: ceil(len(ranked) * 2 / 3)],
    "above vote": above_vote,
}


def main() -> int:
    """Prints the table; returns 1 where a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=DATASETS)
    parser.add_argument("--defaults", action="store_true", help="search nothing")
    options = parser.parse_args()
    regrets: dict[str, list[float]] = {rule: [] for rule in RULES}
    print("| | best | " + " | ".join(RULES) + " | choice |\n| --- | ---: |" + " ---: |" * len(RULES) + " --- |")
    for name in options.datasets:
        dataset = catalogue.load(name, {})
        labels_alone = replace(dataset, items=replace(dataset.items, features=None, text=None))
        found, reference = searched(labels_alone, defaults=options.defaults)
        ranked = sorted(found, key=lambda one: -one.heldout)
        best = max(100 * accuracy_of_each(reference, one.posterior).mean() for one in ranked)
        for rule, picks in RULES.items():
            mean = np.mean([one.posterior for one in picks(ranked)], axis=0)
            regrets[rule].append(best - 100 * accuracy_of_each(reference, mean).mean())
        cells = " | ".join(f"{regrets[rule][-1]:.1f}" for rule in RULES)
        print(f"| {name} | {best:.1f} | {cells} | {ranked[0]} |", flush=True)
    means = {rule: float(np.mean(values)) for rule, values in regrets.items()}
    print("| mean | | " + " | ".join(f"{means[rule]:.2f}" for rule in RULES) + " | |")
    missed = [
        f"{rule}: {means[rule]:.2f} points, above {limit}" for rule, limit in LIMITS.items() if means[rule] > limit
    ]
    print(*missed, sep="\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
