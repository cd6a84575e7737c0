"""A classifier and annotators, trained together by gradient on the observed answers: what end-to-end models share.

A model brings rows of numbers for its annotators (`Rows`: a matrix each, an ability each) and says how likely each
answer is, given the classifier and the annotator's row. The loss is the mean over *observed* answers of minus the log
of that, so that neither missing answers nor idle annotators enter anywhere; a step touches only the rows of annotators
who answered an item of its batch.

**Training items** are labelled by the classifier and their own answers: f(x_i) times, for each answer, the probability
of it given each true class. Unseen items are labelled by the classifier alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int, Int64

from crowdsweep.arrays import Confusion, Confusions, ItemProbs, Objective, floored_log, normalised_rows
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._annotator_order import annotator_order
from crowdsweep.models._answers import ActiveAnswers, BatchAnswers, StackedAnswers
from crowdsweep.models._batches import Batch, StackedRows
from crowdsweep.models._cost import MATRIX_PRODUCT, network_weights, passes_over
from crowdsweep.models._em import chunks, label_probs_of, normalised
from crowdsweep.models._stacked import weights_of
from crowdsweep.models.classifier import Classifier, NetworkPredictor
from crowdsweep.models.contract import AnnotatorModel, DataShape, FitContext, FitResult
from crowdsweep.models.networks.initial import Initialiser
from crowdsweep.models.networks.named import Named
from crowdsweep.models.networks.replicas import Adam, Parameter, count_parameters, replica_chunks
from crowdsweep.models.networks.tables import Table
from crowdsweep.models.networks.tensors import PerReplica
from crowdsweep.models.networks.values import Values
from crowdsweep.models.trainer import ReplicaTrainer, Schedule, Snapshot, train

LogProbs = Float[torch.Tensor, "replicas classes batch"]
PerAnswer = Float[torch.Tensor, " answers"]

_MOST_NUMBERS = 1 << 28  # of all annotators' rows: each is held four times (two moments, a copy), 4 GB in all


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What a model learns of each annotator.

    Attributes:
        width: numbers of one annotator.
        start: how they begin.
    """

    width: int
    start: Initialiser


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """What a model may look at to say how likely the answers of a step are.

    Attributes:
        values: parameters and, by `annotators`, rows of annotators.
        inputs: what networks read of the batch's items.
        batch: the step; dropout masks.
        log_f: log class probabilities of the classifier.
        seen: the answers.
    """

    values: Values
    inputs: Float[torch.Tensor, "replicas batch _"]
    batch: Batch
    log_f: LogProbs
    seen: BatchAnswers

    def annotators(self, name: str) -> tuple[Float[torch.Tensor, "distinct width"], Int64[torch.Tensor, " answers"]]:
        """Returns the rows of the annotators who gave these answers, and which of them gave each; once a name."""
        return self.values.distinct_rows(name, self.seen.annotator, self.seen.place)

    def classes(self) -> Float[torch.Tensor, "answers classes"]:
        """Returns log f of the item of each answer."""
        return self.log_f.transpose(1, 2).flatten(0, 1).index_select(0, self.seen.item)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Learnt:
    """One replica, trained.

    Attributes:
        data: what it was trained on.
        answers: of the annotators who answered anything, to whom the rows of `snapshot.tables` belong in this order.
        predictor: the classifier.
        snapshot: all parameters.
        objective: minus the loss of each epoch.
        converged: whether the loss had come to rest.
        device: where it was trained.
    """

    data: TrainingData
    answers: ActiveAnswers
    predictor: NetworkPredictor
    snapshot: Snapshot
    objective: Objective
    converged: bool
    device: str

    def rows(self, name: str) -> Float[np.ndarray, "active width"]:
        """Returns what was learnt of each annotator who answered anything."""
        return self.snapshot.tables[name][: len(self.answers.code)]

    def logits(self, network: Named) -> Float64[np.ndarray, "outputs items"]:
        """Returns what another network than the classifier gives for the training items."""
        own = NetworkPredictor(network=network, values=self.snapshot.values, device=self.device)
        return own.logits(self.data.items)


@final
@dataclass(frozen=True, kw_only=True)
class EndToEnd:
    """How models of answers are trained.

    Attributes:
        classifier: settings; its learning rate and batch size are those of everything.
        epochs: passes over the items.
        annotators: what is learnt of each annotator, by name.
        log_probs: returns the log-probability of each answer of a step.
        networks: besides the classifier.
        parameters: besides those of networks.
    """

    classifier: Classifier
    epochs: int
    annotators: Mapping[str, Rows]
    log_probs: Callable[[Step], PerAnswer]
    networks: Sequence[Named] = ()
    parameters: Sequence[Parameter] = ()

    def fit(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[Learnt]:
        """Trains on all data sets, as many at a time as the machine's cache holds.

        Raises:
            FitFailed: a data set has no answer, or its annotators are too many for what is to be learnt of each.
        """
        network = Named(name="classifier", network=self.classifier.build(data[0]))
        networks = [network, *self.networks]
        own = [parameter for one in networks for parameter in one.parameters()]
        width = sum(rows.width for rows in self.annotators.values())
        answers = [ActiveAnswers.of(part.annotations) for part in data]
        active = max(len(part.code) for part in answers)
        _check_sizes(active, width)
        floats = count_parameters([*own, *self.parameters]) + active * width
        results: list[Learnt] = []
        for part in replica_chunks(len(data), floats, contexts[0].device):
            results += self._fit_together(networks, data[part], answers[part], contexts[part])
        return results

    def _fit_together(
        self,
        networks: Sequence[Named],
        data: Sequence[TrainingData],
        answers: Sequence[ActiveAnswers],
        contexts: Sequence[FitContext],
    ) -> list[Learnt]:
        rows = [np.flatnonzero(part.annotations.labels_per_item > 0) for part in data]
        if not all(map(len, rows)):
            raise FitFailed("expected at least one annotation to train on, got none")
        device, classifier = contexts[0].device, networks[0]
        orders = [
            annotator_order(part.rows, context.seeds.numpy("order"))
            for part, context in zip(answers, contexts, strict=True)
        ]
        trainer = ReplicaTrainer(
            [*(parameter for one in networks for parameter in one.parameters()), *self.parameters],
            rows=rows,
            seeds=[context.seeds for context in contexts],
            optimiser=Adam(learning_rate=self.classifier.learning_rate),
            batch_size=self.classifier.batch_size,
            device=device,
            dropout=[dropout for one in networks for dropout in one.dropouts],
            tables={
                name: Table(width=own.width, start=own.start, orders=orders) for name, own in self.annotators.items()
            },
            row_size=max(one.row_size for one in networks),
            least_steps=self.classifier.unstopped().least_steps(self.epochs),
        )
        inputs = StackedRows.of([classifier.inputs(part.items) for part in data], device)
        stacked = StackedAnswers([part.rows for part in answers], device)

        def loss(values: Values, batch: Batch) -> tuple[PerReplica, PerReplica]:
            features, seen = batch.take(inputs), stacked.of(batch)
            log_f = torch.log_softmax(classifier.logits(values, features, batch), dim=1)
            step = Step(values=values, inputs=features, batch=batch, log_f=log_f, seen=seen)
            return -seen.summed(self.log_probs(step)), seen.weights

        def predictor(_: int, kept: Snapshot) -> NetworkPredictor:
            return NetworkPredictor(network=classifier, values=kept.values, device=device)

        reports = [context.report for context in contexts]
        courses = train(
            trainer, loss, Schedule(epochs=self.epochs), reports, keep=trainer.snapshot, predictor=predictor
        )
        return [
            Learnt(
                data=part,
                answers=own,
                predictor=predictor(0, course.end),
                snapshot=course.end,
                objective=-np.array(course.losses),
                converged=course.converged,
                device=device,
            )
            for part, own, course in zip(data, answers, courses, strict=True)
        ]


def _check_sizes(active: int, width: int) -> None:
    if active * width > _MOST_NUMBERS:
        raise FitFailed(
            f"expected at most {_MOST_NUMBERS:,} numbers for all annotators together, got {active:,} annotators × "
            f"{width:,} ({16e-9 * active * width:.0f} GB): use a model that learns fewer of each, such as speelfc-d, "
            "or none, such as cmm"
        )


def posterior_of(
    answers: Annotations,
    prior: ItemProbs,
    log_likelihood: Callable[[slice], Float64[np.ndarray, "rows classes"]],
    row_size: int,
) -> ItemProbs:
    """Returns each item's class given what is known of it before, and its answers.

    Args:
        answers: their weights multiply log-likelihoods.
        prior: class probabilities of each item.
        log_likelihood: of some of the answers (a slice of rows), for each true class.
        row_size: numbers that it holds for one answer.
    """
    log_joint, weights, classes = floored_log(prior), weights_of(answers), np.arange(prior.shape[1])
    for part in chunks(len(answers), row_size):
        first, last = int(answers.item[part.start]), int(answers.item[part.stop - 1])  # rows are sorted by item
        cells = (answers.item[part].astype(np.int64) - first)[:, None] * len(classes) + classes
        votes = log_likelihood(part) * weights[part][:, None]
        here = log_joint[first : last + 1]
        here += np.bincount(cells.ravel(), votes.ravel(), minlength=here.size).reshape(here.shape)
    return normalised(log_joint)[0]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class LearntMatrices:
    """An `AnnotatorModel` that makes each annotator's matrix from what was learnt of the annotator.

    Attributes:
        matrices: returns the matrices of these annotators who answered anything, by their place in `code`.
        code: of these annotators, ascending.
        crowd: how an annotator answers of whom nothing is known: as all do, on average over their answers.
        n_annotators: declared.
    """

    matrices: Callable[[Int[np.ndarray, " some"]], Confusions]
    code: Int[np.ndarray, " active"]
    crowd: Confusion
    n_annotators: int

    def known(self, annotators: Int[np.ndarray, " rows"]) -> tuple[Bool[np.ndarray, " rows"], Int[np.ndarray, " rows"]]:
        """Returns whether each of these answered anything, and the place of those who did."""
        place = np.minimum(np.searchsorted(self.code, annotators), len(self.code) - 1)
        return self.code[place] == annotators, place

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> Confusions:
        known, place = self.known(annotators)
        found = np.tile(self.crowd, (len(annotators), 1, 1))
        found[known] = self.matrices(place[known])
        return found

    def global_confusion(self) -> Confusion | None:
        return None


def crowd_of(
    answers: Annotations, posterior: ItemProbs, matrices: Callable[[Int[np.ndarray, " some"]], Confusions]
) -> Confusion:
    """Returns the annotators' average matrix, each row of it weighted by how often each of them met the class."""
    met, weights, n_classes = (
        np.zeros((answers.n_annotators, posterior.shape[1])),
        weights_of(answers),
        posterior.shape[1],
    )
    for true, column in enumerate(posterior.T):
        met[:, true] = np.bincount(answers.annotator, column[answers.item] * weights, answers.n_annotators)
    total = np.zeros((n_classes, n_classes))
    for part in chunks(answers.n_annotators, n_classes * n_classes):
        everybody = np.arange(part.start, part.stop)
        total += np.einsum("tk,tkl->kl", met[part], matrices(everybody))
    return normalised_rows(total)


def result_of_matrices(
    learnt: Learnt, matrices: Callable[[Int[np.ndarray, " some"]], Confusions], **extras: Float64[np.ndarray, "..."]
) -> FitResult:
    """Returns the result of a model whose annotators have a confusion matrix each.

    Args:
        learnt: a replica.
        matrices: of annotators who answered anything, by their place.
        extras: of the result.
    """
    rows, prior = learnt.answers.rows, learnt.predictor.predict(learnt.data.items, "classifier")

    def log_likelihood(part: slice) -> Float64[np.ndarray, "rows classes"]:
        label = rows.label[part].astype(np.int64)
        found = np.take_along_axis(matrices(rows.annotator[part]), label[:, None, None], axis=2)
        return floored_log(found[:, :, 0])

    posterior = posterior_of(rows, prior, log_likelihood, rows.n_classes**2)
    annotators = LearntMatrices(
        matrices=matrices,
        code=learnt.answers.code,
        crowd=crowd_of(rows, posterior, matrices),
        n_annotators=learnt.answers.declared,
    )
    return fit_result(learnt, posterior, annotators, label_probs_of(posterior, annotators), extras)


def fit_result(
    learnt: Learnt,
    posterior: ItemProbs,
    annotators: AnnotatorModel,
    label_probs: Any,
    extras: Mapping[str, Float64[np.ndarray, "..."]],
) -> FitResult:
    """Puts a result together."""
    return FitResult(
        item_probs=posterior,
        annotators=annotators,
        label_probs=label_probs,
        predictor=learnt.predictor,
        objective=learnt.objective,
        converged=learnt.converged,
        iterations=len(learnt.objective),
        extras=extras,
    )


def end_to_end_cost(shape: DataShape, params: Mapping[str, Any], per_answer: float) -> float:
    """Returns the cost of all epochs: three products for each weight, and so many numbers for each answer."""
    products = 3.0 * MATRIX_PRODUCT * shape.n_items * network_weights(shape, params)
    return passes_over(shape.n_items, params, params["epochs"], stops=False) * (
        products + per_answer * shape.n_annotations
    )
