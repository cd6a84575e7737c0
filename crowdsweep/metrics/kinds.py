"""The kinds of metrics, and the data that they are computed from; `known` has the table of metrics."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64

from crowdsweep.arrays import ClassConfusion, Confusion, ItemProbs
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Scale
from crowdsweep.metrics import items
from crowdsweep.metrics.annotators import EstimatedMatrices, TrueMatrices
from crowdsweep.metrics.heldout import LabelProbs
from crowdsweep.metrics.single_answers import AnswerErrors, distances, wrong_answers, wrong_choices
from crowdsweep.metrics.spans import are_span_tags

Goal = Literal["maximize", "minimize"]
EVERY_SCALE: tuple[Scale, ...] = ("nominal", "ordinal", "multilabel")


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredItems:
    """Predictions for items, and the reference that they are scored against.

    Attributes:
        reference: float64 [items, classes], one-hot (multi-label: 0/1) from gold, else a label distribution.
        predicted: float64 [items, classes].
        scale: of the labels.
        unit: int32 [items], of tokens: the unit of each; -1 where not every item of the unit is among these.
        class_names: what the classes are called.
        code: int32 [items], the number of each in the whole dataset, where somebody wants to know.
        known: bool [items, classes], at least one per item: the multi-label choices that are scored; None for all.
    """

    reference: ItemProbs
    predicted: ItemProbs
    scale: Scale
    unit: Int32[np.ndarray, " items"] | None = None
    class_names: tuple[str, ...] = ()
    code: Int32[np.ndarray, " items"] | None = None
    known: Bool[np.ndarray, "items classes"] | None = None

    @cached_property
    def rows(self) -> tuple[ItemProbs, ItemProbs]:
        """Reference and prediction as distributions: of items, or of multi-label choices (`items.as_binary`)."""
        if self.scale != "multilabel":
            return self.reference, self.predicted
        scored = slice(None) if self.known is None else self.known.reshape(-1)
        return items.as_binary(self.reference)[scored], items.as_binary(self.predicted)[scored]

    def of_items(self, scores: Float64[np.ndarray, " rows"]) -> Float64[np.ndarray, " items"]:
        """Returns what each item adds to the mean over all rows: numbers of which that mean is the plain mean."""
        if self.known is None:
            return scores.reshape(len(self.reference), -1).mean(axis=1)
        item = np.nonzero(self.known)[0]
        return np.bincount(item, weights=scores, minlength=len(self.reference)) * (len(self.reference) / len(item))


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldoutAnswers:
    """Answers that the fit did not see, and the probabilities that it gives to them: answers to training items, which
    were taken out before the fit, or those to dev or test items."""

    label_probs: LabelProbs
    answers: Annotations
    scale: Scale

    @cached_property
    def errors(self) -> AnswerErrors:
        """The probability that each is predicted wrongly (multi-label: the share of classes)."""
        find = wrong_choices if self.scale == "multilabel" else wrong_answers
        return find(self.label_probs, self.answers)

    @cached_property
    def distances(self) -> AnswerErrors:
        """The distance of each from its prediction, on an ordinal scale."""
        return distances(self.label_probs, self.answers)


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredCrowd:
    """A model's estimates of annotators, and what is known of them.

    Attributes:
        estimated: a model's matrices.
        estimated_crowd: its matrix of all annotators.
        counted_crowd: the matrix of all answers, counted against what the model says of the items.
        true: the annotators' true matrices; None where nothing tells.
        true_crowd: the matrix of all answers to items with gold; None where no training item has gold.
        active: int64 [active], codes of the annotators with answers; at least one.
        n_labels: float64 [active], how many each of them gave.
    """

    estimated: EstimatedMatrices
    estimated_crowd: Confusion | ClassConfusion
    counted_crowd: Confusion | ClassConfusion
    true: TrueMatrices | None
    true_crowd: Confusion | ClassConfusion | None
    active: Int64[np.ndarray, " active"]
    n_labels: Float64[np.ndarray, " active"]


@dataclass(frozen=True, kw_only=True)
class MetricInfo:
    """What the platform knows of a metric.

    Attributes:
        name: in results; of a metric of items, without its split.
        about: what it is, in one line.
        unit: of its numbers; `%` for a share, which people read in percent; empty where it has none.
        goal: which way is better; None where the number describes and neither way is.
        scales: of the labels that it is defined for.
        low, high: the least and the greatest value that it can have.
    """

    name: str
    words: str
    about: str = ""
    unit: str = ""
    goal: Goal | None
    scales: Sequence[Scale] = EVERY_SCALE
    low: float = 0.0
    high: float = inf

    @property
    def is_share(self) -> bool:
        """Whether people read it in percent."""
        return self.unit == "%"


@dataclass(frozen=True, kw_only=True)
class ItemMetric(MetricInfo):
    """A metric of predictions for the items of one split.

    Attributes:
        by_item: a number for each item, whose mean is the metric: its score, or where the metric is no mean over items,
            numbers that vary as the metric does over other items (`metrics.items`). None where nothing is ranked by it.
        spans: whether items must be tokens, and classes tags of spans.
        of_own_answers: whether it is also computed for training items without gold, against their own answers: how far
            a fit moves from these. By other metrics majority vote would win there by construction.
    """

    score: Callable[[ScoredItems], float]
    by_item: Callable[[ScoredItems], Float64[np.ndarray, " items"]] | None = None
    spans: bool = False
    of_own_answers: bool = False

    def applies(self, scale: Scale, unit: np.ndarray | None, class_names: Sequence[str]) -> bool:
        """Whether it is defined for items of this kind."""
        return scale in self.scales and (not self.spans or (unit is not None and are_span_tags(class_names)))


@dataclass(frozen=True, kw_only=True)
class HeldoutMetric(MetricInfo):
    """A metric of answers that were held out."""

    score: Callable[[HeldoutAnswers], float]


@dataclass(frozen=True, kw_only=True)
class AnswerMetric(MetricInfo):
    """A metric of single answers that the fit did not see, held out or to dev or test items (`ANSWER_PLACES`)."""

    score: Callable[[HeldoutAnswers], float]


@dataclass(frozen=True, kw_only=True)
class CrowdMetric(MetricInfo):
    """A metric of annotators' matrices; its score is None where what it compares with is not known."""

    score: Callable[[ScoredCrowd], float | None]


@dataclass(frozen=True, kw_only=True)
class CountMetric(MetricInfo):
    """The number of annotations or annotators that a trial trained on; no measure of quality."""

    goal: None = None
    score: Callable[[Annotations], int]


@dataclass(frozen=True, kw_only=True)
class CostMetric(MetricInfo):
    """The cost of a trial, from its row of the record (`record.objectives`): an objective of searches beside a metric;
    models are never ranked by it.
    """

    goal: Goal = "minimize"
