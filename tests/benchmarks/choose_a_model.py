"""Tables of `docs/pages/how-to/choose-a-model.md`, measured anew on the folder that `CROWDSWEEP_DATA` names.

    python tests/benchmarks/choose_a_model.py [features] [classes] [seconds] [--store DIR]

`features`: test accuracy of models with features, each crowd as it is and with the same answers shared out among so
many annotators that each has three or four. `classes`: several classes per item. `seconds`: what models of labels alone
take for the 8,000 labels of rte, by the clock. A table is a sweep at defaults, which goes on where it was, and is
printed in Markdown with the seconds of a trial. The ranks are those of `make leaderboard`, points over the vote those
of `make table`, simulated crowds of four labels per annotator those of `choosing_without_gold.py`, of half a label
those of `crowdsweep run sparsity-digits`.
"""

import argparse
from pathlib import Path
from typing import Any

import crowdsweep as cs

ALONE = ["mace", "hierarchical-dawid-skene", "dawid-skene", "glad", "wawa", "majority-vote"]
BY_CLASS = ["hierarchical-dawid-skene", "dawid-skene", "one-coin"]
DEEP = {"hidden": [16] * 4, "learning_rate": 0.003, "dropout": 0, "epochs": 10, "finetune": "none"}
SWEEPS: dict[str, dict[str, Any]] = {
    "features": {
        "datasets": [
            {"name": "labelme", "annotators": [59, 800]},
            {"name": "music-genre", "annotators": [44, 1000]},
            {"name": "digits", "annotators": [60, 1000]},
            {"name": "gaussians", "annotators": [100, 3000]},
        ],
        "models": ["crowd-layer", "dl-em", "cmm", "speelfc-d", "crowdlab", "pd", "soft-mv", "dl-ds", "hard-mv"],
        "metric": "test_accuracy",
        "seeds": {"report": 3},
    },
    "classes": {
        "datasets": ["medical-relations"],
        "models": [*BY_CLASS, "majority-vote", "marginal", {"name": "lia-ml", "params": DEEP}],
        "metric": "train_accuracy",
        "seeds": {"report": 1},
    },
    "seconds": {"datasets": ["rte"], "models": ALONE, "metric": "train_accuracy", "seeds": {"report": 5}},
}


def main() -> None:
    """Runs the sweeps that are asked for, all of them by default, and prints their tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="*", choices=list(SWEEPS), default=[])
    parser.add_argument("--store", type=Path, default=Path("crowdsweep-runs/choose-a-model"))
    asked = parser.parse_args()
    for name in asked.tables or SWEEPS:
        sweep = {"name": name, **SWEEPS[name], "engine": "inline", "tracking": {"enabled": False}}
        print_table(name, cs.run(sweep, store=str(asked.store / name), quiet=True))


def print_table(name: str, found: cs.Results) -> None:
    """Prints models × datasets, then the mean seconds of a trial of each model."""
    print(f"\n## {name}\n\n{found.pivot_text('md', plus_minus='none')}")
    if name == "classes":
        print(f"{found.pivot_text('md', metric='train_macro_f1', plus_minus='none')}")
    table = found.table.to_pandas()
    seconds = table.groupby(["model", "dataset"])["wall_s"].mean().unstack().map("{:.3g}".format)
    print(f"Seconds of a trial:\n\n{seconds.to_string()}")


if __name__ == "__main__":
    main()
