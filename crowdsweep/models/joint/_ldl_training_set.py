"""Training and validation data of ldl-nm."""

from dataclasses import dataclass
from typing import cast, final

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float32, Float64, Int64

from crowdsweep.arrays import ItemProbs, floored_log, normalised_rows
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._annotator_order import annotator_order
from crowdsweep.models._stacked import weights_of
from crowdsweep.models.joint._ldl_network import AnnotatorEnsemble
from crowdsweep.models.training_jobs import mean_cross_entropy, validation_of
from crowdsweep.seeds import SeedStream

_VALIDATION_ANNOTATORS = 64  # of the ensemble that the epoch is chosen by, and whose latent space is kept
_VALIDATION_ANSWERS = 4096  # at most twice as many answers are looked at after each epoch
_FEWEST_ITEMS = 10  # of an annotator who is left out: five that tell of them, five to be predicted
_MOST_UNSEEN = 256  # annotators that are left out


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingSet:
    """Training and validation data of one replica.

    Attributes:
        rows: annotations to train on, none of a validation item, in an order that does not depend on how
            annotators are numbered.
        order: annotators, in such an order.
        members: annotators of the final ensemble.
        taught: whether each annotator has a row to learn from.
        unseen: annotators that were left out on purpose.
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


def training_set(
    data: TrainingData, seeds: SeedStream, *, unseen_annotators: float, max_annotators: int, item_balanced: bool
) -> TrainingSet:
    """Returns what is learned from and validated on, none of it in an order that numbers of annotators decide; the
    settings are hyper-parameters of ldl-nm.

    Raises:
        FitFailed: there is no annotation.
    """
    annotations = data.annotations
    if not len(annotations):
        raise FitFailed("expected at least one annotation to train on, got none")
    order = annotator_order(annotations, seeds.numpy("order"))
    unseen = _left_out(annotations, order, unseen_annotators, seeds)
    seen = ~np.isin(annotations.annotator, unseen)
    known = annotations.take(seen) if len(unseen) else annotations
    labelled = np.flatnonzero(known.labels_per_item > 0)
    validation, chosen = validation_of(data), np.empty(0, np.int64)
    if validation is None and len(labelled) >= 10:
        chosen = seeds.numpy("set aside").permutation(labelled)[: len(labelled) // 10]
        validation = data.items.take(chosen), known.label_distribution()[chosen]
    weight = weights_of(annotations)
    if item_balanced:
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
    if len(active) > max_annotators:
        active = active[np.sort(seeds.numpy("ensemble").choice(len(active), max_annotators, replace=False))]
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
    annotations: Annotations, order: Int64[np.ndarray, " annotators"], share: float, seeds: SeedStream
) -> Int64[np.ndarray, " unseen"]:
    """Returns the annotators that are not trained on, drawn without regard to how they are numbered."""
    if not share:
        return np.empty(0, np.int64)
    shape = (annotations.n_annotators, annotations.n_items)
    answered = sp.coo_array((np.ones(len(annotations)), (annotations.annotator, annotations.item)), shape=shape)
    n_items = np.diff(cast(sp.csr_array, answered.tocsr()).indptr)
    enough = order[n_items[order] >= _FEWEST_ITEMS]
    n_out = min(int(share * len(enough)), _MOST_UNSEEN)
    return seeds.numpy("unseen").permutation(enough)[:n_out]


def _histograms(
    annotations: Annotations, rows: Int64[np.ndarray, " rows"], weight: Float64[np.ndarray, " annotations"]
) -> Float64[np.ndarray, "annotators classes"]:
    """Returns the share of each label in these rows of each annotator; zeros where one has none."""
    shape = (annotations.n_annotators, annotations.n_classes)
    cells = annotations.annotator[rows].astype(np.int64) * annotations.n_classes + annotations.label[rows]
    return normalised_rows(np.bincount(cells, weight[rows], minlength=shape[0] * shape[1]).reshape(shape), at_zero=0.0)
