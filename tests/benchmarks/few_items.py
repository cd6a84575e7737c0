"""What reports promise where items or seeds are few, by simulation: `python tests/benchmarks/few_items.py` prints it.

Family-wise error: models that are all alike; at most 5 % of sweeps call any significantly different from the best, on
30 and 60 items at 1, 3 and 10 seeds, whether seeds draw answers anew or have luck of their own with all items. Power:
of a model that is right on .9 of 30 items and one that is on .8, at three seeds that draw every answer anew, at least
30 % are found different (Student's t over seeds and items finds 14 %). Coverage of differences over items: at least 93
%. Coverage over three and four seeds of metrics with a bound: 93 to 97 %.

The redundancy study: majority votes of items that differ in difficulty, thinned anew at each seed. At least 93 % of the
intervals of the loss against all labels cover what other items of that kind would lose, and of the claims that so many
labels are surely enough at most 5 % are wrong.

Bounds are widened by three standard errors of the simulation. The exit code is 1 where one is broken.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from crowdsweep.analysis.paired import SIGNIFICANCE, SeedScores, against_best
from crowdsweep.metrics.differences import difference
from crowdsweep.metrics.intervals import few_seeds_interval
from crowdsweep.studies.axis import AxisPoint
from crowdsweep.studies.groups import Group
from crowdsweep.studies.labels_needed import loss_of, need_of

METRIC = "test_accuracy"
LABELS, ALL = (1, 2, 3, 5, 7), 10
TOLERANCES = (0.01, 0.02, 0.03)
CROWDS = {"easy, some hard": (3.0, 1.2), "all alike": (40.0, 12.0)}
LUCKS = {"answers kept": (0.3, 0.0), "drawn anew": (1.0, 0.0), "luck of seeds": (0.3, 0.02)}
"""Name → share of answers that a seed draws anew, standard deviation of a seed's luck with all items."""
DRAWS: dict[str, tuple[Callable[[np.random.Generator, tuple[int, int]], np.ndarray], float, float]] = {
    "exponential": (lambda rng, shape: rng.exponential(0.1, shape), 0.0, np.inf),
    "lognormal": (lambda rng, shape: rng.lognormal(0.0, 0.5, shape), 0.0, np.inf),
    "beta": (lambda rng, shape: rng.beta(8, 1.5, shape), 0.0, 1.0),
    "normal": (lambda rng, shape: rng.normal(0.8, 0.02, shape), 0.0, 1.0),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400, help="simulated sweeps of each kind (default: 400)")
    runs = parser.parse_args().runs
    started, broken = time.perf_counter(), 0
    for what, share, low, high, n in _figures(runs):
        error = 3 * np.sqrt(0.05 * 0.95 / max(n, 1))
        bad = n > 0 and not low - error <= share <= high + error
        broken += bad
        print(f"{what:<88}{100 * share:>6.1f} %" + (f" of {n}" if n != runs else "") + ("  outside" if bad else ""))
        sys.stdout.flush()
    print(f"\n{time.perf_counter() - started:.0f} s; " + (f"{broken} bounds broken" if broken else "all bounds hold"))
    return 1 if broken else 0


Figure = tuple[str, float, float, float, int]
"""What is measured, the share, its bounds, and of how many."""


def _figures(runs: int) -> Iterator[Figure]:
    yield from _of_models(runs)
    yield from _of_few_seeds(runs)
    for name in CROWDS:
        yield from _of_labels(name, runs)


def _of_models(runs: int) -> Iterator[Figure]:
    """Family-wise error, power and coverage of differences."""
    for name, (anew, luck) in LUCKS.items():
        for n_items in (30, 60):
            for n_seeds in (1, 3, 10):
                if n_seeds == 1 and luck:
                    continue  # one seed cannot show it
                rng = np.random.default_rng([n_items, n_seeds, len(name)])
                for n_models in (2, 5):
                    told = [_told_apart(rng, [0.9] * n_models, n_items, n_seeds, anew, luck) for _ in range(runs)]
                    what = f"family-wise error: {n_models} models, {n_items} items, {n_seeds} seeds, {name}"
                    yield what, float(np.mean(told)), 0.0, SIGNIFICANCE, runs
                inside = [_covers(rng, 0.9, 0.8, n_items, n_seeds, anew, luck) for _ in range(runs)]
                yield f"coverage of .9 - .8: {n_items} items, {n_seeds} seeds, {name}", np.mean(inside), 0.93, 1.0, runs
    rng = np.random.default_rng(1)
    for n_items in (30, 60):
        told = [_told_apart(rng, [0.9, 0.8], n_items, 3, 1.0, 0.0) for _ in range(runs)]
        yield f"power: .9 against .8, {n_items} items, 3 seeds, drawn anew", float(np.mean(told)), 0.3, 1.0, runs


def _of_few_seeds(runs: int) -> Iterator[Figure]:
    for name, (draw, low, high) in DRAWS.items():
        true = float(draw(np.random.default_rng(0), (1, 4_000_000)).mean())
        for n in (3, 4):
            below, above = few_seeds_interval(draw(np.random.default_rng([n, len(name)]), (runs * 10, n)), low, high)
            inside = (below <= true) & (true <= above)
            yield f"coverage over {n} seeds: {name}", float(inside.mean()), 0.93, 0.97, runs * 10


def _of_labels(name: str, runs: int) -> Iterator[Figure]:
    """The redundancy study, of one kind of crowd."""
    shape = CROWDS[name]
    many = _votes(np.random.default_rng(0), shape, 300_000, 1)
    true = {r: float((many[ALL] - many[r]).mean()) for r in LABELS}
    claims: dict[tuple[int, float], list[bool]] = {}
    for n_items in (30, 100, 300):
        for n_seeds in (3, 10):
            inside, wrong = _of_redundancy(shape, true, n_items, n_seeds, runs)
            for tolerance, found in wrong.items():
                claims.setdefault((n_items, tolerance), []).extend(found)
            what = f"redundancy, coverage of losses: {n_items} items, {n_seeds} seeds, {name}"
            yield what, float(np.mean(inside)), 0.93, 1.0, runs
    for (n_items, tolerance), found in claims.items():
        what = f"redundancy, claims to be sure that are wrong: {n_items} items, tolerance {tolerance}, {name}"
        yield what, float(np.mean(found or [False])), 0.0, 1.0, len(found)
    every = [wrong for found in claims.values() for wrong in found]
    what = f"redundancy, claims to be sure that are wrong: {name}"
    yield what, float(np.mean(every or [False])), 0.0, 0.05, len(every)


def _answers(
    rng: np.random.Generator, share: float, n_items: int, n_seeds: int, anew: float, luck: float
) -> SeedScores:
    own = rng.random((1, n_items)) < share
    shares = np.clip(share + rng.normal(0.0, luck, (n_seeds, 1)), 0.0, 1.0)
    drawn = rng.random((n_seeds, n_items)) < shares
    right = np.where(rng.random((n_seeds, n_items)) < anew, drawn, own).astype(np.float32)
    return SeedScores(by_seed={s: float(row.mean()) for s, row in enumerate(right)}, by_item=dict(enumerate(right)))


def _told_apart(
    rng: np.random.Generator, shares: list[float], n_items: int, n_seeds: int, anew: float, luck: float
) -> bool:
    """Whether any of these models is significantly different from the best."""
    models = [_answers(rng, share, n_items, n_seeds, anew, luck) for share in shares]
    models.sort(key=lambda one: -float(np.mean(list(one.by_seed.values()))))
    return any(test.is_significant for test in against_best(models, 0.0, METRIC))


def _covers(
    rng: np.random.Generator, one: float, other: float, n_items: int, n_seeds: int, anew: float, luck: float
) -> bool:
    first, second = (_answers(rng, share, n_items, n_seeds, anew, luck) for share in (one, other))
    items = np.stack([first.by_item[s].astype(np.float64) - second.by_item[s] for s in range(n_seeds)])
    scores = [[model.by_seed[s] for s in range(n_seeds)] for model in (first, second)]
    found = difference(*scores, metric=METRIC, item_differences=items)
    assert found.low is not None and found.high is not None  # noqa: PT018 - of a share there is one
    return found.low <= one - other <= found.high


def _of_redundancy(
    shape: tuple[float, float], true: dict[int, float], n_items: int, n_seeds: int, runs: int
) -> tuple[list[bool], dict[float, list[bool]]]:
    """Returns whether each interval covers, and by tolerance, of each claim that so many labels are enough, whether it
    is wrong."""
    group = Group(dataset="d", metric=METRIC, models={}, all_labels=None, heldout=0.0, why="")
    inside: list[bool] = []
    claims: dict[float, list[bool]] = {tolerance: [] for tolerance in TOLERANCES}
    for run in range(runs):
        votes = _votes(np.random.default_rng([run, n_items, n_seeds]), shape, n_items, n_seeds)
        points = {None if r == ALL else r: _point(right) for r, right in votes.items()}
        for r in LABELS:
            loss = loss_of(points[None], points[r], group)
            assert loss is not None and loss.low is not None and loss.high is not None  # noqa: PT018 - as above
            inside.append(loss.low <= true[r] <= loss.high)
        for tolerance, wrong in claims.items():
            need = need_of(points, group, tolerance)
            assert need is not None
            if need.surely is not None:
                wrong.append(true[need.surely] > tolerance)
    return inside, claims


def _votes(rng: np.random.Generator, shape: tuple[float, float], n_items: int, n_seeds: int) -> dict[int, np.ndarray]:
    """Returns whether majority votes of so many labels are right, half where they tie, [seeds, items]."""
    labels = rng.random((n_items, ALL)) < rng.beta(*shape, n_items)[:, None]
    found: dict[int, list[np.ndarray]] = {r: [] for r in (*LABELS, ALL)}
    for _ in range(n_seeds):
        counts = np.cumsum(np.take_along_axis(labels, np.argsort(rng.random(labels.shape), axis=1), axis=1), axis=1)
        for r, rights in found.items():
            rights.append((2 * counts[:, r - 1] > r) + 0.5 * (2 * counts[:, r - 1] == r))
    return {r: np.array(rights) for r, rights in found.items()}


def _point(right: np.ndarray) -> AxisPoint:
    seeds = range(len(right))
    return AxisPoint(
        by_seed={METRIC: {s: float(right[s].mean()) for s in seeds}},
        by_item={METRIC: {s: right[s].astype(np.float32) for s in seeds}},
        wall_s=[1.0] * len(right),
        flags=[""] * len(right),
    )


if __name__ == "__main__":
    sys.exit(main())
