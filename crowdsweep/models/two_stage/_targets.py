"""The first stage of a two-stage model: targets for a classifier, made of the labels.

A model's declaration (`_pair.pair`) names how they are made: an aggregator's class probabilities (`Shares`), its
likeliest class (`Likeliest`), the histogram of the labels (`Histograms`), or gold (`Gold`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Shaped

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._em import label_probs_of, label_probs_of_items, winners
from crowdsweep.models.contract import (
    AnnotatorModel,
    FitContext,
    FitResult,
    LabelProbs,
    Model,
    Predictor,
    UnseenLabelProbs,
    no_op,
)
from crowdsweep.models.fitting import fit_unchecked


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Aggregated:
    """The result of the first stage.

    Attributes:
        targets: rows of zeros are not trained on.
        annotators: how annotators answer, if the aggregation says so.
        annotators_alike: whether, without `annotators`, every annotator is expected to label an item by the class
            probabilities that the classifier gives it; else labels are not predicted.
        dev_targets: makes the targets of dev items from their labels; None where labels cannot tell them (gold).
    """

    targets: ItemProbs
    annotators: AnnotatorModel | None = None
    annotators_alike: bool = False
    extras: Mapping[str, Shaped[np.ndarray, "..."]] = field(default_factory=dict)
    dev_targets: Callable[[Annotations], ItemProbs] | None = Annotations.label_distribution

    def label_probs(self, probs: ItemProbs) -> LabelProbs | None:
        """Returns the predictive probabilities of labels, given the classifier's probabilities of the items."""
        if self.annotators is None:
            return label_probs_of_items(probs) if self.annotators_alike else None
        shared = self.annotators.global_confusion()
        return label_probs_of(probs, self.annotators) if shared is None else label_probs_of_items(probs @ shared)

    def unseen_label_probs(self, predictor: Predictor) -> UnseenLabelProbs | None:
        """Returns the same of items that the classifier did not see; None where it is what `FitResult` takes it for."""
        shared = None if self.annotators is None else self.annotators.global_confusion()
        if shared is None:
            return None
        return lambda items, item, _: (predictor.predict(items, predictor.uses[0]) @ shared)[item]


@runtime_checkable
class Targets(Protocol):
    """Hyper-parameters of how targets are made."""

    def stage(self, data: TrainingData, context: FitContext, fitted: FitResult | None, /) -> Aggregated:
        """Returns the first stage of a data set.

        Args:
            fitted: the aggregator's fit, if the model has an aggregator.
        """
        ...


def fit_quietly(model: Model, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
    """Fits an aggregator, which reports nothing."""
    return fit_unchecked(model, data, [replace(context, report=no_op) for context in contexts])


def aggregated(data: TrainingData, fitted: FitResult | None) -> Aggregated:
    """Returns what an aggregator says of the items; those without labels get no target."""
    if fitted is None:
        raise TypeError("expected an aggregator, got none: declare `aggregate`")
    targets = answered(data, fitted.item_probs)
    return Aggregated(targets=targets, annotators=fitted.annotators, extras=fitted.extras)


def answered(data: TrainingData, probs: ItemProbs) -> ItemProbs:
    """Returns the probabilities with zeros for items that nobody labelled."""
    return np.where((data.annotations.labels_per_item > 0)[:, None], probs, 0.0)


def likeliest(probs: ItemProbs) -> ItemProbs:
    """Returns rows of one for the likeliest class, shared evenly by those that tie; rows of zeros stay."""
    return winners(probs) * (probs > 0)


def most_votes(annotations: Annotations) -> ItemProbs:
    """Returns rows of one for the class with the most votes, shared evenly by those that tie; zeros without votes."""
    votes = annotations.label_distribution()
    return np.where((annotations.labels_per_item > 0)[:, None], likeliest(votes), 0.0)


def one_hot(winners: ItemProbs, context: FitContext, *, draw: bool) -> ItemProbs:
    """Returns rows with a single class for rows in which tied winners share one; rows of zeros stay.

    Args:
        winners: above zero for the winning classes.
        context: of the fit, whose stream `ties` draws.
        draw: one of the tied classes at random; else the first.
    """
    scores = winners > 0
    if draw:
        scores = scores * (1.0 + context.seeds.numpy("ties").random(winners.shape))
    return np.eye(winners.shape[1])[scores.argmax(axis=1)] * winners.any(axis=1, keepdims=True)


def gold_targets(data: TrainingData, context: FitContext, otherwise: str) -> ItemProbs:
    """Returns one-hot rows of gold; rows of zeros for items without.

    Args:
        otherwise: what to do where there is none, for the message.

    Raises:
        FitFailed: there is no gold.
    """
    if context.gold is None:
        raise FitFailed(f"expected gold of the training items, got none: {otherwise}")
    targets = np.zeros((data.n_items, data.n_classes))
    targets[context.gold.item, context.gold.label] = 1.0
    return targets


@final
@dataclass(frozen=True, kw_only=True)
class Shares:
    """The class probabilities that the aggregator gives each item."""

    def stage(self, data: TrainingData, _: FitContext, fitted: FitResult | None) -> Aggregated:
        return aggregated(data, fitted)


@final
@dataclass(frozen=True, kw_only=True)
class Likeliest:
    """The class that the aggregator finds likeliest.

    The validation labels are then the classes with the most votes: validated on their distribution, a classifier of
        single classes would stop as soon as its probabilities are sharper than the annotators' agreement.

    Attributes:
        ties: an item whose likeliest classes tie is taken for one of them, drawn; or for the first, which favours it.
    """

    ties: Literal["random", "first"] = "random"

    def stage(self, data: TrainingData, context: FitContext, fitted: FitResult | None) -> Aggregated:
        found = aggregated(data, fitted)
        targets = one_hot(likeliest(found.targets), context, draw=self.ties == "random")
        return replace(found, targets=targets, dev_targets=most_votes)


@final
@dataclass(frozen=True, kw_only=True)
class Histograms:
    """The share of an item's labels that each class has; every annotator is expected to label alike."""

    def stage(self, data: TrainingData, _context: FitContext, _fitted: FitResult | None) -> Aggregated:
        return Aggregated(targets=answered(data, data.annotations.label_distribution()), annotators_alike=True)


@final
@dataclass(frozen=True, kw_only=True)
class Gold:
    """Gold; raises FitFailed where a context brings none."""

    def stage(self, data: TrainingData, context: FitContext, _: FitResult | None) -> Aggregated:
        targets = gold_targets(data, context, "only a dataset with gold can train it")
        return Aggregated(targets=targets, dev_targets=None)
