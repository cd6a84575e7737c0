"""MACE: an answer is either the true class or spam, which its annotator draws from a distribution of their own.

Each annotator has a probability of spamming; an answer that is not spam is right. An annotator's wrong answers estimate
their spam distribution, and labels that an annotator often spams count for less. Variational Bayes shrinks annotators
with few answers to the prior.

Hovy et al. (2013), "Learning whom to trust with MACE", NAACL.

    theta_j    probability that annotator j spams, Beta                     spamming_prior + expected counts
    xi_j       what j answers when spamming, Dirichlet                      label_prior + expected counts
    T_i        class of item i, uniform prior                               posterior
    S_ij       whether answer (i, j) is spam; 0 with probability knowing    if the label is the class

Deviations: it begins at the shares of votes, which decides the result, instead of the best of ten random starts. The
objective is the whole variational bound, priors included, which never falls; the authors' program reports the
likelihood at the geometric means. Annotators without answers have the pooled matrix.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
import scipy.sparse as sp
from annotated_types import Ge, Gt
from jaxtyping import Float64, Int, Int32
from scipy.special import digamma, gammaln

from crowdsweep.arrays import Confusion, Confusions, ItemProbs, normalised_rows
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import PerReplica, StackedCrowds, column_counts, em_results, normalised, soft_vote, stack
from crowdsweep.models._steps import Stepped, keeping, run_steps
from crowdsweep.models.aggregate._rows import by_code
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo

PerColumn = Float64[np.ndarray, " columns"]
PerAnnotator = Float64[np.ndarray, " annotators"]


@final
@dataclass(frozen=True, kw_only=True)
class Mace:
    """Hyper-parameters of MACE.

    Attributes:
        spamming_prior: pseudo-answers of each annotator that are spam, and as many that are not.
        label_prior: pseudo-answers for each label in each annotator's spam.
        iterations: limit of EM steps.
        tolerance: stop once the objective rises by less than this share of itself.
    """

    spamming_prior: Annotated[float, Gt(0)] = 0.5
    label_prior: Annotated[float, Gt(0)] = 10.0
    iterations: Annotated[int, Ge(1)] = 100
    tolerance: Annotated[float, Ge(0)] = 1e-8

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        crowds = stack([part.annotations for part in data])
        even = crowds.n_classes / (crowds.n_classes + 1.0)  # half of all answers are spam, of all labels alike
        stepped = run_steps(
            State(posterior=soft_vote(crowds), knowing=np.full(len(crowds.column_label), even)),
            lambda state: self._step(crowds, state),
            keeping(crowds, posterior="items", knowing="columns"),
            iterations=self.iterations,
            tolerance=self.tolerance,
            reports=[context.report for context in contexts],
        )
        return self._results(crowds, stepped)

    def _step(self, crowds: StackedCrowds, state: "State") -> tuple["State", PerReplica]:
        """M-step: expected spam and the rest; E-step: the posterior with these at their geometric means."""
        knows, spam = _expected(crowds, state)
        known, spammed = crowds.annotator_sums(knows), crowds.annotator_sums(spam)
        log_spams, log_knows = digamma(spammed + self.spamming_prior), digamma(known + self.spamming_prior)
        both = digamma(known + spammed + 2 * self.spamming_prior)
        log_label = digamma(spam + self.label_prior)
        log_label -= digamma(spammed + crowds.n_classes * self.label_prior)[crowds.column_annotator]
        log_wrong = (log_spams - both)[crowds.column_annotator] + log_label
        log_known = (log_knows - both)[crowds.column_annotator]
        log_right = np.logaddexp(log_wrong, log_known)
        # An answer is as probable under each class that it does not name: its log_wrong counts for all classes, and at
        # its own label the difference is added.
        chosen = sp.csr_array(
            (log_right - log_wrong, crowds.column_label, np.arange(len(log_right) + 1)),
            shape=(len(log_right), crowds.n_classes),
        )
        log_joint = (crowds.answers @ chosen).toarray() + (crowds.answers @ log_wrong)[:, None]
        posterior, log_evidence = normalised(log_joint - np.log(crowds.n_classes))
        # The divergence of each annotator's posterior from the priors.
        divergence = known * (log_knows - both) + spammed * (log_spams - both)
        divergence += gammaln(known + spammed + 2 * self.spamming_prior) - gammaln(2 * self.spamming_prior)
        divergence += 2 * gammaln(self.spamming_prior)
        divergence -= gammaln(known + self.spamming_prior) + gammaln(spammed + self.spamming_prior)
        total_prior = crowds.n_classes * self.label_prior
        divergence += gammaln(spammed + total_prior) - gammaln(total_prior)
        divergence += crowds.annotator_sums(
            spam * log_label + gammaln(self.label_prior) - gammaln(spam + self.label_prior)
        )
        objective = crowds.replica_sums(log_evidence) - crowds.replica_sums_of_annotators(divergence)
        return State(posterior=posterior, knowing=np.exp(log_known - log_right)), objective

    def _results(self, crowds: StackedCrowds, stepped: Stepped["State"]) -> list[FitResult]:
        """Annotators answer as their posterior means say."""
        _, spam = _expected(crowds, stepped.state)
        answers, spammed = crowds.answers_per_annotator, crowds.annotator_sums(spam)
        spamming = (spammed + self.spamming_prior) / (answers + 2 * self.spamming_prior)
        annotators: list[Spammers] = []
        for replica in range(crowds.n_replicas):
            mine = crowds.annotators_of(replica)
            columns = crowds.columns_of(replica)
            labels = sp.csr_array(
                (
                    spam[columns],
                    crowds.column_label[columns],
                    crowds.annotator_column_pointers[mine.start : mine.stop + 1] - columns.start,
                ),
                shape=(mine.stop - mine.start, crowds.n_classes),
            )
            annotators.append(
                Spammers(
                    spamming=spamming[mine],
                    labels=labels,
                    label_prior=self.label_prior,
                    answers=answers[mine],
                    code=crowds.annotator_code[mine],
                    n_annotators=crowds.declared_annotators[replica],
                )
            )
        extras = [
            {"annotator_spamming": by_code(crowds, replica, own.spamming, idle=own.crowd()[0])}
            for replica, own in enumerate(annotators)
        ]
        return em_results(crowds, stepped.state.posterior, stepped, annotators, extras)


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """The state of EM: the posterior, and for each column how probably an answer is known, not spam, if right."""

    posterior: ItemProbs
    knowing: PerColumn


def _expected(crowds: StackedCrowds, state: State) -> tuple[PerColumn, PerColumn]:
    """Returns how many answers of each column are known, and how many are spam."""
    counts = column_counts(crowds, state.posterior)
    knows = counts[np.arange(len(counts)), crowds.column_label] * state.knowing
    return knows, np.maximum(crowds.answers_per_column - knows, 0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Spammers:
    """An `AnnotatorModel`: the class, but for a share of answers that are spam.

    Attributes:
        spamming: share of spam of each annotator who answered anything.
        labels: sparse counts of the labels of their spam.
        label_prior: pseudo-answers for each label in it.
        answers: of each of them.
        code: theirs, ascending.
        n_annotators: declared.
    """

    spamming: PerAnnotator
    labels: sp.csr_array
    label_prior: float
    answers: PerAnnotator
    code: Int32[np.ndarray, " annotators"]
    n_annotators: int

    def crowd(self) -> tuple[float, Float64[np.ndarray, " classes"]]:
        """Returns the share of spam among all answers, and what the spam is: half, and anything, without answers."""
        n_classes = self.labels.shape[1]
        if not len(self.code):
            return 0.5, np.full(n_classes, 1.0 / n_classes)
        spam = self.answers * self.spamming / self.answers.sum()
        each = spam / (np.asarray(self.labels.sum(axis=1)) + n_classes * self.label_prior)
        return float(spam.sum()), normalised_rows(self.labels.T @ each + self.label_prior * each.sum())

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> Confusions:
        """Returns the matrices of these annotators; those without an answer answer as all together do."""
        share, labels = self.crowd()
        spamming, spam = np.full(len(annotators), share), np.tile(labels, (len(annotators), 1))
        where = np.flatnonzero(np.isin(annotators, self.code))
        known = np.searchsorted(self.code, annotators[where])
        spamming[where] = self.spamming[known]
        spam[where] = normalised_rows(self.labels[known].toarray() + self.label_prior)
        identity = np.eye(self.labels.shape[1])
        return (1.0 - spamming)[:, None, None] * identity + (spamming[:, None] * spam)[:, None, :]

    def global_confusion(self) -> Confusion | None:
        return None


MODEL = ModelInfo(
    name="mace",
    title="MACE: annotators who know or spam, by variational Bayes",
    model=Mace,
    steps="iterations",
    predicts_labels=True,
    source="Hovy et al. 2013, section 2",
    supports=frozenset({"votes", "soft_answers"}),
    space={"spamming_prior": {"values": [0.1, 0.5, 1]}, "label_prior": {"values": [0.1, 1, 10]}},
    cost=lambda shape, params: 6.0 * params["iterations"] * shape.n_annotations * shape.n_classes,
    deterministic=True,
    monotone_objective=True,
)
