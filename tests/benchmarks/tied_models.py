"""Models of the same accuracy on a few items with gold: what ranks them.

    python tests/benchmarks/tied_models.py [--crowds N]

A report ranks by accuracy, and models of the same accuracy by their Brier scores on the same items. Here crowds are
simulated, the models that `init` proposes for labels alone are fitted to all of their answers, and 20 or 50 items get
gold. What is measured is by how many points of accuracy, on all items, what comes first is below the best of the
models: where Brier scores rank ties, where they stand in the order of the sweep file, and where any of the tied may
come first (what luck would bring). Promised, over all crowds: ties by Brier score lose no more than by either. The exit
code is 1 where that is broken.
"""

import argparse
import os
import sys

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from simulated_crowds import KINDS, crowd_of_kind

from crowdsweep.labelling.fitted import fit_everything
from crowdsweep.metrics.items import accuracy_of_each, brier_of_each
from crowdsweep.sweep.starter.choices import choose, facts_of

RULES = ("by Brier score", "by order", "by luck")
GOLD = (20, 50)
SINGLE = tuple(kind for kind in KINDS if kind != "several classes")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crowds", type=int, default=100, help="of each kind (default: 100)")
    number = parser.parse_args().crowds
    print("points of accuracy below the best " + "".join(f"{rule:>16}" for rule in RULES) + "   tied, of the models")
    every: list[np.ndarray] = []
    for kind in SINGLE:
        found: dict[int, list[np.ndarray]] = {n: [] for n in GOLD}
        for seed in range(number):
            _add(found, kind, seed)
        for n, rows in found.items():
            print(f"{kind:<20}{n:>4} with gold  {_line(rows)}", flush=True)
            every += rows
    print(f"{'all':<34}{_line(every)}")
    by_brier, by_order, by_luck, _ = np.mean(every, axis=0)
    return int(by_brier > min(by_order, by_luck))


def _add(found: dict[int, list[np.ndarray]], kind: str, seed: int) -> None:
    """Adds, for each number of items with gold, what each rule loses on one crowd, and the share of tied models."""
    crowd = crowd_of_kind(kind, seed)
    if crowd.data.items.n_items <= max(GOLD):
        return
    proposed = [
        one.candidate.name for one in choose(facts_of(crowd.data, {"training": "all"}), "d") if not one.left_out
    ]
    reference = np.eye(crowd.data.n_classes)[crowd.truth]
    probs = [fit_everything(model, {}, crowd.data, {}, n_seeds=1).item_probs for model in proposed]
    right = np.stack([accuracy_of_each(reference, one) for one in probs])
    brier = np.stack([brier_of_each(reference, one) for one in probs])
    order = np.random.default_rng(seed).permutation(len(reference))
    for n in GOLD:
        known, all_items = order[:n], right.mean(axis=1)
        said = right[:, known].mean(axis=1).round(12)
        tied = np.flatnonzero(said == said.max())
        first = tied[brier[tied][:, known].mean(axis=1).argmin()]
        below = all_items.max() - np.array([all_items[first], all_items[tied[0]], all_items[tied].mean()])
        found[n].append(np.append(100 * below, len(tied) / len(proposed)))


def _line(rows: list[np.ndarray]) -> str:
    means, error = np.mean(rows, axis=0), np.std(rows, axis=0) / np.sqrt(len(rows))
    cells = (f"{mean:.2f} (± {one:.2f})" for mean, one in zip(means[:3], error[:3], strict=True))
    return "".join(f"{cell:>16}" for cell in cells) + f"{means[3]:>10.0%} ({len(rows)})"


if __name__ == "__main__":
    sys.exit(main())
