"""All metrics of one fitted model. A metric that does not apply is absent.

Names are `<split>_<metric>`: `train` scores the fit's own item probabilities, `dev` and `test` the predictor's default
use, a further use adds `.<use>`. Where any item of a split has gold, only items with gold are scored; else all items
are, against the label distribution of their own annotations. Multi-label data score every (item, class) as a binary
item (`metrics.items`).
"""

from collections.abc import Mapping

import numpy as np

from crowdsweep.arrays import Confusion, Confusions, ItemProbs
from crowdsweep.data.dataset import EvaluationSet, Items, Scale, TrialData
from crowdsweep.errors import FitFailed
from crowdsweep.metrics.annotators import (
    CountedCrowd,
    TrueMatrices,
    js_annotators,
    js_global,
    mean_confusion,
)
from crowdsweep.metrics.calibration import ece
from crowdsweep.metrics.distributions import js, kl, kl_reverse
from crowdsweep.metrics.heldout import heldout_loglik
from crowdsweep.metrics.items import accuracy, as_binary, brier, log_loss, macro_f1, multilabel_macro_f1
from crowdsweep.models.contract import AnnotatorModel, FitResult, Predictor
from crowdsweep.trial.model_calls import guarded

ITEM_METRICS = {
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "log_loss": log_loss,
    "brier": brier,
    "ece": ece,
    "kl": kl,
    "kl_reverse": kl_reverse,
    "js": js,
}


def score(fit: FitResult, trial: TrialData) -> tuple[dict[str, float], Confusion | None]:
    """Returns every metric that applies, and the crowd's estimated matrix where the model has one.

    Raises:
        ModelFault: the model's predictor, annotator model or label probabilities raised.
        FitFailed: predictions have the wrong shape or are not finite.
    """
    annotations = trial.training.annotations
    metrics: dict[str, float] = {
        "n_annotations": float(len(annotations)),
        "n_active_annotators": float(annotations.n_active_annotators),
    }
    for split, evaluation in trial.evaluation.items():
        if split == "train":
            metrics |= _scores("train", "", evaluation, fit.item_probs, trial.training.scale)
        elif fit.predictor is not None:
            for number, use in enumerate(fit.predictor.uses):
                predicted = _predictions(fit.predictor, evaluation.items, use, trial.training.n_classes)
                suffix = f".{use}" if number else ""
                metrics |= _scores(split, suffix, evaluation, predicted, trial.training.scale)
    if trial.heldout is not None and len(trial.heldout) and fit.label_probs is not None:
        metrics["heldout_loglik"] = heldout_loglik(guarded(fit.label_probs), trial.heldout)
    if fit.annotators is None or not len(annotations):
        return metrics, None
    crowd_metrics, confusion = _score_annotators(fit.annotators, trial)
    return metrics | crowd_metrics, confusion


def score_of(metric: str, predictor: Predictor, trial: TrialData) -> float | None:
    """Returns one metric of dev items (`dev_kl.snap`), of a fit that still goes on; None where it does not apply.

    Raises:
        ModelFault, FitFailed: as `score`.
    """
    plain, _, use = metric.partition(".")
    evaluation = trial.evaluation.get("dev")
    if evaluation is None or (use and use not in predictor.uses):
        return None
    predicted = _predictions(predictor, evaluation.items, use or predictor.uses[0], trial.training.n_classes)
    value = _scores("dev", "", evaluation, predicted, trial.training.scale).get(plain)
    return value if value is not None and np.isfinite(value) else None


def _predictions(predictor: Predictor, items: Items, use: str, n_classes: int) -> ItemProbs:
    predicted = guarded(predictor.predict)(items, use)
    if predicted.shape != (items.n_items, n_classes):
        raise FitFailed(f"expected predictions ({use}) of shape {(items.n_items, n_classes)}, got {predicted.shape}")
    if not np.isfinite(predicted).all():
        raise FitFailed(f"predictions ({use}) for unseen items are not finite")
    return predicted


def _scores(split: str, suffix: str, evaluation: EvaluationSet, probs: ItemProbs, scale: Scale) -> Mapping[str, float]:
    kept = evaluation.has_gold if evaluation.has_gold.any() else np.ones(len(evaluation.scored), dtype=bool)
    if not kept.any():
        return {}
    reference, predicted = evaluation.reference[kept], probs[evaluation.scored[kept]]
    if scale != "multilabel":
        return {f"{split}_{name}{suffix}": metric(reference, predicted) for name, metric in ITEM_METRICS.items()}
    pairs = as_binary(reference), as_binary(predicted)
    scores = {f"{split}_{name}{suffix}": metric(*pairs) for name, metric in ITEM_METRICS.items()}
    return scores | {f"{split}_macro_f1{suffix}": multilabel_macro_f1(reference, predicted)}


class _GuardedMatrices:
    """A model's annotator matrices, its exceptions being the model's."""

    def __init__(self, annotators: AnnotatorModel) -> None:
        self._confusion = guarded(annotators.confusion)

    def confusion(self, annotators: np.ndarray) -> Confusions:
        return self._confusion(annotators)


def _score_annotators(annotators: AnnotatorModel, trial: TrialData) -> tuple[dict[str, float], Confusion]:
    annotations = trial.training.annotations
    active = np.flatnonzero(annotations.labels_per_annotator)
    estimated = _GuardedMatrices(annotators)
    own = guarded(annotators.global_confusion)()
    confusion = mean_confusion(estimated, active) if own is None else own
    if trial.training.scale == "multilabel":
        return {}, confusion
    metrics: dict[str, float] = {}
    counted = CountedCrowd(annotations, trial.gold) if len(trial.gold) else None
    true: TrueMatrices | None = trial.crowd
    if true is None and not annotations.anonymous:  # one answer says nothing of a pseudo-annotator's matrix
        true = counted
    if true is not None:
        metrics["js_annotators"] = js_annotators(true, estimated, active)
    if counted is not None:
        n_labels = annotations.labels_per_annotator[active].astype(np.float64)
        pooled = counted.pooled()
        metrics["js_global"] = js_global(pooled, confusion)
        metrics["js_global_weighted"] = js_global(pooled, mean_confusion(estimated, active, n_labels))
    return metrics, confusion
