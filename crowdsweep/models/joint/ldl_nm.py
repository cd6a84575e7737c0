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

Deviations: phi is v / (1 + |v|), which the paper misprints; the histograms y_I and y_A are of the annotations that are
trained on; the epoch is chosen on the label distributions of dev items, where the paper trains 200 epochs; without dev
items on a seeded tenth of the training items, which then train nothing, and on the answers to them, each by its
annotator. (Dev items' distributions are what a search looks at; with answers counted too, test KL on jobs-q1 was .029
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
from typing import Annotated, Any, cast, final

import numpy as np
import scipy.sparse as sp
from annotated_types import Ge, Gt, Lt
from jaxtyping import Bool, Float32, Float64, Int64, Shaped

from crowdsweep.arrays import AnnotatorCodes, ItemCodes, ItemProbs, RowProbs, floored_log, normalised_rows
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._annotator_order import annotator_order
from crowdsweep.models._batches import Batch, StackedRows
from crowdsweep.models._cost import MATRIX_PRODUCT, passes_over, stopping_share
from crowdsweep.models._stacked import weights_of
from crowdsweep.models.checkpoints import CheckpointPart
from crowdsweep.models.contract import DataShape, FitContext, FitResult, ModelInfo, UnseenLabelProbs
from crowdsweep.models.joint._ldl_network import Activation, Aggregation, AnnotatorEnsemble, LdlNetwork
from crowdsweep.models.joint._unseen_annotator import Descent as Descent  # noqa: PLC0414 - one door
from crowdsweep.models.joint._unseen_annotator import infer_annotator as infer_annotator  # noqa: PLC0414
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
from crowdsweep.models.training_jobs import mean_cross_entropy, validation_of
from crowdsweep.models.training_length import STEPS

_VALIDATION_ANNOTATORS = 64  # of the ensemble that the epoch is chosen by, and whose latent space is kept
_VALIDATION_ANSWERS = 4096  # at most twice as many answers are looked at after each epoch
_MAPPED_ITEMS = 512  # whose latent vectors are kept
_FEWEST_ITEMS = 10  # of an annotator who is left out: five that tell of them, five to be predicted
_MOST_UNSEEN = 256  # annotators that are left out


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
        steps: the fewest steps in all: where all epochs have fewer, each goes through the annotations several times.
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
        floats = count_parameters(network.parameters())
        for part in replica_chunks(len(data), floats, contexts[0].device, numbers_held(data)):
            results += self._fit_together(network, data[part], contexts[part])
        return results

    def _fit_together(
        self, network: LdlNetwork, data: Sequence[TrainingData], contexts: Sequence[FitContext]
    ) -> list[FitResult]:
        sets = [training_set(self, part, context) for part, context in zip(data, contexts, strict=True)]
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
        loss = HeadsLoss(self, network, data, sets, device)

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
            FitResult(
                item_probs=(asked := ensemble(replica, history.end)).predict(part.items, "ensemble"),
                label_probs=partial(
                    said := _said_by(
                        asked, history.end.tables["annotators"][: part.n_annotators], sets[replica].taught
                    ),
                    part.items,
                ),
                predictor=asked,
                unseen_label_probs=said,
                objective=-np.array(history.losses),
                converged=history.converged,
                iterations=len(history.losses),
                extras={
                    **_latent_space(part, ensemble(replica, history.end, sets[replica].every)),
                    **_unseen_scores(part, sets[replica], asked),
                },
            )
            for replica, (part, history) in enumerate(zip(data, histories, strict=True))
        ]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingSet:
    """What one replica learns from, and what its epoch is chosen on.

    Attributes:
        rows: annotations to train on, none of a validation item, in an order that does not depend on how
            annotators are numbered.
        order: annotators, in such an order.
        members: annotators of the final ensemble.
        taught: whether each annotator has a row to learn from.
        unseen: annotators that were left out on purpose.
        weight: of every annotation.
        item_shares, annotator_shares: the histograms y_I and y_A; zeros where an annotator has no row.
        validation: items that the epoch is chosen on, with their label distributions; None where nothing can be spared.
        answers: some answers to validation items.
    """

    rows: Int64[np.ndarray, " rows"]
    order: Int64[np.ndarray, " annotators"]
    members: Int64[np.ndarray, " members"]
    taught: Bool[np.ndarray, " annotators"]
    unseen: Int64[np.ndarray, " unseen"]
    weight: Float64[np.ndarray, " annotations"]
    item_shares: ItemProbs
    annotator_shares: Float64[np.ndarray, "annotators classes"]
    validation: tuple[Items, Float64[np.ndarray, "validation classes"]] | None
    answers: "ValidationAnswers"

    @property
    def every(self) -> int:
        """Which members a small ensemble has: of so many, one."""
        return max(1, len(self.members) // _VALIDATION_ANNOTATORS)

    def loss(
        self, ensemble: AnnotatorEnsemble, annotators: Float32[np.ndarray, "annotators annotator_embedding"]
    ) -> float | None:
        """Returns the mean cross-entropy on the validation items, and that of answers, each by the annotator's own
        embedding: where annotators contradict each other, the ensemble is flat whatever they say."""
        if self.validation is None:
            return None
        items, shares = self.validation
        crowd = mean_cross_entropy(shares, ensemble.predict(items, "ensemble"))
        answers = self.answers
        if not len(answers.label):
            return crowd
        said = ensemble.said_by(answers.items, annotators[answers.annotator])
        logs = floored_log(said[np.arange(len(answers.label)), answers.label])
        return crowd - float(np.average(logs, weights=answers.weight))


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ValidationAnswers:
    """Answers that are not trained on, of annotators who are: each one's item, whose it is, which, what it counts."""

    items: Items
    annotator: Int64[np.ndarray, " answers"]
    label: Int64[np.ndarray, " answers"]
    weight: Float64[np.ndarray, " answers"]


def training_set(model: LdlNm, data: TrainingData, context: FitContext) -> TrainingSet:
    """Returns what is learned from and validated on, none of it in an order that numbers of annotators decide."""
    annotations = data.annotations
    if not len(annotations):
        raise FitFailed("expected at least one annotation to train on, got none")
    order = annotator_order(annotations, context.seeds.numpy("order"))
    unseen = _left_out(model, annotations, order, context)
    seen = ~np.isin(annotations.annotator, unseen)
    known = annotations.take(seen) if len(unseen) else annotations
    labelled = np.flatnonzero(known.labels_per_item > 0)
    validation, chosen = validation_of(data), np.empty(0, np.int64)
    if validation is None and len(labelled) >= 10:
        chosen = context.seeds.numpy("set aside").permutation(labelled)[: len(labelled) // 10]
        validation = data.items.take(chosen), known.label_distribution()[chosen]
    weight = weights_of(annotations)
    if model.item_balanced:
        of_items = np.bincount(known.item, weights_of(known), minlength=data.n_items)
        weight = weight / np.where(of_items > 0, of_items, 1.0)[annotations.item]
        weight *= len(weight) / weight.sum()
    place = np.argsort(order)
    canonical = np.lexsort((annotations.label, place[annotations.annotator], annotations.item))
    rows = canonical[~np.isin(annotations.item[canonical], chosen) & seen[canonical]]
    taught = np.bincount(annotations.annotator[rows], minlength=annotations.n_annotators) > 0
    validating = canonical[np.isin(annotations.item[canonical], chosen) & taught[annotations.annotator[canonical]]]
    validating = validating[:: max(1, len(validating) // _VALIDATION_ANSWERS)]
    active = order[taught[order]]
    if len(active) > model.max_annotators:
        active = active[
            np.sort(context.seeds.numpy("ensemble").choice(len(active), model.max_annotators, replace=False))
        ]
    return TrainingSet(
        rows=rows,
        order=order,
        members=active,
        taught=taught,
        unseen=unseen,
        weight=weight,
        item_shares=known.label_distribution(),
        annotator_shares=_histograms(annotations, rows, weights_of(annotations)),
        validation=validation,
        answers=ValidationAnswers(
            items=data.items.take(annotations.item[validating]),
            annotator=annotations.annotator[validating].astype(np.int64),
            label=annotations.label[validating].astype(np.int64),
            weight=weights_of(annotations)[validating],
        ),
    )


def _left_out(
    model: LdlNm, annotations: Annotations, order: Int64[np.ndarray, " annotators"], context: FitContext
) -> Int64[np.ndarray, " unseen"]:
    """Returns the annotators that are not trained on, drawn without regard to how they are numbered."""
    if not model.unseen_annotators:
        return np.empty(0, np.int64)
    enough = order[np.diff(_items_answered(annotations).indptr)[order] >= _FEWEST_ITEMS]
    n_out = min(int(model.unseen_annotators * len(enough)), _MOST_UNSEEN)
    return context.seeds.numpy("unseen").permutation(enough)[:n_out]


def _items_answered(annotations: Annotations) -> sp.csr_array:
    """Returns which items each annotator answered [annotators, items]."""
    shape = (annotations.n_annotators, annotations.n_items)
    answered = sp.coo_array((np.ones(len(annotations)), (annotations.annotator, annotations.item)), shape=shape)
    return cast(sp.csr_array, answered.tocsr())


def _histograms(
    annotations: Annotations, rows: Int64[np.ndarray, " rows"], weight: Float64[np.ndarray, " annotations"]
) -> Float64[np.ndarray, "annotators classes"]:
    """Returns the share of each label in these rows of each annotator; zeros where one has none."""
    shape = (annotations.n_annotators, annotations.n_classes)
    cells = annotations.annotator[rows].astype(np.int64) * annotations.n_classes + annotations.label[rows]
    return normalised_rows(np.bincount(cells, weight[rows], minlength=shape[0] * shape[1]).reshape(shape), at_zero=0.0)


@final
class HeadsLoss:
    """-log z_y[y] + gamma_I KL(y_I || z_yI) + gamma_A KL(y_A || z_yA), up to the histograms' entropies."""

    def __init__(
        self,
        model: LdlNm,
        network: LdlNetwork,
        data: Sequence[TrainingData],
        sets: Sequence[TrainingSet],
        device: str,
    ) -> None:
        """Lays out what the rows stand for."""
        self._model, self._network = model, network

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
        """See `Loss`."""
        model, item, annotator = self._model, batch.take(self._item), batch.take(self._annotator)
        embedded = values.rows("annotators", annotator, batch.places)
        masks = batch if model.dropout else None
        features = self._features.at(item, batch)
        log_heads = self._network.log_heads(values, features, embedded, masks, 1.0 - model.dropout)
        wanted = [
            torch.nn.functional.one_hot(batch.take(self._label), self._network.n_classes).to(torch.float32),
            self._item_shares.at(item, batch) * model.item_weight,
            self._annotator_shares.at(annotator, batch) * model.annotator_weight,
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
