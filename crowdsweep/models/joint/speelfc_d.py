"""SpeeLFC-D: annotators of one ability each, items of one difficulty each, and a classifier, learned together.

A classifier f gives an item's class. An annotator answers it correctly with probability sigmoid(ability × easiness),
else with any other class alike; easiness is itself a network of the item's features. All is trained by gradient on the
likelihood of the observed labels alone.

Chen et al. (2020), "Structured Probabilistic End-to-End Learning from Crowds", IJCAI, section on item difficulty.

    f(x)                                       class probabilities: network, hidden, dropout
    beta'_i = lambda1 + lambda2 sigmoid(f2(x))  easiness: difficulty_hidden; large is EASY, whatever its name
    alpha_t                                    ability, any sign: negative is adversarial
    s = sigmoid(alpha_t beta'_i)               probability of the right answer; (1 - s)/(K - 1) for each wrong one
    loss = - mean over observed labels of log sum_k f_k p(y | k)

Deviations: the loss is averaged over observed labels, not over items × annotators. All abilities start at the value
that makes `initial_correctness` of an item of middling easiness. Training items are labelled by the posterior given
their labels; the paper scores f alone, as we do on unseen items. An annotator without answers is taken for any of the
others, in proportion to the answers that they gave.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, final

import numpy as np
import torch
from annotated_types import Ge, Gt, Lt
from jaxtyping import Float
from scipy.special import expit, log_expit, logit, logsumexp

from crowdsweep.arrays import (
    ItemProbs,
    Objective,
    floored_log,
)
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._abilities import Abilities, Easiness, abilities_of, label_probs_of_abilities
from crowdsweep.models._answers import BatchAnswers, StackedAnswers
from crowdsweep.models._batches import Batch, StackedRows
from crowdsweep.models._cost import MATRIX_PRODUCT, network_weights
from crowdsweep.models._stacked import weights_of
from crowdsweep.models.classifier import Classifier, NetworkPredictor
from crowdsweep.models.contract import DataShape, FitContext, FitResult, ModelInfo
from crowdsweep.models.networks.dense import Dense
from crowdsweep.models.networks.initial import constant
from crowdsweep.models.networks.named import Named
from crowdsweep.models.networks.replicas import Adam, count_parameters, replica_chunks
from crowdsweep.models.networks.tables import Table
from crowdsweep.models.networks.tensors import PerReplica, take_rows
from crowdsweep.models.networks.values import Values
from crowdsweep.models.trainer import ReplicaTrainer, Schedule, Snapshot, train

LogProbs = Float[torch.Tensor, "replicas classes batch"]


@final
@dataclass(frozen=True, kw_only=True)
class SpeelfcD:
    """Hyper-parameters of SpeeLFC-D.

    Attributes:
        lambda1: least easiness.
        lambda2: how much the item's features can add to it.
        initial_correctness: probability of a right answer of every annotator at the start.
        difficulty_hidden: widths of the hidden layers of the network of the easiness.
        epochs: passes over the items.
    """

    lambda1: Annotated[float, Ge(0)] = 0.001
    lambda2: Annotated[float, Gt(0)] = 100.0
    initial_correctness: Annotated[float, Gt(0.5), Lt(1)] = 0.8
    classifier: Classifier = Classifier()
    difficulty_hidden: tuple[Annotated[int, Ge(1)], ...] = (32,)
    epochs: Annotated[int, Ge(1)] = 50

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Fits all data sets, as many at a time as the machine's cache holds."""
        classifier = Named(name="classifier", network=self.classifier.build(data[0]))
        dropout = classifier.dropouts[0].probability if classifier.dropouts else 0.0
        easiness = Named(
            name="easiness", network=Dense(hidden=self.difficulty_hidden, dropout=dropout).build(data[0].items, 1)
        )
        floats = count_parameters([*classifier.parameters(), *easiness.parameters()])
        results: list[FitResult] = []
        for part in replica_chunks(len(data), floats, contexts[0].device):
            results += self._fit_together(classifier, easiness, data[part], contexts[part])
        return results

    def _fit_together(
        self, classifier: Named, easiness: Named, data: Sequence[TrainingData], contexts: Sequence[FitContext]
    ) -> list[FitResult]:
        rows = [np.flatnonzero(part.annotations.labels_per_item > 0) for part in data]
        if not all(map(len, rows)):
            raise FitFailed("expected at least one annotation to train on, got none")
        device = contexts[0].device
        start = float(logit(self.initial_correctness)) / (self.lambda1 + self.lambda2 / 2)
        trainer = ReplicaTrainer(
            [*classifier.parameters(), *easiness.parameters()],
            rows=rows,
            seeds=[context.seeds for context in contexts],
            optimiser=Adam(learning_rate=self.classifier.learning_rate),
            batch_size=self.classifier.batch_size,
            device=device,
            dropout=[*classifier.dropouts, *easiness.dropouts],
            tables={
                "ability": Table(width=1, start=constant(start), orders=[np.arange(part.n_annotators) for part in data])
            },
            row_size=classifier.row_size,
        )
        inputs = StackedRows.of([classifier.inputs(part.items) for part in data], device)
        answers = StackedAnswers([part.annotations for part in data], device)

        def loss(values: Values, batch: Batch) -> tuple[PerReplica, PerReplica]:
            features, seen = batch.take(inputs), answers.of(batch)
            easy = self.lambda1 + self.lambda2 * torch.sigmoid(easiness.logits(values, features, batch))
            ability = values.rows("ability", seen.annotator, seen.place)[:, 0]
            log_f = torch.log_softmax(classifier.logits(values, features, batch), dim=1)
            log_probs = log_answer_probs(log_f, easy.flatten(), ability, seen)
            return -seen.summed(log_probs), seen.weights

        def predictor(_: int, kept: Snapshot) -> NetworkPredictor:
            return NetworkPredictor(network=classifier, values=kept.values, device=device)

        reports = [context.report for context in contexts]
        courses = train(
            trainer, loss, Schedule(epochs=self.epochs), reports, keep=trainer.snapshot, predictor=predictor
        )
        results: list[FitResult] = []
        for part, course in zip(data, courses, strict=True):
            values = course.end.values
            ability = course.end.tables["ability"][: part.n_annotators, 0].astype(np.float64)
            of_items = NetworkPredictor(network=easiness, values=values, device=device).logits(part.items)[0]
            easy = self.lambda1 + self.lambda2 * expit(of_items)
            own = NetworkPredictor(network=classifier, values=values, device=device)
            results.append(_result(part, own, easy, ability, -np.array(course.losses)))
        return results


def log_answer_probs(
    log_f: LogProbs,
    easiness: Float[torch.Tensor, " replicas*batch"],
    ability: Float[torch.Tensor, " answers"],
    seen: BatchAnswers,
) -> Float[torch.Tensor, " answers"]:
    """Returns log p(y | x) = log(f_y s + (1 - f_y) (1 - s) / (K - 1)) of each answer, without ever forming s.

    Args:
        log_f: log class probabilities.
        easiness: beta' of each item of the flat batch.
        ability: alpha of each answer's annotator.
        seen: the answers.
    """
    n_classes, size = log_f.shape[1:]
    cell = seen.item + (seen.place * (n_classes - 1) + seen.label) * size
    product = ability * take_rows(easiness, seen.item)
    log_y, log_rest = take_rows(log_f.flatten(), cell), take_rows(log_others(log_f).flatten(), cell)
    # log s before the bracket, and log (1 - s) = log s - alpha beta'.
    log_s = torch.nn.functional.logsigmoid(product)
    return log_s + torch.logaddexp(log_y, log_rest - product - np.log(max(n_classes - 1, 1)))


def log_others(log_f: LogProbs) -> LogProbs:
    """Returns log(1 - f) of log-probabilities: of all classes but one.

    Of a class above one half by the others' own logarithms: 1 - f loses all its digits as f nears one.
    """
    large = log_f > -np.log(2.0)
    rest = log_f.masked_fill(large, torch.finfo(log_f.dtype).min).logsumexp(dim=1, keepdim=True)
    return torch.where(large, rest, torch.log1p(-log_f.exp().clamp(max=0.5)))


def _result(
    data: TrainingData, predictor: NetworkPredictor, easiness: Easiness, ability: Abilities, objective: Objective
) -> FitResult:
    posterior = _posterior(data.annotations, predictor.predict(data.items, "classifier"), easiness, ability)
    annotators = abilities_of(data.annotations, easiness, ability)

    return FitResult(
        item_probs=posterior,
        annotators=annotators,
        label_probs=label_probs_of_abilities(posterior, annotators, easiness),
        predictor=predictor,
        objective=objective,
        iterations=len(objective),
        extras={"ability": ability, "easiness": easiness},
    )


def _posterior(annotations: Annotations, prior: ItemProbs, easiness: Easiness, ability: Abilities) -> ItemProbs:
    """Returns each item's class given the classifier and its labels: log f plus, for each label, log s or log wrong."""
    product = ability[annotations.annotator] * easiness[annotations.item]
    log_wrong = log_expit(-product) - np.log(max(annotations.n_classes - 1, 1))
    gain = weights_of(annotations) * (log_expit(product) - log_wrong)
    cells = annotations.item.astype(np.int64) * annotations.n_classes + annotations.label
    votes = np.bincount(cells, weights=gain, minlength=prior.size).reshape(prior.shape)
    log_joint = floored_log(prior) + votes
    return np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))


def _cost(shape: DataShape, params: Mapping[str, Any]) -> float:
    easiness = shape.n_features * params["difficulty_hidden"][0] if params["difficulty_hidden"] else shape.n_features
    products = 3.0 * MATRIX_PRODUCT * shape.n_items * (network_weights(shape, params) + easiness)
    return params["epochs"] * (products + 10.0 * shape.n_annotations)


MODEL = ModelInfo(
    name="speelfc-d",
    title="SpeeLFC-D: a classifier, annotators' abilities and items' difficulties, end to end",
    model=SpeelfcD,
    source="Chen et al. 2020, IJCAI",
    needs=frozenset({"features", "annotators"}),
    supports=frozenset(),
    version=3,
    space={
        "lambda1": {"values": [0.001, 0.1, 1]},
        "lambda2": {"values": [1, 10, 100]},
        "initial_correctness": {"values": [0.7, 0.8, 0.9]},
        "difficulty_hidden": {"values": [[32], [128]]},
    },
    cost=_cost,
    label_symmetric=False,
)
