"""Tag vote: the votes for a token, weighed by the tags of its neighbours in the sentence.

With v the tokens' shares of votes and B[j, k] the share of tag k after tag j, counted from the votes of neighbours in
one unit with `smoothing` pseudo-counts in each cell:

    item_probs[i, k]  in proportion to  v[i, k] * sum_j v[i - 1, j] B[j, k] * sum_j B[k, j] v[i + 1, j]

a factor for a neighbour that is not there, or stands in another unit, being one. A token that nobody tagged is what its
neighbours say. Where items are units of their own this is majority vote.
"""

from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Gt

from crowdsweep.arrays import AnnotatorCodes, ItemCodes, RowProbs, normalised_rows
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo


@final
@dataclass(frozen=True, kw_only=True)
class TagVote:
    """Hyper-parameters of tag vote.

    Attributes:
        smoothing: pseudo-counts of each pair of neighbouring tags.
    """

    smoothing: Annotated[float, Gt(0)] = 1.0

    def fit(self, data: TrainingData, context: FitContext) -> FitResult:
        """Counts pairs of neighbours, then weighs."""
        votes, unit = data.annotations.label_distribution(), data.items.unit
        neighbours = np.zeros(max(data.n_items - 1, 0), dtype=bool) if unit is None else np.diff(unit) == 0
        before, after = np.flatnonzero(neighbours), np.flatnonzero(neighbours) + 1
        follows = normalised_rows(votes[before].T @ votes[after] + self.smoothing)
        weighed = votes.copy()
        weighed[after] *= votes[before] @ follows
        weighed[before] *= votes[after] @ follows.T
        probs = normalised_rows(weighed)

        def label_probs(item: ItemCodes, _: AnnotatorCodes) -> RowProbs:
            return probs[item]

        return FitResult(item_probs=probs, label_probs=label_probs)


MODEL = ModelInfo(
    name="tag-vote",
    title="Tag vote: the votes for a token, weighed by its neighbours in the sentence",
    model=TagVote,
    predicts_labels=True,
    source="example",
    deterministic=True,
)
