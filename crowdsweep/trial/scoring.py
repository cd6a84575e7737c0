"""All metrics of one fitted model, from the table in `metrics.known`. A metric that does not apply is absent.

Metrics of items are named `<split>_<metric>`: `train` scores the fit's own item probabilities, `dev` and `test` the
predictor's default use; a further use adds `.<use>`. Where any item of a split has gold, only items with gold are
scored; else all items are, against the label distribution of their own annotations. Training items without gold are
scored only by their divergence from that distribution, as the labels that trained cannot say who is right.

Metrics of single labels score held-out labels, and labels of dev and test items. They are scored by the probabilities
that the fit gives for their annotators, where these are known; for one without a training label, by the crowd's.
"""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
from jaxtyping import Bool, Int32

from crowdsweep.arrays import (
    AnnotatorCodes,
    ClassConfusion,
    ClassConfusions,
    Confusion,
    Confusions,
    ItemCodes,
    ItemProbs,
    RowProbs,
    normalised_rows,
)
from crowdsweep.data.choices import choice_counts, choices_of
from crowdsweep.data.dataset import EvaluationSet, Items, TrainingData, TrialData
from crowdsweep.errors import FitFailed
from crowdsweep.metrics.annotators import CountedChoosers, CountedCrowd, mean_confusion
from crowdsweep.metrics.metric_table import (
    ANSWER_METRICS,
    COUNT_METRICS,
    CROWD_METRICS,
    HELDOUT_METRICS,
    ITEM_METRICS,
    HeldoutAnswers,
    ItemMetric,
    ScoredCrowd,
    ScoredItems,
    info_of,
    repeats_votes,
)
from crowdsweep.models._em import label_probs_of, label_probs_of_items
from crowdsweep.models.contract import AnnotatorModel, FitResult, LabelProbs, Predictor
from crowdsweep.trial.fit_checks import array_of, check_probabilities, kind_of
from crowdsweep.trial.model_calls import guarded


def scored_items(fit: FitResult, trial: TrialData) -> dict[tuple[str, str], ScoredItems]:
    """Returns the scored items with the fit's predictions, by split and by the suffix of metric names (`.<use>` or "").

    Raises:
        ModelFault: the model's predictor raised an exception.
        FitFailed: predictions have the wrong shape or are not finite.
    """
    found: dict[tuple[str, str], ScoredItems] = {}
    for split, evaluation in trial.evaluation.items():
        for suffix, predicted in _predicted(split, fit, evaluation, trial):
            scored = scored_part(evaluation, predicted, trial)
            if scored is not None:
                found[split, suffix] = scored
    return found


def score(
    fit: FitResult, trial: TrialData, scored: Mapping[tuple[str, str], ScoredItems]
) -> tuple[dict[str, float], Confusion | None]:
    """Returns every metric that applies, and the crowd's estimated confusion matrix.

    The matrix is None where the model has no annotators or there are no labels, and for multi-label data, which have
    one matrix per class.

    Args:
        scored: what `scored_items` returned for both.

    Raises:
        ModelFault: the model's annotator model or label probabilities raised an exception.
        FitFailed: an annotator's matrix is not finite, or an array has the wrong shape.
    """
    annotations = trial.training.annotations
    metrics: dict[str, float] = {metric.name: float(metric.score(annotations)) for metric in COUNT_METRICS}
    gold = {split: bool(part.has_gold.any()) for split, part in trial.evaluation.items()}
    for (split, suffix), items in scored.items():
        applying = [m for m in ITEM_METRICS if _applies(m, items) and not repeats_votes(f"{split}_{m.name}", gold)]
        metrics |= {f"{split}_{metric.name}{suffix}": metric.score(items) for metric in applying}
    for place, answers in _unseen_answers(fit, trial):
        if place == "heldout":
            metrics |= {metric.name: metric.score(answers) for metric in HELDOUT_METRICS}
        if not annotations.anonymous:
            known = [metric for metric in ANSWER_METRICS if answers.scale in metric.scales]
            metrics |= {f"{place}_{metric.name}": metric.score(answers) for metric in known}
    if fit.annotators is None or not len(annotations):
        return metrics, None
    crowd = _scored_crowd(fit.annotators, fit.item_probs, trial)
    for metric in CROWD_METRICS:
        value = metric.score(crowd)
        if value is not None:
            metrics[metric.name] = value
    return metrics, crowd.estimated_crowd if crowd.estimated_crowd.ndim == 2 else None


def score_of(metric: str, predictor: Predictor, trial: TrialData) -> float | None:
    """Returns one metric of dev items (`dev_kl.snap`) for a running fit; None where it does not apply or is not finite.

    Raises:
        ModelFault, FitFailed: as `scored_items`.
    """
    info, use = info_of(metric), metric.partition(".")[2]
    evaluation = trial.evaluation.get("dev")
    if evaluation is None or not isinstance(info, ItemMetric):
        return None
    uses = _uses(predictor)
    if use and use not in uses:
        return None
    predicted = _predictions(predictor, evaluation.items, use or uses[0], trial.training)
    scored = scored_part(evaluation, predicted, trial)
    if scored is None or not _applies(info, scored):
        return None
    value = info.score(scored)
    return value if np.isfinite(value) else None


def _applies(metric: ItemMetric, scored: ScoredItems) -> bool:
    return metric.applies(scored.scale, scored.unit, scored.class_names)


def _predicted(
    split: str, fit: FitResult, evaluation: EvaluationSet, trial: TrialData
) -> Iterator[tuple[str, ItemProbs]]:
    """Yields (suffix of metric names, the fit's predictions for the items of a split) for each use of the predictor."""
    if split == "train":
        yield "", fit.item_probs
    elif fit.predictor is not None:
        for number, use in enumerate(_uses(fit.predictor)):
            probs = _predictions(fit.predictor, evaluation.items, use, trial.training)
            yield f".{use}" if number else "", probs


def _uses(predictor: Predictor) -> tuple[str, ...]:
    given = guarded(lambda: list(predictor.uses))()
    if not given or not all(type(use) is str for use in given):
        raise FitFailed(f"expected the predictor's uses as names, at least one; got {', '.join(map(kind_of, given))}")
    return tuple(given)


def _predictions(predictor: Predictor, items: Items, use: str, training: TrainingData) -> ItemProbs:
    what = f"predictions ({use})"
    predicted = array_of(guarded(predictor.predict)(items, use), what, (items.n_items, training.n_classes))
    if not np.isfinite(predicted).all():
        raise FitFailed(f"predictions ({use}) for unseen items are not finite")
    check_probabilities(predicted, what, rows_sum_to_one=training.scale != "multilabel")
    return predicted


def _unseen_answers(fit: FitResult, trial: TrialData) -> Iterator[tuple[str, HeldoutAnswers]]:
    """Yields ("heldout", "dev" or "test", labels that the fit did not see, with the probabilities that it gives)."""
    training = trial.training
    if fit.label_probs is None:
        return
    if trial.heldout is not None and len(trial.heldout):
        label_probs = _checked_label_probs(fit.label_probs, training.n_classes)
        yield "heldout", HeldoutAnswers(label_probs=label_probs, answers=trial.heldout, scale=training.scale)
    if fit.predictor is None or training.annotations.anonymous:
        return
    for split, part in trial.evaluation.items():
        if part.answers is not None and len(part.answers):
            label_probs = _of_unseen_items(fit, fit.predictor, part, training)
            if label_probs is not None:
                yield split, HeldoutAnswers(label_probs=label_probs, answers=part.answers, scale=training.scale)


def _of_unseen_items(
    fit: FitResult, predictor: Predictor, part: EvaluationSet, training: TrainingData
) -> LabelProbs | None:
    """Returns the label probabilities for the scored items of a split; None where the model does not give them.

    That is so for multi-label data and a model with annotators but no `unseen_label_probs`: its matrices are of single
    classes.
    """
    own = fit.unseen_label_probs
    if own is not None:
        label_probs = _checked_label_probs(partial(own, part.items), training.n_classes)
        return lambda item, annotator: label_probs(part.scored[item], annotator)
    if fit.annotators is not None and training.scale == "multilabel":
        return None
    classes = _predictions(predictor, part.items, _uses(predictor)[0], training)[part.scored]
    if fit.annotators is None:
        return label_probs_of_items(classes)
    return _checked_label_probs(label_probs_of(classes, fit.annotators), training.n_classes)


def _checked_label_probs(label_probs: LabelProbs, n_classes: int) -> LabelProbs:
    def checked(item: ItemCodes, annotator: AnnotatorCodes) -> RowProbs:
        return array_of(guarded(label_probs)(item, annotator), "label probabilities", (len(item), n_classes))

    return checked


def scored_part(evaluation: EvaluationSet, probs: ItemProbs, trial: TrialData) -> ScoredItems | None:
    """Returns the scored items of a split with their predictions; None where there are none.

    Args:
        probs: predictions for all of its items.
    """
    kept = evaluation.has_gold if evaluation.has_gold.any() else np.ones(len(evaluation.scored), dtype=bool)
    if not kept.any():
        return None
    return ScoredItems(
        reference=evaluation.reference[kept],
        predicted=probs[evaluation.scored[kept]],
        scale=trial.training.scale,
        unit=_whole_units(evaluation, kept),
        class_names=trial.class_names,
        code=evaluation.code[kept],
        known=None if evaluation.known is None else evaluation.known[kept],
    )


def _whole_units(evaluation: EvaluationSet, kept: Bool[np.ndarray, " scored"]) -> Int32[np.ndarray, " kept"] | None:
    """Returns the unit of each scored item, -1 where some item of the unit is not scored; None without units."""
    if evaluation.items.unit is None:
        return None
    left_out = np.ones(evaluation.items.n_items, dtype=bool)
    left_out[evaluation.scored[kept]] = False
    unit = np.where(evaluation.items.whole_units(left_out), np.int32(-1), evaluation.items.unit)
    return unit[evaluation.scored[kept]]


class _GuardedMatrices:
    """A model's annotator matrices, checked for shape; exceptions of the model's code become `ModelFault`.

    Args:
        shape: of one annotator's matrix.
    """

    def __init__(self, annotators: AnnotatorModel, shape: tuple[int, ...]) -> None:
        self._confusion = guarded(annotators.confusion)
        self._shape = shape

    def confusion(self, annotators: np.ndarray) -> Confusions | ClassConfusions:
        return array_of(self._confusion(annotators), "confusion matrices", (len(annotators), *self._shape))


def _scored_crowd(annotators: AnnotatorModel, item_probs: ItemProbs, trial: TrialData) -> ScoredCrowd:
    annotations, multilabel = trial.training.annotations, trial.training.scale == "multilabel"
    active = np.flatnonzero(annotations.labels_per_annotator)
    n_classes = trial.training.n_classes
    shape = (n_classes, 2, 2) if multilabel else (n_classes, n_classes)
    estimated = _GuardedMatrices(annotators, shape)
    own = guarded(annotators.global_confusion)()
    crowd: Confusion | ClassConfusion = (
        mean_confusion(estimated, active) if own is None else array_of(own, "the crowd's confusion matrix", shape)
    )
    if not np.isfinite(crowd).all():
        raise FitFailed("the annotators' confusion matrices are not finite; smooth more")
    counted = None
    if trial.gold.counts_answers:
        counted = (CountedChoosers.of_answers if multilabel else CountedCrowd)(annotations, trial.gold)
    # Anonymous annotations have one label per pseudo-annotator, which says nothing of its matrix.
    true = counted if trial.crowd is None and not annotations.anonymous else trial.crowd
    return ScoredCrowd(
        estimated=estimated,
        estimated_crowd=crowd,
        counted_crowd=normalised_rows(
            choice_counts(choices_of(annotations), item_probs).pooled()
            if multilabel
            else (annotations.counts.T @ item_probs).T
        ),
        true=true,
        true_crowd=None if counted is None else counted.pooled(),
        active=active,
        n_labels=annotations.labels_per_annotator[active].astype(np.float64),
    )
