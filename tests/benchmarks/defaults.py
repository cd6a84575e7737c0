"""Default hyper-parameters against a tuned logistic regression: test accuracy (%) of every model with features.

    python tests/benchmarks/defaults.py [FOLDER] [--seeds 2] [--datasets wine,labelme] [--models soft-mv,cmm]

Datasets are scikit-learn's wine, breast cancer and digits, features as they come, under a simulated crowd of ten (three
labels an item, 80 % right, the rest evenly wrong; 70 % of the items train, redrawn by each seed), and those of FOLDER
that have features and gold; where these have no test split, five folds. `regression` is a logistic regression of
scikit-learn on standardised features, its penalty chosen by threefold cross-validation, on the classes that
majority-vote (before the stroke) and dawid-skene (behind it) find likeliest. A model is held against the former, and
marked where it is more than 3 points below. The table is printed in Markdown, seconds of processor time a fit below.
"""

import argparse
import os
import sys
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from crowdsweep.data import catalogue, splits
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Gold, Items, TrainingData
from crowdsweep.errors import CrowdsweepError
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_all, fit_one
from crowdsweep.seeds import SeedStream

SIMULATED = ("wine", "breast_cancer", "digits")
PUBLIC = ("labelme", "music-genre", "medical-treats", "medical-causes", "rte", "sentiment-polarity")
ANNOTATORS, LABELS, CORRECT, TRAINING = 10, 3, 0.8, 0.7
PENALTIES = [1e-4, 1e-3, 1e-2, 1e-1, 1, 10]
MARGIN = 3.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """What is trained on, and the items that are scored with their classes."""

    training: TrainingData
    gold: Gold
    items: Items
    truth: np.ndarray

    def accuracy(self, said: np.ndarray) -> float:
        """Returns the share of right classes, in per cent."""
        return float(100 * (said == self.truth).mean())


def simulated(name: str, seed: int) -> Problem:
    """Returns a dataset of scikit-learn with a crowd."""
    features, truth = getattr(datasets, f"load_{name}")(return_X_y=True)
    random, n_classes = np.random.default_rng(seed), int(truth.max()) + 1
    order = random.permutation(len(features))
    train, test = np.split(order, [int(TRAINING * len(order))])
    item = np.repeat(np.arange(len(train)), LABELS)
    annotator = np.concatenate([random.choice(ANNOTATORS, LABELS, replace=False) for _ in train])
    wrong = (truth[train][item] + random.integers(1, n_classes, len(item))) % n_classes
    label = np.where(random.random(len(item)) < CORRECT, truth[train][item], wrong)
    rows = Annotations.of(
        item=item, annotator=annotator, label=label, n_items=len(train), n_annotators=ANNOTATORS, n_classes=n_classes
    )
    own, other = (Items(n_items=len(part), features=features[part].astype(np.float32)) for part in (train, test))
    gold = Gold(item=np.arange(len(train), dtype=np.int32), label=truth[train].astype(np.int32))
    return Problem(training=TrainingData(annotations=rows, items=own), gold=gold, items=other, truth=truth[test])


def public(folder: Path, name: str, seed: int) -> Problem:
    """Returns a dataset of a folder."""
    base = catalogue.load(str(folder / name), {})
    trial, split = splits.prepare(base, {}, seed), "test"
    if split not in trial.evaluation:
        trial, split = splits.prepare(base, {"folds": 5}, seed), "dev"
    scored = trial.evaluation[split]
    known = scored.has_gold
    items = scored.items.take(scored.scored[known])
    return Problem(training=trial.training, gold=trial.gold, items=items, truth=scored.reference[known].argmax(axis=1))


def regression(problem: Problem, aggregate: str) -> float:
    """Returns the accuracy of a tuned logistic regression on an aggregator's labels."""
    data = problem.training
    fitted = fit_one(registered.build_model(aggregate, {}), data, FitContext(seeds=SeedStream(0)))
    taught = data.annotations.labels_per_item > 0
    assert data.items.features is not None and problem.items.features is not None  # noqa: PT018
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    search = GridSearchCV(pipeline, {"logisticregression__C": PENALTIES}, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rare classes and of steps, which the choice of the penalty copes with
        search.fit(data.items.features[taught], fitted.item_probs.argmax(axis=1)[taught])
    return problem.accuracy(search.predict(problem.items.features))


def models_on_features() -> list[str]:
    """Returns the models that need features."""
    return [name for name in registered.model_names() if "features" in registered.model_info(name).needs]


def row(model: str, problems: Mapping[str, list[Problem]], bar: Mapping[str, float]) -> tuple[str, float]:
    """Returns a model's line of the table, and its seconds."""
    cells, seconds = [], 0.0
    info = registered.model_info(model)
    for name, own in problems.items():
        contexts = [
            FitContext(seeds=SeedStream(seed), gold=one.gold if "gold" in info.needs else None)
            for seed, one in enumerate(own)
        ]
        begun = time.process_time()
        try:
            fitted = fit_all(registered.build_model(model, {}), [one.training for one in own], contexts)
        except CrowdsweepError as error:
            print(f"{model} on {name}: {error}", file=sys.stderr)
            cells.append("-")
            continue
        seconds += (time.process_time() - begun) / len(own)
        found = [
            one.accuracy(result.predictor.predict(one.items, result.predictor.uses[0]).argmax(axis=1))
            for one, result in zip(own, fitted, strict=True)
            if result.predictor is not None
        ]
        if not found:
            cells.append("-")
            continue
        mean = float(np.mean(found))
        cells.append(f"**{mean:.1f}**" if mean < bar[name] - MARGIN else f"{mean:.1f}")
    return f"| {model} | {' | '.join(cells)} |", seconds


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--datasets", default=",".join(SIMULATED + PUBLIC))
    parser.add_argument("--models", default="")
    options = parser.parse_args()
    names = [name for name in options.datasets.split(",") if name in SIMULATED or options.folder is not None]
    problems = {
        name: [
            simulated(name, seed) if name in SIMULATED else public(options.folder, name, seed)
            for seed in range(options.seeds)
        ]
        for name in names
    }
    print(f"| | {' | '.join(names)} |", "| --- |" + " ---: |" * len(names), sep="\n", flush=True)
    bar, told = dict[str, float](), list[str]()
    for name, own in problems.items():
        both = [
            float(np.mean([regression(one, aggregate) for one in own]))
            for aggregate in ("majority-vote", "dawid-skene")
        ]
        bar[name] = both[0]
        told.append(" / ".join(f"{value:.1f}" for value in both))
    print(f"| regression | {' | '.join(told)} |", flush=True)
    took = dict[str, float]()
    for model in options.models.split(",") if options.models else models_on_features():
        line, took[model] = row(model, problems, bar)
        print(line, flush=True)
    print("\nseconds a fit, all datasets: " + ", ".join(f"{model} {value:.1f}" for model, value in took.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
