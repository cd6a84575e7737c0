"""Whether a redundancy study's answers hold: `python tests/benchmarks/labels_needed.py` prints it.

Simulated: majority votes of items that differ in difficulty, by crowds of one ability and by twenty annotators who
differ in theirs, so that the true curve is known. At least 90 % of the intervals contain the truth: those from
*possibly* to *surely* enough, for a target accuracy and for the accuracy of ten labels less a tolerance; the fitted
curve's labels for a target; its gains beyond what was tried, or it refuses. The truth is what the same annotators would
reach on other items. What another twenty would reach is printed beside it: of that a study promises nothing.

Public sets (`CROWDSWEEP_DATA`): the curve is fitted to some numbers of labels per item and says what up to twice as
many bring; beside it what they do bring, on the items that have so many, by models of labels alone. The measured value
counts as it is, without an uncertainty of its own. At least 90 % contain it, or it refuses.

The exit code is 1 where one is broken.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from crowdsweep.data import catalogue, splits
from crowdsweep.data.dataset import CrowdDataset, TrialData
from crowdsweep.errors import CrowdsweepError
from crowdsweep.metrics.items import accuracy_of_each
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.seeds import SeedStream
from crowdsweep.studies.axis import AxisPoint
from crowdsweep.studies.groups import Group
from crowdsweep.studies.labels_needed import need_of, reach_of
from crowdsweep.studies.more_labels import fitted_law

METRIC = "train_accuracy"
TRIED, ALL = (1, 2, 3, 4, 5, 7), 10
ODD, BEYOND = (1, 3, 5, 7, 9), 17  # the curve is fitted to odd numbers of votes, which do not tie
TOLERANCES = (0.01, 0.02, 0.03)
SEEDS = 5
SHARE = 0.9
GROUP = Group(dataset="d", metric=METRIC, models={}, all_labels=ALL, heldout=0.0, why="")


@dataclass(frozen=True)
class Crowd:
    """Items whose answers are right with a probability from a beta distribution; with annotators, each of these shifts
    its logit by as much as a draw of this standard deviation."""

    a: float
    b: float
    annotators: int = 0
    sd: float = 0.0


CROWDS = {
    "easy, some hard": Crowd(3.0, 1.2),
    "all alike": Crowd(40.0, 12.0),
    "hard": Crowd(4.0, 2.5),
    "20 annotators, little apart": Crowd(3.0, 1.2, 20, 0.5),
    "20 annotators, far apart": Crowd(3.0, 1.2, 20, 1.0),
}
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
FITS: Sequence[tuple[tuple[int, ...], int]] = (
    ((1, 2, 3, 4, 5), 10),
    ((1, 2, 3, 4, 5), 7),
    ((1, 2, 4, 6), 10),
    ((1, 3, 5, 7), 10),
    ((1, 2, 3, 5, 7), 10),
    ((1, 2, 3, 5, 7, 10), 15),
    ((1, 2, 3, 5, 7, 10), 20),
)
"""Numbers of labels that a curve is fitted to, and the number that it predicts: first what is promised of it."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """How often something held, of how often it was told and asked; `promised` where it has to."""

    what: str
    inside: int
    told: int
    asked: int
    promised: bool = True

    @property
    def broken(self) -> bool:
        """Whether fewer than `SHARE` of what was told held, by more than three standard errors of the simulation."""
        share = self.inside / max(self.told, 1)
        return self.promised and self.told > 0 and share < SHARE - 3 * (SHARE * (1 - SHARE) / self.told) ** 0.5

    def __str__(self) -> str:
        refused = f", {self.asked - self.told} refused" if self.asked > self.told else ""
        rest = "" if self.promised else ", not promised"
        share = 100 * self.inside / max(self.told, 1)
        return f"{self.what:<88}{share:>6.1f} % of {self.told}{refused}{rest}" + ("  BROKEN" if self.broken else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=SETS, help="public sets (default: all that can answer)")
    parser.add_argument("--runs", type=int, default=100, help="simulated studies of each kind, 0 for none")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="of each fit to a public set")
    options = parser.parse_args()
    started, broken = time.perf_counter(), 0
    for figure in [] if options.runs == 0 else simulated(CROWDS, (100, 300, 1000), options.runs):
        print(figure, flush=True)
        broken += figure.broken
    held = [one for name in options.datasets for one in public(name, options.seeds)]
    for numbers, end in FITS:
        of = [one for fit, one in held if fit == (numbers, end)]
        told = [one for one in of if one is not None]
        what = f"public sets, gain from {numbers[-1]} to {end} labels by {', '.join(map(str, numbers))}"
        figure = Figure(what=what, inside=sum(told), told=len(told), asked=len(of))
        print(figure)
        broken += figure.broken
    print(f"\n{time.perf_counter() - started:.0f} s; " + (f"{broken} bounds broken" if broken else "all bounds hold"))
    return 1 if broken else 0


def simulated(crowds: Mapping[str, Crowd], sizes: Sequence[int], runs: int) -> Iterator[Figure]:
    """Yields how often intervals held, of each crowd and number of items."""
    for name, crowd in crowds.items():
        pooled = _votes(np.random.default_rng(0), crowd, None, 200_000, 1, BEYOND)
        for n_items in sizes:
            held: dict[str, list[bool | None]] = {}
            for run in range(runs):
                rng = np.random.default_rng([run, n_items])
                people = _annotators(rng, crowd)
                points = _points(_votes(rng, crowd, people, n_items, SEEDS, ALL))
                same = pooled if people is None else _votes(rng, crowd, people, 30_000, 1, BEYOND)
                true = {r: float(right.mean()) for r, right in same.items()}
                for what, one in _answers(points, true):
                    held.setdefault(what, []).append(one)
                if people is not None:
                    other = {r: float(right.mean()) for r, right in pooled.items()}
                    for what, one in _answers(points, other):
                        held.setdefault(f"{what}, by other annotators", []).append(one)
            for what, each in held.items():
                told = [one for one in each if one is not None]
                yield Figure(
                    what=f"{what}: {n_items} items, {name}",
                    inside=sum(told),
                    told=len(told),
                    asked=len(each),
                    promised="other annotators" not in what,
                )


def _answers(points: dict[int | None, AxisPoint], true: Mapping[int, float]) -> Iterator[tuple[str, bool | None]]:
    """Yields what was asked, and whether the interval contains the truth; None where it was refused."""
    for tolerance in TOLERANCES:
        need = need_of(_of(points, TRIED), GROUP, tolerance)
        assert need is not None
        needed = next((r for r in TRIED if true[ALL] - true[r] <= tolerance), ALL)
        yield "within a tolerance of all", (need.possibly or ALL) <= needed <= (need.surely or ALL)
    for low, high in ((2, 3), (4, 5), (5, 7)):
        target = (true[low] + true[high]) / 2
        reach = reach_of(_of(points, TRIED), GROUP, target, "")
        assert reach is not None
        needed = next((r for r in (*TRIED, ALL) if true[r] >= target), BEYOND)
        yield "to reach a target", (reach.possibly or BEYOND) <= needed <= (reach.surely or BEYOND)
    law = fitted_law(_of(points, ODD), GROUP, {r: float(r) for r in ODD})
    for low, high in ((3, 5), (5, 7), (9, 13)):
        target = (true[low] + true[high]) / 2
        needed = next(r for r in range(1, BEYOND + 1) if true[r] >= target)
        told = None if isinstance(law, str) else law.labels_for(target)
        inside = None if told is None or told.refused else np.ceil(told.low) <= needed <= np.ceil(told.high)
        yield "fitted curve, labels for a target", inside if inside is None else bool(inside)
    gain = None if isinstance(law, str) else law.gain(float(BEYOND))
    more = true[BEYOND] - true[ODD[-1]]
    yield "fitted curve, gain of more labels", None if gain is None or gain.refused else gain.low <= more <= gain.high


def _of(points: Mapping[int | None, AxisPoint], numbers: Sequence[int]) -> dict[int | None, AxisPoint]:
    return {r: points[r] for r in (*numbers, *([None] if numbers == TRIED else []))}


def _annotators(rng: np.random.Generator, crowd: Crowd) -> np.ndarray | None:
    return rng.normal(0.0, crowd.sd, crowd.annotators) if crowd.annotators else None


def _votes(
    rng: np.random.Generator, crowd: Crowd, people: np.ndarray | None, n_items: int, n_seeds: int, most: int
) -> dict[int, np.ndarray]:
    """Returns whether majority votes of 1 to `most` labels are right, half where they tie, [seeds, items].

    Args:
        rng: draws items, answers and samples.
        crowd: that answers.
        people: the shifts of its annotators, of whom each item meets `most`; None for new ones at every answer.
        n_items: so many.
        n_seeds: samples of the same answers.
        most: labels of an item.
    """
    easy = rng.beta(crowd.a, crowd.b, n_items)[:, None]
    if people is None:
        shift = rng.normal(0.0, crowd.sd, (n_items, most)) if crowd.sd else 0.0
    else:
        shift = people[np.argsort(rng.random((n_items, len(people))), axis=1)[:, :most]]
    labels = rng.random((n_items, most)) < 1.0 / (1.0 + (1.0 - easy) / easy * np.exp(-shift))
    found: dict[int, list[np.ndarray]] = {r: [] for r in range(1, most + 1)}
    for _ in range(n_seeds):
        counts = np.cumsum(np.take_along_axis(labels, np.argsort(rng.random(labels.shape), axis=1), axis=1), axis=1)
        for r, rights in found.items():
            rights.append((2 * counts[:, r - 1] > r) + 0.5 * (2 * counts[:, r - 1] == r))
    return {r: np.array(rights) for r, rights in found.items()}


def _points(votes: dict[int, np.ndarray]) -> dict[int | None, AxisPoint]:
    points: dict[int | None, AxisPoint] = {r: _point(right) for r, right in votes.items()}
    return {**points, None: points[ALL]}


def _point(right: np.ndarray) -> AxisPoint:
    seeds = range(len(right))
    return AxisPoint(
        by_seed={METRIC: {s: float(right[s].mean()) for s in seeds}},
        by_item={METRIC: {s: right[s].astype(np.float32) for s in seeds}},
        wall_s=[1.0] * len(right),
        flags=[""] * len(right),
    )


def public(name: str, seeds: int) -> Iterator[tuple[tuple[tuple[int, ...], int], bool | None]]:
    """Prints, and yields of each model, what a curve was fitted to and whether the gain that it says contains the one
    there is; None where it is refused. On items that have gold and ten labels."""
    base = _with_ten_labels(catalogue.load(name, {}))
    least = int(base.annotations.labels_per_item[base.annotations.labels_per_item > 0].min())
    fits = [(numbers, end) for numbers, end in FITS if end <= least]
    wanted = sorted({r for numbers, end in fits for r in (*numbers, end)})
    trials = {
        (r, seed): splits.prepare(base, {"training": "all", "redundancy": r}, seed)
        for r in wanted
        for seed in range(seeds)
    }
    for model in MODELS:
        try:
            right = {r: np.stack([_right(model, trials[r, seed], seed) for seed in range(seeds)]) for r in wanted}
        except CrowdsweepError as refused:
            print(f"{name}, {model}: {refused}", file=sys.stderr)
            continue
        for numbers, end in fits:
            held, told = _predicted({r: right[r] for r in numbers}, right[end], end)
            means = " ".join(f"{100 * right[r].mean():.1f}" for r in (*numbers, end))
            print(f"{name}, {model} ({right[1].shape[1]} items; {means}): {told}", flush=True)
            yield (numbers, end), held


def _predicted(right: Mapping[int, np.ndarray], then: np.ndarray, end: int) -> tuple[bool | None, str]:
    """Returns whether a curve fitted to some numbers of labels contains what `end` bring, and both in words."""
    points: dict[int | None, AxisPoint] = {r: _point(one) for r, one in right.items()}
    law = fitted_law(points, GROUP, {r: float(r) for r in right})
    gain = None if isinstance(law, str) else law.gain(float(end))
    true = float(then.mean() - right[max(right)].mean())
    if gain is None or gain.refused:
        return None, f"{100 * true:+.1f}, refused: {gain.refused if gain else law}"
    held = gain.low <= true <= gain.high
    told = f"{100 * true:+.1f}, told {100 * gain.value:+.1f} [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"
    return held, told + ("" if held else "  MISSED")


def _with_ten_labels(base: CrowdDataset) -> CrowdDataset:
    """Returns a dataset with the labels of those items alone that have gold and ten labels."""
    rows = base.annotations
    has_gold = np.zeros(base.items.n_items, dtype=bool)
    has_gold[base.gold.item] = True
    enough = has_gold & (rows.labels_per_item >= ALL)
    items = replace(base.items, features=None, text=None, unit=None)
    return replace(base, annotations=rows.take(enough[rows.item]), items=items)


def _right(model: str, trial: TrialData, seed: int) -> np.ndarray:
    """Returns which items a model labels right, in part where classes tie."""
    found = fit_one(registered.build_model(model, {}), trial.training, FitContext(seeds=SeedStream(seed))).item_probs
    part = trial.evaluation["train"]
    return accuracy_of_each(part.reference[part.has_gold], found[part.scored[part.has_gold]])


if __name__ == "__main__":
    sys.exit(main())
