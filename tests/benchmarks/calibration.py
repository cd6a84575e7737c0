"""Whether `probability` in labels.csv means what it says, without gold.

    CROWDSWEEP_DATA=FOLDER python tests/benchmarks/calibration.py [--models A,B] [--simulated N] [--kinds N]
        [DATASET ...]

Gold is taken out of each public dataset, a model is fitted, its probabilities are calibrated by held-out answers alone,
and gold then says how many of the labels are right, by what they were said to be. The same on simulated crowds.
Promised, over all models and over all datasets, and over all simulated crowds: of labels said to be right with .85 to
.95, .82 to .97 are; of those above .99, at least .97; and the mean log-loss is below half of the raw one's. The exit
code is 1 where that is broken. Then, by kind of simulated crowd, of at most 60 items and of more: how probable labels
are said to be on average (of several classes, the decision on each), how many are right, and the log-losses.

word-similarity is left out: its labels carry probabilities, most of them against the label that they stand by. Of
anonymous votes only those models are fitted that know no annotators: the others give each of pos-tagging's 96,583
labels a matrix of its own, in minutes, and learn nothing by it. Where items have a text and no features crowdlab is
left out, whose text network takes minutes. Standard error says what each fit and its calibration took.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from choosing_without_gold import DATASETS
from simulated_crowds import KINDS, crowd_of_kind, crowds

from crowdsweep.arrays import floored_log
from crowdsweep.data import catalogue
from crowdsweep.data.dataset import CrowdDataset, Gold
from crowdsweep.errors import CrowdsweepError
from crowdsweep.labelling.fitted import fit_everything
from crowdsweep.labelling.labelled import Labelled, labelled_items
from crowdsweep.metrics.items import as_binary

MODELS = (
    "majority-vote",
    "multinomial",
    "wawa",
    "one-coin",
    "hierarchical-dawid-skene",
    "dawid-skene",
    "glad",
    "mace",
    "crowdlab",
)
OF_ANONYMOUS = ("majority-vote", "multinomial")
BINS = ((0.6, 0.75), (0.75, 0.85), (0.85, 0.95), (0.95, 0.99), (0.99, 1.0))
FEW = 60  # items
NO_GOLD = Gold(item=np.empty(0, np.int32), label=np.empty(0, np.int32))
Scored = tuple[np.ndarray, np.ndarray, float, float]
"""What labels are said to be, whether they are right, the log-loss, the raw one."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--simulated", type=int, default=24)
    parser.add_argument("--kinds", type=int, default=24, help="simulated crowds of each kind (default: 24)")
    parser.add_argument("datasets", nargs="*", default=[name for name in DATASETS if name != "word-similarity"])
    asked = parser.parse_args()
    models = asked.models.split(",")
    public: dict[str, list[Scored]] = {model: [] for model in models}
    simulated: dict[str, list[Scored]] = {model: [] for model in models}
    for name in asked.datasets:
        data = catalogue.load(str(Path(os.environ["CROWDSWEEP_DATA"]) / name), {})
        for model in models:
            _add(public[model], model, data, data.gold.item, data.gold.label)
    for crowd in crowds(asked.simulated):
        for model in models:
            _add(simulated[model], model, crowd.data, np.arange(len(crowd.truth)), crowd.truth)
    kept = [_print("public datasets", public), _print("simulated crowds", simulated)]
    _print_kinds(models, asked.kinds)
    return 0 if all(kept) else 1


def _add(found: list[Scored], model: str, data: CrowdDataset, item: np.ndarray, gold: np.ndarray) -> None:
    too_long = model == "crowdlab" and data.items.features is None
    if too_long or (data.annotations.anonymous and model not in OF_ANONYMOUS):
        return
    started = time.perf_counter()
    try:
        fitted = fit_everything(model, {}, replace(data, gold=NO_GOLD), {}, n_seeds=1)
    except CrowdsweepError:  # it needs features, or cannot take votes
        return
    between = time.perf_counter()
    labelled = labelled_items(fitted)
    ended = time.perf_counter()
    spent = f"fit {between - started:.1f} s, calibration {ended - between:.1f} s"
    print(f"{data.name} {model}: {spent}", file=sys.stderr, flush=True)
    answered = np.isin(item, fitted.code)
    place, label = np.searchsorted(labelled.code, item[answered]), gold[answered]
    probs, raw, every = labelled.probs[place], labelled.raw[place], np.arange(len(label))
    tied = probs >= probs.max(axis=1, keepdims=True) - 1e-9
    loss, before = (-floored_log(one[every, label]).mean() for one in (probs, raw))
    found.append((probs.max(axis=1), tied[every, label] / tied.sum(axis=1), float(loss), float(before)))


def _print(title: str, found: dict[str, list[Scored]]) -> bool:
    print(f"\n{title}: share of right labels by what they were said to be (number), log-loss raw and calibrated")
    for model, scored in found.items():
        if scored:
            print(f"{model:26}", _line(scored))
    together = [one for scored in found.values() for one in scored]
    print(f"{'all':26}", _line(together), flush=True)
    likely, sure = (_share(together, *BINS[place]) for place in (2, 4))
    losses = np.mean([one[2:] for one in together], axis=0)
    return bool((np.isnan(likely) or 0.82 <= likely <= 0.97) and (np.isnan(sure) or sure >= 0.97)) and (
        losses[0] < 0.5 * losses[1] or title != "public datasets"
    )


def _print_kinds(models: Sequence[str], number: int) -> None:
    if number:
        print(f"\n{'by kind':45}items  crowds  said  right  raw, loss -> calibrated")
    for kind, model in product(KINDS if number else (), models):
        found: dict[str, list[Sequence[float]]] = {f"<= {FEW}": [], f" > {FEW}": []}
        for seed in range(number):
            crowd = crowd_of_kind(kind, seed)
            try:
                labelled = labelled_items(fit_everything(model, {}, crowd.data, {}, n_seeds=1))
            except CrowdsweepError:  # it needs features, or cannot take several classes
                continue
            size = next(iter(found)) if crowd.data.items.n_items <= FEW else list(found)[1]
            found[size].append(_said_and_right(labelled, crowd.truth[labelled.code]))
        for size, rows in found.items():
            if rows:
                said, right, raw, loss = np.mean(rows, axis=0)
                start = f"{kind:19}{model:26}{size:5}{len(rows):8}"
                print(f"{start}{said:6.3f}{right:7.3f}{raw:6.2f} -> {loss:.2f}", flush=True)


def _said_and_right(labelled: Labelled, truth: np.ndarray) -> tuple[float, float, float, float]:
    probs, raw = labelled.probs, labelled.raw
    if labelled.multilabel:
        probs, raw, truth = as_binary(probs), as_binary(raw), truth.reshape(-1).astype(int)
    every = np.arange(len(truth))
    loss, before = (float(-floored_log(one[every, truth]).mean()) for one in (probs, raw))
    return float(probs.max(axis=1).mean()), float((probs.argmax(axis=1) == truth).mean()), before, loss


def _line(scored: list[Scored]) -> str:
    shares = " ".join(
        f"{low:.2f}-{high:.2f}: {_share(scored, low, high):.3f} ({_number(scored, low, high):,})" for low, high in BINS
    )
    after, before = np.mean([one[2:] for one in scored], axis=0)
    return f"{shares}  {before:.2f} -> {after:.2f}"


def _share(scored: list[Scored], low: float, high: float) -> float:
    right = [right[(said > low) & (said <= high)] for said, right, *_ in scored]
    together = np.concatenate(right)
    return float(together.mean()) if len(together) else float("nan")


def _number(scored: list[Scored], low: float, high: float) -> int:
    return sum(int(((said > low) & (said <= high)).sum()) for said, *_ in scored)


if __name__ == "__main__":
    sys.exit(main())
