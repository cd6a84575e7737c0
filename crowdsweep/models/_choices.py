"""Annotators of multi-label answers, counted against a model's posterior of the items."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from crowdsweep.arrays import ClassConfusion, ClassConfusions, normalised_rows
from crowdsweep.data.choices import ChoiceCounts


@dataclass(frozen=True, kw_only=True, eq=False)
class CountedChoices:
    """An `AnnotatorModel` of smoothed counts, for each class two by two; matrices are made when they are asked for.

    Attributes:
        counts: of the answers, expected under the posterior of the items.
        smoothing: pseudo-counts in every cell, at least 0; a row without any mass is uniform.
        n_annotators: declared.
    """

    counts: ChoiceCounts
    smoothing: float
    n_annotators: int

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> ClassConfusions:
        """Returns the row-stochastic matrices of these annotators [n, classes, true, observed]; idle ones answer as the
        crowd does."""
        matrices = normalised_rows(self.counts.of(annotators) + self.smoothing)
        idle = ~np.isin(annotators, self.counts.code)
        matrices[idle] = self.global_confusion()
        return matrices

    def global_confusion(self) -> ClassConfusion:
        """Returns the matrices of all annotators together, counted and smoothed alike [classes, true, observed]."""
        return normalised_rows(self.counts.pooled() + self.smoothing)
