"""Semi-LFC: a deep generative model of features and answers, which learns from items without answers too.

An item's features are generated from its class and a latent vector, its answers from its class and each annotator's
confusion matrix. A classifier q(t | x) and an encoder q(z | x, t) give a lower bound of the likelihood, in which the
sum over the classes is exact. Items without answers contribute the bound of their features.

Atarashi, Oyama and Kurihara (2018), "Semi-supervised Learning from Crowds Using Deep Generative Models", AAAI.

    t ~ Cat(pi), z ~ N(0, I)        class and latent vector of an item
    x ~ p(x | z, t)                 `_conditional_vae.py`: Gaussian, one variance for each feature
    y_a ~ Cat(beta_a[t])            answers; the matrix of annotator a
    q(t | x)                        classifier: network, hidden, dropout
    q(t | x, Y) = q(t | x) prod over a of beta_a[t, y_a] / Z        Y: the item's answers; q(t | x) where it has none
    bound = sum_t q(t | x, Y) (B_t + log pi_t - log q(t | x)) + log Z        B_t: of the features, for class t
    loss = mean over items of - bound + alpha KL(p(t | Y) || q(t | x))       classification_weight; p from answers alone

Each epoch of networks is followed by an exact M-step of pi and beta (`smoothing` pseudo-answers in every cell) on
q(t | x, Y), of which beta exists for observed labels only. Items without answers have pi in their bound, and no part in
its count: it is the share of each class among the items that have answers.

Deviations: the paper states the bound with sampled classes, and learns beta by gradient; networks have one hidden layer
and no batch normalisation (replicas that are trained side by side, each with its own last batch, have no common
statistics). The term alpha is that of Kingma's M2 with the answers' posterior in place of labels; answers weigh little
beside hundreds of features, so it decides the result. Encoder and decoder read features in units of their deviation.
Besides training items without answers it learns from the features of the split `unlabelled` and of the dev items; test
items are not used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, final

import numpy as np
from annotated_types import Ge
from jaxtyping import Float32, Float64

from crowdsweep.arrays import ItemProbs, floored_log
from crowdsweep.data.dataset import TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._batches import Batch, StackedRows
from crowdsweep.models._confusion_states import columns_of, columns_state
from crowdsweep.models._cost import MATRIX_PRODUCT, network_weights, passes_over
from crowdsweep.models._em import (
    annotator_model,
    confusion_columns,
    evenly,
    label_probs_of,
    log_answers,
    log_class_shares,
    normalised,
    soft_vote,
    stack,
)
from crowdsweep.models.checkpoints import (
    CheckpointPart,
    State,
    generator_state,
    set_generator,
    with_prefix,
    without_prefix,
)
from crowdsweep.models.classifier import Classifier, NetworkPredictor
from crowdsweep.models.contract import DataShape, FitContext, FitResult, ModelInfo
from crowdsweep.models.joint._conditional_vae import ConditionalVae
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.contract import features_of
from crowdsweep.models.networks.named import NamedNetwork
from crowdsweep.models.networks.replicas import Adam, count_parameters, numbers_held, replica_chunks
from crowdsweep.models.networks.tensors import PerReplica
from crowdsweep.models.networks.values import Values
from crowdsweep.models.scaling import standardised
from crowdsweep.models.schedule import History, Schedule
from crowdsweep.models.train import train
from crowdsweep.models.trainer import ReplicaTrainer, Snapshot
from crowdsweep.models.training_length import SEARCHED_UNSTOPPED


@final
@dataclass(frozen=True, kw_only=True)
class SemiLfc:
    """Hyper-parameters of Semi-LFC.

    Attributes:
        smoothing: pseudo-answers in every cell of each annotator's matrix.
        classification_weight: alpha, how much the classifier learns from the answers beside the bound.
        latent: width of z, an item's latent vector.
        latent_hidden: hidden units of encoder and decoder.
        epochs: passes over the items.
    """

    smoothing: Annotated[float, Ge(0)] = 0.1
    classification_weight: Annotated[float, Ge(0)] = 10.0
    latent: Annotated[int, Ge(1)] = 10
    latent_hidden: Annotated[int, Ge(1)] = 64
    classifier: Classifier = Classifier()
    epochs: Annotated[int, Ge(1)] = 50

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        network = NamedNetwork(name="classifier", network=self.classifier.build(data[0]))
        vae = ConditionalVae(
            n_features=features_of(data[0].items).shape[1],
            n_classes=data[0].n_classes,
            hidden=self.latent_hidden,
            latent=self.latent,
        )
        floats = count_parameters([*network.parameters(), *vae.parameters()])
        results: list[FitResult] = []
        for part in replica_chunks(len(data), floats, contexts[0].device, numbers_held(data)):
            results += self._fit_together(network, vae, data[part], contexts[part])
        return results

    def _fit_together(
        self, network: NamedNetwork, vae: ConditionalVae, data: Sequence[TrainingData], contexts: Sequence[FitContext]
    ) -> list[FitResult]:
        if not all(len(part.annotations) for part in data):
            raise FitFailed("expected at least one annotation to train on, got none")
        device = contexts[0].device
        known = [ReplicaCrowd(self, part, context) for part, context in zip(data, contexts, strict=True)]
        trainer = ReplicaTrainer(
            [*network.parameters(), *vae.parameters()],
            rows=[np.arange(one.n_items) for one in known],
            seeds=[context.seeds for context in contexts],
            optimiser=Adam(learning_rate=self.classifier.learning_rate),
            batch_size=self.classifier.batch_size,
            device=device,
            dropout=network.dropouts,
            row_size=max(network.row_size, vae.row_size),
            least_steps=self.classifier.unstopped().least_steps(self.epochs),
        )
        tables = Tables(known, self.latent, device)

        def loss(values: Values, batch: Batch) -> tuple[PerReplica, PerReplica]:
            log_q = torch.log_softmax(network.logits(values, batch.take(tables.inputs), batch), dim=1)
            bounds = vae.bounds(values, batch.take(tables.standardised), batch.take(tables.noise))
            answers, targets = (batch.take(table).transpose(1, 2) for table in (tables.answers, tables.targets))
            shares = tables.shares[batch.block.replicas][:, :, None]
            lost = -bound_of_items(bounds, log_q, answers, shares)
            lost = lost - self.classification_weight * (targets * log_q).sum(dim=1)
            return (lost if batch.mask is None else lost * batch.mask).sum(dim=1), batch.sizes

        def predictor(_: int, kept: Snapshot) -> NetworkPredictor:
            return NetworkPredictor(network=network, values=kept.values, device=device)

        def renew(active: Sequence[int]) -> None:
            for replica in active:
                own = predictor(replica, trainer.snapshot(replica)) if known[replica].begun else None
                known[replica].maximise(own)
                tables.put(replica, known[replica])

        histories = train(
            trainer,
            loss,
            Schedule(epochs=self.epochs),
            [context.report for context in contexts],
            predictor=predictor,
            before=renew,
            parts=[CheckpointPart.of(context.checkpoint, context.seeds) for context in contexts],
            own=known,
        )
        return [one.result(predictor(0, history.end), history) for one, history in zip(known, histories, strict=True)]


def bound_of_items(
    bounds: torch.Tensor, log_q: torch.Tensor, answers: torch.Tensor, log_shares: torch.Tensor
) -> torch.Tensor:
    """Returns sum_t q(t | x, Y) (B_t + log pi_t - log q(t | x)) + log Z of each item [replicas, batch].

    Args:
        bounds: B_t [replicas, classes, batch].
        log_q: log q(t | x).
        answers: sum over the item's answers of log beta_a[t, y_a]; zeros where it has none.
        log_shares: log pi_t [replicas, classes, 1].
    """
    joint = log_q + answers
    log_evidence = joint.logsumexp(dim=1)
    posterior = (joint - log_evidence[:, None]).exp()
    return (posterior * (bounds + log_shares - log_q)).sum(dim=1) + log_evidence


@final
class ReplicaCrowd:
    """What one replica knows outside its networks: all items' features, and the answers with their pi and beta."""

    def __init__(self, model: SemiLfc, data: TrainingData, context: FitContext) -> None:
        """Begins at the soft majority vote."""
        self._model, self._data = model, data
        more = [data.unlabelled, None if data.validation is None else data.validation.items]
        parts = [features_of(data.items), *(features_of(items) for items in more if items is not None)]
        self.features = np.concatenate(parts).astype(np.float32)
        self.standardised = standardised(self.features)
        self._noise = context.seeds.numpy("noise")
        self._crowds = stack([data.annotations])
        self._columns = confusion_columns(self._crowds, soft_vote(self._crowds), self._pseudo_answers)
        self.begun = False
        self.answers = np.zeros((self.n_items, data.n_classes))
        self.targets = np.zeros((self.n_items, data.n_classes))
        self.log_shares = np.zeros(data.n_classes)

    @property
    def n_items(self) -> int:
        """Training items, then all others."""
        return len(self.features)

    @property
    def _pseudo_answers(self) -> Float64[np.ndarray, "replicas true observed"]:
        return evenly(self._crowds, self._model.smoothing)

    def posterior(self, classifier: NetworkPredictor | None) -> ItemProbs:
        """E-step: q(t | x, Y) of the training items; the vote where there is no classifier yet."""
        if classifier is None:
            return soft_vote(self._crowds)
        said = floored_log(classifier.predict(self._data.items, "classifier"))
        return normalised(said + log_answers(self._crowds, self._columns))[0]

    def maximise(self, classifier: NetworkPredictor | None) -> None:
        """M-step of pi and beta, and what the next epoch needs of them."""
        posterior = self.posterior(classifier)
        self._columns = confusion_columns(self._crowds, posterior, self._pseudo_answers)
        self.log_shares = log_class_shares(self._crowds, posterior)[0]
        own = slice(0, self._data.n_items)
        self.answers[own] = log_answers(self._crowds, self._columns)
        self.targets[own] = normalised(self.answers[own] + self.log_shares)[0] * self._crowds.answered[:, None]
        self.begun = True

    def state(self) -> State:
        """Returns what is not made of the networks again: the last M-step, and where the noise stands."""
        return {**with_prefix("columns", columns_state(self._columns)), "noise": generator_state(self._noise)}

    def restore(self, state: State) -> None:
        """Goes on from a state, between two epochs."""
        self._columns = columns_of(without_prefix(state, "columns"), like=self._columns)
        set_generator(self._noise, state, "noise")
        self.begun = True

    def noise(self) -> Float32[np.ndarray, "items latent"]:
        """Draws the standard normal numbers of an epoch."""
        return self._noise.standard_normal((self.n_items, self._model.latent), dtype=np.float32)

    def result(self, classifier: NetworkPredictor, history: History[Snapshot]) -> FitResult:
        """Returns what the replica ends as, after an M-step on its last networks."""
        self.maximise(classifier)
        posterior = self.posterior(classifier)
        annotators = annotator_model(self._crowds, self._columns, smoothing=self._model.smoothing)
        return history.result(
            item_probs=posterior,
            annotators=annotators,
            label_probs=label_probs_of(posterior, annotators),
            predictor=classifier,
            extras={"class_shares": np.exp(self.log_shares)},
        )


@final
class Tables:
    """The inputs of a step, for all replicas under one another; written anew before each epoch."""

    def __init__(self, known: Sequence[ReplicaCrowd], latent: int, device: str) -> None:
        """Lays out the features, and room for the rest."""
        self.inputs = StackedRows.of([one.features for one in known], device)
        self.standardised = StackedRows.of([one.standardised for one in known], device)
        self._ends = np.cumsum([0, *(one.n_items for one in known)])
        starts = torch.from_numpy(self._ends[:-1].copy()).to(device)
        classes = known[0].answers.shape[1]

        def empty(width: int) -> StackedRows:
            return StackedRows(table=torch.zeros(int(self._ends[-1]), width, device=device), starts=starts)

        self.answers, self.targets, self.noise = empty(classes), empty(classes), empty(latent)
        self.shares = torch.zeros(len(known), classes, device=device)

    def put(self, replica: int, known: ReplicaCrowd) -> None:
        """Writes what a replica knows now, and an epoch's noise."""
        own = slice(int(self._ends[replica]), int(self._ends[replica + 1]))
        parts = ((self.answers, known.answers), (self.targets, known.targets), (self.noise, known.noise()))
        for table, now in parts:
            table.table[own] = torch.from_numpy(now.astype(np.float32)).to(table.table.device)
        self.shares[replica] = torch.from_numpy(known.log_shares.astype(np.float32)).to(self.shares.device)


def _cost(shape: DataShape, params: Mapping[str, Any]) -> float:
    hidden, latent = params["latent_hidden"], params["latent"]
    features = hidden * shape.n_features * (1 + shape.n_classes)
    vae = features + 3 * shape.n_classes * hidden * latent
    weights = 3.0 * MATRIX_PRODUCT * (network_weights(shape, params) + vae)
    passes = passes_over(shape.n_items, params, params["epochs"], stops=False)
    return passes * (shape.n_items * weights + 3.0 * shape.n_annotations * shape.n_classes)


MODEL = ModelInfo(
    name="semi-lfc",
    title="Semi-LFC: a deep generative model of features and answers, unlabelled items included",
    model=SemiLfc,
    steps="epochs",
    predicts_labels=True,
    checkpoints=True,
    source="Atarashi, Oyama and Kurihara 2018, AAAI; sums over the classes are exact",
    needs=frozenset({"features"}),
    supports=frozenset({"votes", "soft_answers"}),
    space={
        "smoothing": {"values": [0.01, 0.1, 1]},
        "classification_weight": {"values": [1, 10, 100]},
        "latent": {"values": [5, 10, 50]},
        "learning_rate": {"values": [3e-4, 1e-3, 3e-3]},
        "epochs": {"values": [20, 50, 200]},
        "steps": {"values": SEARCHED_UNSTOPPED},
    },
    cost=_cost,
    label_symmetric=False,
    version=4,
)
