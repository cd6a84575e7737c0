"""Crowd Mixture Model: annotators are a mixture of a few groups, each with one confusion matrix.

A classifier gives each item's true class, a label comes from one of M groups of annotators, and the group's matrix
turns the class into the label. Nothing is estimated for single annotators, so it does not matter how many there are or
whether they are known. EM trains the classifier on the expected labels.
Mena and Nanculef, "A deep mixture model for learning from crowds with sparse annotations" (CIARP 2019), Global model.

    r_ij          counts[i, j]     labels of class j that item i got
    f_k(x_i)      probs[i, k]      classifier
    alpha_m       shares[m]        size of group m
    beta^(m)      matrices[m]      [true, observed]
    p_ij          label_probs      p(label j | x_i), the sum over m and k of alpha_m f_k beta^(m)_kj
    q_ij(m, k)    never stored     alpha_m f_k beta^(m)_kj / p_ij
    rbar_ik       targets[i, k]    sum_j r_ij sum_m q_ij(m, k)

**The sums over (m, k) factorise.** With B = sum_m alpha_m beta^(m): p = f B, w = r / p, and G = f' w; then
sum_i r_ij q_ij(m, k) = alpha_m beta^(m)_kj G_kj and rbar = f * (w B'). So an E-step costs O(items * classes^2) and no
array has a group axis beside items.

Deviations: restarts begin at k-means of their own, where the authors share one, which now and then leaves all of them
at a bad optimum; `smoothing` (the authors' code adds 1 to the counts of shares and matrices, the paper nothing);
items are weighted by their labels as in the code (`item_weighting: uniform` is the paper's Equation 7); clusters are
found on at most 65,536 (item, label) pairs and then assigned to all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, final

import numpy as np
from annotated_types import Ge
from jaxtyping import Float64, Int

from crowdsweep.arrays import LOG_FLOOR, Confusion, Confusions, ItemProbs, floored_log, normalised_rows
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import chunks, label_probs_of, normalised
from crowdsweep.models.checkpoints import State, checked_array
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo
from crowdsweep.models.joint._em_with_network import (
    VARIES,
    ActiveChanges,
    ActiveProbs,
    ActiveValues,
    Fitted,
    NetworkEM,
    fit_side_by_side,
    joint_cost,
)
from crowdsweep.models.joint._label_clusters import GroupMatrices, Starts
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks import tensors
from crowdsweep.models.training_length import SEARCHED_UNSTOPPED

GroupShares = Float64[np.ndarray, " groups"]


@final
@dataclass(frozen=True, kw_only=True)
class CMM:
    """Hyper-parameters of the Crowd Mixture Model.

    Attributes:
        groups: M, number of groups of annotators. The training likelihood grows with it: choose by held-out likelihood.
        smoothing: pseudo-counts of each group's share and of every cell of the matrices.
        item_weighting: `labels` lets an item count as often as it was labelled, `uniform` once.
        em: how it is fitted.
    """

    groups: Annotated[int, Ge(1)] = 3
    smoothing: Annotated[float, Ge(0)] = 1.0
    item_weighting: Literal["labels", "uniform"] = "labels"
    em: NetworkEM = NetworkEM()

    @staticmethod
    def fit_points(
        models: Sequence["CMM"], data: Sequence[TrainingData], contexts: Sequence[FitContext]
    ) -> list[FitResult]:
        starts = Starts.of(data, [model.groups for model in models], contexts)

        def crowd_of(owners: Sequence[int], restarts: Sequence[int]) -> GroupedCrowd:
            expected = [starts[owner].of_restart(own) for owner, own in zip(owners, restarts, strict=True)]
            return GroupedCrowd(models, data, expected, owners, contexts[0].device)

        fitted = fit_side_by_side([model.em for model in models], data, contexts, crowd_of)
        return [_result(part, best) for part, best in zip(data, fitted, strict=True)]


@final
class GroupedCrowd:
    """Shares and matrices of the groups of R replicas, and their E- and M-step (`_em_with_network.Crowd`).

    The axis of groups is as long as the longest; groups beyond a replica's own have a share of 0 and no labels. Sums
    along it go in order (`cumsum`), so that these change no bit of the others.
    """

    def __init__(
        self,
        models: Sequence[CMM],
        data: Sequence[TrainingData],
        expected: Sequence[Float64[np.ndarray, "_ true observed"]],
        numbers: Sequence[int],
        device: str = "cpu",
    ) -> None:
        """Takes the models and data of all fits, and for each replica the expected counts of its first M-step, and the
        number of its fit."""
        own, n_classes = [models[number] for number in numbers], data[0].n_classes
        parts = {id(data[number]): data[number] for number in numbers}
        counts = np.zeros((len(parts), max(part.n_items for part in parts.values()), n_classes))
        for table, part in zip(counts, parts.values(), strict=True):
            table[: part.n_items] = part.annotations.counts.toarray()
        tables, rows = torch.from_numpy(counts).to(device), [[*parts].index(id(data[number])) for number in numbers]
        self._counts = tables.expand(len(numbers), -1, -1) if len(parts) == 1 else tables[rows]
        self._uniform = own[0].item_weighting == "uniform"
        self._smoothing = torch.tensor([one.smoothing for one in own], dtype=torch.float64, device=device)
        self._n_groups = [one.groups for one in own]
        laid_out = np.zeros((len(own), max(self._n_groups), n_classes, n_classes))
        for table, first in zip(laid_out, expected, strict=True):
            table[: len(first)] = first
        self._expected = torch.from_numpy(laid_out).to(device)
        has = np.arange(max(self._n_groups)) < np.array(self._n_groups)[:, None]
        self._has = torch.from_numpy(has).to(device)
        self.shares = torch.from_numpy(has / has.sum(axis=1, keepdims=True)).to(device)
        self.matrices = torch.full_like(self._expected, 1.0 / n_classes)

    def first_targets(self) -> ActiveProbs:
        """Returns each item's votes: the first half-iteration is an M-step on the soft majority vote."""
        return self._weighted(self._counts)

    def _weighted(self, targets: ActiveProbs) -> ActiveProbs:
        return tensors.normalised_rows(targets, at_zero=0.0) if self._uniform else targets.clone()

    def maximise(self, active: Sequence[int]) -> ActiveChanges:
        """alpha_m = (Q^m + s) / sum, beta^(m)_kj = (Q^m_kj + s) / sum over j; returns the mean relative change."""
        expected, before, has = self._expected[active], self.matrices[active], self._has[active]
        smoothing, n_groups = self._smoothing[active], has.sum(dim=1)
        sizes = torch.where(has, expected.sum(dim=(2, 3)) + smoothing[:, None], 0.0)
        total = sizes.cumsum(dim=1)[:, -1:]
        self.shares[active] = torch.where(total > 0, sizes / total, has / n_groups[:, None])
        after = tensors.normalised_rows(expected + smoothing[:, None, None, None])
        self.matrices[active] = after
        change = ((after - before).abs() / before.clamp(min=LOG_FLOOR)).mean(dim=(2, 3))
        return torch.where(has, change, 0.0).cumsum(dim=1)[:, -1] / n_groups

    def expect(self, active: Sequence[int], probs: ActiveProbs) -> tuple[ActiveProbs, ActiveValues]:
        """Returns rbar, and the log-likelihood sum r_ij log p_ij (without the multinomial coefficients)."""
        counts = self._counts if len(active) == len(self._counts) else self._counts[active]
        weighted = self.shares[active][:, :, None, None] * self.matrices[active]
        mixed = weighted.cumsum(dim=1)[:, -1]
        label_probs = torch.bmm(probs, mixed).clamp_(min=LOG_FLOOR)
        ratio = counts / label_probs
        gained = torch.bmm(probs.transpose(1, 2), ratio)
        self._expected[active] = weighted * gained[:, None]
        targets = torch.bmm(ratio, mixed.transpose(1, 2)).mul_(probs)
        log_likelihood = label_probs.log_().mul_(counts).sum(dim=(1, 2))
        return self._weighted(targets), log_likelihood.cpu().numpy()

    def solution(self, replica: int) -> tuple[GroupShares, GroupMatrices]:
        own = self.state(replica)
        return own["shares"], own["matrices"]

    def state(self, replica: int) -> State:
        own = self._n_groups[replica]
        return {name: table[replica, :own].cpu().numpy().copy() for name, table in self._tables().items()}

    def restore(self, replica: int, state: State) -> None:
        own = self._n_groups[replica]
        for name, table in self._tables().items():
            saved = checked_array(state, name, (own, *table.shape[2:]))
            table[replica, :own] = torch.from_numpy(saved).to(table.device)

    def _tables(self) -> dict[str, torch.Tensor]:
        """Returns what changes in each iteration, of all replicas."""
        return {"expected": self._expected, "shares": self.shares, "matrices": self.matrices}


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class GroupedAnnotators:
    """Each annotator's matrix is the groups' mean, weighted by how well each group explains the annotator's labels.

    Attributes:
        probs: the classifier's.
    """

    annotations: Annotations
    probs: ItemProbs
    shares: GroupShares
    matrices: GroupMatrices

    @property
    def n_annotators(self) -> int:
        return self.annotations.n_annotators

    @cached_property
    def memberships(self) -> Float64[np.ndarray, "annotators groups"]:
        """p(group | annotator's labels), proportional to alpha_m prod p_m(y | x_i); the shares where there are none."""
        log_joint = np.tile(floored_log(self.shares), (self.n_annotators, 1))
        rows, n_groups = self.annotations, len(self.shares)
        for part in chunks(len(rows), n_groups * rows.n_classes):
            items, labels = self.probs[rows.item[part]], rows.label[part]
            weight = 1.0 if rows.weight is None else rows.weight[part]
            for group, matrix in enumerate(self.matrices):
                if rows.soft_labels is None:
                    found = floored_log(np.einsum("ak,ka->a", items, matrix[:, labels]))
                else:
                    found = (rows.soft_labels[part] * floored_log(items @ matrix)).sum(axis=1)
                log_joint[:, group] += np.bincount(rows.annotator[part], found * weight, self.n_annotators)
        return normalised(log_joint)[0]

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> Confusions:
        return np.einsum("tm,mkj->tkj", self.memberships[annotators], self.matrices)

    def global_confusion(self) -> Confusion | None:
        """Returns sum_m alpha_m beta^(m)."""
        return np.einsum("m,mkj->kj", self.shares, self.matrices)


def _result(part: TrainingData, best: Fitted) -> FitResult:
    shares, matrices = best.solution
    matrices = matrices[:, best.order]
    annotators = GroupedAnnotators(annotations=part.annotations, probs=best.probs, shares=shares, matrices=matrices)
    return best.result(
        item_probs=normalised_rows(best.targets, at_zero=best.probs),
        annotators=annotators,
        label_probs=label_probs_of(best.probs, annotators),
        extras={"group_shares": shares, "group_matrices": matrices},
    )


MODEL = ModelInfo(
    name="cmm",
    title="Crowd Mixture Model: groups of annotators, and a classifier",
    model=CMM,
    steps="iterations",
    predicts_labels=True,
    checkpoints=True,
    varies=VARIES | {"groups", "smoothing"},
    source="Mena and Nanculef 2019, section 3, Equations 4 to 9 (Global)",
    needs=frozenset({"features"}),
    supports=frozenset({"votes", "soft_answers"}),
    version=5,
    space={
        "groups": {"min": 1, "max": 10},
        "smoothing": {"values": [0.01, 0.1, 1]},
        "learning_rate": {"values": [3e-4, 1e-3, 3e-3]},
        "steps": {"values": SEARCHED_UNSTOPPED},
    },
    cost=joint_cost,
    label_symmetric=False,
)
