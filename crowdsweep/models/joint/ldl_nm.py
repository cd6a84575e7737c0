"""LDL-NM: a neural twin of the label-distribution graphical model, that knows items and annotators by embeddings.

An item's features and an annotator's embedding are fused into one latent vector, from which three heads predict the
annotator's label, the item's label distribution and the annotator's label distribution. To label an item that nobody
has labelled, the network is asked what each known annotator would say, and the answers are averaged.

Weerasooriya, Ororbia and Homan, on clustering items and annotators for label distributions; later named DisCo (2023).

    z_I = W_I x, z_A = row a of W_A         item_embedding J_I, annotator_embedding J_A
    z_P = phi(W_P phi([z_I, z_A]))          latent J_P
    z_E = phi(W_E z_P + z_P)
    z_y, z_yI, z_yA = softmax(W z_E)        heads `label`, `item`, `annotator`
    loss = -log z_y[y] + gamma_I KL(y_I || z_yI) + gamma_A KL(y_A || z_yA)       item_weight, annotator_weight

Deviations: phi is v / (1 + |v|), which the paper misprints; the histograms y_I and y_A are of the training annotations
only; the epoch is chosen on the annotations of dev items (else of a seeded tenth of the training items, set aside),
where the paper trains 200 epochs; annotators start at N(0, 1/J_A), since orthogonal columns over many rows are all but
zero. The ensemble keeps W_P, which Eq. 12 drops.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, final

import numpy as np
import torch
from annotated_types import Ge, Gt, Lt

from crowdsweep.arrays import AnnotatorCodes, ItemCodes, RowProbs, floored_log
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._classifiers import features_of
from crowdsweep.models._cost import MATRIX_PRODUCT, stopping_share
from crowdsweep.models.contract import DataShape, FitContext, FitResult, ModelInfo
from crowdsweep.models.joint._ldl_network import Activation, Aggregation, AnnotatorEnsemble, LdlNetwork
from crowdsweep.models.joint._ldl_training import LdlTrainer, Lesson
from crowdsweep.models.networks.replicas import count_parameters, replica_chunks

_WATCHING_ANNOTATORS = 64  # of the ensemble that the epoch is chosen by


@final
@dataclass(frozen=True, kw_only=True)
class LdlNm:
    """Hyper-parameters of LDL-NM.

    Attributes:
        item_embedding, annotator_embedding, latent: widths J_I, J_A, J_P.
        activation: phi.
        item_weight, annotator_weight: of the two KL terms; 0 leaves one out.
        dropout: of z_P and z_E.
        learning_rate, batch_size: of Adam, in annotations.
        epochs: the most.
        patience: stop after so many epochs without a better one on the items that are watched.
        aggregation: how the annotators' answers are averaged.
        max_annotators: members of the ensemble; a seeded sample where more are active.
        item_balanced: every item counts the same, instead of every annotation.
    """

    item_embedding: Annotated[int, Ge(1)] = 64
    annotator_embedding: Annotated[int, Ge(1)] = 16
    latent: Annotated[int, Ge(1)] = 64
    activation: Activation = "softsign"
    item_weight: Annotated[float, Ge(0)] = 1.0
    annotator_weight: Annotated[float, Ge(0)] = 1.0
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.3
    learning_rate: Annotated[float, Gt(0)] = 1e-3
    batch_size: Annotated[int, Ge(1)] = 256
    epochs: Annotated[int, Ge(1)] = 40
    patience: Annotated[int, Ge(1)] = 8
    aggregation: Aggregation = "mean"
    max_annotators: Annotated[int, Ge(1)] = 2048
    item_balanced: bool = False

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Fits all data sets, as many at a time as the machine's cache holds."""
        network = LdlNetwork(
            n_features=features_of(data[0].items).shape[1],
            n_classes=data[0].n_classes,
            item_embedding=self.item_embedding,
            annotator_embedding=self.annotator_embedding,
            latent=self.latent,
            activation=self.activation,
        )
        results: list[FitResult] = []
        for part in replica_chunks(len(data), count_parameters(network.parameters()), contexts[0].device):
            results += _fit_together(self, network, data[part], contexts[part])
        return results


def _fit_together(
    model: LdlNm, network: LdlNetwork, data: Sequence[TrainingData], contexts: Sequence[FitContext]
) -> list[FitResult]:
    trainer = LdlTrainer(model, network, data, contexts)
    best: dict[int, tuple[AnnotatorEnsemble, np.ndarray]] = {}
    best_score = dict.fromkeys(range(len(data)), np.inf)
    objectives: dict[int, list[float]] = {replica: [] for replica in range(len(data))}
    waited = dict.fromkeys(range(len(data)), 0)
    stopped: set[int] = set()
    for epoch in range(model.epochs):
        for replica, objective in trainer.run_epoch().items():
            lesson = trainer.lessons[replica]
            objectives[replica].append(objective)
            contexts[replica].report(epoch + 1, objective)
            now, table = trainer.fitted(replica, lesson.members[:: max(1, len(lesson.members) // _WATCHING_ANNOTATORS)])
            score = _watched_loss(now, lesson)
            waited[replica] += 1
            if score < best_score[replica] or not len(lesson.watched[0]):
                best_score[replica], waited[replica] = score, 0
                best[replica] = trainer.fitted(replica, lesson.members)[0], table
            if waited[replica] >= model.patience or not np.isfinite(objective):
                stopped.add(replica)
        trainer.drop(sorted(stopped))
        if not trainer.order:
            break
    return [
        _result(best.get(replica), objectives[replica], part, converged=replica in stopped)
        for replica, part in enumerate(data)
    ]


def _watched_loss(ensemble: AnnotatorEnsemble, lesson: Lesson) -> float:
    features, shares = lesson.watched
    if not len(features):
        return 0.0
    probs = ensemble.predict(Items(n_items=len(features), features=features), "ensemble")
    return float(-(shares * floored_log(probs)).sum(axis=1).mean())


def _result(
    best: tuple[AnnotatorEnsemble, np.ndarray] | None,
    objective: Sequence[float],
    data: TrainingData,
    *,
    converged: bool,
) -> FitResult:
    if best is None:
        raise FitFailed("training diverged in its first epoch: lower learning_rate")
    ensemble, table = best

    def label_probs(item: ItemCodes, annotator: AnnotatorCodes) -> RowProbs:
        features = torch.from_numpy(features_of(data.items)[item][None])
        embedded = torch.from_numpy(table[annotator][None])
        values = {name: array.cpu() for name, array in ensemble.stacked().items()}
        return ensemble.network.label_probs(values, features, embedded)[0].numpy()

    return FitResult(
        item_probs=ensemble.predict(data.items, "ensemble"),
        label_probs=label_probs,
        predictor=ensemble,
        objective=np.array(objective),
        converged=converged,
        iterations=len(objective),
    )


def _cost(shape: DataShape, params: Mapping[str, Any]) -> float:
    """Training, and asking the ensemble of every item."""
    epochs = params["epochs"] * stopping_share(params)
    latent = params["latent"] * (params["latent"] + params["item_embedding"] + params["annotator_embedding"])
    trained = 3.0 * epochs * shape.n_annotations * (shape.n_features * params["item_embedding"] + latent)
    members = min(shape.n_annotators, params["max_annotators"])
    # What the ensemble adds to its products are passes over all units: as much again.
    return MATRIX_PRODUCT * (trained + 4.0 * shape.n_items * members * params["latent"] ** 2)


MODEL = ModelInfo(
    name="ldl-nm",
    title="LDL-NM: label distributions from item features and annotator embeddings",
    model=LdlNm,
    source="Weerasooriya, Ororbia and Homan (DisCo), equations 6 to 12",
    needs=frozenset({"features", "annotators"}),
    supports=frozenset(),
    space={
        "item_embedding": {"values": [8, 16, 32, 64, 128]},
        "annotator_embedding": {"values": [8, 16, 32, 64, 128]},
        "latent": {"values": [16, 64, 128]},
        "dropout": {"values": [0, 0.3, 0.5]},
        "learning_rate": {"values": [0.0005, 0.001, 0.002]},
        "item_weight": {"values": [0, 0.5, 1]},
        "annotator_weight": {"values": [0, 0.5, 1]},
        "aggregation": {"values": ["mean", "vote"]},
    },
    cost=_cost,
    waived={"annotator_codes_change_nothing": "each row of the annotator embedding starts from a draw of its own"},
)
