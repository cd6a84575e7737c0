"""Wawa: a vote weighted by how often each annotator agrees with the majority ("worker agreement with aggregate").

Count the votes, compute for each annotator the share of their answers that agree with the majority, and count again
with these shares as weights. Two passes over the answers, no model: the cheapest way to give guessers less weight.

Appen's agreement score, as in crowd-kit's Wawa.

    z_i        majority vote                                  winners(soft_vote)
    skill_t    share of t's answers that are z_i              skill
    p_i        normalised sums of skill                       item_probs

Deviations: where classes tie, an answer agrees with each of them by its share (crowd-kit takes the first). Wawa has
no model of annotators; here they have one accuracy each, estimated with `smoothing` from the weighted vote of the other
annotators on each item.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Ge

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import soft_vote, stack, winners
from crowdsweep.models._steps import Stepped
from crowdsweep.models.aggregate._coins import accuracies, right_answers
from crowdsweep.models.aggregate._weighted_votes import voted_results
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo


@final
@dataclass(frozen=True, kw_only=True)
class Wawa:
    """Hyper-parameters of Wawa.

    Attributes:
        smoothing: pseudo-counts of right answers, and of each kind of wrong ones, in an annotator's accuracy; the item
            probabilities do not depend on it.
    """

    smoothing: Annotated[float, Ge(0)] = 0.01

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:  # noqa: ARG002 (contract)
        crowds = stack([part.annotations for part in data])
        skill = accuracies(crowds, right_answers(crowds, winners(soft_vote(crowds))), smoothing=0.0)
        counted = Stepped(state=skill, objectives=[np.empty(0)] * len(data), converged=[True] * len(data))
        return voted_results(crowds, skill, counted, self.smoothing)


MODEL = ModelInfo(
    name="wawa",
    title="Wawa: votes weighted by their annotators' agreement with the majority",
    model=Wawa,
    predicts_labels=True,
    source="Appen's worker agreement with aggregate; crowd-kit's Wawa",
    supports=frozenset({"votes", "soft_answers"}),
    cost=lambda shape, _: 8.0 * shape.n_annotations,
    deterministic=True,
)
