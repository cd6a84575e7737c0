"""What a dataset offers to a metric: the default one, and refusing one that cannot exist."""

from collections.abc import Mapping
from dataclasses import dataclass

from crowdsweep.data.dataset import TrialData
from crowdsweep.errors import SweepFileError
from crowdsweep.models.contract import DataShape, ModelInfo
from crowdsweep.sweepfile.records import Metric

HELDOUT = "heldout_loglik"
_OF_CROWD = "js_"


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What a dataset, made ready for one trial, has.

    Attributes:
        shape: sizes of the training data.
        scored: splits with at least one item that has a reference; true where one of these has gold.
        training_gold: whether any training item has gold.
        crowd: whether the annotators' true confusion matrices are known.
    """

    shape: DataShape
    scored: Mapping[str, bool]
    training_gold: bool
    crowd: bool

    @property
    def only_own_votes(self) -> bool:
        """Whether nothing can be scored but training items against the votes that trained: a score that majority vote
        wins by construction, and that says nothing."""
        return not self.training_gold and not self.scored.keys() & {"dev", "test"}


def offer_of(trial: TrialData) -> Offer:
    """Looks at what a dataset has."""
    training = trial.training
    features = training.items.features
    return Offer(
        shape=DataShape(
            n_items=training.n_items,
            n_annotators=training.n_annotators,
            n_classes=training.n_classes,
            n_annotations=len(training.annotations),
            n_features=0 if features is None else features.shape[1],
        ),
        scored={split: bool(part.has_gold.any()) for split, part in trial.evaluation.items() if len(part.scored)},
        training_gold=len(trial.gold) > 0,
        crowd=trial.crowd is not None,
    )


def default_metric(info: ModelInfo, offer: Offer) -> Metric:
    """Returns what a search optimises where the sweep file does not say.

    Dev accuracy where dev items have gold, else dev KL where they have annotations, else held-out log-likelihood;
    the last also for models that see no features or texts, which cannot label dev items.
    """
    if "dev" not in offer.scored or not info.needs & {"features", "text"}:
        return Metric(name=HELDOUT, goal="maximize")
    if offer.scored["dev"]:
        return Metric(name="dev_accuracy", goal="maximize")
    return Metric(name="dev_kl", goal="minimize")


def check_metric(metric: Metric, offer: Offer, where: str) -> None:
    """Refuses a metric that cannot exist on a dataset.

    Raises:
        SweepFileError: the dataset has not what it is computed from.
    """
    if metric.name == HELDOUT:
        return
    if metric.name.startswith(_OF_CROWD):
        if not offer.crowd and not offer.training_gold:
            raise SweepFileError(
                f"{where}: metric {metric.name!r} compares with how annotators really answer, which takes gold for "
                f"training items (or a simulated crowd), and there is none; take {HELDOUT}, which needs no gold"
            )
        return
    split = metric.name.partition("_")[0]
    if split not in offer.scored:
        has = ", ".join(sorted(offer.scored)) or "none"
        raise SweepFileError(
            f"{where}: metric {metric.name!r} needs {split} items with gold or annotations, and there are none (it can "
            f"score: {has}); take {HELDOUT}, which needs neither"
        )
