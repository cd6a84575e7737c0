"""PC: each annotator has a classifier of their own, whose weights have a normal prior around those of the crowd's.

An annotator's answers follow a softmax regression on the item's features. The prior of its weights is normal around the
crowd's weights, whose own prior is normal around zero. The log-posterior is concave, and all weights are estimated
jointly at its maximum; the crowd's classifier labels the items.

Kajino, Tsuboi and Kashima (2012), "A convex formulation for learning from crowds", AAAI ("personal classifiers").

    w_0      weights of the crowd, N(0, I / eta)                  crowd; crowd_penalty
    w_t      weights of annotator t, N(w_0, I / lambda)           w_0 + X_t' own_t; personal_penalty
    y_it     softmax(x_i w_t)                                     label_probs

Deviations: softmax in place of the paper's two classes; where the paper alternates between w_0 and a Newton step for
each w_t, a step here moves all of them along one bound (`_personal_classifiers`), so that T × D numbers are never
stored; features are standardised, and the intercept has the priors of the other weights. An annotator's answers depend
on the item, not on a true class, so that there are no confusion matrices; `distance` is |w_t - w_0|, by which the paper
compares annotators. Data sets are fitted one after another, as each has Hessians of its own.
"""

from dataclasses import dataclass
from typing import final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo
from crowdsweep.models.joint._personal_classifiers import PersonalClassifiers, personal_cost
from crowdsweep.models.joint._softmax_regression import StandardisedFeatures


@final
@dataclass(frozen=True, kw_only=True)
class PC:
    """Hyper-parameters of personal classifiers on standardised features."""

    personal: PersonalClassifiers = PersonalClassifiers()

    def fit(self, data: TrainingData, context: FitContext) -> FitResult:
        return self.personal.fit(data, context, StandardisedFeatures.of(data.items))


MODEL = ModelInfo(
    name="pc",
    title="PC: a classifier for each annotator, around the crowd's",
    model=PC,
    steps="iterations",
    predicts_labels=True,
    source="Kajino, Tsuboi and Kashima 2012, AAAI",
    needs=frozenset({"features"}),
    supports=frozenset({"votes", "soft_answers"}),
    space={
        "crowd_penalty": {"values": [0.1, 1, 10, 100]},
        "personal_penalty": {"values": [1, 10, 100, 1000]},
    },
    cost=lambda shape, params: personal_cost(shape, params, shape.n_features + 1),
    deterministic=True,
    monotone_objective=True,
)
