"""DL-EM: Dawid-Skene whose class prior is a classifier on the item's features, trained inside EM.

The true class of an item is drawn from the classifier's output, each label from the row of its annotator's confusion
matrix. EM alternates between the posterior of the true classes (E-step) and matrices and classifier (M-step: one
epoch). Raykar et al. 2010 with a network; Albarqouni et al. 2016 (AggNet); baseline DL-EM of Mena and Nanculef (CIARP
2019).

    f(x_i)   probs        classifier            beta_t   confusion matrix of annotator t (`_em.ConfusionColumns`)
    q_i      posterior    of the true class, proportional to f(x_i) prod over t of beta_t[:, y_it]

Deviations: logsumexp in place of products; `smoothing` pseudo-counts in every cell, numerator and denominator (the
authors' code: 1; with few labels per annotator, 1 together with the paper's early stop collapses the fit).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Ge
from jaxtyping import Float64

from crowdsweep.arrays import ItemProbs, floored_log
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._confusion_states import columns_at, columns_of, columns_state, joined, set_columns
from crowdsweep.models._em import (
    PseudoAnswers,
    SparseConfusions,
    StackedCrowds,
    annotator_model,
    confusion_columns,
    evenly,
    label_probs_of,
    log_answers,
    mean_relative_change,
    normalised,
    soft_vote,
    stack,
)
from crowdsweep.models.checkpoints import State, checked_array, with_prefix, without_prefix
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo
from crowdsweep.models.joint._em_with_network import (
    VARIES,
    ActiveProbs,
    ActiveValues,
    Fitted,
    NetworkEM,
    fit_side_by_side,
    joint_cost,
)
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.training_length import SEARCHED_UNSTOPPED


@final
@dataclass(frozen=True, kw_only=True)
class DLEM:
    """Hyper-parameters of DL-EM.

    Attributes:
        smoothing: pseudo-counts in every cell of the confusion matrices.
        em: how it is fitted.
    """

    smoothing: Annotated[float, Ge(0)] = 0.01
    em: NetworkEM = NetworkEM()

    @staticmethod
    def fit_points(
        models: Sequence["DLEM"], data: Sequence[TrainingData], contexts: Sequence[FitContext]
    ) -> list[FitResult]:

        def crowd_of(owners: Sequence[int], _: Sequence[int]) -> KnownCrowd:
            smoothing = np.array([models[o].smoothing for o in owners])
            return KnownCrowd([data[o] for o in owners], smoothing, contexts[0].device)

        fitted = fit_side_by_side([model.em for model in models], data, contexts, crowd_of)
        return [_result(best) for best in fitted]


@final
class KnownCrowd:
    """Confusion matrices of R replicas' annotators, and their E- and M-step (`_em_with_network.Crowd`)."""

    def __init__(
        self, parts: Sequence[TrainingData], smoothing: Float64[np.ndarray, " replicas"], device: str = "cpu"
    ) -> None:
        """Starts from the soft majority vote."""
        self._parts, self._smoothing, self._device = parts, smoothing, device
        self._n_items = max(part.n_items for part in parts)
        self._replicas = list(range(len(parts)))
        self.crowds = stack([part.annotations for part in parts])
        self.posterior = soft_vote(self.crowds)
        self.columns = confusion_columns(self.crowds, self.posterior, self._pseudo_answers())

    def first_targets(self) -> Float64[torch.Tensor, "replicas items classes"]:
        """Returns the soft majority vote."""
        return self._padded(self.posterior, self.crowds)

    def maximise(self, active: Sequence[int]) -> ActiveValues:
        """beta_t[k, y] = (sum of q over labels y of t + s) / (sum of q over labels of t + K s); returns the change."""
        self._narrow(active)
        before = self.columns
        self.columns = confusion_columns(self.crowds, self.posterior, self._pseudo_answers())
        return mean_relative_change(self.crowds, before, self.columns)[self._places(active)]

    def expect(self, active: Sequence[int], probs: ActiveProbs) -> tuple[ActiveProbs, ActiveValues]:
        """Returns the posterior, and the log-likelihood of all labels."""
        log_joint = log_answers(self.crowds, self.columns)
        places = self._places(active)
        classifiers = probs.cpu().numpy()
        for place, own in zip(places, classifiers, strict=True):
            items = self.crowds.items_of(place)
            log_joint[items] += floored_log(own[: items.stop - items.start])
        self.posterior, log_evidence = normalised(log_joint)
        padded = self._padded(self.posterior, self.crowds)
        return padded[places], self.crowds.replica_sums(log_evidence * self.crowds.answered)[places]

    def solution(self, replica: int) -> tuple[SparseConfusions, ItemProbs]:
        place = self._replicas.index(replica)
        annotators = annotator_model(self.crowds, self.columns, place, smoothing=float(self._smoothing[replica]))
        return annotators, self.posterior[self.crowds.items_of(place)].copy()

    def state(self, replica: int) -> State:
        place = self._replicas.index(replica)
        return {
            "posterior": self.posterior[self.crowds.items_of(place)].copy(),
            **with_prefix("columns", columns_state(columns_at(self.crowds, self.columns, [place]))),
        }

    def restore(self, replica: int, state: State) -> None:
        items = self.crowds.items_of(replica)
        self.posterior[items] = checked_array(state, "posterior", self.posterior[items].shape)
        own = columns_of(without_prefix(state, "columns"), like=columns_at(self.crowds, self.columns, [replica]))
        set_columns(self.crowds, self.columns, replica, own)

    def _pseudo_answers(self) -> PseudoAnswers:
        return evenly(self.crowds, self._smoothing[self._replicas])

    def _places(self, active: Sequence[int]) -> list[int]:
        return [self._replicas.index(replica) for replica in active]

    def _narrow(self, active: Sequence[int]) -> None:
        """Lets go of replicas that have stopped, once they are half of those in the stack: stacking has its price."""
        if 2 * len(active) > len(self._replicas):
            return
        old, places = self.crowds, self._places(active)
        self.posterior = self.posterior[joined([old.items_of(place) for place in places])]
        self.columns = columns_at(old, self.columns, places)
        self._replicas = list(active)
        self.crowds = stack([self._parts[replica].annotations for replica in active])

    def _padded(self, per_item: ItemProbs, crowds: StackedCrowds) -> Float64[torch.Tensor, "replicas longest classes"]:
        """Lays flat items out by replicas, with zeros for padding and for items without labels."""
        answered = per_item * crowds.answered[:, None]
        if crowds.n_items == crowds.n_replicas * self._n_items:
            laid_out = answered.reshape(crowds.n_replicas, self._n_items, crowds.n_classes)
        else:
            laid_out = np.zeros((crowds.n_replicas, self._n_items, crowds.n_classes))
            for replica, table in enumerate(laid_out):
                items = crowds.items_of(replica)
                table[: items.stop - items.start] = answered[items]
        return torch.from_numpy(laid_out).to(self._device)


def _result(best: Fitted) -> FitResult:
    annotators, posterior = best.solution
    annotators, posterior = annotators.reordered(best.order), posterior[:, best.order]
    return best.result(item_probs=posterior, annotators=annotators, label_probs=label_probs_of(posterior, annotators))


MODEL = ModelInfo(
    name="dl-em",
    title="DL-EM: Dawid-Skene with a classifier, trained together",
    model=DLEM,
    steps="iterations",
    predicts_labels=True,
    checkpoints=True,
    varies=VARIES | {"smoothing"},
    source="Raykar et al. 2010, section 2; Mena and Nanculef 2019, section 4 (DL-EM)",
    needs=frozenset({"features"}),
    supports=frozenset({"votes", "soft_answers"}),
    version=5,
    space={
        "smoothing": {"values": [0, 0.01, 0.1, 1]},
        "iterations": {"values": [10, 20, 50]},
        "steps": {"values": SEARCHED_UNSTOPPED},
        "learning_rate": {"values": [3e-4, 1e-3, 3e-3]},
    },
    cost=joint_cost,
    label_symmetric=False,
)
