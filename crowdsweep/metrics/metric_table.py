"""The one table of metrics: name, goal, words, unit, what each is computed from, on which scales, and how.

Whoever asks what a metric is asks here (`wording` reads full names such as `test_kl.snap`). A new metric is one entry.

A metric of items stands in results once for each split, as `<split>_<name>`; one of single answers as `dev_<name>` and
`test_<name>`, of those items' own answers, and as `heldout_<name>`; the others under their own name.
"""

from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import TypedDict

import numpy as np
from jaxtyping import Bool, Float64, Int32

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import Scale
from crowdsweep.errors import BadInput, UnknownName
from crowdsweep.metrics import distributions, items
from crowdsweep.metrics.annotators import js_annotators, js_annotators_crowd, js_global, mean_confusion
from crowdsweep.metrics.calibration import ece_of_each
from crowdsweep.metrics.heldout import heldout_choices_loglik, heldout_loglik
from crowdsweep.metrics.kinds import (
    AnswerMetric,
    CostMetric,
    CountMetric,
    CrowdMetric,
    HeldoutAnswers,
    HeldoutMetric,
    ItemMetric,
    MetricInfo,
    ScoredCrowd,
    ScoredItems,
)
from crowdsweep.metrics.kinds import Goal as Goal  # noqa: PLC0414 - one door
from crowdsweep.metrics.ordinal import errors_in_steps, wasserstein_of_each, weighted_kappa_of_each
from crowdsweep.metrics.spans import span_f1, span_f1_of_each

SPLITS = ("train", "dev", "test")


class _Scores(TypedDict):
    """How an `ItemMetric` is computed."""

    score: Callable[[ScoredItems], float]
    by_item: Callable[[ScoredItems], Float64[np.ndarray, " items"]]


def _mean(of_each: Callable[[ItemProbs, ItemProbs], Float64[np.ndarray, " rows"]]) -> _Scores:
    """Returns how a metric is computed that is the mean of numbers of each row (`ScoredItems.rows`)."""
    return {
        "score": lambda scored: float(of_each(*scored.rows).mean()),
        "by_item": lambda scored: scored.of_items(of_each(*scored.rows)),
    }


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
_answer_error = partial(AnswerMetric, unit="%", goal="minimize", high=1.0)
_answer_distance = partial(AnswerMetric, goal="minimize", scales=("ordinal",), high=1.0)
_ORDINAL: tuple[Scale, ...] = ("ordinal",)
_crowd_distance = partial(CrowdMetric, unit="bits", goal="minimize", high=1.0)

ITEM_METRICS = (
    _share(
        name=ACCURACY,
        words="accuracy",
        about="share of items whose most probable class is right; a tie counts as broken at random, on average",
        **_mean(items.accuracy_of_each),
    ),
    _share(
        name="macro_f1",
        words="macro-F1",
        about="F1, unweighted mean over the classes",
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
        **_mean(items.log_loss_of_each),
    ),
    _loss(
        name="brier",
        words="Brier score",
        about="squared differences of prediction and reference, summed over the classes",
        high=2.0,
        **_mean(items.brier_of_each),
    ),
    _loss(name="ece", words="ECE", about="expected calibration error, 15 bins", high=1.0, **_mean(ece_of_each)),
    _distance(
        name=KL,
        words="KL",
        about="KL(reference ‖ prediction) of label distributions, 1e-5 added to every entry",
        unit="nats",
        **_mean(distributions.kl_of_each),
    ),
    _distance(
        name="kl_reverse",
        words="reverse KL",
        about="KL(prediction ‖ reference) of label distributions, 1e-5 added to every entry",
        unit="nats",
        **_mean(lambda reference, predicted: distributions.kl_of_each(predicted, reference)),
    ),
    _distance(
        name="js",
        words="JS",
        about="Jensen-Shannon divergence of the prediction and the reference's label distribution",
        unit="bits",
        high=1.0,
        **_mean(distributions.js_of_each),
    ),
    _distance(
        name="manhattan",
        words="Manhattan distance",
        about="absolute differences of the predicted and the reference's label distribution, summed over the classes",
        high=2.0,
        **_mean(distributions.manhattan_of_each),
    ),
    _loss(
        name="mae",
        words="mean absolute error",
        about="on an ordinal scale, steps by which the most probable class is off; ties count as for accuracy",
        unit="steps",
        scales=_ORDINAL,
        **_mean(errors_in_steps),
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
        **_mean(weighted_kappa_of_each),
    ),
    _distance(
        name="wasserstein",
        words="Wasserstein distance",
        about="on an ordinal scale, how far the prediction has to be moved to be the reference's label distribution",
        unit="steps",
        scales=_ORDINAL,
        **_mean(wasserstein_of_each),
    ),
    ItemMetric(
        name="entropy",
        words="entropy of predictions",
        about="mean entropy of the predictions; models are never ranked by it",
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
ANSWER_METRICS = (
    _answer_error(
        name="error_rate",
        words="error rate of single answers",
        about="share of an item's answers that the model predicts wrongly, mean over items",
        score=lambda answers: answers.errors.mean("item"),
    ),
    _answer_error(
        name="error_rate_annotators",
        words="error rate of annotators",
        about="share of an annotator's answers that the model predicts wrongly, mean over annotators",
        score=lambda answers: answers.errors.mean("annotator"),
    ),
    _answer_distance(
        name="absolute_distance",
        words="absolute distance of single answers",
        about="on a scale, distance of an answer from the model's prediction, divided by the number of values; "
        "mean over an item's answers, then over items",
        score=lambda answers: answers.distances.mean("item"),
    ),
    _answer_distance(
        name="absolute_distance_annotators",
        words="absolute distance of annotators",
        about="the same distance, mean over an annotator's answers, then over annotators",
        score=lambda answers: answers.distances.mean("annotator"),
    ),
)
ANSWER_PLACES = ("dev", "test", "heldout")
"""Which answers metrics of single answers are of, as the first word of their full names."""
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
        words="JS of annotators, each with the crowd's matrix",
        about="js_annotators with one matrix for every annotator, that of all answers against the model's labels",
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
SECONDS, MEMORY = "seconds", "memory"
COST_METRICS = (
    CostMetric(
        name=SECONDS,
        words="time per trial",
        unit="s",
        about="a trial's share of the seconds of its batch; together with a metric, an objective of searches",
    ),
    CostMetric(
        name=MEMORY,
        words="memory",
        unit="MiB",
        about="peak memory of the process while the batch ran, with libraries; together with a metric, an objective "
        "of searches",
    ),
)

METRICS: Mapping[str, MetricInfo] = {
    metric.name: metric
    for metric in (*ITEM_METRICS, *HELDOUT_METRICS, *ANSWER_METRICS, *CROWD_METRICS, *COUNT_METRICS, *COST_METRICS)
}
NAMES_WITH_A_GOAL = (
    *(f"{split}_{metric.name}" for split in SPLITS for metric in ITEM_METRICS if metric.goal is not None),
    *(metric.name for metric in (*HELDOUT_METRICS, *CROWD_METRICS) if metric.goal is not None),
    *(f"{place}_{metric.name}" for place in ANSWER_PLACES for metric in ANSWER_METRICS),
)
"""Full names of what models can be ranked and searched by."""
COSTS = tuple(metric.name for metric in COST_METRICS)
"""What a search can minimise beside a metric."""


def metric_kind(metric: str) -> str:
    """Returns a metric without its split and its test-time use: `test_accuracy.crowd` → `accuracy`."""
    name = metric.partition(".")[0]
    place, _, kind = name.partition("_")
    return kind if place in SPLITS or (place in ANSWER_PLACES and kind in METRICS) else name


def by_held_out(metric: str) -> bool:
    """Whether a metric scores answers that are taken out of the training items before the fit."""
    return metric.startswith("heldout_")


def repeats_votes(metric: str, gold: Mapping[str, bool]) -> bool:
    """Whether a metric would score training items without gold by the very answers that trained them.

    Args:
        gold: split → whether it is scored against gold; true for those that are not named.
    """
    info = info_of(metric)
    echoes = isinstance(info, ItemMetric) and not info.of_own_answers
    return echoes and metric.startswith("train_") and not gold.get("train", True)


def info_of(metric: str) -> MetricInfo | None:
    """Returns what is known of a metric, by its full name; None where there is none of that name."""
    return METRICS.get(metric_kind(metric))


def check_metric_name(name: str, where: str = "", *, beside: bool = False) -> None:
    """Checks the full name of a metric that is to be optimised; `dev_kl.snap` is `dev_kl` of one of a model's test-time
    uses, which only the model knows.

    Args:
        beside: whether it stands beside another metric, so that it may be a cost.

    Raises:
        UnknownName: there is no such metric.
        BadInput: it describes, and says of no model that it is better.
    """
    plain, dot, use = name.partition(".")
    info = info_of(name)
    if name in COSTS:
        if beside:
            return
        said = f"{name!r} alone finds the fastest or smallest fit, however poor; write a metric before it"
        raise BadInput(f"{where + ': ' if where else ''}{said}: [dev_{ACCURACY}, {name}]")
    if info is not None and info.goal is None:
        said = f"metric {name!r} ({info.words}) describes a result and does not say how good it is"
        raise BadInput(f"{where + ': ' if where else ''}{said}; take another, such as dev_{ACCURACY}")
    if plain not in NAMES_WITH_A_GOAL or (dot and not use) or (use and not isinstance(info, ItemMetric)):
        raise UnknownName("metric", name, (*NAMES_WITH_A_GOAL, *(COSTS if beside else ())), where)
