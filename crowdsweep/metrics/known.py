"""The one table of metrics: name, goal, words, unit, what each is computed from, on which scales, and how.

Whoever asks what a metric is asks here (`wording` reads full names such as `test_kl.snap`). A new metric is one entry.

A metric of items stands in results once for each split, as `<split>_<name>`; the others under their own name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64

from crowdsweep.arrays import ClassConfusion, Confusion, ItemProbs
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Scale
from crowdsweep.errors import BadInput, UnknownName
from crowdsweep.metrics import distributions, items
from crowdsweep.metrics.annotators import (
    EstimatedMatrices,
    TrueMatrices,
    js_annotators,
    js_annotators_crowd,
    js_global,
    mean_confusion,
)
from crowdsweep.metrics.calibration import ece, ece_of_each
from crowdsweep.metrics.heldout import LabelProbs, heldout_choices_loglik, heldout_loglik
from crowdsweep.metrics.ordinal import errors_in_steps, wasserstein_of_each, weighted_kappa, weighted_kappa_of_each
from crowdsweep.metrics.spans import are_span_tags, span_f1, span_f1_of_each

Goal = Literal["maximize", "minimize"]
SPLITS = ("train", "dev", "test")
EVERY_SCALE: tuple[Scale, ...] = ("nominal", "ordinal", "multilabel")


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredItems:
    """Items with what a model says of them, against what is known.

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
    """Answers that were taken out before the fit, and the probabilities that the fit gives to them."""

    label_probs: LabelProbs
    answers: Annotations
    scale: Scale


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredCrowd:
    """Annotators as a model takes them, against what is known of them.

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
        words: as people write it.
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
        score: computes it.
        by_item: what each item is to it: of a mean over items their scores, of another metric numbers with the same
            mean that spread as it does over other items (`metrics.items`). None where nobody ranks by it.
        spans: whether items must be tokens, and classes tags of spans.
        of_own_answers: whether it is also computed for training items that have no gold, against the answers that
            trained: how far a fit moves from them. The others would repeat the vote, which wins them by construction.
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
class CrowdMetric(MetricInfo):
    """A metric of annotators' matrices; its score is None where what it compares with is not known."""

    score: Callable[[ScoredCrowd], float | None]


@dataclass(frozen=True, kw_only=True)
class CountMetric(MetricInfo):
    """What a trial was given to train on; says nothing of how well it went."""

    goal: None = None
    score: Callable[[Annotations], int]


def _rows(score: Callable[[ItemProbs, ItemProbs], float]) -> Callable[[ScoredItems], float]:
    return lambda scored: score(*scored.rows)


def _each(
    score: Callable[[ItemProbs, ItemProbs], Float64[np.ndarray, " rows"]],
) -> Callable[[ScoredItems], Float64[np.ndarray, " items"]]:
    return lambda scored: scored.of_items(score(*scored.rows))


def _mean(
    score: Callable[[ItemProbs, ItemProbs], Float64[np.ndarray, " rows"]],
) -> Callable[[ScoredItems], float]:
    return lambda scored: float(score(*scored.rows).mean())


def _macro_f1(scored: ScoredItems) -> float:
    score = items.multilabel_macro_f1 if scored.scale == "multilabel" else items.macro_f1
    return score(*_known_choices(scored))


def _macro_f1_of_each(scored: ScoredItems) -> Float64[np.ndarray, " items"]:
    score = items.multilabel_macro_f1_of_each if scored.scale == "multilabel" else items.macro_f1_of_each
    return score(*_known_choices(scored))


def _known_choices(scored: ScoredItems) -> tuple[ItemProbs, ItemProbs]:
    """Returns reference and prediction, nothing being chosen where nobody knows."""
    if scored.known is None:
        return scored.reference, scored.predicted
    return np.where(scored.known, scored.reference, 0.0), np.where(scored.known, scored.predicted, 0.0)


def _span_f1(scored: ScoredItems) -> float:
    unit, whole = _whole_units(scored)
    return span_f1(scored.reference[whole], scored.predicted[whole], unit[whole], scored.class_names)


def _span_f1_of_each(scored: ScoredItems) -> Float64[np.ndarray, " items"]:
    unit, whole = _whole_units(scored)
    found = span_f1_of_each(scored.reference[whole], scored.predicted[whole], unit[whole], scored.class_names)
    mean = found.mean() if len(found) else 0.0
    of_all = np.full(len(unit), mean)
    of_all[whole] += (found - mean) * len(unit) / max(len(found), 1)
    return of_all


def _whole_units(scored: ScoredItems) -> tuple[Int32[np.ndarray, " items"], Bool[np.ndarray, " items"]]:
    """Returns the unit of each item, and whether all of it is scored."""
    unit = np.full(len(scored.reference), -1, np.int32) if scored.unit is None else scored.unit
    return unit, unit >= 0


def _heldout_loglik(heldout: HeldoutAnswers) -> float:
    score = heldout_choices_loglik if heldout.scale == "multilabel" else heldout_loglik
    return score(heldout.label_probs, heldout.answers)


def _js_annotators(crowd: ScoredCrowd) -> float | None:
    return None if crowd.true is None else js_annotators(crowd.true, crowd.estimated, crowd.active)


def _js_annotators_crowd(crowd: ScoredCrowd) -> float | None:
    return None if crowd.true is None else js_annotators_crowd(crowd.true, crowd.counted_crowd, crowd.active)


def _js_global(crowd: ScoredCrowd) -> float | None:
    return None if crowd.true_crowd is None else js_global(crowd.true_crowd, crowd.estimated_crowd)


def _js_global_weighted(crowd: ScoredCrowd) -> float | None:
    if crowd.true_crowd is None:
        return None
    return js_global(crowd.true_crowd, mean_confusion(crowd.estimated, crowd.active, crowd.n_labels))


ACCURACY, KL, HELDOUT = "accuracy", "kl", "heldout_loglik"
"""What ranks by default: against gold, against label distributions, and where there is neither."""

_share = partial(ItemMetric, unit="%", goal="maximize", high=1.0)
_loss = partial(ItemMetric, goal="minimize")
_distance = partial(ItemMetric, goal="minimize", of_own_answers=True)
_ORDINAL: tuple[Scale, ...] = ("ordinal",)
_crowd_distance = partial(CrowdMetric, unit="bits", goal="minimize", high=1.0)

ITEM_METRICS = (
    _share(
        name=ACCURACY,
        words="accuracy",
        about="share of items whose most probable class is right; ties count what they are worth on average",
        score=_rows(items.accuracy),
        by_item=_each(items.agreement),
    ),
    _share(
        name="macro_f1",
        words="macro-F1",
        about="F1, plain mean over the classes",
        score=_macro_f1,
        by_item=_macro_f1_of_each,
    ),
    _share(
        name="span_f1",
        words="span-F1",
        about="of tokens in sentences, where classes are `O`, `B-…`, `I-…`: F1 of exactly matching spans",
        scales=("nominal",),
        spans=True,
        score=_span_f1,
        by_item=_span_f1_of_each,
    ),
    _loss(
        name="log_loss",
        words="log-loss",
        about="cross-entropy of the prediction under the reference",
        unit="nats",
        score=_rows(items.log_loss),
        by_item=_each(items.log_losses),
    ),
    _loss(
        name="brier",
        words="Brier score",
        about="squared differences, summed over the classes",
        high=2.0,
        score=_rows(items.brier),
        by_item=_each(items.squared_differences),
    ),
    _loss(
        name="ece",
        words="ECE",
        about="expected calibration error, 15 bins",
        high=1.0,
        score=_rows(ece),
        by_item=_each(ece_of_each),
    ),
    _distance(
        name=KL,
        words="KL",
        about="divergence of the prediction from the reference's label distribution, 1e-5 added to every entry",
        unit="nats",
        score=_rows(distributions.kl),
        by_item=_each(distributions.kl_of_each),
    ),
    _distance(
        name="kl_reverse",
        words="reverse KL",
        about="divergence of the reference's label distribution from the prediction, 1e-5 added to every entry",
        unit="nats",
        score=_rows(distributions.kl_reverse),
        by_item=_each(lambda reference, predicted: distributions.kl_of_each(predicted, reference)),
    ),
    _distance(
        name="js",
        words="JS",
        about="Jensen-Shannon divergence of the prediction and the reference's label distribution",
        unit="bits",
        high=1.0,
        score=_rows(distributions.js),
        by_item=_each(distributions.js_of_each),
    ),
    _loss(
        name="mae",
        words="mean absolute error",
        about="on an ordinal scale, steps by which the most probable class is off; ties count as for accuracy",
        unit="steps",
        scales=_ORDINAL,
        score=_mean(errors_in_steps),
        by_item=_each(errors_in_steps),
    ),
    ItemMetric(
        name="weighted_kappa",
        words="weighted kappa",
        about="on an ordinal scale, agreement beyond chance of the most probable class, weighted by squared steps "
        "(Cohen 1968)",
        goal="maximize",
        scales=_ORDINAL,
        low=-1.0,
        high=1.0,
        score=_rows(weighted_kappa),
        by_item=_each(weighted_kappa_of_each),
    ),
    _distance(
        name="wasserstein",
        words="Wasserstein distance",
        about="on an ordinal scale, how far the prediction has to be moved to be the reference's label distribution",
        unit="steps",
        scales=_ORDINAL,
        score=_mean(wasserstein_of_each),
        by_item=_each(wasserstein_of_each),
    ),
    ItemMetric(
        name="entropy",
        words="entropy of predictions",
        about="how unsure predictions are; only shown",
        unit="nats",
        goal=None,
        score=lambda scored: distributions.entropy(scored.rows[1]),
        of_own_answers=True,
    ),
)
HELDOUT_METRICS = (
    HeldoutMetric(
        name=HELDOUT,
        words="held-out log-likelihood",
        about="log-probability of a held-out answer",
        unit="nats",
        goal="maximize",
        low=-inf,
        high=0.0,
        score=_heldout_loglik,
    ),
)
CROWD_METRICS = (
    _crowd_distance(
        name="js_annotators",
        words="JS of annotators",
        about="Jensen-Shannon divergence of annotators' estimated confusion matrices "
        "from the true ones, mean over annotators",
        score=_js_annotators,
    ),
    _crowd_distance(
        name="js_annotators_crowd",
        words="JS of annotators, all taken for the crowd",
        about="js_annotators with every annotator taken for the crowd: one matrix, "
        "of all answers against the model's labels",
        score=_js_annotators_crowd,
    ),
    _crowd_distance(
        name="js_global",
        words="JS of the crowd",
        about="Jensen-Shannon divergence of the crowd's estimated confusion matrix from the true one",
        score=_js_global,
    ),
    _crowd_distance(
        name="js_global_weighted",
        words="JS of the crowd, weighted",
        about="js_global of the mean of the annotators' matrices, weighted by their numbers of labels",
        score=_js_global_weighted,
    ),
)
COUNT_METRICS = (
    CountMetric(
        name="n_annotations", words="annotations", about="labels that the trial was given to train on", score=len
    ),
    CountMetric(
        name="n_active_annotators",
        words="active annotators",
        about="annotators with labels that the trial was given to train on",
        score=lambda rows: rows.n_active_annotators,
    ),
)

METRICS: Mapping[str, MetricInfo] = {
    metric.name: metric for metric in (*ITEM_METRICS, *HELDOUT_METRICS, *CROWD_METRICS, *COUNT_METRICS)
}
NAMES_WITH_A_GOAL = (
    *(f"{split}_{metric.name}" for split in SPLITS for metric in ITEM_METRICS if metric.goal is not None),
    *(metric.name for metric in (*HELDOUT_METRICS, *CROWD_METRICS) if metric.goal is not None),
)
"""Full names of what models can be ranked and searched by."""


def metric_kind(metric: str) -> str:
    """Returns a metric without its split and its test-time use: `test_accuracy.crowd` → `accuracy`."""
    name = metric.partition(".")[0]
    split, _, kind = name.partition("_")
    return kind if split in SPLITS else name


def repeats_votes(metric: str, gold: Mapping[str, bool]) -> bool:
    """Whether a metric would score training items without gold by the very answers that trained them.

    Args:
        metric: its full name.
        gold: split → whether it is scored against gold; true for those that are not named.
    """
    info = info_of(metric)
    echoes = isinstance(info, ItemMetric) and not info.of_own_answers
    return echoes and metric.startswith("train_") and not gold.get("train", True)


def info_of(metric: str) -> MetricInfo | None:
    """Returns what is known of a metric, by its full name; None where there is none of that name."""
    return METRICS.get(metric_kind(metric))


def check_metric_name(name: str, where: str = "") -> None:
    """Checks the full name of a metric that is to be optimised; `dev_kl.snap` is `dev_kl` of one of a model's test-time
    uses, which only the model knows.

    Raises:
        UnknownName: there is no such metric.
        BadInput: it describes, and says of no model that it is better.
    """
    plain, dot, use = name.partition(".")
    info = info_of(name)
    if info is not None and info.goal is None:
        said = f"metric {name!r} ({info.words}) describes a result and says not how good it is"
        raise BadInput(f"{where + ': ' if where else ''}{said}; take another, such as dev_{ACCURACY}")
    if plain not in NAMES_WITH_A_GOAL or (dot and not use) or (use and not isinstance(info, ItemMetric)):
        raise UnknownName("metric", name, NAMES_WITH_A_GOAL, where)
