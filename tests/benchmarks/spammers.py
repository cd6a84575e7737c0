"""Who is called a spammer in annotators.csv: simulated crowds, of which a fifth answers without looking.

    python tests/benchmarks/spammers.py [--model M] [--crowds N]

Promised, over all crowds: of annotators who look at the items at most 1 % are called spammers, of those who do not at
most 5 % are cleared, and of those with 50 answers or more 80 % are found. The exit code is 1 where that is broken.
"""

import argparse
import os
import sys

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from simulated_crowds import KINDS, crowd_of_kind

from crowdsweep.errors import CrowdsweepError
from crowdsweep.labelling.crowd_tables import crowd_tables
from crowdsweep.labelling.fitted import fit_everything
from crowdsweep.labelling.labelled import labelled_items
from crowdsweep.models.default_model import DEFAULT_MODEL

SHARE = 0.2
ENOUGH = 50  # answers
VERDICTS = ("yes", "unclear", "no")
Said = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Of the annotators of a crowd: the verdict, whether they look at the items, and the number of their answers."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--crowds", type=int, default=60, help="of each kind (default: 60)")
    asked = parser.parse_args()
    every: list[Said] = []
    print("who is called a spammer: yes, unclear, no, of how many")
    for kind in KINDS:
        if kind == "several classes":  # its annotators have no distribution of their own to answer by
            continue
        found = [one for seed in range(asked.crowds) if (one := _said(asked.model, kind, seed)) is not None]
        print(f"{kind:<20}{_line(found)}", flush=True)
        every += found
    print(f"{'all':<20}{_line(every)}")
    verdict, looks, answers = (np.concatenate(column) for column in zip(*every, strict=True))
    enough = ~looks & (answers >= ENOUGH)
    found_of_them = (verdict[enough] == "yes").mean()
    print(f"of {enough.sum()} who do not look and gave {ENOUGH} answers or more {found_of_them:.0%} are found")
    kept = (verdict[looks] == "yes").mean() <= 0.01 and (verdict[~looks] == "no").mean() <= 0.05
    return int(not kept or found_of_them < 0.8)


def _said(model: str, kind: str, seed: int) -> Said | None:
    crowd = crowd_of_kind(kind, seed, spammers=SHARE)
    try:
        found = crowd_tables(labelled_items(fit_everything(model, {}, crowd.data, {}, n_seeds=1))).annotators
    except CrowdsweepError:  # it cannot take such a crowd
        return None
    if found is None:
        return None
    code = np.array([int(name[1:]) for name in found["annotator"].to_pylist()])
    looks = code >= int(SHARE * crowd.data.annotations.n_annotators)
    return np.array(found["spammer"].to_pylist()), looks, found["answers"].to_numpy()


def _line(found: list[Said]) -> str:
    verdict, looks, _ = (np.concatenate(column) for column in zip(*found, strict=True))
    shown: list[str] = []
    for who, rows in (("look", looks), ("do not", ~looks)):
        shares = ", ".join(f"{(verdict[rows] == one).mean():.1%}" for one in VERDICTS)
        shown.append(f"{who}: {shares} of {rows.sum():,}")
    return "; ".join(shown)


if __name__ == "__main__":
    sys.exit(main())
