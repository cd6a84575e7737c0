"""Setup 1 of the Crowd Mixture Model's paper on twenty draws of crowd and features for each number of annotators.

    python tests/benchmarks/setup1.py

Test accuracies (%) of cmm and dl-ds under `protocol: paper`, beside the printed ones (Mena and Nanculef 2019, Table 2:
one draw of crowd and features each), and of dl-em with an equal budget at 10,000 annotators. Exit code 1 where cmm's
mean is below 88 or any of its runs below 60, where dl-ds is below the printed number by more than 2 points (4 from
6,000 annotators on; higher is no failure), or where dl-em's mean is below 92.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from crowdsweep.data import catalogue, splits
from crowdsweep.data.dataset import TrialData
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_all
from crowdsweep.seeds import SeedStream

DRAWS = 20
PRINTED = {  # cmm and dl-ds; 91.69 at 3,500 is the archived value, the printed 90.00 a slip
    100: (90.53, 94.66),
    500: (91.07, 93.89),
    1_500: (91.66, 92.28),
    3_500: (90.45, 91.69),
    6_000: (90.26, 89.69),
    10_000: (90.46, 85.13),
}
NETWORK: Mapping[str, Any] = {"hidden": [16], "dropout": 0.2, "standardise": False}
CMM = {**NETWORK, "protocol": "paper", "smoothing": 1}
DL_DS = {**NETWORK, "protocol": "paper", "smoothing": 0}
DL_EM = {**NETWORK, "protocol": "equal_budget", "iterations": 20}


def trials(n_annotators: int) -> list[TrialData]:
    """Returns as many draws of crowd and features."""
    found: list[TrialData] = []
    for seed in range(DRAWS):
        params = {"annotators": n_annotators, "feature_seed": seed}
        found.append(splits.prepare(catalogue.load("gaussians", params), params, seed))
    return found


def accuracies(model: str, params: Mapping[str, Any], data: Sequence[TrialData]) -> list[float]:
    """Returns the test accuracy of each draw, in per cent; all are fitted as one batch."""
    contexts = [FitContext(seeds=SeedStream(seed).child("fit")) for seed in range(len(data))]
    fits = fit_all(registered.build_model(model, params), [trial.training for trial in data], contexts)
    found: list[float] = []
    for trial, fit in zip(data, fits, strict=True):
        test = trial.evaluation["test"]
        if fit.predictor is not None:
            predicted = fit.predictor.predict(test.items, fit.predictor.uses[0])[test.scored].argmax(axis=1)
            found.append(float(100 * (predicted == test.reference.argmax(axis=1)).mean()))
    return found


def row(model: str, n_annotators: int, found: Sequence[float], printed: float | None) -> str:
    """Returns one line of the table."""
    beside = "" if printed is None else f"{printed:9.2f}"
    return f"{model:8}{n_annotators:>8}{np.mean(found):8.2f}{np.std(found, ddof=1):7.2f}{min(found):8.2f}{beside}"


def main() -> int:
    """Prints the table; returns 1 where a limit is broken."""
    broken: list[str] = []
    print(f"{'model':8}{'annot.':>8}{'mean':>8}{'sd':>7}{'lowest':>8}{'printed':>9}")
    for n_annotators, (printed_cmm, printed_dl_ds) in PRINTED.items():
        data = trials(n_annotators)
        found = accuracies("cmm", CMM, data)
        print(row("cmm", n_annotators, found, printed_cmm), flush=True)
        if np.mean(found) < 88 or min(found) < 60:
            broken.append(f"cmm at {n_annotators}: mean {np.mean(found):.2f} (least 88), lowest {min(found):.2f} (60)")
        found = accuracies("dl-ds", DL_DS, data)
        print(row("dl-ds", n_annotators, found, printed_dl_ds), flush=True)
        least = printed_dl_ds - (4 if n_annotators >= 6_000 else 2)
        if np.mean(found) < least:
            broken.append(f"dl-ds at {n_annotators}: mean {np.mean(found):.2f} (least {least:.2f})")
    found = accuracies("dl-em", DL_EM, trials(10_000))
    print(row("dl-em", 10_000, found, None), "equal budget")
    if np.mean(found) < 92:
        broken.append(f"dl-em at 10,000 with an equal budget: mean {np.mean(found):.2f} (least 92)")
    print(*broken, sep="\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
