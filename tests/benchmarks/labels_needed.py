"""Whether a redundancy study's answers hold: `python tests/benchmarks/labels_needed.py` prints it.

Simulated: majority votes of items that differ in difficulty, so that the true curve is known. Of the intervals from
*possibly* to *surely* enough, for a target accuracy and for the accuracy of ten labels less a tolerance, at least 90 %
contain the number of labels that is truly needed. Of the fitted curve's gains from ten to twenty labels at least 90 %
contain the true one, or it refuses.

Public sets (`CROWDSWEEP_DATA`): the curve is fitted to 1 to 5 labels per item and says what 10 bring; beside it what
they do bring, on the items that have 10, by models of labels alone. At least 90 % contain it, or it refuses.

The exit code is 1 where one is broken.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from crowdsweep.data import catalogue, splits
from crowdsweep.data.dataset import CrowdDataset, TrialData
from crowdsweep.errors import CrowdsweepError
from crowdsweep.metrics.items import agreement
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext, fit_one
from crowdsweep.seeds import SeedStream
from crowdsweep.studies.axis import AxisPoint
from crowdsweep.studies.groups import Group
from crowdsweep.studies.labels_needed import need_of, reach_of
from crowdsweep.studies.more_labels import law_of

METRIC = "train_accuracy"
TRIED, ALL, TWICE = (1, 2, 3, 4, 5, 7), 10, 20
FITTED, BEYOND = (1, 2, 3, 4, 5), 10
TOLERANCES = (0.01, 0.02, 0.03)
CROWDS = {"easy, some hard": (3.0, 1.2), "all alike": (40.0, 12.0), "hard": (4.0, 2.5)}
SETS = (
    "adult-content",
    "bluebirds",
    "dog",
    "medical-causes",
    "medical-treats",
    "rte",
    "sentiment-popularity-amt",
    "temporal-ordering",
    "weather-sentiment-amt",
    "word-similarity",
    "zencrowd-us",
)
MODELS = ("majority-vote", "wawa", "one-coin", "dawid-skene")
GROUP = Group(dataset="d", metric=METRIC, models={}, all_labels=ALL, heldout=0.0, why="")
SHARE = 0.9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=SETS, help="public sets (default: all that can answer)")
    parser.add_argument(
        "--runs", type=int, default=200, help="simulated studies of each kind, 0 for none (default: 200)"
    )
    parser.add_argument("--seeds", type=int, default=5, help="of each fit to a public set (default: 5)")
    options = parser.parse_args()
    started, broken = time.perf_counter(), 0
    for what, inside, told, asked in _simulated(options.runs) if options.runs else ():
        broken += _printed(what, inside, told, asked)
    inside = told = asked = 0
    for name in options.datasets:
        for held in _public(name, options.seeds):
            asked, told, inside = asked + 1, told + (held is not None), inside + bool(held)
    broken += _printed("public sets, gain from 5 to 10 labels", inside, told, asked)
    print(f"\n{time.perf_counter() - started:.0f} s; " + (f"{broken} bounds broken" if broken else "all bounds hold"))
    return 1 if broken else 0


def _printed(what: str, inside: int, told: int, asked: int) -> bool:
    """Prints a line; returns whether fewer than `SHARE` of what was told held, by more than three standard errors of
    the simulation."""
    share = inside / max(told, 1)
    bad = told > 0 and share < SHARE - 3 * (SHARE * (1 - SHARE) / told) ** 0.5
    refused = f", {asked - told} refused" if asked > told else ""
    print(f"{what:<80}{100 * share:>6.1f} % of {told}{refused}" + ("  BROKEN" if bad else ""), flush=True)
    return bad


def _simulated(runs: int) -> Iterator[tuple[str, int, int, int]]:
    """Yields what was asked, how often it held, was told, and was asked."""
    for name, shape in CROWDS.items():
        many = _votes(np.random.default_rng(0), shape, 300_000, 1)
        true = {r: float(right.mean()) for r, right in many.items()}
        for n_items in (100, 300, 1000):
            studies = [_points(_votes(np.random.default_rng([run, n_items]), shape, n_items, 5)) for run in range(runs)]
            where = f"{n_items} items, {name}"
            held = [_near_all(points, true, tolerance) for points in studies for tolerance in TOLERANCES]
            yield f"labels needed, within a tolerance of all: {where}", sum(held), len(held), len(held)
            targets = [(true[2] + true[3]) / 2, (true[4] + true[5]) / 2, (true[5] + true[7]) / 2]
            held = [_target(points, true, target) for points in studies for target in targets]
            yield f"labels needed, to reach a target: {where}", sum(held), len(held), len(held)
            gains = [_beyond(points, true[TWICE] - true[ALL]) for points in studies]
            told = [held for held in gains if held is not None]
            yield f"fitted curve, gain from {ALL} to {TWICE} labels: {where}", sum(told), len(told), runs


def _near_all(points: dict[int | None, AxisPoint], true: dict[int, float], tolerance: float) -> bool:
    """Whether the interval from possibly to surely enough contains what is needed; more than was tried where that is
    no number that was."""
    need = need_of(points, GROUP, tolerance)
    assert need is not None
    needed = next((r for r in TRIED if true[ALL] - true[r] <= tolerance), ALL)
    return (need.possibly or ALL) <= needed <= (need.surely or ALL)


def _target(points: dict[int | None, AxisPoint], true: dict[int, float], target: float) -> bool:
    reach = reach_of(points, GROUP, target, "")
    assert reach is not None
    needed = next((r for r in (*TRIED, ALL) if true[r] >= target), TWICE)
    return (reach.possibly or TWICE) <= needed <= (reach.surely or TWICE)


def _beyond(points: dict[int | None, AxisPoint], true: float) -> bool | None:
    """Whether the predicted gain contains the true one; None where it is refused."""
    law = law_of(points, GROUP, {r: float(r or ALL) for r in points})
    gain = None if isinstance(law, str) else law.gain(TWICE)
    return None if gain is None or gain.refused else gain.low <= true <= gain.high


def _votes(rng: np.random.Generator, shape: tuple[float, float], n_items: int, n_seeds: int) -> dict[int, np.ndarray]:
    """Returns whether majority votes of so many labels are right, half where they tie, [seeds, items]."""
    most = TWICE if n_seeds == 1 else ALL
    labels = rng.random((n_items, most)) < rng.beta(*shape, n_items)[:, None]
    found: dict[int, list[np.ndarray]] = {r: [] for r in (*TRIED, ALL, TWICE) if r <= most}
    for _ in range(n_seeds):
        counts = np.cumsum(np.take_along_axis(labels, np.argsort(rng.random(labels.shape), axis=1), axis=1), axis=1)
        for r, rights in found.items():
            rights.append((2 * counts[:, r - 1] > r) + 0.5 * (2 * counts[:, r - 1] == r))
    return {r: np.array(rights) for r, rights in found.items()}


def _points(votes: dict[int, np.ndarray]) -> dict[int | None, AxisPoint]:
    return {None if r == ALL else r: _point(right) for r, right in votes.items()}


def _point(right: np.ndarray) -> AxisPoint:
    seeds = range(len(right))
    return AxisPoint(
        by_seed={METRIC: {s: float(right[s].mean()) for s in seeds}},
        by_item={METRIC: {s: right[s].astype(np.float32) for s in seeds}},
        wall_s=[1.0] * len(right),
        flags=[""] * len(right),
    )


def _public(name: str, seeds: int) -> Iterator[bool | None]:
    """Prints, and yields for each model, whether the gain that the curve says contains the one there is."""
    base = _with_ten_labels(catalogue.load(name, {}))
    numbers = (*FITTED, BEYOND)
    trials = {
        (r, seed): splits.prepare(base, {"training": "all", "redundancy": r}, seed)
        for r in numbers
        for seed in range(seeds)
    }
    for model in MODELS:
        try:
            right = {r: np.stack([_right(model, trials[r, seed], seed) for seed in range(seeds)]) for r in numbers}
        except CrowdsweepError as refused:
            print(f"{name}, {model}: {refused}", file=sys.stderr)
            continue
        points: dict[int | None, AxisPoint] = {r: _point(right[r]) for r in FITTED}
        means = " ".join(f"{100 * right[r].mean():.1f}" for r in numbers)
        true = float(right[BEYOND].mean() - right[FITTED[-1]].mean())
        law = law_of(points, GROUP, {r: float(r) for r in FITTED})
        gain = None if isinstance(law, str) else law.gain(BEYOND)
        start = f"{name}, {model} ({right[1].shape[1]} items; {means}): {100 * true:+.1f}"
        if gain is None or gain.refused:
            print(f"{start}, refused: {law if isinstance(law, str) else gain.refused if gain else ''}", flush=True)
            yield None
            continue
        held = gain.low <= true <= gain.high
        told = f"{100 * gain.value:+.1f} [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"
        print(f"{start}, told {told}" + ("" if held else "  MISSED"), flush=True)
        yield held


def _with_ten_labels(base: CrowdDataset) -> CrowdDataset:
    """Returns a dataset with the labels of those items alone that have gold and ten labels."""
    rows = base.annotations
    has_gold = np.zeros(base.items.n_items, dtype=bool)
    has_gold[base.gold.item] = True
    enough = has_gold & (rows.labels_per_item >= BEYOND)
    items = replace(base.items, features=None, text=None, unit=None)
    return replace(base, annotations=rows.take(enough[rows.item]), items=items)


def _right(model: str, trial: TrialData, seed: int) -> np.ndarray:
    """Returns which items a model labels right, in part where classes tie."""
    found = fit_one(registered.build_model(model, {}), trial.training, FitContext(seeds=SeedStream(seed))).item_probs
    part = trial.evaluation["train"]
    return agreement(part.reference[part.has_gold], found[part.scored[part.has_gold]])


if __name__ == "__main__":
    sys.exit(main())
