"""All metrics of one fitted model, from the table in `metrics.known`. A metric that does not apply is absent.

Metrics of items are `<split>_<metric>`: `train` scores the fit's own item probabilities, `dev` and `test` the
predictor's default use, a further use adds `.<use>`. Where any item of a split has gold, only items with gold are
scored; else all items are, against the label distribution of their own annotations.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from jaxtyping import Bool, Int32

from crowdsweep.arrays import ClassConfusion, ClassConfusions, Confusion, Confusions, ItemProbs, normalised_rows
from crowdsweep.data.choices import choice_counts, choices_of
from crowdsweep.data.dataset import EvaluationSet, Items, TrialData
from crowdsweep.errors import FitFailed
from crowdsweep.metrics.annotators import CountedChoosers, CountedCrowd, mean_confusion
from crowdsweep.metrics.known import (
    COUNT_METRICS,
    CROWD_METRICS,
    HELDOUT_METRICS,
    ITEM_METRICS,
    HeldoutAnswers,
    ItemMetric,
    ScoredCrowd,
    ScoredItems,
    info_of,
)
from crowdsweep.models.contract import AnnotatorModel, FitResult, Predictor
from crowdsweep.trial.model_calls import guarded


def scored_items(fit: FitResult, trial: TrialData) -> dict[tuple[str, str], ScoredItems]:
    """Returns what the fit says of the items that are scored: by split, and by what the names of its metrics end in.

    Raises:
        ModelFault: the model's predictor raised.
        FitFailed: predictions have the wrong shape or are not finite.
    """
    found: dict[tuple[str, str], ScoredItems] = {}
    for split, evaluation in trial.evaluation.items():
        for suffix, predicted in _predicted(split, fit, evaluation, trial):
            scored = _scored_items(evaluation, predicted, trial)
            if scored is not None:
                found[split, suffix] = scored
    return found


def score(
    fit: FitResult, trial: TrialData, scored: Mapping[tuple[str, str], ScoredItems]
) -> tuple[dict[str, float], Confusion | None]:
    """Returns every metric that applies, and the crowd's estimated matrix where the model has one (one matrix: of
    multi-label answers, which have one for each class, none is returned).

    Args:
        fit: what is scored.
        trial: by what.
        scored: `scored_items` of both.

    Raises:
        ModelFault: the model's annotator model or label probabilities raised.
        FitFailed: an annotator's matrix is not finite.
    """
    annotations = trial.training.annotations
    metrics: dict[str, float] = {metric.name: float(metric.score(annotations)) for metric in COUNT_METRICS}
    for (split, suffix), items in scored.items():
        applying = [metric for metric in ITEM_METRICS if _applies(metric, items)]
        metrics |= {f"{split}_{metric.name}{suffix}": metric.score(items) for metric in applying}
    if trial.heldout is not None and len(trial.heldout) and fit.label_probs is not None:
        heldout = HeldoutAnswers(
            label_probs=guarded(fit.label_probs), answers=trial.heldout, scale=trial.training.scale
        )
        metrics |= {metric.name: metric.score(heldout) for metric in HELDOUT_METRICS}
    if fit.annotators is None or not len(annotations):
        return metrics, None
    crowd = _scored_crowd(fit.annotators, fit.item_probs, trial)
    for metric in CROWD_METRICS:
        value = metric.score(crowd)
        if value is not None:
            metrics[metric.name] = value
    return metrics, crowd.estimated_crowd if crowd.estimated_crowd.ndim == 2 else None


def score_of(metric: str, predictor: Predictor, trial: TrialData) -> float | None:
    """Returns one metric of dev items (`dev_kl.snap`), of a fit that still goes on; None where it does not apply.

    Raises:
        ModelFault, FitFailed: as `score`.
    """
    info, use = info_of(metric), metric.partition(".")[2]
    evaluation = trial.evaluation.get("dev")
    if evaluation is None or not isinstance(info, ItemMetric) or (use and use not in predictor.uses):
        return None
    predicted = _predictions(predictor, evaluation.items, use or predictor.uses[0], trial.training.n_classes)
    scored = _scored_items(evaluation, predicted, trial)
    if scored is None or not _applies(info, scored):
        return None
    value = info.score(scored)
    return value if np.isfinite(value) else None


def _applies(metric: ItemMetric, scored: ScoredItems) -> bool:
    return metric.applies(scored.scale, scored.unit, scored.class_names)


def _predicted(
    split: str, fit: FitResult, evaluation: EvaluationSet, trial: TrialData
) -> Iterator[tuple[str, ItemProbs]]:
    """Yields what the fit says of the items of a split, with what the names of its metrics end in."""
    if split == "train":
        yield "", fit.item_probs
    elif fit.predictor is not None:
        for number, use in enumerate(fit.predictor.uses):
            probs = _predictions(fit.predictor, evaluation.items, use, trial.training.n_classes)
            yield f".{use}" if number else "", probs


def _predictions(predictor: Predictor, items: Items, use: str, n_classes: int) -> ItemProbs:
    predicted = guarded(predictor.predict)(items, use)
    if predicted.shape != (items.n_items, n_classes):
        raise FitFailed(f"expected predictions ({use}) of shape {(items.n_items, n_classes)}, got {predicted.shape}")
    if not np.isfinite(predicted).all():
        raise FitFailed(f"predictions ({use}) for unseen items are not finite")
    return predicted


def _scored_items(evaluation: EvaluationSet, probs: ItemProbs, trial: TrialData) -> ScoredItems | None:
    """Returns the items that are scored, with their predictions; None where there are none."""
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
    )


def _whole_units(evaluation: EvaluationSet, kept: Bool[np.ndarray, " scored"]) -> Int32[np.ndarray, " kept"] | None:
    """Returns the unit of each item that is scored, -1 where another item of the unit is not."""
    if evaluation.items.unit is None:
        return None
    left_out = np.ones(evaluation.items.n_items, dtype=bool)
    left_out[evaluation.scored[kept]] = False
    unit = np.where(evaluation.items.whole_units(left_out), np.int32(-1), evaluation.items.unit)
    return unit[evaluation.scored[kept]]


class _GuardedMatrices:
    """A model's annotator matrices, its exceptions being the model's."""

    def __init__(self, annotators: AnnotatorModel) -> None:
        self._confusion = guarded(annotators.confusion)

    def confusion(self, annotators: np.ndarray) -> Confusions | ClassConfusions:
        return self._confusion(annotators)


def _scored_crowd(annotators: AnnotatorModel, item_probs: ItemProbs, trial: TrialData) -> ScoredCrowd:
    annotations, multilabel = trial.training.annotations, trial.training.scale == "multilabel"
    active = np.flatnonzero(annotations.labels_per_annotator)
    estimated = _GuardedMatrices(annotators)
    own = guarded(annotators.global_confusion)()
    crowd: Confusion | ClassConfusion = mean_confusion(estimated, active) if own is None else own
    if not np.isfinite(crowd).all():
        raise FitFailed("the annotators' confusion matrices are not finite; smooth more")
    counted = None
    if len(trial.gold):
        counted = (CountedChoosers.of_answers if multilabel else CountedCrowd)(annotations, trial.gold)
    # One answer says nothing of a pseudo-annotator's matrix.
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
