"""M-MSR: skills by completing the rank-one matrix of pairwise agreement, robust against some adversaries.

If wrong answers are uniform, the agreement of two annotators, rescaled so that chance is 0, is the product of their
skills: a matrix of rank one, observed where two annotators share items. It is completed by alternating between its two
factors, each the mean of ratios of which an annotator's largest and smallest are left out ("mean subsequence reduced").
Answers are then weighted by the log odds that their annotator's skill implies.

Ma and Olshevsky (2020), "Adversarial crowdsourcing through robust rank-one matrix completion", NeurIPS.

    C_ij       K / (K - 1) × agreement - 1 / (K - 1)                       agreement
    u, v       |C| is about u v'                                           left, right
    F          floor(least number of co-annotators / 2) - 1, at least 0          trimmed
    s_i        skill, u scaled as v, with a sign                           skill
    p_i        s (K - 1) / K + 1 / K, probability of a right answer        annotator_accuracy

Deviations: u and v start at one half, the mean of the authors' random start, and are at least 1 / sqrt(items), which
crowd-kit puts for a zero. A skill has the sign of the annotator's agreement with all who share items, weighted by their
skills and by shared items, with all signs + at first; the authors take an eigenvector's. Items get the posterior that
the probabilities imply. An annotator who shares no item has the mean accuracy of the others. Memory grows with the
pairs of annotators who share an item, hence with the square of an item's labels: data with more than 20 million are
refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, final

import numpy as np
import scipy.sparse as sp
from annotated_types import Ge
from jaxtyping import Float64, Int64

from crowdsweep.arrays import floored_log, ratio
from crowdsweep.data.dataset import TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._em import PerReplica, StackedCrowds, em_results, normalised, one_hot, stack
from crowdsweep.models._steps import kept_rows, run_steps
from crowdsweep.models.aggregate._coins import Accuracies, coins_of, error
from crowdsweep.models.aggregate._weighted_votes import weighted_votes
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo

PerPair = Float64[np.ndarray, " pairs"]
PerAnnotator = Float64[np.ndarray, " annotators"]
Factors = Float64[np.ndarray, "annotators two"]

_MOST_PAIRS = 20_000_000
_SIGN_ROUNDS = 20


@final
@dataclass(frozen=True, kw_only=True)
class MMsr:
    """Hyper-parameters of M-MSR.

    Attributes:
        iterations: limit of rounds.
        tolerance: stop once no skill changes by more.
    """

    iterations: Annotated[int, Ge(1)] = 1000
    tolerance: Annotated[float, Ge(0)] = 1e-8

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Completes the matrices of all data sets side by side; each stops by itself."""
        crowds = stack([part.annotations for part in data])
        pairs = AnnotatorPairs.of(crowds)

        def step(factors: Factors) -> tuple[Factors, PerReplica]:
            right = pairs.trimmed_means(factors[:, 0], factors[:, 1])
            left = pairs.trimmed_means(right, factors[:, 0])
            return np.stack([left, right], axis=1), pairs.fit_of(left, right)

        stepped = run_steps(
            np.full((crowds.n_annotators, 2), 0.5),
            step,
            partial(kept_rows, crowds, "annotators"),
            iterations=self.iterations,
            tolerance=self.tolerance,
            reports=[context.report for context in contexts],
            change=pairs.largest_change,
        )
        accuracy, together = self._accuracies(crowds, pairs, stepped.state)
        weights = floored_log(accuracy) - floored_log(error(accuracy, crowds.n_classes))
        posterior, _ = normalised(weighted_votes(crowds, weights))
        annotators = coins_of(crowds, accuracy, together)
        extras = [{"annotator_accuracy": own.accuracy} for own in annotators]
        return em_results(crowds, posterior, stepped, annotators, extras)

    def _accuracies(
        self, crowds: StackedCrowds, pairs: "AnnotatorPairs", factors: Factors
    ) -> tuple[Accuracies, PerReplica]:
        """Returns each annotator's probability of a right answer, and that of all answers together."""
        n_classes, sums = crowds.n_classes, crowds.replica_sums_of_annotators
        square = sums(factors**2)
        # u / s and v × s have the same product and equal norms at s = sqrt(|u| / |v|): the fourth root of the squares'
        # ratio.
        scale = np.sqrt(np.sqrt(ratio(square[:, 0], square[:, 1], at_zero=1.0)))
        size = ratio(factors[:, 0], scale[crowds.annotator_replica], at_zero=0.0)
        skill = pairs.signs(size) * size
        least = pairs.noise - 1.0 / max(n_classes - 1, 1)
        skill = np.maximum(np.minimum(skill, 1.0 - pairs.noise), least)
        accuracy = (skill * (n_classes - 1) + 1.0) / n_classes
        given = crowds.answers_per_annotator * pairs.met
        # Where no two annotators share an item, every annotator keeps the initial skill.
        together = ratio(sums(given * accuracy), sums(given), at_zero=(0.5 * (n_classes - 1) + 1.0) / n_classes)
        return np.where(pairs.met, accuracy, together[crowds.annotator_replica]), together


@dataclass(frozen=True, kw_only=True, eq=False)
class AnnotatorPairs:
    """The pairs of annotators who share an item, both ways, ordered by the first of them.

    Attributes:
        agreement: of each pair, 0 being chance and 1 always.
        shared: how many items, weighted.
        pointers: where the pairs of each first annotator begin, and the last end.
        trimmed: how many of an annotator's largest ratios are left out at most, and of the smallest.
        noise: 1 / sqrt(items with answers) of each annotator's replica.
    """

    first: Int64[np.ndarray, " pairs"]
    second: Int64[np.ndarray, " pairs"]
    agreement: PerPair
    shared: PerPair
    pointers: Int64[np.ndarray, " ends"]
    trimmed: Int64[np.ndarray, " annotators"]
    noise: PerAnnotator
    crowds: StackedCrowds

    @classmethod
    def of(cls, crowds: StackedCrowds) -> "AnnotatorPairs":
        """Counts how often each pair agrees.

        Raises:
            FitFailed: too many pairs share an item.
        """
        n_classes = crowds.n_classes
        items = np.maximum(crowds.replica_sums(crowds.answered), 1.0)
        noise = (1.0 / np.sqrt(items))[crowds.annotator_replica]
        onto = one_hot(crowds.column_annotator, crowds.n_annotators)
        answered = crowds.answers @ onto
        size = int((np.diff(answered.indptr).astype(np.float64) ** 2).sum())
        if size > _MOST_PAIRS:
            raise FitFailed(
                f"m-msr: expected at most {_MOST_PAIRS:,} pairs of annotators who answered the same item, counted for"
                f" each item, got {size:,}; thin the annotations, or take one-coin, which grows with their number alone"
            )
        shared = (answered.T @ answered).tocoo()
        agreeing = sp.csr_array(shared.shape)
        for label in range(n_classes):
            chosen = crowds.answers @ (onto.multiply((crowds.column_label == label)[:, None]).tocsr())
            agreeing = agreeing + chosen.T @ chosen
        first, second = (code.astype(np.int64) for code in shared.coords)
        both = first != second
        first, second, weight = first[both], second[both], shared.data[both]
        order = np.lexsort((second, first))
        first, second, weight = first[order], second[order], weight[order]
        found = agreeing.tocoo()
        one, other = (code.astype(np.int64) for code in found.coords)
        apart = one != other
        # A pair as one number, in which the pairs are sorted: a binary search finds each agreeing pair among all of
        # them.
        place = np.searchsorted(first * len(noise) + second, (one * len(noise) + other)[apart])
        rate = np.zeros(len(first))
        rate[place] = found.data[apart] / weight[place]
        degrees = np.bincount(first, minlength=crowds.n_annotators)
        least = np.full(crowds.n_replicas, np.iinfo(np.int64).max)
        np.minimum.at(least, crowds.annotator_replica, degrees)
        return cls(
            first=first,
            second=second,
            agreement=(rate * n_classes - 1.0) / max(n_classes - 1, 1),
            shared=weight,
            pointers=np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(degrees)]),
            trimmed=np.maximum(least // 2 - 1, 0)[crowds.annotator_replica],
            noise=noise,
            crowds=crowds,
        )

    @property
    def met(self) -> np.ndarray:
        """Whether each annotator shares an item with another one."""
        return np.diff(self.pointers) > 0

    def trimmed_means(self, others: PerAnnotator, own: PerAnnotator) -> PerAnnotator:
        """Returns each annotator's trimmed mean, over the pairs, of |agreement| / the other annotator's factor.

        Args:
            others: the factor of the other annotators.
            own: what each annotator had: only ratios above are left out as too large, only ones below as too small.
        """
        values = np.abs(self.agreement) / others[self.second]
        # Pairs already ascend by their first annotator, so `first` still fits the values after each annotator's are
        # sorted.
        values = values[np.lexsort((values, self.first))]
        n_annotators, sizes = len(own), np.diff(self.pointers)
        below = np.bincount(self.first, weights=values < own[self.first], minlength=n_annotators)
        above = np.bincount(self.first, weights=values > own[self.first], minlength=n_annotators)
        rank = np.arange(len(values)) - self.pointers[self.first]
        low, high = np.minimum(below, self.trimmed), sizes - np.minimum(above, self.trimmed)
        kept = (rank >= low[self.first]) & (rank < high[self.first])
        count = np.bincount(self.first, weights=kept, minlength=n_annotators)
        mean = ratio(np.bincount(self.first, weights=values * kept, minlength=n_annotators), count, at_zero=own)
        return np.maximum(mean, self.noise)

    def fit_of(self, left: PerAnnotator, right: PerAnnotator) -> PerReplica:
        """Returns minus the mean distance of |agreement| from the product of the factors."""
        distance = np.abs(np.abs(self.agreement) - left[self.first] * right[self.second])
        replica = self.crowds.annotator_replica[self.first]
        size = self.crowds.n_replicas
        total = np.bincount(replica, weights=distance, minlength=size)
        return -ratio(total, np.bincount(replica, minlength=size), at_zero=0.0)

    def largest_change(self, before: Factors, after: Factors) -> PerReplica:
        """Returns how far a factor of each replica has moved at most."""
        return self.crowds.replica_maxima(np.abs(after - before).max(axis=1), self.crowds.annotator_replica)

    def signs(self, size: PerAnnotator) -> PerAnnotator:
        """Returns the sign of each annotator's agreement with the others, whose signs are found alongside."""
        sign = np.ones(len(size))
        for _ in range(_SIGN_ROUNDS):
            theirs = self.agreement * self.shared * size[self.second] * sign[self.second]
            sign = np.where(np.bincount(self.first, weights=theirs, minlength=len(size)) < 0, -1.0, 1.0)
        return sign


MODEL = ModelInfo(
    name="m-msr",
    title="M-MSR: skills by robust completion of the annotators' agreement",
    model=MMsr,
    steps="iterations",
    predicts_labels=True,
    source="Ma and Olshevsky 2020, NeurIPS, algorithm 1",
    supports=frozenset({"votes", "soft_answers"}),
    deterministic=True,
)
