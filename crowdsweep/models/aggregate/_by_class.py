"""Multi-label data fitted class by class: each class is a binary question to everybody who labelled the item.

This is binary relevance (Tsoumakas and Katakis 2007, "Multi-label classification: an overview"). Classes are taken to
be independent: a model of two classes is fitted to each, and an annotator has a matrix of two by two for each.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Int

from crowdsweep.arrays import AnnotatorCodes, ClassConfusion, ClassConfusions, ItemCodes, RowProbs
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import Choices, choices_of
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.contract import AnnotatorModel, FitContext, FitResult, FitsMany, LabelProbs, no_op


def fit_by_class(model: FitsMany, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
    """Fits a deterministic model that has `iterations` to each class; the fits of one class are a batch.

    A step's objective is the sum over the classes, and it is reported when all of them have been fitted. Where a report
    ends a fit, the fit is made again with so many steps: no class has then made more.
    """
    fitted = _fit(model, data, contexts)
    for place, (result, context) in enumerate(zip(fitted, contexts, strict=True)):
        for step, objective in enumerate(result.objective.tolist(), start=1):
            if not context.report(step, objective) and step < result.iterations:
                shorter: Any = replace(model, iterations=step)  # pyright: ignore[reportArgumentType]: a dataclass, by contract
                fitted[place] = _fit(shorter, [data[place]], [context])[0]
                break
    return fitted


def _fit(model: FitsMany, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
    choices = [choices_of(part.annotations) for part in data]
    quiet = [replace(context, report=no_op) for context in contexts]
    by_class = [
        model.fit_batch([_of_class(part, answers, k) for part, answers in zip(data, choices, strict=True)], quiet)
        for k in range(data[0].n_classes)
    ]
    return [_together(results) for results in zip(*by_class, strict=True)]


def _of_class(data: TrainingData, answers: Choices, class_code: int) -> TrainingData:
    """Returns the answers to whether one class applies: 1 where it was chosen."""
    sure = answers.chosen[:, [class_code]].toarray()[:, 0]
    chosen = sure > 0.5
    rows, certain = data.annotations, np.where(chosen, sure, 1.0 - sure)
    annotations = Annotations.of(
        item=answers.item,
        annotator=answers.annotator,
        label=chosen.astype(np.int32),
        n_items=rows.n_items,
        n_annotators=rows.n_annotators,
        n_classes=2,
        weight=None if rows.weight is None else answers.weight.astype(np.float32),
        probability=None if np.all(certain == 1.0) else certain.astype(np.float32),
        anonymous=rows.anonymous,
    )
    return replace(data, annotations=annotations, scale="nominal", validation=None)


def _together(results: Sequence[FitResult]) -> FitResult:
    """Returns the result of all classes from those of each."""
    steps = max(len(result.objective) for result in results)
    reached = [np.pad(result.objective, (0, steps - len(result.objective)), mode="edge") for result in results]
    annotators = [result.annotators for result in results if result.annotators is not None]
    label_probs = [result.label_probs for result in results if result.label_probs is not None]
    return FitResult(
        item_probs=np.stack([result.item_probs[:, 1] for result in results], axis=1),
        annotators=AnnotatorsByClass(classes=annotators) if annotators else None,
        label_probs=_chosen(label_probs) if label_probs else None,
        objective=np.sum(reached, axis=0),
        converged=all(result.converged for result in results),
        iterations=max(result.iterations for result in results),
        extras={name: np.stack([result.extras[name] for result in results]) for name in results[0].extras},
    )


def _chosen(of_classes: Sequence[LabelProbs]) -> LabelProbs:
    def label_probs(item: ItemCodes, annotator: AnnotatorCodes) -> RowProbs:
        return np.stack([of_class(item, annotator)[:, 1] for of_class in of_classes], axis=1)

    return label_probs


@dataclass(frozen=True, kw_only=True, eq=False)
class AnnotatorsByClass:
    """An `AnnotatorModel` that holds one of two classes for each class."""

    classes: Sequence[AnnotatorModel]

    @property
    def n_annotators(self) -> int:
        return self.classes[0].n_annotators

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> ClassConfusions:
        """Returns the row-stochastic matrices of these annotators [n, classes, true, observed]."""
        return np.stack([one.confusion(annotators) for one in self.classes], axis=1)

    def global_confusion(self) -> ClassConfusion | None:
        """Returns the crowd's matrices [classes, true, observed], or None where the model has none of its own."""
        own = [matrix for one in self.classes if (matrix := one.global_confusion()) is not None]
        return np.stack(own) if own else None
