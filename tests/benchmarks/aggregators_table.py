"""Accuracy of every aggregator on every public dataset with gold, crowd-kit's beside ours where it has the model.

    CROWDSWEEP_DATA=FOLDER python tests/benchmarks/aggregators_table.py [--limit S] [--peer-limit S] [DATASET ...]

Prints a Markdown table: accuracy in % on items with gold that somebody labelled, all items training, default
parameters on both sides, ties shared out (expected accuracy); `ours / crowd-kit's`. `…` is a fit that did not end
within the limit, `-` what does not apply. Below stand the differences of more than a point, each with its reason. Exit
code 1 where one has none. `make table` runs it.
"""

import argparse
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import pandas as pd
from choosing_without_gold import DATASETS
from sklearn.base import BaseEstimator

from crowdsweep.data import catalogue, splits
from crowdsweep.data.dataset import TrialData
from crowdsweep.errors import CrowdsweepError
from crowdsweep.metrics.items import accuracy_of_each
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.seeds import SeedStream

# Our models, and crowd-kit's of the same name if it has one.
MODELS: Mapping[str, str | None] = {
    "majority-vote": "MajorityVote",
    "wawa": "Wawa",
    "zero-based-skill": "ZeroBasedSkill",
    "one-coin": "OneCoinDawidSkene",
    "dawid-skene": "DawidSkene",
    "hierarchical-dawid-skene": None,
    "multinomial": None,
    "glad": "GLAD",
    "mace": "MACE",
    "mmce": None,
    "kos": "KOS",
    "m-msr": "MMSR",
    "snorkel": None,
    "metal": None,
    "crowdlab": None,
}
TOLERANCE = 1.0  # points
# Why crowd-kit's answer differs by more, by model, or by model and dataset.
REASONS: Mapping[str, str] = {
    "wawa on web-relevance": "a fifth of the items tie; crowd-kit takes the label that comes first in the file",
    "one-coin on web-relevance": "crowd-kit stops after two steps: 74.9 with `shrinkage: 0, iterations: 2` here too",
    "one-coin": "crowd-kit draws nobody towards the crowd, as ours does not with `shrinkage: 0`",
    "dawid-skene on adult-content": "crowd-kit stops after two steps: 76.6 with `shrinkage: 0, iterations: 2` here too",
    "kos": "crowd-kit passes a hundred rounds of messages, ours one; with `iterations: 100` they agree",
    # With our signs crowd-kit's skills give what ours give, within .8 points.
    "m-msr": "signs of skills differ, and crowd-kit divides an item's votes by their sum, negative ones too",
}


class OutOfTimeError(Exception):
    """The limit is over."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raises OutOfTimeError in what runs longer."""

    def end(*_: object) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)  # of the processor: a busy machine has its time
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def ours(model: str, trial: TrialData) -> np.ndarray | None:
    """Returns our item probabilities; None where the model does not take the data."""
    info = registered.model_info(model)
    if "features" in info.needs and trial.training.items.features is None:
        return None
    try:
        built = registered.build_model(model, {})
        return fit_one(built, trial.training, FitContext(seeds=SeedStream(0))).item_probs
    except CrowdsweepError as refused:
        print(f"{model}: {refused}", file=sys.stderr)
        return None


def theirs(name: str, trial: TrialData) -> np.ndarray | None:
    """Returns crowd-kit's item probabilities, or its labels as such; None where it does not take the data."""
    from crowdkit import aggregation

    rows = trial.training.annotations
    if rows.anonymous or rows.probability is not None or (name == "KOS" and rows.n_classes > 2):
        return None
    table = pd.DataFrame({"task": rows.item, "worker": rows.annotator, "label": rows.label})
    names = np.arange(rows.n_classes)
    if name == "MACE":  # of crowd-kit 1.4: it mixes annotators and labels up that do not appear in ascending order
        table["worker"] = pd.factorize(rows.annotator)[0]
        table["label"], names = pd.factorize(rows.label)
    random = {"random_state": 0} if name in ("KOS", "MMSR", "MACE") else {}
    # Of scikit-learn 1.6 and later crowd-kit's Wawa and ZeroBasedSkill ask for tags that they do not have.
    peer = type(name, (getattr(aggregation, name), BaseEstimator), {})
    model = peer(**random)
    if hasattr(model, "fit_predict_proba"):
        found = model.fit_predict_proba(table).rename(columns=dict(enumerate(names)))
        return found.reindex(index=range(rows.n_items), columns=range(rows.n_classes), fill_value=0.0).to_numpy()
    labels = model.fit_predict(table).reindex(range(rows.n_items), fill_value=0).to_numpy()
    return np.eye(rows.n_classes)[labels.astype(int)]


def scored(found: Callable[[], np.ndarray | None], trial: TrialData, limit: int) -> float | str:
    """Returns the accuracy in %, or the sign that stands for none."""
    train = trial.evaluation["train"]
    try:
        with limited(limit):
            probs = found()
    except OutOfTimeError:
        return "…"
    if probs is None:
        return "-"
    return 100 * accuracy_of_each(train.reference[train.has_gold], probs[train.scored[train.has_gold]]).mean()


def shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.1f}"


def main() -> int:
    """Prints the table; returns 1 where a difference has no reason."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=DATASETS)
    parser.add_argument("--limit", type=int, default=20, help="seconds of the processor for each fit")
    parser.add_argument("--peer-limit", type=int, default=20, help="of crowd-kit's")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| | " + " | ".join(MODELS) + " |")
    print("| --- |" + " ---: |" * len(MODELS), flush=True)
    different: list[tuple[str, str, str]] = []
    for dataset in options.datasets:
        trial = splits.prepare(catalogue.load(dataset, {}), {"training": "all"}, 0)
        cells: list[str] = []
        for model, peer in MODELS.items():
            own = scored(partial(ours, model, trial), trial, options.limit)
            cells.append(shown(own))
            if peer is not None:
                other = scored(partial(theirs, peer, trial), trial, options.peer_limit)
                cells[-1] += f" / {shown(other)}"
                if not isinstance(own, str) and not isinstance(other, str) and abs(own - other) > TOLERANCE:
                    different.append((model, dataset, cells[-1]))
        print(f"| {dataset} | " + " | ".join(cells) + " |", flush=True)
    print()
    missing = 0
    for model in dict.fromkeys(one for one, _, _ in different):
        cells = [(dataset, values) for one, dataset, values in different if one == model]
        for dataset, values in cells:
            reason = REASONS.get(f"{model} on {dataset}", REASONS.get(model))
            missing += reason is None
            print(f"- {model} on {dataset} ({values}): {reason or 'NOT EXPLAINED'}")
    return int(missing > 0)


if __name__ == "__main__":
    sys.exit(main())
