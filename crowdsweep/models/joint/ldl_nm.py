"""LDL-NM: a neural counterpart of the label-distribution graphical model, with embeddings of items and annotators.

An item's features and an annotator's embedding are fused into one latent vector, from which three heads predict the
annotator's label, the item's label distribution and the annotator's label distribution. To label an item that nobody
has labelled, the network is asked what each known annotator would say, and the answers are averaged.

Weerasooriya, Ororbia and Homan, on clustering items and annotators for label distributions; later named DisCo (2023).

    z_I = W_I x, z_A = row a of W_A         item_embedding J_I, annotator_embedding J_A
    z_P = phi(W_P phi([z_I, z_A]))          latent J_P
    z_E = phi(W_E z_P + z_P)
    z_y, z_yI, z_yA = softmax(W z_E)        heads `label`, `item`, `annotator`
    loss = -log z_y[y] + gamma_I KL(y_I || z_yI) + gamma_A KL(y_A || z_yA)       item_weight, annotator_weight

Deviations: phi is v / (1 + |v|), which the paper misprints; the histograms y_I and y_A are of the annotations that are
trained on; the epoch is chosen on the label distributions of dev items, where the paper trains 200 epochs; without dev
items on a seeded tenth of the training items, which then train nothing, and on the answers to them, each by its
annotator. (Dev items' distributions are what a search looks at; with answers counted too, test KL on jobs-q1 was 0.029
more. But annotators who contradict each other are then not always learned.) Annotators start at N(0, 1/J_A), since
orthogonal columns over many rows are all but zero, drawn in an order that their answers decide. The ensemble keeps W_P,
which Eq. 12 drops. An annotator without a row to learn from is not asked, and is predicted to answer as those who are
asked do on average; `infer_annotator` (algorithm 4) finds the embedding of one from a few answers, and predicts the
others; with `unseen_annotators` a fit measures how well that works.

Besides labels (`extras`): `item_latents` and `item_classes`, the latent space of some training items; `unseen` and
`unseen_loglik`, the codes of annotators left out and how well their answers were predicted (`inferred_loglik`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, final

import numpy as np
from annotated_types import Ge, Gt, Lt
from jaxtyping import Bool, Float32, Shaped

from crowdsweep.arrays import AnnotatorCodes, ItemCodes, RowProbs
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models._batches import Batch, StackedRows
from crowdsweep.models._cost import MATRIX_PRODUCT, passes_over, stopping_share
from crowdsweep.models.checkpoints import CheckpointPart
from crowdsweep.models.contract import DataShape, FitContext, FitResult, ModelInfo, UnseenLabelProbs
from crowdsweep.models.joint._ldl_network import Activation, Aggregation, AnnotatorEnsemble, LdlNetwork
from crowdsweep.models.joint._ldl_training_set import TrainingSet, training_set
from crowdsweep.models.joint._unseen_annotator import inferred_loglik
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.contract import features_of
from crowdsweep.models.networks.initial import normal
from crowdsweep.models.networks.replicas import Adam, count_parameters, numbers_held, replica_chunks
from crowdsweep.models.networks.tables import Table
from crowdsweep.models.networks.tensors import PerReplica
from crowdsweep.models.networks.values import Values
from crowdsweep.models.schedule import Schedule
from crowdsweep.models.train import train
from crowdsweep.models.trainer import ReplicaTrainer, Snapshot
from crowdsweep.models.training_length import STEPS

_MAPPED_ITEMS = 512  # whose latent vectors are kept


@final
@dataclass(frozen=True, kw_only=True)
class LdlNm:
    """Hyper-parameters of LDL-NM.

    Attributes:
        item_embedding: J_I, width of an item's embedding.
        annotator_embedding: J_A, width of an annotator's embedding.
        latent: J_P, width of the latent vector of an item and an annotator together.
        activation: phi, the nonlinearity of the latent layers.
        item_weight: gamma_I, weight of the loss of the item's label distribution; 0 leaves it out.
        annotator_weight: gamma_A, weight of the loss of the annotator's label distribution; 0 leaves it out.
        dropout: share of the units of z_P and z_E dropped in training.
        learning_rate: step size of the optimiser, Adam.
        batch_size: annotations per step.
        standardise: whether features are standardised by the training items.
        steps: the least number of gradient steps; where all epochs have fewer, each repeats the annotations.
        epochs: the most passes over the annotations.
        patience: stop after so many epochs without a better loss on the validation labels; null trains all epochs.
        aggregation: how the annotators' answers are averaged.
        max_annotators: most members of the ensemble of annotators; a seeded sample where more are active.
        item_balanced: every item counts the same, instead of every annotation by its weight.
        unseen_annotators: share of the annotators of ten items or more that is left out of training, at most 256: the
            embedding of each is inferred from half of these items, the answers to the others are predicted. They count
            as unknown in all else.
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
    standardise: bool = True
    steps: Annotated[int, Ge(0)] = STEPS
    epochs: Annotated[int, Ge(1)] = 40
    patience: Annotated[int, Ge(1)] | None = 15
    aggregation: Aggregation = "mean"
    max_annotators: Annotated[int, Ge(1)] = 2048
    item_balanced: bool = False
    unseen_annotators: Annotated[float, Ge(0), Lt(1)] = 0.0

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        network = LdlNetwork(
            n_features=features_of(data[0].items).shape[1],
            n_classes=data[0].n_classes,
            item_embedding=self.item_embedding,
            annotator_embedding=self.annotator_embedding,
            latent=self.latent,
            activation=self.activation,
        )
        results: list[FitResult] = []
        floats = count_parameters(network.parameters())
        for part in replica_chunks(len(data), floats, contexts[0].device, numbers_held(data)):
            results += self._fit_together(network, data[part], contexts[part])
        return results

    def _fit_together(
        self, network: LdlNetwork, data: Sequence[TrainingData], contexts: Sequence[FitContext]
    ) -> list[FitResult]:
        sets = [
            training_set(
                part,
                context.seeds,
                unseen_annotators=self.unseen_annotators,
                max_annotators=self.max_annotators,
                item_balanced=self.item_balanced,
            )
            for part, context in zip(data, contexts, strict=True)
        ]
        device = contexts[0].device
        start = normal(self.annotator_embedding**-0.5)
        orders = [one.order for one in sets]
        trainer = ReplicaTrainer(
            network.parameters(),
            rows=[one.rows for one in sets],
            seeds=[context.seeds for context in contexts],
            optimiser=Adam(learning_rate=self.learning_rate),
            batch_size=self.batch_size,
            device=device,
            dropout=network.dropouts(self.dropout),
            tables={"annotators": Table(width=self.annotator_embedding, start=start, orders=orders)},
            row_size=4 * self.latent,
            least_steps=self.steps / self.epochs,
        )
        weights = self.item_weight, self.annotator_weight
        loss = HeadsLoss(network, data, sets, device, weights=weights, dropout=self.dropout)

        def ensemble(replica: int, kept: Snapshot, every: int = 1) -> AnnotatorEnsemble:
            members = kept.tables["annotators"][sets[replica].members[::every]]
            return AnnotatorEnsemble(
                network=network, values=kept.values, annotators=members, aggregation=self.aggregation, device=device
            )

        def validation(replica: int, kept: Snapshot) -> float | None:
            own = sets[replica]
            return own.loss(ensemble(replica, kept, own.every), kept.tables["annotators"])

        schedule = Schedule(epochs=self.epochs, patience=self.patience)
        reports = [context.report for context in contexts]
        parts = [CheckpointPart.of(context.checkpoint, context.seeds) for context in contexts]
        histories = train(trainer, loss, schedule, reports, predictor=ensemble, validation=validation, parts=parts)
        return [
            history.result(
                item_probs=(asked := ensemble(replica, history.end)).predict(part.items, "ensemble"),
                label_probs=partial(
                    said := _said_by(
                        asked, history.end.tables["annotators"][: part.n_annotators], sets[replica].taught
                    ),
                    part.items,
                ),
                predictor=asked,
                unseen_label_probs=said,
                extras={
                    **_latent_space(part, ensemble(replica, history.end, sets[replica].every)),
                    **_unseen_scores(part, sets[replica], asked),
                },
            )
            for replica, (part, history) in enumerate(zip(data, histories, strict=True))
        ]


@final
class HeadsLoss:
    """-log z_y[y] + gamma_I KL(y_I || z_yI) + gamma_A KL(y_A || z_yA), up to the histograms' entropies."""

    def __init__(
        self,
        network: LdlNetwork,
        data: Sequence[TrainingData],
        sets: Sequence[TrainingSet],
        device: str,
        *,
        weights: tuple[float, float],
        dropout: float,
    ) -> None:
        """Lays out what the rows stand for.

        Args:
            weights: gamma_I and gamma_A.
        """
        self._network, self._dropout = network, dropout
        self._item_weight, self._annotator_weight = weights

        def stacked(arrays: Sequence[Shaped[np.ndarray, " _ *shape"]], kind: type = np.int64) -> StackedRows:
            return StackedRows.of([np.ascontiguousarray(array, kind) for array in arrays], device)

        self._item = stacked([part.annotations.item for part in data])
        self._annotator = stacked([part.annotations.annotator for part in data])
        self._label = stacked([part.annotations.label for part in data])
        self._weight = stacked([one.weight for one in sets], np.float32)
        self._features = stacked([features_of(part.items) for part in data], np.float32)
        self._item_shares = stacked([one.item_shares for one in sets], np.float32)
        self._annotator_shares = stacked([one.annotator_shares for one in sets], np.float32)

    def __call__(self, values: Values, batch: Batch) -> tuple[PerReplica, PerReplica]:
        item, annotator = batch.take(self._item), batch.take(self._annotator)
        embedded = values.rows("annotators", annotator, batch.places)
        masks = batch if self._dropout else None
        features = self._features.at(item, batch)
        log_heads = self._network.log_heads(values, features, embedded, masks, 1.0 - self._dropout)
        wanted = [
            torch.nn.functional.one_hot(batch.take(self._label), self._network.n_classes).to(torch.float32),
            self._item_shares.at(item, batch) * self._item_weight,
            self._annotator_shares.at(annotator, batch) * self._annotator_weight,
        ]
        weight = batch.take(self._weight)
        if batch.mask is not None:
            weight = weight * batch.mask
        gained = (torch.stack(wanted, dim=2) * log_heads).sum(dim=(2, 3))
        return -(gained * weight).sum(dim=1), batch.sizes


def _latent_space(data: TrainingData, ensemble: AnnotatorEnsemble) -> Mapping[str, Shaped[np.ndarray, "..."]]:
    """Returns what a map of the items is drawn from (P0's figure 4).

    `item_latents`: z_E of labelled training items, evenly spaced where there are many, a mean over some annotators.
    `item_classes`: the class that most of an item's annotators gave it, the first of ties.
    """
    labelled = np.flatnonzero(data.annotations.labels_per_item > 0)
    shown = labelled[np.linspace(0, len(labelled) - 1, min(len(labelled), _MAPPED_ITEMS)).round().astype(np.int64)]
    return {
        "item_latents": ensemble.latents(data.items.take(shown)).astype(np.float16),
        "item_classes": data.annotations.label_distribution()[shown].argmax(axis=1).astype(np.int32),
    }


def _unseen_scores(
    data: TrainingData, own: TrainingSet, ensemble: AnnotatorEnsemble
) -> Mapping[str, Shaped[np.ndarray, "..."]]:
    """Returns how well the annotators that were left out are predicted; nothing where none was."""
    if not len(own.unseen):
        return {}
    loglik = inferred_loglik(ensemble, data.items, data.annotations, own.unseen)
    return {"unseen": own.unseen.astype(np.int32), "unseen_loglik": loglik}


def _said_by(
    ensemble: AnnotatorEnsemble,
    annotators: Float32[np.ndarray, "annotators width"],
    taught: Bool[np.ndarray, " annotators"],
) -> UnseenLabelProbs:
    crowd = replace(ensemble, aggregation="mean")

    def label_probs(items: Items, item: ItemCodes, annotator: AnnotatorCodes) -> RowProbs:
        probs = ensemble.said_by(items.take(item), annotators[annotator])
        unknown = ~taught[annotator]
        if unknown.any():
            asked, place = np.unique(item[unknown], return_inverse=True)
            probs[unknown] = crowd.predict(items.take(asked), "ensemble")[place]
        return probs

    return label_probs


def _cost(shape: DataShape, params: Mapping[str, Any]) -> float:
    """Training, and asking the ensemble of every item."""
    epochs = passes_over(shape.n_annotations, params, params["epochs"]) * stopping_share(params)
    latent = params["latent"] * (params["latent"] + params["item_embedding"] + params["annotator_embedding"])
    trained = 3.0 * epochs * shape.n_annotations * (shape.n_features * params["item_embedding"] + latent)
    members = min(shape.n_annotators, params["max_annotators"])
    # What the ensemble adds to its products are passes over all units: as much again.
    return MATRIX_PRODUCT * (trained + 4.0 * shape.n_items * members * params["latent"] ** 2)


MODEL = ModelInfo(
    name="ldl-nm",
    title="LDL-NM: label distributions from item features and annotator embeddings",
    model=LdlNm,
    steps="epochs",
    predicts_labels=True,
    checkpoints=True,
    source="Weerasooriya, Ororbia and Homan (DisCo), equations 6 to 12",
    needs=frozenset({"features", "annotators"}),
    supports=frozenset(),
    version=5,
    # Narrower than the paper's, for twenty points: of annotators no widths above 32, of items and the latent none below
    # 64. Without `aggregation`: on jobs-q1 to q3 every point that votes had a dev KL above every one that takes the
    # mean.
    space={
        "item_embedding": {"values": [64, 128, 256]},
        "annotator_embedding": {"values": [8, 16, 32]},
        "latent": {"values": [64, 128, 256]},
        "dropout": {"values": [0, 0.3, 0.5]},
        "learning_rate": {"values": [0.0005, 0.001, 0.002]},
        "item_weight": {"values": [0, 0.5, 1]},
        "annotator_weight": {"values": [0, 0.5, 1]},
    },
    cost=_cost,
    label_symmetric=False,
)
