"""The metric that ranks the models of a dataset, by the references that it has."""

from collections.abc import Mapping, Sequence

from crowdsweep.metrics.metric_table import ACCURACY, HELDOUT, ITEM_METRICS, KL, Goal, metric_kind
from crowdsweep.metrics.wording import goal_of


def ranking_metric(
    present: Sequence[str], wanted: tuple[str, Goal] | None = None, gold: Mapping[str, bool] | None = None
) -> tuple[str, Goal]:
    """Returns the metric that ranks: on test items where they are scored, else on dev items, else on training items
    against gold, else the likelihood of held-out annotations.

    On these items it is what the sweep optimises; where the sweep file names no metric, accuracy against gold, and the
    divergence from the label distribution where there is none. Training items against their own votes never rank:
    majority vote wins there by construction.

    Args:
        present: metrics that some finished trial has.
        wanted: of the sweep file, and its goal there.
        gold: split → whether it is scored against gold; true for those that are not named.
    """
    gold = gold or {}
    goals: dict[str, Goal] = {name: goal for name in present if (goal := goal_of(name)) is not None}
    if not gold.get("train", True):
        goals = {name: goal for name, goal in goals.items() if not name.startswith("train_")}
    if wanted is not None and not wanted[0].startswith(("train_", "dev_")) and wanted[0] in goals:
        return wanted
    kinds = [metric_kind(wanted[0])] if wanted is not None else []
    for split in ("test", "dev", "train"):
        usual = ACCURACY if gold.get(split, True) else KL
        for kind in (*kinds, usual, *(metric.name for metric in ITEM_METRICS)):
            if (name := f"{split}_{kind}") in goals:
                return name, goals[name]
    name = HELDOUT if HELDOUT in goals else next(iter(goals), "")
    return name, goals.get(name, "maximize")
