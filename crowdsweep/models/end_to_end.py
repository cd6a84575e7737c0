"""A classifier and annotators, trained together by gradient on the observed labels: what end-to-end models share.

A model brings rows of numbers for its annotators (`Rows`: a matrix each, an ability each) and states once, in torch,
how likely a label is given each true class (`EndToEnd.log_likelihood`). That statement serves

- **training**: the loss is the mean over *observed* labels of - log sum_k f_k p(y | k), f being the classifier, so that
  neither missing labels nor idle annotators enter anywhere; a step touches only the rows of annotators who labelled an
  item of its batch;
- **the posterior** of training items: f_k times p(y | k) of each of an item's labels (unseen items have f alone);
- **predictions** of labels, and confusion matrices: an annotator's is the mean over the items that the annotator
  labelled, and one without labels has the pooled matrix of the others.

This file trains; posterior and predictions are in `end_to_end_fitted.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float

from crowdsweep.data.dataset import TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._annotator_order import annotator_order
from crowdsweep.models._answers import ActiveAnswers, BatchAnswers, StackedAnswers
from crowdsweep.models._batches import Batch, StackedRows
from crowdsweep.models._cost import MATRIX_PRODUCT, network_weights, passes_over
from crowdsweep.models.checkpoints import CheckpointPart
from crowdsweep.models.classifier import Classifier, NetworkPredictor
from crowdsweep.models.contract import DataShape, FitContext
from crowdsweep.models.end_to_end_fitted import Trained
from crowdsweep.models.label_likelihood import (
    Distinct,
    Labels,
    LogLikelihood,
    PerClass,
    PerLabel,
    PerRow,
    Shared,
    Which,
    mixture,
)
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.initial import Initialiser
from crowdsweep.models.networks.named import NamedNetwork
from crowdsweep.models.networks.replicas import Adam, Parameter, count_parameters, numbers_held, replica_chunks
from crowdsweep.models.networks.tables import Table
from crowdsweep.models.networks.tensors import PerReplica, take_rows
from crowdsweep.models.networks.values import Values
from crowdsweep.models.schedule import Schedule
from crowdsweep.models.train import train
from crowdsweep.models.trainer import ReplicaTrainer, Snapshot

_MOST_NUMBERS = 1 << 28  # of all annotators' rows: each is held four times (two moments, a copy), 4 GB in all


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The parameters that a model learns for each annotator.

    Attributes:
        width: numbers of one annotator.
    """

    width: int
    start: Initialiser


@final
@dataclass(frozen=True, kw_only=True)
class EndToEnd:
    """A model of labels that is trained end to end.

    Attributes:
        classifier: settings; its learning rate and batch size are those of everything.
        annotators: the parameters of each annotator, by name.
        log_likelihood: returns log p(y | k) of each label for each true class.
        gained: returns what training maximises, given the labels and log f of their items; None: `mixture`.
        networks: besides the classifier; where there are any, p(y | k) may depend on the item.
        parameters: besides those of networks.
    """

    classifier: Classifier
    epochs: int
    annotators: Mapping[str, Rows]
    log_likelihood: LogLikelihood
    gained: Callable[[Labels, PerClass], PerLabel] | None = None
    networks: Sequence[NamedNetwork] = ()
    parameters: Sequence[Parameter] = ()

    def fit(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[Trained]:
        """Trains on all data sets, as many at a time as the machine's cache holds.

        Raises:
            FitFailed: a data set has no label, or more annotators than parameters for each of them fit into memory.
        """
        network = NamedNetwork(name="classifier", network=self.classifier.build(data[0]))
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
        networks: Sequence[NamedNetwork],
        data: Sequence[TrainingData],
        answers: Sequence[ActiveAnswers],
        contexts: Sequence[FitContext],
    ) -> list[Trained]:
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
            labels = StepLabels(values, read, batch, seen)
            found = mixture(log_f, self.log_likelihood(labels)) if self.gained is None else self.gained(labels, log_f)
            return -seen.summed(found), seen.weights

        def predictor(_: int, kept: Snapshot) -> NetworkPredictor:
            return NetworkPredictor(network=classifier, values=kept.values, device=device)

        reports = [context.report for context in contexts]
        parts = [CheckpointPart.of(context.checkpoint, context.seeds) for context in contexts]
        histories = train(trainer, loss, Schedule(epochs=self.epochs), reports, predictor=predictor, parts=parts)
        return [
            Trained(
                likelihood=self.log_likelihood,
                networks=self.networks,
                data=part,
                answers=own,
                predictor=predictor(0, history.end),
                history=history,
                device=device,
            )
            for part, own, history in zip(data, answers, histories, strict=True)
        ]


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

    def outputs(self, network: NamedNetwork) -> PerRow:
        logits = network.logits(self._values, self._inputs, self._batch)
        return take_rows(logits.transpose(1, 2).flatten(0, 1), self._seen.item)

    def parameter(self, name: str) -> tuple[Shared, Which]:
        return self._values[name], self._seen.place


def _check_sizes(active: int, width: int) -> None:
    if active * width > _MOST_NUMBERS:
        raise FitFailed(
            f"expected at most {_MOST_NUMBERS:,} numbers for all annotators together, got {active:,} annotators × "
            f"{width:,} ({16e-9 * active * width:.0f} GB): use a model with fewer numbers for each, such as speelfc-d, "
            "or none, such as cmm"
        )


def end_to_end_cost(
    shape: DataShape, params: Mapping[str, Any], per_label: float, *, more_weights: int | float = 0.0
) -> float:
    """Returns the cost of all epochs: three products for each weight, and `per_label` multiply-adds for each label.

    Args:
        more_weights: of networks beside the classifier.
    """
    products = 3.0 * MATRIX_PRODUCT * shape.n_items * (network_weights(shape, params) + more_weights)
    return passes_over(shape.n_items, params, params["epochs"], stops=False) * (
        products + per_label * shape.n_annotations
    )
