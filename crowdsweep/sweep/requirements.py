"""The metrics that a dataset allows: which one a search optimises by default, and why another cannot be computed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from crowdsweep.data.dataset import Scale, TrialData
from crowdsweep.errors import SweepFileError
from crowdsweep.metrics.metric_table import (
    ACCURACY,
    HELDOUT,
    KL,
    AnswerMetric,
    CrowdMetric,
    ItemMetric,
    info_of,
    repeats_votes,
)
from crowdsweep.metrics.wording import goal_of
from crowdsweep.models.contract import DataShape, ModelInfo
from crowdsweep.sweep.pilot import Outputs
from crowdsweep.sweepfile.records import Metric

NOTHING_TO_HOLD_OUT = "no annotation can be held out (each item has to keep one)"


@dataclass(frozen=True, kw_only=True)
class DatasetFacts:
    """The properties of a dataset that is prepared for one trial.

    Attributes:
        shape: sizes of the training data.
        scored: split → whether any of its scored items has gold; only splits with at least one item that has a
            reference.
        answered: those of the splits dev and test that have items with labels.
        training_gold: whether any training item has gold.
        crowd: whether the annotators' true confusion matrices are known.
        anonymous: whether it is unknown which annotator gave which label.
        scale, class_names: of the labels.
        unit: the unit of each training item; None where items do not belong to units.
    """

    shape: DataShape
    scored: Mapping[str, bool]
    training_gold: bool
    crowd: bool
    anonymous: bool = False
    scale: Scale = "nominal"
    class_names: tuple[str, ...] = ()
    unit: np.ndarray | None = None
    answered: frozenset[str] = frozenset()

    @property
    def only_own_votes(self) -> bool:
        """Whether the only possible score compares training items with the votes that trained the model.

        Such a score says nothing: majority vote wins it by construction.
        """
        return not self.training_gold and not self.scored.keys() & {"dev", "test"}


def dataset_facts(trial: TrialData) -> DatasetFacts:
    """Returns the facts of a prepared dataset."""
    training = trial.training
    return DatasetFacts(
        shape=DataShape.of(training),
        scored={split: bool(part.has_gold.any()) for split, part in trial.evaluation.items() if len(part.scored)},
        training_gold=len(trial.gold) > 0,
        crowd=trial.crowd is not None or trial.gold.counts_answers,
        anonymous=training.annotations.anonymous,
        scale=training.scale,
        class_names=trial.class_names,
        unit=training.items.unit,
        answered=frozenset(
            split for split, part in trial.evaluation.items() if part.answers is not None and len(part.answers)
        ),
    )


def default_metric(info: ModelInfo, offer: DatasetFacts) -> Metric:
    """Returns the metric that a search optimises where the sweep file names none.

    It is dev accuracy where dev items have gold, else dev KL where they have annotations, else held-out log-likelihood.
    The last is also that of models that take no features or texts, since they cannot label dev items.
    """
    if "dev" not in offer.scored or not info.needs & {"features", "text"}:
        return _metric(HELDOUT)
    return _metric(f"dev_{ACCURACY}" if offer.scored["dev"] else f"dev_{KL}")


def metric_without_heldout(offer: DatasetFacts) -> Metric | None:
    """Returns the metric of a search whose model held-out annotations cannot score; None where no other metric can.

    It is accuracy on training items with gold. No fit sees this gold, but it both chooses the point and ranks it
    afterwards, which flatters the model.
    """
    return _metric(f"train_{ACCURACY}") if offer.training_gold else None


def _metric(name: str) -> Metric:
    goal = goal_of(name)
    assert goal is not None, f"{name} has no goal"  # noqa: S101 - our own table
    return Metric(name=name, goal=goal)


def why_not_by_heldout(info: ModelInfo, holds_out: Callable[[], bool], outputs: Callable[[], Outputs | None]) -> str:
    """Returns why held-out annotations cannot score a model; empty where they can.

    Args:
        holds_out: returns whether any annotation can be held out such that every item keeps one.
        outputs: returns what a fit of the model brings, or None where that is unknown. Called only for a model that
            does not declare whether it predicts labels.
    """
    if not holds_out():
        return NOTHING_TO_HOLD_OUT
    if not predicts_labels(info, outputs):
        return f"{info.name} gives no probabilities to answers that it has not seen (`label_probs`)"
    return ""


def predicts_labels(info: ModelInfo, outputs: Callable[[], Outputs | None]) -> bool:
    """Returns whether a model gives probabilities to labels that it has not seen; true where that is unknown."""
    if info.predicts_labels is not None:
        return info.predicts_labels
    found = outputs()
    return found is None or found.label_probs


def why_not_by_metric(info: ModelInfo, metric: Metric, outputs: Callable[[], Outputs | None]) -> str:
    """Returns why a model lacks a metric on any dataset; empty where the model has it.

    `outputs` is called only where an output may be missing: a model that takes features or texts labels unseen items in
    at least one way.

    Args:
        metric: a metric that held-out annotations do not score.
        outputs: as for `why_not_by_heldout`.
    """
    known, (name, _, use) = info_of(metric.name), metric.name.partition(".")
    if isinstance(known, CrowdMetric):
        found = outputs()
        lacks = found is not None and not found.annotators
        return f"{info.name} does not model annotators, which {metric.name} scores" if lacks else ""
    if isinstance(known, AnswerMetric) and not predicts_labels(info, outputs):
        return f"{info.name} does not say what an annotator would answer, which {metric.name} scores"
    if not isinstance(known, ItemMetric | AnswerMetric) or name.startswith("train_"):
        return ""
    if not use and info.needs & {"features", "text"}:
        return ""
    found = outputs()
    if found is None or (found.uses and (not use or use in found.uses)):
        return ""
    if found.uses:
        return (
            f"{info.name} labels unseen items by {', '.join(found.uses)}, and not by {use}, which {metric.name} scores"
        )
    split = name.partition("_")[0]
    return f"{info.name} labels no unseen items, and {metric.name} scores {split} items"


def check_metric(metric: Metric, offer: DatasetFacts, where: str) -> None:
    """Checks that a metric can be computed on a dataset.

    Raises:
        SweepFileError: the dataset lacks the data for it; the message says what is missing and offers another metric.
    """
    info = info_of(metric.name)
    if isinstance(info, CrowdMetric) and not offer.crowd:
        raise SweepFileError(
            f"{where}: metric {metric.name!r} compares with how annotators really answer, which takes gold for "
            f"training items (or a simulated crowd), and there is none; take {HELDOUT}, which needs no gold"
        )
    if isinstance(info, AnswerMetric):
        _check_answers(metric, info, offer, where)
    if not isinstance(info, ItemMetric):
        return
    split = metric.name.partition("_")[0]
    if split not in offer.scored:
        has = ", ".join(sorted(offer.scored)) or "none"
        raise SweepFileError(
            f"{where}: metric {metric.name!r} needs {split} items with gold or annotations, and there are none (it can "
            f"score: {has}); take {HELDOUT}, which needs neither"
        )
    if repeats_votes(metric.name, offer.scored):
        instead = f"dev_{info.name}" if offer.scored.get("dev") else HELDOUT
        raise SweepFileError(
            f"{where}: metric {metric.name!r} needs training items with gold, and there are none: against the answers "
            f"that trained it would only repeat the vote; take {instead}, which does not"
        )
    if not info.applies(offer.scale, offer.unit, offer.class_names):
        needs = (
            "tokens in sentences, and classes called O, B-… and I-…"
            if info.spans
            else f"{' or '.join(info.scales)} classes (`scale` in dataset.yaml)"
        )
        raise SweepFileError(
            f"{where}: metric {metric.name!r} is defined for {needs}, which this dataset does not have; "
            f"take {split}_{ACCURACY}"
        )


def _check_answers(metric: Metric, info: AnswerMetric, offer: DatasetFacts, where: str) -> None:
    place = metric.name.partition("_")[0]
    if offer.anonymous:
        raise SweepFileError(
            f"{where}: metric {metric.name!r} scores what single annotators answer, and here they are anonymous; "
            f"take one of distributions, such as dev_{KL}"
        )
    if offer.scale not in info.scales:
        raise SweepFileError(
            f"{where}: metric {metric.name!r} is defined for {' or '.join(info.scales)} labels, these are "
            f"{offer.scale}; take {place}_error_rate, or write the scale into dataset.yaml"
        )
    if place != "heldout" and place not in offer.answered:
        raise SweepFileError(
            f"{where}: metric {metric.name!r} scores annotators' answers to {place} items, and there are none; take "
            f"heldout_{info.name}, of answers to training items that are held out"
        )
