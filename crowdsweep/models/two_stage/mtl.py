"""Multi-task learning with soft labels: a second head learns how the annotators answered.

One head learns each item's class, gold or silver, as in `stl`; the other, on the same trunk, the soft label that the
votes make, and what it learns of ambiguity is to help the first. Reference: Fornaciari, Uma, Paun, Plank, Hovy and
Poesio (NAACL 2021).

    y_i        one-hot class         `labels`
    s_i        soft label            `soft`: softmax of the votes' counts by default, as in the authors' code
    p, q       the two heads         uses `classifier` and `soft` of the predictor
    loss       CE(y, p) + aux_weight * soft loss, of which
               KL(s || q)            `soft_loss: kl_regular`
               KL(q || s)            `soft_loss: kl_inverse`
               CE(s, q)              `soft_loss: cross_entropy` (equation 4 lacks its minus sign)

The regular KL and the cross-entropy differ by the entropy of s, which no parameter moves: they are one fit, with
another objective. What the paper prints for the two differs by chance alone.

Deviations: both losses are in nats, where the authors' soft one is in bits: hence `aux_weight` 1 / ln 2. The inverse KL
clips q and s at 1e-6, as its gradient has no bound where s is near zero. An item without votes has no soft term, one
without a class is left out. Heads are linear in the trunk's last layer, and the second starts like the first; otherwise
as in `stl`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import log
from typing import Annotated, Literal, final

import numpy as np
from annotated_types import Ge
from jaxtyping import Float

from crowdsweep.arrays import AnnotatorCodes, ItemCodes, ItemProbs, RowProbs
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models._batches import Batch
from crowdsweep.models._cost import training_cost
from crowdsweep.models._em import label_probs_of_items
from crowdsweep.models._soft_targets import TrainingRows
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo, Predictor, handing_on
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.contract import Network, WrappedNetwork
from crowdsweep.models.networks.tensors import Inputs, PerReplica, Probs
from crowdsweep.models.networks.values import Values
from crowdsweep.models.training_jobs import TrainingJob, train_classifiers
from crowdsweep.models.two_stage._hard_and_soft import SPACE, TRAINING, HardLabels, SoftLabels
from crowdsweep.models.two_stage._training import ValidatedTraining

FLOOR = 1e-6  # of the inverse KL
SoftLoss = Literal["kl_regular", "kl_inverse", "cross_entropy"]
Columns = Float[torch.Tensor, "replicas classes columns"]


@final
@dataclass(frozen=True, kw_only=True)
class MTL:
    """Hyper-parameters of multi-task learning.

    Attributes:
        soft_loss: loss of the second head.
        aux_weight: weight of the soft loss beside the other, both in nats; 1 / ln 2 as in the paper.
    """

    hard: HardLabels = HardLabels()
    soft_labels: SoftLabels = SoftLabels()
    soft_loss: SoftLoss = "kl_regular"
    aux_weight: Annotated[float, Ge(0)] = 1 / log(2)
    training: ValidatedTraining = TRAINING

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Trains both heads; an answer is drawn from what the second says of its item, whoever gives it."""
        classifier, n_classes = self.training.classifier, data[0].n_classes
        trained = train_classifiers(
            classifier,
            [self._job(part, context) for part, context in zip(data, contexts, strict=True)],
            self.training.schedule,
            contexts[0].device,
            network=TwoHeads(network=classifier.build(data[0], sentences=True, n_outputs=2 * n_classes)),
            loss_of=lambda network, rows: HeadsLoss(network, rows, self.soft_loss, self.aux_weight),
        )
        return [
            one.result(
                item_probs=one.probs[:, :n_classes],
                label_probs=label_probs_of_items(one.probs[:, n_classes:]),
                predictor=(heads := HeadsPredictor(one.predictor)),
                unseen_label_probs=partial(_unseen_label_probs, heads),
            )
            for one in trained
        ]

    def _job(self, data: TrainingData, context: FitContext) -> TrainingJob:
        """Returns targets of both heads side by side; validated are the first head's on dev items, and where
        there are none both heads' on some of the training items."""

        def dev_targets(annotations: Annotations) -> ItemProbs:
            voted = self.hard.silver(annotations, context)
            return np.hstack([voted, np.zeros_like(voted)])

        hard = self.hard.of(data, context)
        soft = np.where(hard.any(axis=1, keepdims=True), self.soft_labels.of(data.annotations), 0.0)
        return TrainingJob(
            data=data,
            targets=np.hstack([hard, soft]),
            seeds=context.seeds.child("classifier"),
            report=handing_on(context.report, HeadsPredictor),
            dev_targets=dev_targets,
            checkpoint=context.checkpoint,
        )


@final
@dataclass(frozen=True, kw_only=True)
class TwoHeads(WrappedNetwork):
    """A network with 2 K outputs, those of the first head before those of the second; `n_classes` is 2 K."""

    def probabilities(self, values: Values, inputs: Inputs) -> Probs:
        """Returns the probabilities of both heads, each summing to one."""
        both = self.network.probabilities(values, inputs).unflatten(2, (2, -1))
        return (both / both.sum(dim=3, keepdim=True).clamp(min=1e-300)).flatten(2)


@final
@dataclass(frozen=True, eq=False)
class HeadsPredictor:
    """Labels items with the first head (`classifier`) or the second (`soft`)."""

    both: Predictor
    uses = ("classifier", "soft")

    def predict(self, items: Items, use: str) -> ItemProbs:
        probs = self.both.predict(items, self.both.uses[0])
        half = probs.shape[1] // 2
        return probs[:, half:] if use == "soft" else probs[:, :half]


def _unseen_label_probs(heads: HeadsPredictor, items: Items, item: ItemCodes, _: AnnotatorCodes) -> RowProbs:
    return heads.predict(items, "soft")[item]


@final
@dataclass(frozen=True, eq=False)
class HeadsLoss:
    """Cross-entropy of the first head, and the weighted soft loss of the second, which items without votes lack."""

    network: Network
    rows: TrainingRows
    soft_loss: SoftLoss
    aux_weight: float

    def __call__(self, values: Values, batch: Batch) -> tuple[PerReplica, PerReplica]:
        wanted, weight = self.rows.wanted(batch)
        hard, soft = wanted.chunk(2, dim=1)
        logits = self.network.logits(values, batch.take(self.rows.inputs), batch)
        log_p, log_q = (torch.log_softmax(head, dim=1) for head in logits.chunk(2, dim=1))
        lost = -(hard * log_p) + self.aux_weight * soft_terms(soft, log_q, self.soft_loss)
        return lost.sum(dim=(1, 2)), weight


def soft_terms(soft: Columns, log_q: Columns, soft_loss: SoftLoss) -> Columns:
    """Returns the soft loss class by class; zeros where there is no soft label."""
    if soft_loss == "cross_entropy":
        return -soft * log_q
    if soft_loss == "kl_regular":
        return torch.xlogy(soft, soft) - soft * log_q
    log_q = log_q.clamp(min=log(FLOOR))
    return (log_q.exp() * (log_q - soft.clamp(min=FLOOR).log())) * (soft.sum(dim=1, keepdim=True) > 0)


MODEL = ModelInfo(
    name="mtl",
    title="Multi-task learning: gold or silver labels, and a second head on soft labels",
    model=MTL,
    steps="epochs",
    predicts_labels=True,
    checkpoints=True,
    source="Fornaciari et al. 2021, NAACL, equations 1 to 4",
    needs=frozenset({"features"}),
    supports=frozenset({"votes", "soft_answers"}),
    space={
        "soft_loss": {"values": ["kl_regular", "kl_inverse"]},
        "soft": {"values": ["softmax_counts", "softmax_proportions", "proportions", "smoothed"]},
        "aux_weight": {"values": [0.25, 0.5, 1, 1.44, 2, 4]},
        **SPACE,
    },
    cost=training_cost,
    label_symmetric=False,
    version=2,
)
