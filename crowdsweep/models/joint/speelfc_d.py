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
their labels; the paper scores f alone, as we do on unseen items.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, final

import numpy as np
import torch
from annotated_types import Ge, Gt, Lt
from jaxtyping import Float64
from scipy.special import expit, log_expit, logit, logsumexp

from crowdsweep.arrays import AnnotatorCodes, Confusion, Confusions, ItemCodes, ItemProbs, RowProbs, floored_log
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._classifiers import NetworkKind, NetworkPredictor, build_network, features_of
from crowdsweep.models._cost import MATRIX_PRODUCT, network_weights
from crowdsweep.models.contract import DataShape, FitContext, FitResult, ModelInfo
from crowdsweep.models.joint._answers import BatchAnswers, StackedAnswers, step_blocks
from crowdsweep.models.networks.dense import DenseNetwork
from crowdsweep.models.networks.mlp import mlp
from crowdsweep.models.networks.replicas import (
    Adam,
    DropoutMasks,
    EmbeddingTables,
    Minibatch,
    ReplicaStack,
    Shuffler,
    constant,
    count_parameters,
    replica_chunks,
    take_rows,
)

_EASINESS_QUANTILES = 64  # an annotator's confusion matrix is averaged over so many typical items
_HIGHEST_SHARE = 1.0 - 1e-6  # of one class, before the logarithm of what it leaves to the others


@final
@dataclass(frozen=True, kw_only=True)
class SpeelfcD:
    """Hyper-parameters of SpeeLFC-D.

    Attributes:
        lambda1, lambda2: least easiness, and how much the item's features can add.
        initial_correctness: probability of a right answer of every annotator at the start.
        network, hidden, dropout: of the classifier; `difficulty_hidden`: widths of the network of the easiness.
        learning_rate, batch_size, epochs: of Adam, in items.
    """

    lambda1: Annotated[float, Ge(0)] = 0.001
    lambda2: Annotated[float, Gt(0)] = 100.0
    initial_correctness: Annotated[float, Gt(0.5), Lt(1)] = 0.8
    network: NetworkKind = "mlp"
    hidden: tuple[Annotated[int, Ge(1)], ...] = (128,)
    difficulty_hidden: tuple[Annotated[int, Ge(1)], ...] = (32,)
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.5
    learning_rate: Annotated[float, Gt(0)] = 1e-3
    batch_size: Annotated[int, Ge(1)] = 64
    epochs: Annotated[int, Ge(1)] = 50

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Fits all data sets, as many at a time as the machine's cache holds."""
        n_features = features_of(data[0].items).shape[1]
        classifier = build_network(self, n_features, data[0].n_classes)
        difficulty = mlp(n_features, 1, hidden=self.difficulty_hidden, dropout=self.dropout)
        floats = count_parameters(classifier.parameters()) + count_parameters(difficulty.parameters())
        results: list[FitResult] = []
        for part in replica_chunks(len(data), floats, contexts[0].device):
            results += _fit_together(self, classifier, difficulty, data[part], contexts[part])
        return results


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AbilityModel:
    """Annotators by ability alone; a matrix is the average over items of typical easiness.

    Attributes:
        ability: float64 [annotators].
        easiness: float64 [typical], quantiles over the training items.
        n_classes: K.
    """

    ability: Float64[np.ndarray, " annotators"]
    easiness: Float64[np.ndarray, " typical"]
    n_classes: int

    @property
    def n_annotators(self) -> int:
        return len(self.ability)

    def confusion(self, annotators: np.ndarray) -> Confusions:
        right = expit(self.ability[annotators][:, None] * self.easiness).mean(axis=1)
        wrong = (1.0 - right) / max(self.n_classes - 1, 1)
        identity = np.eye(self.n_classes)
        return right[:, None, None] * identity + wrong[:, None, None] * (1.0 - identity)

    def global_confusion(self) -> Confusion | None:
        return None


@dataclass(frozen=True, kw_only=True, eq=False)
class AnswerGradients:
    """The likelihood of a batch's answers, and the slopes of the loss -sum share * log p(y | x) that follow from it.

    Attributes:
        log_probs: log p(y | x) of each answer [answers].
        targets: for each item the expected true classes of its answers, weighted by their shares [S, K, batch]. The
            loss has the slopes of a cross-entropy with these targets.
        totals: the shares of each item's answers [S, 1, batch], what the targets sum to over the classes.
        easiness: slope by beta' of each item [S, 1, batch].
        ability: slope by alpha of each answer's annotator [answers].
    """

    log_probs: torch.Tensor
    targets: torch.Tensor
    totals: torch.Tensor
    easiness: torch.Tensor
    ability: torch.Tensor


@torch.no_grad()
def answer_gradients(
    log_f: torch.Tensor, easiness: torch.Tensor, ability: torch.Tensor, seen: BatchAnswers, share: torch.Tensor
) -> AnswerGradients:
    """Computes p(y | x) = f_y s + (1 - f_y) (1 - s) / (K - 1) in log space, without ever forming s, and its slopes.

    With r the posterior probability that an answer is right, log p has the slope r - s by alpha beta', and by f that of
    the expected true class: r at y, and f_k (1 - s) / (K - 1) / p at each other class k.

    Args:
        log_f: log class probabilities [S, K, batch].
        easiness: beta' [S, 1, batch].
        ability: alpha of each answer's annotator [answers].
        seen: the answers.
        share: what each answer counts in the loss [answers].
    """
    n_classes, size = log_f.shape[1:]
    logsigmoid = torch.nn.functional.logsigmoid
    cell = seen.place + seen.replica * ((n_classes - 1) * size) + seen.label * size
    beta = take_rows(easiness.flatten(), seen.place)
    product = ability * beta
    log_y = take_rows(log_f.flatten(), cell)
    f_y = log_y.exp()
    log_right = log_y + logsigmoid(product)
    log_other = logsigmoid(-product) - np.log(max(n_classes - 1, 1))  # of y, given any one other class
    log_probs = torch.logaddexp(log_right, torch.log1p(-f_y.clamp(max=_HIGHEST_SHARE)) + log_other)
    right = share * torch.exp(log_right - log_probs)
    other = share * torch.exp(log_other - log_probs)
    slope = share * torch.sigmoid(product) - right
    totals = torch.zeros_like(easiness)
    totals.flatten().index_add_(0, seen.place, share)
    others = torch.zeros_like(easiness)
    others.flatten().index_add_(0, seen.place, other)
    targets = log_f.exp() * others
    targets.flatten().index_add_(0, cell, right - other * f_y)
    by_easiness = torch.zeros_like(easiness)
    by_easiness.flatten().index_add_(0, seen.place, slope * ability)
    return AnswerGradients(
        log_probs=log_probs, targets=targets, totals=totals, easiness=by_easiness, ability=slope * beta
    )


@final
class _Trainer:
    """The replicas of one chunk in training."""

    def __init__(
        self,
        model: SpeelfcD,
        networks: tuple[DenseNetwork, DenseNetwork],
        data: Sequence[TrainingData],
        contexts: Sequence[FitContext],
    ) -> None:
        self.model, self.device = model, contexts[0].device
        self._adam = Adam(learning_rate=model.learning_rate)
        self.networks = networks
        rows = [np.flatnonzero(part.annotations.labels_per_item > 0) for part in data]
        if not all(map(len, rows)):
            raise FitFailed("expected at least one annotation to train on, got none")
        self.order = Shuffler.by_steps(list(map(len, rows)), model.batch_size)
        seeds = [contexts[s].seeds for s in self.order]
        self.answers = StackedAnswers([data[s] for s in self.order], self.device)
        self.stacks = [
            ReplicaStack.start(network.parameters(), [seed.child(name) for seed in seeds], self.device)
            for network, name in zip(networks, ("classifier", "difficulty"), strict=True)
        ]
        start = float(logit(model.initial_correctness)) / (model.lambda1 + model.lambda2 / 2)
        self.ability = EmbeddingTables(
            rows=self.answers.n_annotators, width=1, start=constant(start), seeds=seeds, device=self.device
        )
        self.shuffler = Shuffler([rows[s] for s in self.order], seeds, model.batch_size, self.device)
        self.dropout = [
            [
                DropoutMasks(seeds, network.dropout, self.device, f"dropout {name} {layer}")
                for layer in range(len(network.hidden) if network.dropout else 0)
            ]
            for network, name in zip(networks, ("classifier", "difficulty"), strict=True)
        ]

    @torch.no_grad()
    def run_epoch(self) -> np.ndarray:
        """Steps every replica once through its items; returns each one's mean log-likelihood of a label, in order."""
        totals = torch.zeros(2, len(self.order), dtype=torch.float64, device=self.device)
        for block in step_blocks(
            self.shuffler.epoch(), self.model.batch_size * len(self.order) * sum(map(sum, self._widths))
        ):
            n = block[0].n_replicas
            masks = [
                [
                    one.draw(len(block), (self.model.batch_size, width), n)
                    for one, width in zip(part, widths, strict=True)
                ]
                for part, widths in zip(self.dropout, self._widths, strict=True)
            ]
            for step, batch in enumerate(block):
                found = self._step(batch, [[mask[step] for mask in part] for part in masks])
                totals[:, :n] += found
        return (totals[0] / totals[1]).cpu().numpy()

    @property
    def _widths(self) -> list[tuple[int, ...]]:
        """Widths of the layers that are dropped from, of both networks."""
        return [network.hidden if network.dropout else () for network in self.networks]

    def _step(self, batch: Minibatch, masks: Sequence[Sequence[torch.Tensor]]) -> torch.Tensor:
        """Moves the replicas along the gradients of one batch; returns its log-likelihoods and weights [2, n]."""
        n = batch.n_replicas
        features, seen = self.answers.features_of(batch), self.answers.of(batch)
        views = [stack.prefix(n) for stack in self.stacks]
        (f_inputs, f_logits), (d_inputs, d_logits) = (
            network.forward(view.values, features, part)
            for network, view, part in zip(self.networks, views, masks, strict=True)
        )
        touched, ability = self.ability.gather(seen.annotator)
        sigmoid = torch.sigmoid(d_logits)
        weights = features.new_zeros(n).index_add(0, seen.replica, seen.weight)
        found = answer_gradients(
            torch.log_softmax(f_logits, dim=1),
            self.model.lambda1 + self.model.lambda2 * sigmoid,
            ability[:, 0],
            seen,
            seen.weight / take_rows(weights, seen.replica),
        )
        probs = torch.softmax(f_logits, dim=1)
        dropped = [bool(part) for part in masks]
        self.networks[0].backward(views[0], f_inputs, probs * found.totals - found.targets, dropped=dropped[0])
        slope = found.easiness * (self.model.lambda2 * sigmoid * (1.0 - sigmoid))
        self.networks[1].backward(views[1], d_inputs, slope, dropped=dropped[1])
        touched.add_gradients(found.ability[:, None])
        for stack in self.stacks:
            self._adam.step(stack, n)
        self.ability.step(touched, self._adam, n)
        log_likelihood = weights.new_zeros(n).index_add(0, seen.replica, found.log_probs * seen.weight)
        return torch.stack([log_likelihood, weights]).to(torch.float64)


def _fit_together(
    model: SpeelfcD,
    classifier: DenseNetwork,
    difficulty: DenseNetwork,
    data: Sequence[TrainingData],
    contexts: Sequence[FitContext],
) -> list[FitResult]:
    trainer = _Trainer(model, (classifier, difficulty), data, contexts)
    history = np.empty((model.epochs, len(data)))
    for epoch in range(model.epochs):
        history[epoch, trainer.order] = trainer.run_epoch()
        for context, objective in zip(contexts, history[epoch].tolist(), strict=True):
            context.report(epoch + 1, objective)
    results: list[FitResult] = []
    for replica, part in enumerate(data):
        place = trainer.order.index(replica)
        predictor, easy = (
            NetworkPredictor(network=network, values=stack.values_of(place), device=trainer.device)
            for network, stack in zip(trainer.networks, trainer.stacks, strict=True)
        )
        ability = trainer.ability.values_of(place)[: part.n_annotators, 0].astype(np.float64)
        results.append(_result(model, part, predictor, _easiness(model, easy, part), ability, history[:, replica]))
    return results


def _easiness(model: SpeelfcD, predictor: NetworkPredictor, data: TrainingData) -> np.ndarray:
    """Returns beta' of each training item, float64 [items]."""
    features = torch.from_numpy(np.array(features_of(data.items), np.float32)).to(predictor.device)[None]
    values = {name: torch.from_numpy(array[None]).to(predictor.device) for name, array in predictor.values.items()}
    with torch.no_grad():
        raw = predictor.network.forward(values, features)[1][0, 0].cpu().numpy().astype(np.float64)
    return model.lambda1 + model.lambda2 * expit(raw)


def _result(
    model: SpeelfcD,
    data: TrainingData,
    predictor: NetworkPredictor,
    easiness: np.ndarray,
    ability: np.ndarray,
    objective: np.ndarray,
) -> FitResult:
    posterior = _posterior(data.annotations, predictor.predict(data.items, "classifier"), easiness, ability)

    def label_probs(item: ItemCodes, annotator: AnnotatorCodes) -> RowProbs:
        right = expit(ability[annotator] * easiness[item])[:, None]
        wrong = (1.0 - right) / max(data.n_classes - 1, 1)
        return posterior[item] * right + (1.0 - posterior[item]) * wrong

    typical = np.quantile(easiness, (np.arange(_EASINESS_QUANTILES) + 0.5) / _EASINESS_QUANTILES)
    return FitResult(
        item_probs=posterior,
        annotators=AbilityModel(ability=ability, easiness=typical, n_classes=data.n_classes),
        label_probs=label_probs,
        predictor=predictor,
        objective=objective,
        iterations=model.epochs,
        extras={"ability": ability, "easiness": easiness},
    )


def _posterior(annotations: Annotations, prior: ItemProbs, easiness: np.ndarray, ability: np.ndarray) -> ItemProbs:
    """Returns each item's class given the classifier and its labels: log f plus, for each label, log s or log wrong."""
    product = ability[annotations.annotator] * easiness[annotations.item]
    log_wrong = log_expit(-product) - np.log(max(annotations.n_classes - 1, 1))
    weight = np.ones(len(annotations)) if annotations.weight is None else annotations.weight.astype(np.float64)
    gain = weight * (log_expit(product) - log_wrong)
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
    space={
        "lambda1": {"values": [0.001, 0.1, 1]},
        "lambda2": {"values": [1, 10, 100]},
        "initial_correctness": {"values": [0.7, 0.8, 0.9]},
        "difficulty_hidden": {"values": [[32], [128]]},
    },
    cost=_cost,
)
