"""GLAD: annotators differ in ability, items in difficulty, and both decide whether an answer is right.

An annotator answers an item rightly with probability sigmoid(ability × easiness), else with each other class equally
often. So an answer has weight ability × easiness, and disagreement can come from a difficult item. EM alternates
between the posterior of the items and the abilities and easinesses, which have normal priors.

Whitehill et al. (2009), "Whose vote should count more", NIPS.

    alpha_j    ability of annotator j, N(1, 1); negative is adversarial       ability
    beta_i     inverse difficulty of item i, log beta_i ~ N(1, 1)             exp(log_easiness)
    p(z_i)     posterior, under a uniform prior over the classes              posterior

Deviations: the M-step updates all abilities given the easinesses, then all easinesses given the abilities, each by a
Newton step that is halved until the expected log-posterior does not fall; the paper follows the gradient of both
together. Each annotator and each item has a step size of its own, so that data sets can be fitted side by side, and
the objective never falls. A wrong answer has probability (1 - sigmoid) / (K - 1); log(K - 1) is constant and has no
gradient, where some implementations have one. An annotator without answers has the average response probability of
the others, each of them counting as often as they answered.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, final

import numpy as np
from annotated_types import Ge
from jaxtyping import Bool, Float64, Int
from scipy.special import expit, log_expit

from crowdsweep.arrays import AnnotatorCodes, Confusion, Confusions, ItemCodes, ItemProbs, RowProbs
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import PerReplica, StackedCrowds, normalised, stack
from crowdsweep.models._steps import Stepped, keeping, run_steps
from crowdsweep.models.aggregate._rows import PerRow, PerUnit, Rows, by_code, damped_newton_step
from crowdsweep.models.contract import FitContext, FitResult, LabelProbs, ModelInfo

_SWEEPS = 3
_PRIOR_MEAN = 1.0
_QUANTILES = 64  # so many typical items, and typical annotators, stand for all where an average runs over them

Abilities = Float64[np.ndarray, " annotators"]
Easiness = Float64[np.ndarray, " items"]


@final
@dataclass(frozen=True, kw_only=True)
class Glad:
    """Hyper-parameters of GLAD.

    Attributes:
        ability_spread: standard deviation of the prior of the abilities; its mean is 1.
        easiness_spread: standard deviation of the prior of the logarithms of the easinesses; its mean is 1.
        iterations: limit of EM steps.
        tolerance: stop once the objective rises by less than this share of itself.
    """

    ability_spread: Annotated[float, Ge(0.01)] = 1.0
    easiness_spread: Annotated[float, Ge(0.01)] = 1.0
    iterations: Annotated[int, Ge(1)] = 100
    tolerance: Annotated[float, Ge(0)] = 1e-6

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        crowds = stack([part.annotations for part in data])
        rows = Rows.of(crowds)
        begun = State(
            posterior=np.zeros((crowds.n_items, crowds.n_classes)),
            ability=np.full(crowds.n_annotators, _PRIOR_MEAN),
            log_easiness=np.full(crowds.n_items, _PRIOR_MEAN),
        )
        stepped = run_steps(
            self._expected(crowds, rows, begun)[0],
            lambda state: self._expected(crowds, rows, self._maximised(rows, state)),
            keeping(crowds, posterior="items", ability="annotators", log_easiness="items"),
            iterations=self.iterations,
            tolerance=self.tolerance,
            reports=[context.report for context in contexts],
        )
        return [self._result(crowds, stepped, replica, part) for replica, part in enumerate(data)]

    def _expected(self, crowds: StackedCrowds, rows: Rows, state: "State") -> tuple["State", PerReplica]:
        """E-step: log p(answers | class) is the same for all classes but for ability × easiness of who chose it."""
        log_right, log_wrong = log_likelihood(
            state.ability[rows.annotator] * np.exp(state.log_easiness)[rows.item], crowds.n_classes
        )
        log_joint = rows.by_label(rows.weight * (log_right - log_wrong)) - np.log(crowds.n_classes)
        log_joint += rows.by_item(rows.weight * log_wrong)[:, None]
        posterior, log_evidence = normalised(log_joint)
        log_evidence += log_prior(state.log_easiness, self.easiness_spread)
        objective = crowds.replica_sums(log_evidence)
        objective += crowds.replica_sums_of_annotators(log_prior(state.ability, self.ability_spread))
        return replace(state, posterior=posterior), objective

    def _maximised(self, rows: Rows, state: "State") -> "State":
        """M-step: abilities given easinesses, and easinesses given abilities, a few times."""
        right = state.posterior[rows.item, rows.label]
        ability, log_easiness = state.ability, state.log_easiness
        for _ in range(_SWEEPS):
            ability = self._of_ability(rows, right, ability, np.exp(log_easiness)[rows.item])
            log_easiness = self._of_easiness(rows, right, ability[rows.annotator], log_easiness)
        return replace(state, ability=ability, log_easiness=log_easiness)

    def _of_ability(self, rows: Rows, right: PerRow, ability: PerUnit, easiness: PerRow) -> PerUnit:
        precision = self.ability_spread**-2
        sums = rows.by_annotator

        def value(at: PerUnit) -> PerUnit:
            likelihood = sums(rows.weight * expected_log_likelihood(right, at[rows.annotator] * easiness))
            return likelihood + log_prior(at, self.ability_spread)

        probs = expit(ability[rows.annotator] * easiness)
        slope = sums(rows.weight * easiness * (right - probs)) - precision * (ability - _PRIOR_MEAN)
        curvature = sums(rows.weight * easiness**2 * probs * (1.0 - probs)) + precision
        return damped_newton_step(value, ability, slope / curvature)

    def _of_easiness(self, rows: Rows, right: PerRow, ability: PerRow, log_easiness: PerUnit) -> PerUnit:
        precision = self.easiness_spread**-2
        sums = rows.by_item

        def value(at: PerUnit) -> PerUnit:
            likelihood = sums(rows.weight * expected_log_likelihood(right, ability * np.exp(at)[rows.item]))
            return likelihood + log_prior(at, self.easiness_spread)

        product = ability * np.exp(log_easiness)[rows.item]
        probs = expit(product)
        slope = sums(rows.weight * product * (right - probs)) - precision * (log_easiness - _PRIOR_MEAN)
        # The expected curvature, which is positive; the observed one need not be.
        curvature = sums(rows.weight * product**2 * probs * (1.0 - probs)) + precision
        # The easiness is the exponential of this parameter: a step of more than e times is not trusted to the
        # quadratic.
        return damped_newton_step(value, log_easiness, np.clip(slope / curvature, -1.0, 1.0))

    def _result(self, crowds: StackedCrowds, stepped: Stepped["State"], replica: int, data: TrainingData) -> FitResult:
        end, items = stepped.state, crowds.items_of(replica)
        easiness = np.exp(end.log_easiness[items])
        ability = by_code(crowds, replica, end.ability[crowds.annotators_of(replica)], idle=_PRIOR_MEAN)
        annotators = abilities_of(data.annotations, easiness, ability)
        return stepped.result(
            replica,
            item_probs=end.posterior[items],
            annotators=annotators,
            label_probs=label_probs_of_abilities(end.posterior[items], annotators, easiness),
            extras={"ability": ability, "easiness": easiness},
        )


def log_likelihood(product: PerRow, n_classes: int) -> tuple[PerRow, PerRow]:
    """Returns log p(answer | class) of each answer, given ability × easiness: if it is right, and if it is wrong."""
    return log_expit(product), log_expit(-product) - np.log(max(n_classes - 1, 1))


def expected_log_likelihood(right: PerRow, product: PerRow) -> PerRow:
    """Returns the mean of `log_likelihood` over the posterior probability that an answer is right, without its term in
    the number of classes, which no parameter moves."""
    return log_expit(-product) + right * product  # as log sigmoid(p) - log sigmoid(-p) = p


def log_prior(value: PerUnit, deviation: float) -> PerUnit:
    """Returns the log density of N(1, deviation²), up to a constant."""
    return -0.5 * ((value - _PRIOR_MEAN) / deviation) ** 2


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """The state of EM: the posterior, the ability of each flat annotator, the log easiness of each flat item."""

    posterior: ItemProbs
    ability: Abilities
    log_easiness: Easiness


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AbilityModel:
    """Annotators by ability alone; a matrix is the average over items of typical easiness.

    Attributes:
        ability: alpha.
        easiness: beta', quantiles over the training items.
        crowd: quantiles of the abilities, each counting as often as it answered: for an annotator without answers.
    """

    ability: Abilities
    easiness: Float64[np.ndarray, " typical"]
    crowd: Float64[np.ndarray, " typical"]
    answered: Bool[np.ndarray, " annotators"]
    n_classes: int

    @property
    def n_annotators(self) -> int:
        return len(self.ability)

    def right(
        self, annotators: Int[np.ndarray, " rows"], easiness: Float64[np.ndarray, "#rows items"]
    ) -> Float64[np.ndarray, "rows items"]:
        """Returns the probability that each of these annotators answers each of these items rightly."""
        probs = expit(self.ability[annotators][:, None] * easiness)
        unknown = ~self.answered[annotators]
        if unknown.any():
            theirs = easiness if len(easiness) == 1 else easiness[unknown]
            probs[unknown] = expit(self.crowd * theirs[:, :, None]).mean(axis=2)
        return probs

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> Confusions:
        right = self.right(annotators, self.easiness[None]).mean(axis=1)
        wrong = (1.0 - right) / max(self.n_classes - 1, 1)
        identity = np.eye(self.n_classes)
        return right[:, None, None] * identity + wrong[:, None, None] * (1.0 - identity)

    def global_confusion(self) -> Confusion | None:
        return None


def abilities_of(annotations: Annotations, easiness: Easiness, ability: Abilities) -> AbilityModel:
    """Returns the annotators of these abilities.

    Args:
        easiness: of the items that are typical.
        ability: of every declared annotator.
    """
    middles = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    given = ability[annotations.annotator] if len(annotations) else ability
    return AbilityModel(
        ability=ability,
        easiness=np.quantile(easiness, middles),
        crowd=np.quantile(given, middles),
        answered=annotations.labels_per_annotator > 0,
        n_classes=annotations.n_classes,
    )


def label_probs_of_abilities(posterior: ItemProbs, annotators: AbilityModel, easiness: Easiness) -> LabelProbs:
    """Returns the function rows (item, annotator) -> posterior × right + (1 - posterior) × wrong."""

    def label_probs(item: ItemCodes, annotator: AnnotatorCodes) -> RowProbs:
        right = annotators.right(annotator, easiness[item][:, None])
        wrong = (1.0 - right) / max(annotators.n_classes - 1, 1)
        return posterior[item] * right + (1.0 - posterior[item]) * wrong

    return label_probs


MODEL = ModelInfo(
    name="glad",
    title="GLAD: abilities of annotators and difficulties of items",
    model=Glad,
    steps="iterations",
    predicts_labels=True,
    source="Whitehill et al. 2009, equations 1 to 3",
    supports=frozenset({"votes", "soft_answers"}),
    space={"ability_spread": {"values": [0.5, 1, 2]}, "easiness_spread": {"values": [0.5, 1, 2]}},
    cost=lambda shape, params: 10.0 * params["iterations"] * shape.n_annotations,
    deterministic=True,
    monotone_objective=True,
)
