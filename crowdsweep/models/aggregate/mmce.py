"""MMCE: an answer's distribution is the softmax of its annotator's confusion scores plus its item's.

Among the distributions of answers that match the observed counts of each annotator and of each item, minimax
conditional entropy takes the one of maximum entropy, which is a softmax of one matrix for the annotator plus one for
the item. EM alternates between the posterior of the items and the matrices, which an L2 penalty (`regularisation`)
shrinks towards zero; the result depends strongly on it.

Zhou, Basu, Mao and Platt (2012), NIPS; Zhou, Liu, Platt, Meek and Shah (2015), "Regularized minimax conditional
entropy for crowdsourcing".

    sigma_j    confusions of annotator j [true, observed]                 of_annotators
    tau_i      confusions of item i [true, observed]                      of_items
    q_i        posterior, under a uniform prior of the classes            posterior
    alpha      penalty of sigma: regularisation × K²                      annotator_penalty
    beta       penalty of tau: alpha × answers per annotator / answers per item

Deviations: the M-step updates each annotator's and each item's matrix separately, by a Newton step with the bound of
Böhning (1992) on the Hessian of a softmax, where the authors run L-BFGS: no line search is needed, the objective never
falls, and data sets can be fitted side by side. Annotators without answers have the mean of the others' probabilities,
weighted by how often each met a class. The reported confusion matrix of an annotator is for an item whose own matrix is
zero.

With many classes and few labels per item it can be far below the vote (21 points on music-genre); held-out
log-likelihood shows it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Ge, Gt
from jaxtyping import Float64, Int
from scipy.special import log_softmax

from crowdsweep.arrays import (
    AnnotatorCodes,
    Confusion,
    Confusions,
    ItemCodes,
    ItemProbs,
    RowProbs,
    add_rows,
    floored_log,
    ratio,
)
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import PerReplica, StackedCrowds, chunks, normalised, soft_vote, stack
from crowdsweep.models._steps import Stepped, keeping, run_steps
from crowdsweep.models.aggregate._rows import Rows
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo

Matrices = Float64[np.ndarray, "_ true observed"]
Penalties = Float64[np.ndarray, " _"]
Met = Float64[np.ndarray, "_ classes"]

_SWEEPS = 5


@final
@dataclass(frozen=True, kw_only=True)
class Mmce:
    """Hyper-parameters of MMCE.

    Attributes:
        regularisation: gamma, how much the matrices are held near zero; times the square of the number of classes. The
            default is that of surveys; of 0.25 to 4 it predicts held-out answers best on six of seven public datasets
            (bluebirds: 0.5, by 0.0015 nats), also where the classes are many and gold would have a larger one.
        iterations: limit of EM steps.
        tolerance: stop once the objective rises by less than this share of itself.
    """

    regularisation: Annotated[float, Gt(0)] = 0.25
    iterations: Annotated[int, Ge(1)] = 100
    tolerance: Annotated[float, Ge(0)] = 1e-6

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        crowds = stack([part.annotations for part in data])
        rows, size = Rows.of(crowds), (crowds.n_classes, crowds.n_classes)
        stepped = run_steps(
            State(
                posterior=soft_vote(crowds),
                of_annotators=np.zeros((crowds.n_annotators, *size)),
                of_items=np.zeros((crowds.n_items, *size)),
            ),
            lambda state: self._step(crowds, rows, state),
            keeping(crowds, posterior="items", of_annotators="annotators", of_items="items"),
            iterations=self.iterations,
            tolerance=self.tolerance,
            reports=[context.report for context in contexts],
        )
        met = _met(rows, stepped.state.posterior, rows.annotator, crowds.n_annotators)
        return [_result(crowds, stepped, met, replica) for replica in range(crowds.n_replicas)]

    def _step(self, crowds: StackedCrowds, rows: Rows, state: "State") -> tuple["State", PerReplica]:
        """M-step: the annotators' matrices given the items', and the other way round, a few times; E-step."""
        posterior, sigma, tau = state.posterior, state.of_annotators.copy(), state.of_items.copy()
        alpha, beta = self._penalties(crowds)
        by_annotator = _met(rows, posterior, rows.annotator, crowds.n_annotators)
        by_item = _met(rows, posterior, rows.item, crowds.n_items)
        # The Hessian of a softmax is at most half the identity (Böhning), so a step divided by half the answers met
        # plus the penalty goes to the maximum of a quadratic below the objective, and cannot overshoot.
        for _ in range(_SWEEPS):
            slope = _slope(rows, posterior, sigma, tau, rows.annotator, crowds.n_annotators)
            sigma += (slope - alpha[:, None, None] * sigma) / (0.5 * by_annotator + alpha[:, None])[:, :, None]
            slope = _slope(rows, posterior, sigma, tau, rows.item, crowds.n_items)
            tau += (slope - beta[:, None, None] * tau) / (0.5 * by_item + beta[:, None])[:, :, None]
        log_joint = np.full((crowds.n_items, crowds.n_classes), -np.log(crowds.n_classes))
        for part, log_probs in _log_probs(rows, sigma, tau):
            chosen = np.take_along_axis(log_probs, rows.label[part, None, None].astype(np.int64), axis=2)[:, :, 0]
            add_rows(log_joint, rows.item[part], rows.weight[part, None] * chosen)
        updated, log_evidence = normalised(log_joint)
        log_evidence -= 0.5 * beta * (tau**2).sum(axis=(1, 2))
        log_prior = -0.5 * alpha * (sigma**2).sum(axis=(1, 2))
        objective = crowds.replica_sums(log_evidence) + crowds.replica_sums_of_annotators(log_prior)
        return State(posterior=updated, of_annotators=sigma, of_items=tau), objective

    def _penalties(self, crowds: StackedCrowds) -> tuple[Penalties, Penalties]:
        """Returns the penalty of each annotator and of each item."""
        alpha = self.regularisation * crowds.n_classes**2
        answered = crowds.replica_sums(crowds.answered)
        active = crowds.replica_sums_of_annotators(np.ones(crowds.n_annotators))
        return np.full(crowds.n_annotators, alpha), crowds.spread(alpha * ratio(answered, active, at_zero=1.0))


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """The state of EM: the posterior, and the matrix of each flat annotator and of each flat item."""

    posterior: ItemProbs
    of_annotators: Matrices
    of_items: Matrices


def _log_probs(rows: Rows, sigma: Matrices, tau: Matrices) -> Iterator[tuple[slice, Matrices]]:
    """Yields log p(label | true class) for parts of the rows."""
    for part in chunks(len(rows.item), rows.n_classes**2):
        yield part, log_softmax(sigma[rows.annotator[part]] + tau[rows.item[part]], axis=2)


def _slope(
    rows: Rows, posterior: ItemProbs, sigma: Matrices, tau: Matrices, unit: Int[np.ndarray, " rows"], n_units: int
) -> Matrices:
    """Returns for each unit the observed answers less the expected ones, for each true class. O(A K²)."""
    sums = np.zeros((n_units, rows.n_classes, rows.n_classes))
    for part, log_probs in _log_probs(rows, sigma, tau):
        believed = posterior[rows.item[part]] * rows.weight[part, None]
        residual = -np.exp(log_probs)
        residual[np.arange(len(residual)), :, rows.label[part]] += 1.0
        add_rows(sums, unit[part], believed[:, :, None] * residual)
    return sums


def _met(rows: Rows, posterior: ItemProbs, unit: Int[np.ndarray, " rows"], n_units: int) -> Met:
    """Returns how many answers of each unit are to items of each class."""
    sums = np.zeros((n_units, rows.n_classes))
    add_rows(sums, unit, rows.weight[:, None] * posterior[rows.item])
    return sums


def _result(crowds: StackedCrowds, stepped: Stepped[State], met: Met, replica: int) -> FitResult:
    items, mine, end = crowds.items_of(replica), crowds.annotators_of(replica), stepped.state
    posterior, of_items = end.posterior[items], end.of_items[items]
    annotators = _annotators(crowds, end.of_annotators[mine], met[mine], replica)

    def label_probs(item: ItemCodes, annotator: AnnotatorCodes) -> RowProbs:
        found = np.empty((len(item), crowds.n_classes))
        for part in chunks(len(item), crowds.n_classes**2):
            probs = np.exp(log_softmax(annotators.logits(annotator[part]) + of_items[item[part]], axis=2))
            found[part] = np.einsum("ak,akl->al", posterior[item[part]], probs)
        return found

    return stepped.result(
        replica,
        item_probs=posterior,
        annotators=annotators,
        label_probs=label_probs,
        extras={"item_matrices": of_items},
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class SoftmaxAnnotators:
    """An `AnnotatorModel` of matrices before their softmax, the last of which is that of annotators without answers."""

    matrices: Matrices
    place: Int[np.ndarray, " annotators"]

    @property
    def n_annotators(self) -> int:
        return len(self.place)

    def logits(self, annotators: Int[np.ndarray, " annotators"]) -> Matrices:
        """Returns the matrices of these annotators, whose rows' softmax are probabilities."""
        return self.matrices[self.place[annotators]]

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> Confusions:
        """Returns how these annotators answer items without confusions of their own."""
        return np.exp(log_softmax(self.logits(annotators), axis=2))

    def global_confusion(self) -> Confusion | None:
        return None


def _annotators(crowds: StackedCrowds, sigma: Matrices, met: Met, replica: int) -> SoftmaxAnnotators:
    of_crowd = (np.exp(log_softmax(sigma, axis=2)) * met[:, :, None]).sum(axis=0)
    mean = ratio(of_crowd, met.sum(axis=0)[:, None], at_zero=1.0 / crowds.n_classes)
    place = np.full(crowds.declared_annotators[replica], len(sigma))
    place[crowds.annotator_code[crowds.annotators_of(replica)]] = np.arange(len(sigma))
    # Logarithms of probabilities are scores whose softmax is these probabilities.
    return SoftmaxAnnotators(matrices=np.concatenate([sigma, floored_log(mean)[None]]), place=place)


MODEL = ModelInfo(
    name="mmce",
    title="MMCE: minimax conditional entropy, confusions of annotators and of items; can be far below the vote",
    model=Mmce,
    steps="iterations",
    predicts_labels=True,
    source="Zhou et al. 2015, regularised, categorical",
    supports=frozenset({"votes", "soft_answers"}),
    space={"regularisation": {"values": [0.25, 0.5, 1, 2, 4]}},
    cost=lambda shape, params: 30.0 * params["iterations"] * shape.n_annotations * shape.n_classes**2,
    deterministic=True,
    monotone_objective=True,
)
