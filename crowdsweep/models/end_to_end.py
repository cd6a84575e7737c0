"""A classifier and annotators, trained together by gradient on the observed labels: what end-to-end models share.

A model brings rows of numbers for its annotators (`Rows`: a matrix each, an ability each) and states once, in torch,
how likely a label is given each true class (`EndToEnd.log_likelihood`). That statement serves

- **training**: the loss is the mean over *observed* labels of - log sum_k f_k p(y | k), f being the classifier, so that
  neither missing labels nor idle annotators enter anywhere; a step touches only the rows of annotators who labelled an
  item of its batch;
- **the posterior** of training items: f_k times p(y | k) of each of an item's labels (unseen items have f alone);
- **predictions** of labels, and confusion matrices: an annotator's is the mean over the items that the annotator
  labelled, and one without labels has the pooled matrix of the others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int, Int64

from crowdsweep.arrays import (
    LOG_FLOOR,
    AnnotatorCodes,
    Confusion,
    Confusions,
    ItemCodes,
    ItemProbs,
    Objective,
    RowProbs,
    floored_log,
    normalised_rows,
)
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._annotator_order import annotator_order
from crowdsweep.models._answers import ActiveAnswers, BatchAnswers, StackedAnswers
from crowdsweep.models._batches import Batch, StackedRows
from crowdsweep.models._cost import MATRIX_PRODUCT, network_weights, passes_over
from crowdsweep.models._em import chunks, normalised
from crowdsweep.models._stacked import weights_of
from crowdsweep.models.classifier import Classifier, NetworkPredictor
from crowdsweep.models.contract import DataShape, FitContext, FitResult
from crowdsweep.models.networks.initial import Initialiser
from crowdsweep.models.networks.named import Named
from crowdsweep.models.networks.replicas import Adam, Parameter, count_parameters, numbers_held, replica_chunks
from crowdsweep.models.networks.tables import Table
from crowdsweep.models.networks.tensors import PerReplica, take_rows
from crowdsweep.models.networks.values import Values
from crowdsweep.models.trainer import ReplicaTrainer, Schedule, Snapshot, train

PerLabel = Float[torch.Tensor, " labels"]
PerClass = Float[torch.Tensor, "labels classes"]
PerRow = Float[torch.Tensor, "labels width"]
Distinct = Float[torch.Tensor, "distinct width"]
Which = Int64[torch.Tensor, " labels"]
Shared = Float[torch.Tensor, "replicas ..."]

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


@runtime_checkable
class Labels(Protocol):
    """Labels whose likelihood is asked for: those of a training step, or any of a trained model."""

    @property
    def label(self) -> Which:
        """y of each."""
        ...

    def annotators(self, name: str) -> tuple[Distinct, Which]:
        """Returns the rows (`Rows`) of the annotators who gave the labels, and which of them gave each."""
        ...

    def outputs(self, network: Named) -> PerRow:
        """Returns what another network than the classifier gives for the item of each label."""
        ...

    def parameter(self, name: str) -> tuple[Shared, Which]:
        """Returns a parameter of every replica, and which replica each label is of."""
        ...


LogLikelihood = Callable[[Labels], PerClass]


def mixture(log_f: PerClass, log_likelihood: PerClass) -> PerLabel:
    """Returns log sum_k f_k p(y | k) of each label."""
    return torch.logsumexp(log_f + log_likelihood, dim=1)


@final
@dataclass(frozen=True, kw_only=True)
class EndToEnd:
    """How models of labels are trained.

    Attributes:
        classifier: settings; its learning rate and batch size are those of everything.
        epochs: passes over the items.
        annotators: what is learnt of each annotator, by name.
        log_likelihood: returns log p(y | k) of each label for each true class.
        gained: returns what training pushes up, given the labels and log f of their items; None: `mixture`.
        networks: besides the classifier; where there are any, p(y | k) may depend on the item.
        parameters: besides those of networks.
    """

    classifier: Classifier
    epochs: int
    annotators: Mapping[str, Rows]
    log_likelihood: LogLikelihood
    gained: Callable[[Labels, PerClass], PerLabel] | None = None
    networks: Sequence[Named] = ()
    parameters: Sequence[Parameter] = ()

    def fit(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list["Trained"]:
        """Trains on all data sets, as many at a time as the machine's cache holds.

        Raises:
            FitFailed: a data set has no label, or its annotators are too many for what is to be learnt of each.
        """
        network = Named(name="classifier", network=self.classifier.build(data[0]))
        networks = [network, *self.networks]
        own = [parameter for one in networks for parameter in one.parameters()]
        width = sum(rows.width for rows in self.annotators.values())
        answers = [ActiveAnswers.of(part.annotations) for part in data]
        active = max(len(part.code) for part in answers)
        _check_sizes(active, width)
        floats = count_parameters([*own, *self.parameters]) + active * width
        trained: list[Trained] = []
        for part in replica_chunks(len(data), floats, contexts[0].device, numbers_held(data)):
            trained += self._fit_together(networks, data[part], answers[part], contexts[part])
        return trained

    def _fit_together(
        self,
        networks: Sequence[Named],
        data: Sequence[TrainingData],
        answers: Sequence[ActiveAnswers],
        contexts: Sequence[FitContext],
    ) -> list["Trained"]:
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
            read, seen = batch.take(inputs), stacked.of(batch)
            log_f = torch.log_softmax(classifier.logits(values, read, batch), dim=1)
            log_f = log_f.transpose(1, 2).flatten(0, 1).index_select(0, seen.item)
            return -seen.summed(self._gained(StepLabels(values, read, batch, seen), log_f)), seen.weights

        def predictor(_: int, kept: Snapshot) -> NetworkPredictor:
            return NetworkPredictor(network=classifier, values=kept.values, device=device)

        reports = [context.report for context in contexts]
        histories = train(
            trainer, loss, Schedule(epochs=self.epochs), reports, keep=trainer.snapshot, predictor=predictor
        )
        return [
            Trained(
                model=self,
                data=part,
                answers=own,
                predictor=predictor(0, history.end),
                snapshot=history.end,
                objective=-np.array(history.losses),
                converged=history.converged,
                device=device,
            )
            for part, own, history in zip(data, answers, histories, strict=True)
        ]

    def _gained(self, labels: Labels, log_f: PerClass) -> PerLabel:
        return mixture(log_f, self.log_likelihood(labels)) if self.gained is None else self.gained(labels, log_f)


@final
class StepLabels:
    """The labels of a training step; see `Labels`."""

    def __init__(
        self, values: Values, inputs: Float[torch.Tensor, "replicas batch _"], batch: Batch, seen: BatchAnswers
    ) -> None:
        """Takes the parameters, what networks read of the batch's items, the step, and its labels."""
        self._values, self._inputs, self._batch, self._seen = values, inputs, batch, seen
        self._taken: dict[str, tuple[Distinct, Which]] = {}

    @property
    def label(self) -> Which:
        return self._seen.label

    def annotators(self, name: str) -> tuple[Distinct, Which]:
        if name not in self._taken:  # a table's rows can be gathered once per step
            self._taken[name] = self._values.distinct_rows(name, self._seen.annotator, self._seen.place)
        return self._taken[name]

    def outputs(self, network: Named) -> PerRow:
        logits = network.logits(self._values, self._inputs, self._batch)
        return take_rows(logits.transpose(1, 2).flatten(0, 1), self._seen.item)

    def parameter(self, name: str) -> tuple[Shared, Which]:
        return self._values[name], self._seen.place


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedLabels:
    """Labels of a trained model, in double precision; see `Labels`.

    Attributes:
        trained: the model.
        item: of each label, a training item.
        place: of each label's annotator among those who labelled anything.
        label: y of each.
    """

    trained: "Trained"
    item: Int[np.ndarray, " labels"]
    place: Int[np.ndarray, " labels"]
    label: Which

    def annotators(self, name: str) -> tuple[Distinct, Which]:
        distinct, which = np.unique(self.place, return_inverse=True)
        return self.trained.tensor(self.trained.rows(name)[distinct]), self.trained.tensor(which)

    def outputs(self, network: Named) -> PerRow:
        return self.trained.tensor(self.trained.outputs[network.name][self.item])

    def parameter(self, name: str) -> tuple[Shared, Which]:
        return self.trained.tensor(self.trained.snapshot.values[name][None]), torch.zeros_like(self.label)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """One trained replica.

    Attributes:
        model: what it is of.
        data: what it was trained on.
        answers: of the annotators who labelled anything, to whom the rows of `snapshot.tables` belong in this order.
        predictor: the classifier.
        snapshot: all parameters.
        objective: minus the loss of each epoch.
        converged: whether the loss had come to rest.
        device: where it was trained.
    """

    model: EndToEnd
    data: TrainingData
    answers: ActiveAnswers
    predictor: NetworkPredictor
    snapshot: Snapshot
    objective: Objective
    converged: bool
    device: str

    def rows(self, name: str) -> Float[np.ndarray, "active width"]:
        """Returns what was learnt of each annotator who labelled anything."""
        return self.snapshot.tables[name][: len(self.answers.code)]

    @cached_property
    def outputs(self) -> Mapping[str, Float64[np.ndarray, "items outputs"]]:
        """What networks besides the classifier give for the training items, by name."""
        return {
            network.name: NetworkPredictor(network=network, values=self.snapshot.values, device=self.device)
            .logits(self.data.items)
            .T
            for network in self.model.networks
        }

    def tensor(self, array: np.ndarray) -> torch.Tensor:
        """Returns an array on the device; real numbers in double precision."""
        wide = np.float64 if np.issubdtype(array.dtype, np.floating) else np.int64
        return torch.from_numpy(np.ascontiguousarray(array, wide)).to(self.device)

    def labels(
        self, item: Int[np.ndarray, " labels"], place: Int[np.ndarray, " labels"], label: Int[np.ndarray, " labels"]
    ) -> TrainedLabels:
        """Returns labels, to ask for their likelihood; `place` is their annotators' among those who labelled any."""
        return TrainedLabels(trained=self, item=item, place=place, label=self.tensor(label))

    @torch.no_grad()
    def log_likelihood(
        self, item: Int[np.ndarray, " labels"], place: Int[np.ndarray, " labels"], label: Int[np.ndarray, " labels"]
    ) -> Float64[np.ndarray, "labels classes"]:
        """Returns log p(y | k) of each label (see `labels`), not below the logarithm of LOG_FLOOR."""
        found = self.model.log_likelihood(self.labels(item, place, label))
        return np.maximum(found.cpu().numpy(), np.log(LOG_FLOOR))

    def confusions(
        self, item: Int[np.ndarray, " pairs"], place: Int[np.ndarray, " pairs"]
    ) -> Float64[np.ndarray, "pairs true label"]:
        """Returns how each of these annotators labels each of these items; rows sum to one."""
        n_classes = self.data.n_classes
        every = np.tile(np.arange(n_classes), len(item))
        found = self.log_likelihood(np.repeat(item, n_classes), np.repeat(place, n_classes), every)
        return np.exp(found).reshape(-1, n_classes, n_classes).transpose(0, 2, 1)

    def matrices(self, place: Int[np.ndarray, " annotators"]) -> Confusions:
        """Returns the matrix of each annotator: the mean over the items that the annotator labelled."""
        if not self.model.networks:  # every item has the same
            return self.confusions(np.zeros(len(place), np.int32), place)
        rows, weights = self.answers.rows, weights_of(self.answers.rows)
        members, which = np.unique(place, return_inverse=True)
        own = np.flatnonzero(np.isin(rows.annotator, members))
        member = np.searchsorted(members, rows.annotator[own])
        total = np.zeros((len(members), self.data.n_classes, self.data.n_classes))
        for part in chunks(len(own), self.data.n_classes**2):
            mine = own[part]
            found = self.confusions(rows.item[mine], rows.annotator[mine])
            np.add.at(total, member[part], weights[mine][:, None, None] * found)
        return (total / np.bincount(member, weights[own], len(members))[:, None, None])[which]

    def result(self, **extras: Float64[np.ndarray, "..."]) -> FitResult:
        """Returns the result, with further named arrays."""
        rows, n_classes = self.answers.rows, self.data.n_classes

        def log_likelihood(part: slice) -> Float64[np.ndarray, "rows classes"]:
            return self.log_likelihood(rows.item[part], rows.annotator[part], rows.label[part])

        prior = self.predictor.predict(self.data.items, "classifier")
        posterior = posterior_of(rows, prior, log_likelihood, n_classes**2)
        annotators = TrainedAnnotators(
            trained=self,
            crowd=pooled(rows, posterior, self.matrices),
            n_annotators=self.answers.declared,
        )

        def label_probs(item: ItemCodes, annotator: AnnotatorCodes) -> RowProbs:
            out = np.empty((len(item), n_classes))
            for part in chunks(len(item), n_classes**2):
                out[part] = np.einsum("ak,akl->al", posterior[item[part]], annotators.of(item[part], annotator[part]))
            return out

        return FitResult(
            item_probs=posterior,
            annotators=annotators,
            label_probs=label_probs,
            predictor=self.predictor,
            objective=self.objective,
            converged=self.converged,
            iterations=len(self.objective),
            extras=extras,
        )


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedAnnotators:
    """An `AnnotatorModel` that asks a trained model.

    Attributes:
        trained: the model.
        crowd: how an annotator answers of whom nothing is known: as all do, on average over their labels.
        n_annotators: declared.
    """

    trained: Trained
    crowd: Confusion
    n_annotators: int

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> Confusions:
        known, place = self._known(annotators)
        found = np.tile(self.crowd, (len(annotators), 1, 1))
        found[known] = self.trained.matrices(place[known])
        return found

    def global_confusion(self) -> Confusion | None:
        return None

    def of(self, item: Int[np.ndarray, " annotators"], annotators: Int[np.ndarray, " annotators"]) -> Confusions:
        """Returns how each of these annotators labels each of these items."""
        known, place = self._known(annotators)
        found = np.tile(self.crowd, (len(annotators), 1, 1))
        found[known] = self.trained.confusions(item[known], place[known])
        return found

    def _known(
        self, annotators: Int[np.ndarray, " rows"]
    ) -> tuple[Bool[np.ndarray, " rows"], Int[np.ndarray, " rows"]]:
        """Returns whether each of these labelled anything, and the place of those who did."""
        code = self.trained.answers.code
        place = np.minimum(np.searchsorted(code, annotators), len(code) - 1)
        return code[place] == annotators, place


def pooled(
    answers: Annotations, posterior: ItemProbs, matrices: Callable[[Int[np.ndarray, " some"]], Confusions]
) -> Confusion:
    """Returns the annotators' mean matrix, each row of it weighted by how often each of them met the class."""
    n_classes, weights = posterior.shape[1], weights_of(answers)
    met = np.zeros((answers.n_annotators, n_classes))
    for true, column in enumerate(posterior.T):
        met[:, true] = np.bincount(answers.annotator, column[answers.item] * weights, answers.n_annotators)
    total = np.zeros((n_classes, n_classes))
    for part in chunks(answers.n_annotators, n_classes * n_classes):
        everybody = np.arange(part.start, part.stop)
        total += np.einsum("tk,tkl->kl", met[part], matrices(everybody))
    return normalised_rows(total)


def posterior_of(
    answers: Annotations,
    prior: ItemProbs,
    log_likelihood: Callable[[slice], Float64[np.ndarray, "rows classes"]],
    row_size: int,
) -> ItemProbs:
    """Returns each item's class given what is known of it before, and its labels.

    Args:
        answers: their weights multiply log-likelihoods.
        prior: class probabilities of each item.
        log_likelihood: of some of the labels (a slice of rows), for each true class.
        row_size: numbers that it holds for one label.
    """
    log_joint, weights, classes = floored_log(prior), weights_of(answers), np.arange(prior.shape[1])
    for part in chunks(len(answers), row_size):
        first, last = int(answers.item[part.start]), int(answers.item[part.stop - 1])  # rows are sorted by item
        cells = (answers.item[part].astype(np.int64) - first)[:, None] * len(classes) + classes
        votes = log_likelihood(part) * weights[part][:, None]
        here = log_joint[first : last + 1]
        here += np.bincount(cells.ravel(), votes.ravel(), minlength=here.size).reshape(here.shape)
    return normalised(log_joint)[0]


def _check_sizes(active: int, width: int) -> None:
    if active * width > _MOST_NUMBERS:
        raise FitFailed(
            f"expected at most {_MOST_NUMBERS:,} numbers for all annotators together, got {active:,} annotators × "
            f"{width:,} ({16e-9 * active * width:.0f} GB): use a model that learns fewer of each, such as speelfc-d, "
            "or none, such as cmm"
        )


def end_to_end_cost(shape: DataShape, params: Mapping[str, Any], per_label: float) -> float:
    """Returns the cost of all epochs: three products for each weight, and so many numbers for each label."""
    products = 3.0 * MATRIX_PRODUCT * shape.n_items * network_weights(shape, params)
    return passes_over(shape.n_items, params, params["epochs"], stops=False) * (
        products + per_label * shape.n_annotations
    )
