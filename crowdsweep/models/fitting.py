"""Fits a model to data, whichever of the contract's three methods it has: what can be is fitted as one batch, on
standardised features where the model asks for them.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models.contract import (
    FitContext,
    FitResult,
    FitsMany,
    FitsPoints,
    Model,
    Predictor,
    UnseenLabelProbs,
    handing_on,
    stated_needs,
)
from crowdsweep.models.scaling import Scale, standardises


def fit_all(model: Model, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
    """Fits one model to many data sets, as one batch where it can.

    Raises:
        FitFailed: a result has the wrong shape or is not finite; the message does not say which one of a batch.
    """
    results = fit_unchecked(model, data, contexts)
    for result, part in zip(results, data, strict=True):
        check_item_probs(result.item_probs, part)
    return results


def fit_one(model: Model, data: TrainingData, context: FitContext) -> FitResult:
    """Fits one model to one data set.

    Raises:
        FitFailed: the result has the wrong shape or is not finite.
    """
    return fit_all(model, [data], [context])[0]


def fit_unchecked(model: Model, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
    """Fits as `fit_all` does without checking the results; the caller can then say whose result is bad.

    Raises:
        FitFailed: the model returned something else than a `FitResult`.
    """
    return fit_points([model] * len(data), data, contexts)


def fit_points(
    models: Sequence[Model], data: Sequence[TrainingData], contexts: Sequence[FitContext]
) -> list[FitResult]:
    """Fits as `fit_unchecked` does, a model to each data set, as one batch where it can.

    Args:
        models: of one class, equal but for what it `varies`.
        data: one for each.
        contexts: one for each.

    Raises:
        FitFailed: the model returned something else than a `FitResult`.
    """
    if not models:
        return []
    model, results = models[0], dict[int, FitResult]()
    if not isinstance(model, FitsPoints) and any(other is not model and other != model for other in models):
        raise TypeError(f"{type(model).__name__} has no `fit_points`: expected equal models in one batch")
    if not isinstance(model, (FitsMany, FitsPoints)):
        results = dict(enumerate(_fit_group(models, data, contexts)))
    else:
        reads_texts = any("text" in stated_needs(model, part.items) for part in data[:1])
        groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for index, part in enumerate(data):
            n_features = 0 if part.items.features is None else part.items.features.shape[1]
            texts = _texts(part.items) if reads_texts else None
            groups[part.n_classes, n_features, texts].append(index)
        for members in groups.values():
            own, parts = [models[i] for i in members], [data[i] for i in members]
            fitted = _fit_group(own, parts, [contexts[i] for i in members])
            results.update(zip(members, fitted, strict=True))
    for result in results.values():
        if not isinstance(result, FitResult):  # pyright: ignore[reportUnnecessaryIsInstance]: a plug-in may return anything
            raise FitFailed(f"expected a FitResult from the fit, got {type(result).__name__[:100]}")
    return [results[i] for i in range(len(data))]


def _fit_group(
    models: Sequence[Model], data: Sequence[TrainingData], contexts: Sequence[FitContext]
) -> Sequence[FitResult]:
    """Fits what can be fitted together, on standardised features where the model asks for them."""
    features = {id(part): part.items.features for part in data} if standardises(models[0]) else {}
    scales = {key: Scale.for_networks(found) for key, found in features.items() if found is not None}
    if not scales or len(scales) < len(features):
        return _fit(models, data, contexts)
    scaled = {id(part): scales[id(part)].training(part) for part in data}  # what comes twice is held once
    own = [scales[id(part)] for part in data]
    rescaled = [
        replace(one, report=handing_on(one.report, partial(ScaledPredictor, scale)))
        for one, scale in zip(contexts, own, strict=True)
    ]
    fitted = _fit(models, [scaled[id(part)] for part in data], rescaled)
    return [_on_scale(result, scale) for result, scale in zip(fitted, own, strict=True)]


def _fit(models: Sequence[Model], data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> Sequence[FitResult]:
    model = models[0]
    if isinstance(model, FitsPoints):
        return model.fit_points(models, data, contexts)
    if isinstance(model, FitsMany):
        return model.fit_batch(data, contexts)
    return [model.fit(part, context) for part, context in zip(data, contexts, strict=True)]


def _on_scale(result: FitResult, scale: Scale) -> FitResult:
    if not isinstance(result, FitResult) or result.predictor is None:  # pyright: ignore[reportUnnecessaryIsInstance]: a plug-in may return anything
        return result
    own = result.unseen_label_probs
    unseen = None if own is None else _read_on(scale, own)
    return replace(result, predictor=ScaledPredictor(scale, result.predictor), unseen_label_probs=unseen)


def _read_on(scale: Scale, label_probs: UnseenLabelProbs) -> UnseenLabelProbs:
    return lambda items, item, annotator: label_probs(scale.items(items), item, annotator)


@dataclass(frozen=True, eq=False)
class ScaledPredictor:
    """A predictor that was trained on standardised features, with their scale."""

    scale: Scale
    predictor: Predictor

    @property
    def uses(self) -> tuple[str, ...]:
        return self.predictor.uses

    def predict(self, items: Items, use: str) -> ItemProbs:
        return self.predictor.predict(self.scale.items(items), use)


def _texts(items: Items) -> tuple[Any, ...]:
    """Returns a key that is equal for data sets whose networks on texts have the same inputs and vocabulary."""
    parts = (None if texts is None else tuple(texts) for texts in (items.text, items.text_b))
    return (*parts, None if items.unit is None else items.unit.tobytes())


def check_item_probs(item_probs: np.ndarray, data: TrainingData) -> None:
    """Checks that a fit labels the items that it was given.

    Raises:
        FitFailed: the item probabilities have the wrong shape or are not finite.
    """
    expected = (data.n_items, data.n_classes)
    if item_probs.shape != expected:
        raise FitFailed(f"expected item probabilities of shape {expected}, got {item_probs.shape}")
    if item_probs.size and not np.isfinite([item_probs.min(), item_probs.max()]).all():  # a NaN is both
        raise FitFailed("item probabilities are not finite: the fit diverged; lower the learning rate, or smooth more")
