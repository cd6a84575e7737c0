"""How much faster aggregators are than crowd-kit's, which gives the same labels: processor time, on one core.

    python tests/benchmarks/beside_crowdkit.py [--rounds N] [MODEL ...]

180,000 answers by 10,000 annotators on 36,000 items of ten classes, simulated. Both sides have the answers in memory,
sorted, as integers, and make as many passes over them. What crowd-kit leaves out (confusion matrices of annotators
beside the vote) is made here when it is asked for, and stands in a column of its own. Each ratio is the median of
rounds in which the two take turns. Promised: Dawid-Skene 8 times, the vote 10 times and Wawa twice as fast, and of the
items whose two likeliest classes differ 99.5 % labelled alike (Wawa: 99 %, as crowd-kit takes the first label where its
votes tie; Dawid-Skene: floors under probabilities differ). Exit code 1 where one of these is broken.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import pandas as pd
from crowdkit import aggregation
from sklearn.base import BaseEstimator

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.fitting import fit_one
from crowdsweep.seeds import SeedStream

N_ITEMS, N_ANNOTATORS, N_CLASSES, PER_ITEM = 36_000, 10_000, 10, 5
STEPS = 20


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A model and its peer.

    Attributes:
        peer: crowd-kit's class.
        promised: at least so many times as fast.
        alike: at least so many of the labels.
        ours, theirs: settings under which they do the same.
    """

    peer: str
    promised: float
    alike: float = 0.995
    ours: Mapping[str, Any] = field(default_factory=dict)
    theirs: Mapping[str, Any] = field(default_factory=dict)


PAIRS: Mapping[str, Pair] = {
    "dawid-skene": Pair(
        peer="DawidSkene",
        promised=8,
        ours={"smoothing": 0.0, "shrinkage": 0.0, "iterations": STEPS, "tolerance": 0.0},
        theirs={"n_iter": STEPS, "tol": -np.inf},
    ),
    "majority-vote": Pair(peer="MajorityVote", promised=10),
    "wawa": Pair(peer="Wawa", promised=2, alike=0.99),
}


def crowd(n_items: int = N_ITEMS, n_annotators: int = N_ANNOTATORS, n_classes: int = N_CLASSES) -> Annotations:
    """Returns answers that are right in half to nine tenths of the cases, by annotator."""
    rng = np.random.default_rng(0)
    item = np.repeat(np.arange(n_items), PER_ITEM)
    annotator, gold = rng.integers(0, n_annotators, len(item)), rng.integers(0, n_classes, n_items)
    right = rng.random(len(item)) < rng.uniform(0.5, 0.9, n_annotators)[annotator]
    label = np.where(right, gold[item], rng.integers(0, n_classes, len(item)))
    return Annotations.of(
        item=item, annotator=annotator, label=label, n_items=n_items, n_annotators=n_annotators, n_classes=n_classes
    )


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Returns processor seconds, and what was made."""
    begun = time.process_time()
    made = work()
    return time.process_time() - begun, made


def measure(model: str, pair: Pair, rows: Annotations, rounds: int) -> bool:
    """Prints a line; returns whether a promise is broken."""
    table = pd.DataFrame({"task": rows.item, "worker": rows.annotator, "label": rows.label})
    data = TrainingData(annotations=rows, items=Items(n_items=N_ITEMS))
    built = registered.build_model(model, pair.ours)
    # Of scikit-learn 1.6 and later crowd-kit's Wawa asks for tags that it does not have.
    peer = type(pair.peer, (getattr(aggregation, pair.peer), BaseEstimator), {})
    seconds: list[tuple[float, float, float]] = []
    for _ in range(rounds):
        ours_s, fitted = timed(lambda: fit_one(built, data, FitContext(seeds=SeedStream(0))))
        theirs_s, labels = timed(lambda: peer(**pair.theirs).fit_predict(table))
        asked_s, _ = timed(lambda fitted=fitted: fitted.annotators.confusion(np.arange(1)))
        seconds.append((ours_s, theirs_s, asked_s))
    ratio = float(np.median([theirs_s / ours_s for ours_s, theirs_s, _ in seconds]))
    ours_s, theirs_s, asked_s = np.median(seconds, axis=0)
    same = same_labels(fitted, labels)
    print(
        f"{model:<15}  {1e3 * ours_s:>7.0f} ms  {1e3 * asked_s:>7.0f} ms     {1e3 * theirs_s:>7.0f} ms  "
        f"{ratio:>5.1f}  {pair.promised:>5.1f}     {100 * same:.3f} %",
        flush=True,
    )
    return ratio < pair.promised or same < pair.alike


def same_labels(fitted: FitResult, labels: pd.Series) -> float:
    """Returns how many labels are the same, of the items whose two likeliest classes differ by a thousandth."""
    ranked = np.sort(fitted.item_probs, axis=1)
    clear = ranked[:, -1] - ranked[:, -2] > 1e-3
    theirs = labels.reindex(range(N_ITEMS)).to_numpy()
    return float((fitted.item_probs.argmax(axis=1) == theirs)[clear].mean())


def main() -> int:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help=f"of {', '.join(PAIRS)}; all by default")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    asked, rows = options.models or list(PAIRS), crowd()
    print("model               ours  its annotators   crowd-kit  ratio  promised  same labels")
    return int(sum(measure(model, PAIRS[model], rows, options.rounds) for model in asked) > 0)


if __name__ == "__main__":
    sys.exit(main())
