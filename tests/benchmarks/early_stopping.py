"""What early stopping saves, and how often it loses the best point, on recorded learning curves:

    python tests/benchmarks/early_stopping.py FOLDER [--orders N] [--quantile Q] [--grace G] [--parallel P]

FOLDER has a JSON file for each recorded sweep: a list of points, each with `metric` and `curve`, (step, score) pairs of
a fit that nobody stopped, all of one length. Each sweep is replayed in random orders by the rule of the package. The
best point is the one with the highest best score on its curve; it is kept where the highest score of all that ran is
its own. Promised at the defaults, on each sweep: kept in at least 95 % of 200 orders for at most 75 % of the epochs; of
searches of 100 points, drawn with replacement, at most 60 % of the epochs. The exit code is 1 where one is broken.

Beside it: how often as many epochs spent on fewer points in full would have met the best one, and what becomes of it
where the score of the last epoch decides, which is one draw of a noisy curve: how often the point of the highest last
score is chosen, and what the chosen one's last score is behind it on average.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crowdsweep.metrics.wording import goal_of
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.search.contract import Goal, Sampler
from crowdsweep.search.median import MedianRule
from crowdsweep.sweepfile.records import EarlyStop

KEPT, EPOCHS, EPOCHS_OF_100 = 0.95, 0.75, 0.60


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Whole fits of one sweep."""

    name: str
    goal: Goal
    fits: Sequence[TrialResult]


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """One sweep in one order: shares of the epochs, and the best points."""

    epochs: float
    kept: bool
    in_full: bool
    last_kept: bool
    last_behind: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--orders", type=int, default=200, help="orders of each sweep (default: 200)")
    parser.add_argument("--quantile", type=float, default=EarlyStop().quantile)
    parser.add_argument("--grace", type=float, default=EarlyStop().grace)
    parser.add_argument("--parallel", type=int, default=Sampler().parallel)
    options = parser.parse_args()
    rule = MedianRule(quantile=options.quantile, grace=options.grace)
    print(f"quantile {rule.quantile:g}, grace {rule.grace:g}, parallel {options.parallel}, {options.orders} orders")
    print("sweep                 points   epochs     kept  fewer in full  by last score  behind")
    broken = 0
    for path in sorted(options.folder.glob("*.json")):
        sweep = read(path)
        for size in (None, 100):
            draws = np.random.default_rng(0)
            runs = [
                replay(sweep, drawn(draws, len(sweep.fits), size), rule, options.parallel)
                for _ in range(options.orders)
            ]
            epochs, kept = mean(run.epochs for run in runs), mean(run.kept for run in runs)
            limit = EPOCHS if size is None else EPOCHS_OF_100
            broken += epochs > limit or kept < KEPT
            print(
                f"{sweep.name:20}  {size or len(sweep.fits):6}  {epochs:6.1%}  {kept:7.1%}"
                f"  {mean(run.in_full for run in runs):13.1%}  {mean(run.last_kept for run in runs):13.1%}"
                f"  {mean(run.last_behind for run in runs):6.4f}"
                + (f"  BROKEN: at most {limit:.0%}, at least {KEPT:.0%}" if epochs > limit or kept < KEPT else ""),
                flush=True,
            )
    return int(broken > 0)


def read(path: Path) -> Recorded:
    points = json.loads(path.read_text())
    metric = points[0]["metric"]
    fits = [
        TrialResult(
            key=f"{number:016x}",
            status=Status.OK,
            curve=[(int(step), float(score)) for step, score in point["curve"]],
            watched=metric,
            iterations=int(point["curve"][-1][0]),
        )
        for number, point in enumerate(points)
    ]
    return Recorded(name=path.stem, goal=goal_of(metric), fits=fits)


def drawn(draws: np.random.Generator, n: int, size: int | None) -> Sequence[int]:
    return (draws.permutation(n) if size is None else draws.integers(n, size=size)).tolist()


def replay(sweep: Recorded, order: Sequence[int], rule: MedianRule, parallel: int) -> Replayed:
    ran: list[int] = []  # epochs of each point
    for n, number in enumerate(order):
        curve = list(sweep.fits[number].curve)
        earlier = [sweep.fits[order[m]] for m in range(n - parallel + 1) if ran[m] == len(sweep.fits[order[m]].curve)]
        bar = rule.bar(earlier, sweep.fits[number].watched, sweep.goal)
        stops = (k for k in range(1, len(curve) + 1) if bar is not None and bar.stop(curve[:k]) is not None)
        ran.append(next(stops, len(curve)))
    sign = 1.0 if sweep.goal == "maximize" else -1.0
    scores = [np.array([sign * score for _, score in sweep.fits[number].curve]) for number in order]
    had, whole = [own[:k].max() for own, k in zip(scores, ran, strict=True)], [own.max() for own in scores]
    last_had, last = [own[k - 1] for own, k in zip(scores, ran, strict=True)], [own[-1] for own in scores]
    epochs = sum(ran) / sum(map(len, scores))
    behind = max(last) - last[int(np.argmax(last_had))]
    return Replayed(
        epochs=epochs,
        kept=whole[int(np.argmax(had))] >= max(whole),
        in_full=max(whole[: round(epochs * len(order))]) >= max(whole),
        last_kept=behind <= 0,
        last_behind=behind,
    )


def mean(values: object) -> float:
    return float(np.mean(list(values)))  # type: ignore[call-overload]


if __name__ == "__main__":
    sys.exit(main())
