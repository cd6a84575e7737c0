"""Zero-based skill: a weighted vote and annotators' skills, updated in turn with a decreasing step size.

Every skill starts at chance. In turn, votes are counted with the skills as weights, and each skill moves part of the
way to the share of its annotator's answers that agree with the winners. It is Wawa, iterated.

Toloka's "zero-based skill", as in crowd-kit's ZeroBasedSkill.

    skill_t    begins at 1 / K + 1e-5                                          skill
    z_i        class with the largest sum of skills                            winners(votes)
    skill_t   += rate * (share of t's answers that are z_i - skill_t)          rate: skill_rate, halved every 20 steps

Deviations: where classes tie, an answer agrees with each of them by its share; it stops once no skill moves. The
reported objective is the share of all answers that agree with the winners, which need not rise. Annotators' accuracies
are estimated as in `wawa.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Ge, Gt, Le
from jaxtyping import Int64

from crowdsweep.arrays import ratio
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import PerReplica, StackedCrowds, stack, winners
from crowdsweep.models._steps import keeping, run_steps
from crowdsweep.models.aggregate._coins import accuracies, right_answers
from crowdsweep.models.aggregate._weighted_votes import Weights, voted_results, weighted_votes
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo

_HALVED_EVERY = 20


@final
@dataclass(frozen=True, kw_only=True)
class ZeroBasedSkill:
    """Hyper-parameters of zero-based skill.

    Attributes:
        skill_rate: share of the way that a skill moves in a step, halved every 20 steps.
        smoothing: pseudo-counts of right answers, and of each kind of wrong ones, in an annotator's accuracy; the item
            probabilities do not depend on it.
        iterations: limit of steps.
        tolerance: stop once no skill moves by more.
    """

    skill_rate: Annotated[float, Gt(0), Le(1)] = 1.0
    smoothing: Annotated[float, Ge(0)] = 0.01
    iterations: Annotated[int, Ge(1)] = 100
    tolerance: Annotated[float, Ge(0)] = 1e-8

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Moves the skills of all data sets side by side; each stops by itself."""
        crowds = stack([part.annotations for part in data])

        def step(state: State) -> tuple[State, PerReplica]:
            number = state.number + 1
            # Halvings by the exponent alone are exact, and replicas at different steps are halved together.
            rate = np.ldexp(self.skill_rate, -(number // _HALVED_EVERY))[crowds.annotator_replica]
            right = right_answers(crowds, winners(weighted_votes(crowds, state.skill)))
            agreement = accuracies(crowds, right, smoothing=0.0)
            moved = State(skill=state.skill + rate * (agreement - state.skill), number=number)
            return moved, self._agreeing(crowds, agreement)

        stepped = run_steps(
            State(
                skill=np.full(crowds.n_annotators, 1.0 / crowds.n_classes + 1e-5),
                number=np.zeros(crowds.n_replicas, np.int64),
            ),
            step,
            keeping(crowds, skill="annotators", number="replicas"),
            iterations=self.iterations,
            tolerance=self.tolerance,
            reports=[context.report for context in contexts],
            change=lambda before, after: crowds.replica_maxima(
                np.abs(after.skill - before.skill), crowds.annotator_replica
            ),
        )
        return voted_results(crowds, stepped.state.skill, stepped, self.smoothing)

    def _agreeing(self, crowds: StackedCrowds, agreement: Weights) -> PerReplica:
        given, sums = crowds.answers_per_annotator, crowds.replica_sums_of_annotators
        return ratio(sums(given * agreement), sums(given), at_zero=0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """The skill of each annotator, and how many steps each replica has made."""

    skill: Weights
    number: Int64[np.ndarray, " replicas"]


MODEL = ModelInfo(
    name="zero-based-skill",
    title="Zero-based skill: weighted votes and skills in turn",
    model=ZeroBasedSkill,
    steps="iterations",
    predicts_labels=True,
    source="Toloka's zero-based skill; crowd-kit's ZeroBasedSkill",
    supports=frozenset({"votes", "soft_answers"}),
    space={"skill_rate": {"values": [0.1, 0.3, 1]}},
    cost=lambda shape, params: 1.0 * params["iterations"] * shape.n_annotations,
    deterministic=True,
)
