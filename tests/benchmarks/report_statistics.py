"""What the statistics of reports promise, by simulation: `python tests/benchmarks/report_statistics.py` prints it.

Under the null: models that are all alike, so that any significant difference is a false positive. Promised: at most 5 %
of sweeps find one, for 3, 5, 8 and 12 models at 5, 10 and 20 seeds, whether the metric is normal, skewed or collapses
at some seeds; over seeds alone, over seeds and items, and over held-out splits that overlap.

Intervals: of means over seeds, over seeds and items, and over held-out splits. Promised: at least 93 % cover the true
mean, and of means over seeds and over splits at most 97 %; of a metric that collapses, at least 93 % cover or are said
not to, of the sweeps in which any seed shows it. Where it stayed unseen nothing could be said; how many these are is
printed, and the report says how many they may be.

All bounds are widened by three standard errors of the simulation. The exit code is 1 where one is broken.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
from scipy import stats

from crowdsweep.analysis.paired import SIGNIFICANCE, holm
from crowdsweep.metrics.differences import p_of_difference
from crowdsweep.metrics.intervals import (
    collapsed,
    interval,
    p_value,
    seed_standard_error,
    share_interval,
    split_standard_error,
)

MODELS, SEEDS = (3, 5, 8, 12), (5, 10, 20)
HELDOUT = 0.1
N_ITEMS = 200
Draws = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def _collapsing(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Success at .9, sd .02; 15 % of the seeds anywhere from .2 to .6 instead."""
    success = np.minimum(rng.normal(0.9, 0.02, shape), 1.0)
    return np.where(rng.random(shape) < 0.15, rng.uniform(0.2, 0.6, shape), success)


METRICS: dict[str, tuple[Draws, float, float]] = {
    "normal": (lambda rng, shape: rng.normal(0.0, 1.0, shape), -np.inf, np.inf),
    "bounded": (lambda rng, shape: rng.beta(8, 1.5, shape), 0.0, 1.0),
    "skewed": (lambda rng, shape: -rng.exponential(1.0, shape), -np.inf, 0.0),
    "lognormal": (lambda rng, shape: rng.lognormal(0.0, 0.5, shape), 0.0, np.inf),
    "collapsing": (_collapsing, 0.0, 1.0),
}
"""Name → what is drawn, and the range of it."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000, help="simulated sweeps of each kind (default: 2000)")
    runs = parser.parse_args().runs
    started, broken = time.perf_counter(), 0
    slack = 3 * np.sqrt(SIGNIFICANCE * (1 - SIGNIFICANCE) / runs)
    print(f"any significant difference among equals, % of {runs} sweeps (at most {100 * SIGNIFICANCE:g})")
    print(f"{'metric':<24}{'seeds':>6}" + "".join(f"{f'M = {m}':>9}" for m in MODELS))
    for name, n, rates in _false_alarms(runs):
        broken += sum(rate > SIGNIFICANCE + slack for rate in rates)
        print(f"{name:<24}{n:>6}" + "".join(f"{100 * rate:>9.1f}" for rate in rates), flush=True)
    print(f"\ncoverage of 95 % intervals, % of {runs} sweeps (what is promised stands under `counted`)")
    print(f"{'metric':<32}{'seeds':>6}{'all':>8}{'counted':>10}{'no warning':>12}{'warned':>9}{'unseen':>9}")
    for name, n, inside, warned, unseen in _coverages(runs):
        seen = (inside | warned)[~unseen] if unseen.any() else inside
        most = 1.0 if unseen.any() or name.startswith("accuracy") else 0.97
        error = 3 * np.sqrt(0.07 * 0.93 / len(seen))
        bad = not 0.93 - error <= seen.mean() <= most + error
        broken += bad
        figures = (inside.mean(), seen.mean(), inside[~warned].mean(), warned.mean(), unseen.mean())
        print(
            f"{name:<32}{n:>6}"
            + "".join(f"{100 * f:>{w}.1f}" for f, w in zip(figures, (8, 10, 12, 9, 9), strict=True))
            + ("  outside" if bad else ""),
            flush=True,
        )
    print(f"\n{time.perf_counter() - started:.0f} s; " + (f"{broken} bounds broken" if broken else "all bounds hold"))
    return 1 if broken else 0


def _false_alarms(runs: int) -> Iterator[tuple[str, int, list[float]]]:
    """Yields metric, number of seeds, and for each number of models how often any is significantly different."""
    for name in ("normal", "skewed", "collapsing"):
        for n in SEEDS:
            rng = np.random.default_rng([n, len(name)])
            drawn = METRICS[name][0](rng, (runs, max(MODELS), n))
            yield name, n, [_told_apart(drawn[:, :m], _p_over_seeds) for m in MODELS]
    for n in SEEDS:
        rng = np.random.default_rng([n, 1])
        # Each model its own answers on the items, right nine times in ten, and 30 % of them drawn anew by each seed.
        shape = (max(MODELS), n, N_ITEMS)
        rates: list[list[float]] = []
        for _ in range(runs):
            own = rng.random((max(MODELS), 1, N_ITEMS)) < 0.9
            right = np.where(rng.random(shape) < 0.3, rng.random(shape) < 0.9, own).astype(np.float32)
            rates.append([_told_apart_by_items(right[:m]) for m in MODELS])
        yield f"accuracy, {N_ITEMS} items", n, np.mean(rates, axis=0).tolist()
    for n in SEEDS:
        rng = np.random.default_rng([n, 2])
        scores = np.stack([_held_out_scores(rng, runs, n)[0] for _ in range(max(MODELS))], axis=1)
        yield "held-out likelihood", n, [_told_apart(scores[:, :m], _p_over_splits) for m in MODELS]


def _told_apart(scores: np.ndarray, p_of: Callable[[np.ndarray, int], np.ndarray]) -> float:
    """Returns the share of runs [runs, models, seeds] in which any model is significantly different from the best."""
    runs, m, _ = scores.shape
    # The best first: as the report lists them.
    order = np.argsort(-scores.mean(axis=2), axis=1)
    scores = np.take_along_axis(scores, order[:, :, None], axis=1)
    pairs = list(combinations(range(m), 2))
    p = np.stack([p_of(scores[:, i] - scores[:, j], len(pairs)) for i, j in pairs], axis=1)
    return float(np.mean([min(holm(p[run].tolist())[: m - 1]) < SIGNIFICANCE for run in range(runs)]))


def _told_apart_by_items(right: np.ndarray) -> bool:
    order = np.argsort(-right.mean(axis=(1, 2)))
    right = right[order]
    pairs = list(combinations(range(len(right)), 2))
    apart = [right[i].astype(np.float64) - right[j] for i, j in pairs]
    p = [
        p_of_difference(one.mean(axis=1), comparisons=len(pairs), item_differences=one)[1] if one.any() else 1.0
        for one in apart
    ]
    return min(holm(p)[: len(right) - 1]) < SIGNIFICANCE


def _p_over_seeds(differences: np.ndarray, pairs: int) -> np.ndarray:
    """As `paired.paired_test` chooses between the two tests, for many runs at once."""
    if 2.0 * 0.5 ** differences.shape[1] * pairs <= SIGNIFICANCE:
        return stats.wilcoxon(differences, axis=1).pvalue
    return p_value(differences.mean(axis=1), seed_standard_error(differences))


def _p_over_splits(differences: np.ndarray, pairs: int) -> np.ndarray:
    return p_value(differences.mean(axis=1), split_standard_error(differences, HELDOUT))


def _coverages(runs: int) -> Iterator[tuple[str, int, np.ndarray, np.ndarray, np.ndarray]]:
    """Yields metric, number of seeds, and of each run whether the interval covers, whether the report warns, and
    whether there was a collapse to come that no seed showed."""
    for name, (draw, low, high) in METRICS.items():
        true = float(draw(np.random.default_rng(0), (4_000_000,)).mean())
        for n in SEEDS:
            drawn = draw(np.random.default_rng([n, len(name), 7]), (runs, n))
            ends = interval(drawn.mean(axis=1), seed_standard_error(drawn))
            unseen = (drawn > 0.7).all(axis=1) if name == "collapsing" else np.zeros(runs, dtype=bool)
            yield name, n, _covers(ends, true, low, high), collapsed(drawn, "maximize", low, high) > 0, unseen
    never = np.zeros(runs, dtype=bool)
    for share in (0.5, 0.8, 0.9):
        for n in (1, *SEEDS):
            rng = np.random.default_rng([n, int(100 * share)])
            inside = [_covers_over_items(rng, n, share) for _ in range(runs)]
            label = f"accuracy {100 * share:.0f} %, {N_ITEMS} items"
            yield label, n, np.array(inside), never, never
    for n in SEEDS:
        scores, true = _held_out_scores(np.random.default_rng([n, 3]), runs, n)
        ends = interval(scores.mean(axis=1), split_standard_error(scores, HELDOUT))
        yield "held-out likelihood", n, _covers(ends, true, -np.inf, 0.0), never, never


def _covers(ends: tuple[np.ndarray, np.ndarray], true: float, low: float, high: float) -> np.ndarray:
    return (np.maximum(ends[0], low) <= true) & (true <= np.minimum(ends[1], high))


def _covers_over_items(rng: np.random.Generator, n_seeds: int, share: float) -> bool:
    """One model on fresh items: answers that it gives at every seed, but for 30 % of them and a seed's own luck."""
    luck = np.clip(share + rng.normal(0.0, 0.02, (1, n_seeds, 1)), 0.0, 1.0)
    own = rng.random((1, 1, N_ITEMS)) < share
    anew = rng.random((1, n_seeds, N_ITEMS)) < luck
    right = np.where(rng.random((1, n_seeds, N_ITEMS)) < 0.3, anew, own)
    low, high = share_interval(right[0].astype(np.float32))
    return low <= share <= high


def _held_out_scores(rng: np.random.Generator, runs: int, n_splits: int) -> tuple[np.ndarray, float]:
    """Returns held-out log-likelihoods [runs, splits] of fresh datasets of 400 answers in four classes, each fitted as
    smoothed frequencies to what a split leaves, and what such a fit is worth on average."""
    shares, n_answers = np.array([0.5, 0.25, 0.15, 0.1]), 400
    n_out = round(HELDOUT * n_answers)
    scores = np.empty((runs, n_splits))
    worth = np.empty((runs, n_splits))
    for run in range(runs):
        label = np.eye(4)[rng.choice(4, size=n_answers, p=shares)]
        order = np.argsort(rng.random((n_splits, n_answers)), axis=1)
        out = label[order[:, :n_out]].sum(axis=1)
        left = label.sum(axis=0) - out + 0.01
        logs = np.log(left / left.sum(axis=1, keepdims=True))
        scores[run] = (out * logs).sum(axis=1) / n_out
        worth[run] = logs @ shares
    return scores, float(worth.mean())


if __name__ == "__main__":
    sys.exit(main())
