"""Pairs of annotators who agree too often, without gold: who is named, and who is by chance.

    python tests/benchmarks/repeating_pairs.py [--crowds N]

Promised: of simulated crowds whose errors are independent, given what the items are, a pair is named in at most 1 %,
all kinds together (within three standard errors); of crowds of five, of whom one repeats 7, 9 or all of ten answers of
another, that pair is named in at least 70 %, and others in at most 5 %. The exit code is 1 where that is broken.
"""

import argparse
import os
import sys

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from simulated_crowds import KINDS, crowd_of_kind

from crowdsweep.data.annotations import Annotations
from crowdsweep.labelling.pairs import excess_agreement
from crowdsweep.labelling.questions import questions_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crowds", type=int, default=100, help="of each kind (default: 100)")
    number = parser.parse_args().crowds
    alarms: list[bool] = []
    for kind in KINDS:
        if kind == "several classes":  # of which pairs are not compared
            continue
        crowds = (crowd_of_kind(kind, seed).data for seed in range(number))
        found = [
            bool(_said(one.annotations, ordinal=kind == "ordinal")) for one in crowds if len(one.annotator_names) > 3
        ]
        print(f"{kind:<20}a pair is named in {sum(found)} of {len(found)} crowds", flush=True)
        alarms += found
    kept = np.mean(alarms) <= 0.01 + 3 * np.sqrt(0.01 / len(alarms))
    for share in (0.0, 0.7, 0.9, 1.0):
        said = [_said(_five(seed, share), ordinal=False) for seed in range(number)]
        named = np.mean(["a0 and a1 (" in one for one in said])
        others = np.mean([bool(one) and not ("a0 and a1 (" in one and one.startswith("1 of")) for one in said])
        print(f"of five, one repeats {share:.0%} of another's answers: named in {named:.0%}, others in {others:.0%}")
        kept = kept and (named >= 0.7 or not share) and others <= 0.05
    return int(not kept)


def _five(seed: int, share: float) -> Annotations:
    """Five annotators of 60, 200 or 600 items and 2, 3 or 5 classes, right in 0.6 to 0.9; the second repeats the first
    in this share of the items."""
    random = np.random.default_rng([9, seed])
    n_items, n_classes = int(random.choice((60, 200, 600))), int(random.choice((2, 3, 5)))
    truth, able = random.integers(0, n_classes, n_items), random.uniform(0.6, 0.9, (5, 1))
    wrong = (truth + random.integers(1, n_classes, (5, n_items))) % n_classes
    label = np.where(random.random((5, n_items)) < able, truth, wrong)
    label[1] = np.where(random.random(n_items) < share, label[0], label[1])
    return Annotations.of(
        item=np.tile(np.arange(n_items), 5),
        annotator=np.repeat(np.arange(5), n_items),
        label=label.reshape(-1),
        n_items=n_items,
        n_annotators=5,
        n_classes=n_classes,
    )


def _said(rows: Annotations, *, ordinal: bool) -> str:
    even = np.full((rows.n_items, rows.n_classes), 1 / rows.n_classes)  # of which nothing is asked here
    names = [f"a{code}" for code in range(rows.n_annotators)]
    return excess_agreement(questions_of(rows, even, multilabel=False), names, ordinal=ordinal)


if __name__ == "__main__":
    sys.exit(main())
