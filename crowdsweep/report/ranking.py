"""Which metric ranks the models of a dataset: what they are scored against decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from crowdsweep.metrics.wording import goal_of, is_count, metric_kind
from crowdsweep.search.contract import Goal
from crowdsweep.sweepfile.records import Metric

_AGAINST_GOLD = ("accuracy", "kl", "macro_f1", "log_loss", "js")
_AGAINST_VOTES = ("kl", "js", "log_loss", "accuracy", "macro_f1")
_HELDOUT = "heldout_loglik"


@dataclass(frozen=True, kw_only=True)
class References:
    """What one dataset's models are scored against.

    Attributes:
        gold: split that is scored → whether by gold; else by the items' own votes. A split that is not named counts as
            scored by gold.
        heldout: share of the annotations that report trials leave out of their fit.
    """

    gold: Mapping[str, bool] = field(default_factory=dict[str, bool])
    heldout: float = 0.0


def ranking_metric(
    present: Sequence[str], wanted: Metric | None, gold: Mapping[str, bool] | None = None
) -> tuple[str, Goal]:
    """Returns the metric that ranks: on test items where they are scored, else on dev items, else on training items
    against gold, else the likelihood of held-out annotations.

    On these items it is what the sweep optimises; without a wish, accuracy against gold, and the divergence from the
    label distribution where there is none. Training items against their own votes never rank: majority vote wins there
    by construction.

    Args:
        present: metrics that some finished trial has.
        wanted: of the sweep file.
        gold: split → whether it is scored against gold; true for those that are not named.
    """
    gold = gold or {}
    known = [name for name in present if gold.get("train", True) or not name.startswith("train_")]
    if wanted is not None and not wanted.name.startswith(("train_", "dev_")) and wanted.name in known:
        return wanted.name, wanted.goal
    for split in ("test", "dev", "train"):
        kinds = [metric_kind(wanted.name)] if wanted is not None else []
        for kind in (*kinds, *(_AGAINST_GOLD if gold.get(split, True) else _AGAINST_VOTES)):
            name = f"{split}_{kind}"
            if name in known:
                return name, goal_of(name)
    if _HELDOUT in known:
        return _HELDOUT, goal_of(_HELDOUT)
    other = next((name for name in known if not is_count(name)), None)
    return (other, goal_of(other)) if other is not None else ("", "maximize")
