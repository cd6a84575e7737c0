"""Crowd Mixture Model for known annotators: each annotator has shares of its own in a few groups.

As in `cmm`, a classifier gives each item's true class and a group's confusion matrix turns the class into a label; here
the group of a label is drawn from its *annotator's* shares (the gate), not from the crowd's. Each annotator has M
parameters and not K × K, so that a few labels are informative. Mena and Nanculef, "A deep mixture model for learning
from crowds with sparse annotations" (CIARP 2019), Individual setting; C-MoA in their later code.

    f_k(x_i)        probs[i, k]         classifier
    p(m | t)        gates[t, m]         the gate: shares of annotator t
    alpha_m         shares[m]           of all labels: the gate of an annotator without labels
    beta^(m)        matrices[m]         [true, observed]
    p_l             label l = (i, t, y): sum over m and k of p(m | t) f_k(x_i) beta^(m)_ky
    q_l(m, k)       never stored        p(m | t) f_k beta^(m)_ky / p_l

**The sums over (m, k) factorise.** With s_lm = sum_k f_k(x_i) beta^(m)_ky and w_lm = p(m | t) / p_l: the expected group
of a label is w_lm s_lm; and with R^m_iy = sum of w_lm over the labels y of item i, the expected counts of group m are
beta^(m) * (f' R^m) and an item's expected labels f * sum_m R^m beta^(m)'. So a step costs O(groups * (annotations +
items * classes^2)), a gate is a row that is looked up, and nothing has an annotator axis beside items or classes.

Deviations: the authors learn the gate as a softmax layer on the one-hot annotator, an epoch of Adam in each M-step;
here it is the M-step's own solution, (expected labels from group m + `gate_smoothing` * alpha_m) / sum, which has no
learning rate. `gate_smoothing` draws an annotator to the crowd's shares: 0 is the paper's model, and the larger it is
the more this is `cmm`; without it, an annotator with one label might as well be of a group that always gives that
label. Restarts begin where those of `cmm` do, at clusters of labels by how they contradict the votes; the authors
cluster annotators by their matrices, which puts annotators of one label each together by that label. Training items are
labelled by f and all their labels together, f_k prod over l of sum_m p(m | t) beta^(m)_ky, where `cmm`, whose
annotators are not known, averages what single labels say.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, final

import numpy as np
from annotated_types import Ge
from jaxtyping import Float64, Int, Int32

from crowdsweep.arrays import LOG_FLOOR, Confusion, Confusions, ItemProbs, floored_log, normalised_rows
from crowdsweep.data.dataset import TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._answers import ActiveAnswers
from crowdsweep.models._em import chunks, label_probs_of
from crowdsweep.models._stacked import weights_of
from crowdsweep.models.checkpoints import State, checked_array
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo
from crowdsweep.models.end_to_end_fitted import posterior_of
from crowdsweep.models.joint._em_with_network import (
    VARIES,
    ActiveProbs,
    ActiveValues,
    Fitted,
    NetworkEM,
    fit_side_by_side,
    joint_cost,
)
from crowdsweep.models.joint._label_clusters import GroupMatrices, Starts
from crowdsweep.models.lazy_torch import torch

Gates = Float64[np.ndarray, "active groups"]
GroupShares = Float64[np.ndarray, " groups"]

_CHANGING = ("expected", "gate_counts", "gates", "shares", "matrices")


@final
@dataclass(frozen=True, kw_only=True)
class CMMIndividual:
    """Hyper-parameters of the Crowd Mixture Model for known annotators.

    Attributes:
        groups: M, number of groups of annotators. The training likelihood grows with it: choose by held-out likelihood.
        smoothing: pseudo-counts of each group's share and of every cell of the matrices.
        gate_smoothing: labels' worth of the crowd's shares that every annotator's own begin with.
        item_weighting: `labels` lets an item count as often as it was labelled, `uniform` once.
        em: how it is fitted.
    """

    groups: Annotated[int, Ge(1)] = 3
    smoothing: Annotated[float, Ge(0)] = 1.0
    gate_smoothing: Annotated[float, Ge(0)] = 10.0
    item_weighting: Literal["labels", "uniform"] = "labels"
    em: NetworkEM = NetworkEM()

    @staticmethod
    def fit_points(
        models: Sequence["CMMIndividual"], data: Sequence[TrainingData], contexts: Sequence[FitContext]
    ) -> list[FitResult]:
        """Runs EM with all restarts of all fits side by side.

        Raises:
            FitFailed: a data set has no answer.
        """
        answers = [ActiveAnswers.of(part.annotations) for part in data]
        if not all(len(own.rows) for own in answers):
            raise FitFailed("expected at least one annotation to train on, got none")
        starts = Starts.of(data, [model.groups for model in models], contexts)

        def crowd_of(owners: Sequence[int], restarts: Sequence[int]) -> GatedCrowd:
            clusters = [starts[owner].clusters(own) for owner, own in zip(owners, restarts, strict=True)]
            own_models, own_answers = [models[owner] for owner in owners], [answers[owner] for owner in owners]
            return GatedCrowd(own_models, own_answers, clusters, contexts[0].device)

        fitted = fit_side_by_side([model.em for model in models], data, contexts, crowd_of)
        return [_result(part, own, best) for part, own, best in zip(data, answers, fitted, strict=True)]


@final
class GatedGroups:
    """Gates, shares and matrices of one restart, and their E- and M-step."""

    def __init__(
        self, model: CMMIndividual, answers: ActiveAnswers, clusters: Int32[np.ndarray, "items classes"]
    ) -> None:
        """Begins with the votes for the true class, and the group that each item's labels are taken to come from."""
        self._model, self._rows, self._weights = model, answers.rows, weights_of(answers.rows)
        votes, counts, n_classes = self._rows.label_distribution(), self._rows.counts.toarray(), self._rows.n_classes
        groups = np.arange(model.groups)
        self.expected = np.stack([votes.T @ (counts * (clusters == group)) for group in groups])
        cells = self._rows.annotator.astype(np.int64) * model.groups + clusters[self._rows.item, self._rows.label]
        shape = (len(answers.code), model.groups)
        self.gate_counts = np.bincount(cells, self._weights, shape[0] * shape[1]).reshape(shape)
        self.matrices = np.full_like(self.expected, 1.0 / n_classes)
        self.gates, self.shares = np.empty(shape), np.empty(model.groups)

    def maximise(self) -> float:
        """Gates, shares and matrices of the expected labels; returns the mean relative change of the matrices."""
        model, before = self._model, self.matrices
        self.shares = normalised_rows(self.gate_counts.sum(axis=0) + model.smoothing)
        self.gates = normalised_rows(self.gate_counts + model.gate_smoothing * self.shares)
        self.matrices = normalised_rows(self.expected + model.smoothing)
        return float((np.abs(self.matrices - before) / np.maximum(before, LOG_FLOOR)).mean())

    def expect(self, probs: ItemProbs) -> tuple[ItemProbs, float]:
        """Returns each item's expected labels and the log-likelihood of all labels."""
        rows, n_classes = self._rows, self._rows.n_classes
        said = [probs @ matrix for matrix in self.matrices]  # s of every item and label, by group
        ratios = np.zeros((len(said), probs.size))  # R
        self.gate_counts = np.zeros_like(self.gates)
        log_likelihood = 0.0
        for part in chunks(len(rows), 2 * len(said)):
            annotator, weights = rows.annotator[part], self._weights[part]
            cells = rows.item[part].astype(np.int64) * n_classes + rows.label[part]
            first, last = int(rows.item[part][0]) * n_classes, (int(rows.item[part][-1]) + 1) * n_classes
            spoken = np.stack([own.ravel()[cells] for own in said], axis=1)
            label_probs = np.maximum((self.gates[annotator] * spoken).sum(axis=1), LOG_FLOOR)
            log_likelihood += float(weights @ np.log(label_probs))
            weighted = self.gates[annotator] * (weights / label_probs)[:, None]
            for group, own in enumerate(ratios):
                own[first:last] += np.bincount(cells - first, weighted[:, group], last - first)
                self.gate_counts[:, group] += np.bincount(
                    annotator, weighted[:, group] * spoken[:, group], len(self.gates)
                )
        tables = ratios.reshape(len(said), *probs.shape)
        self.expected = self.matrices * np.stack([probs.T @ table for table in tables])
        targets = probs * sum(table @ matrix.T for table, matrix in zip(tables, self.matrices, strict=True))
        return targets, log_likelihood

    def state(self) -> State:
        """Returns what changes in each iteration."""
        return {name: getattr(self, name).copy() for name in _CHANGING}

    def restore(self, state: State) -> None:
        for name in _CHANGING:
            setattr(self, name, checked_array(state, name, getattr(self, name).shape))


@final
class GatedCrowd:
    """The groups of R restarts, one after another (`_em_with_network.Crowd`)."""

    def __init__(
        self,
        models: Sequence[CMMIndividual],
        answers: Sequence[ActiveAnswers],
        clusters: Sequence[Int32[np.ndarray, "_ classes"]],
        device: str = "cpu",
    ) -> None:
        """Takes the model, the answers and the first clusters of each restart."""
        self._device, self._uniform = device, models[0].item_weighting == "uniform"
        self.restarts = list(map(GatedGroups, models, answers, clusters))
        self._counts = [own.rows.counts.toarray() for own in answers]

    def first_targets(self) -> ActiveProbs:
        """Returns each item's votes: the first half-iteration is an M-step on the soft majority vote."""
        return self._padded(self._counts)

    def maximise(self, active: Sequence[int]) -> ActiveValues:
        return np.array([self.restarts[replica].maximise() for replica in active])

    def expect(self, active: Sequence[int], probs: ActiveProbs) -> tuple[ActiveProbs, ActiveValues]:
        own = probs.cpu().numpy()
        found = [self.restarts[r].expect(part[: len(self._counts[r])]) for r, part in zip(active, own, strict=True)]
        return self._padded([targets for targets, _ in found]), np.array([value for _, value in found])

    def solution(self, replica: int) -> tuple[Gates, GroupShares, GroupMatrices]:
        """Returns the annotators' gates, and the groups' shares and matrices."""
        own = self.restarts[replica]
        return own.gates, own.shares, own.matrices

    def state(self, replica: int) -> State:
        return self.restarts[replica].state()

    def restore(self, replica: int, state: State) -> None:
        self.restarts[replica].restore(state)

    def _padded(self, targets: Sequence[Float64[np.ndarray, "_ classes"]]) -> ActiveProbs:
        laid_out = np.zeros((len(targets), max(map(len, self._counts)), targets[0].shape[1]))
        for table, own in zip(laid_out, targets, strict=True):
            table[: len(own)] = normalised_rows(own, at_zero=0.0) if self._uniform else own
        return torch.from_numpy(laid_out).to(self._device)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class GatedAnnotators:
    """Each annotator's matrix is the groups' mean, weighted by the annotator's gate.

    Attributes:
        gates: of the annotators who answered anything; all others have the crowd's shares.
        code: of these annotators, ascending.
        n_annotators: declared.
    """

    gates: Gates
    code: Int32[np.ndarray, " active"]
    shares: GroupShares
    matrices: GroupMatrices
    n_annotators: int

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> Confusions:
        place = np.minimum(np.searchsorted(self.code, annotators), len(self.code) - 1)
        gates = np.where((self.code[place] == annotators)[:, None], self.gates[place], self.shares)
        return np.einsum("tm,mkj->tkj", gates, self.matrices)

    def global_confusion(self) -> Confusion | None:
        """Returns sum_m alpha_m beta^(m)."""
        return np.einsum("m,mkj->kj", self.shares, self.matrices)


def _result(part: TrainingData, answers: ActiveAnswers, best: Fitted) -> FitResult:
    gates, shares, matrices = best.solution
    rows, matrices = answers.rows, matrices[:, best.order]

    def log_likelihood(some: slice) -> Float64[np.ndarray, "rows classes"]:
        return floored_log(np.einsum("am,mka->ak", gates[rows.annotator[some]], matrices[:, :, rows.label[some]]))

    posterior = posterior_of(rows, best.probs, log_likelihood, len(shares) * rows.n_classes)
    annotators = GatedAnnotators(
        gates=gates, code=answers.code, shares=shares, matrices=matrices, n_annotators=part.n_annotators
    )
    return best.result(
        item_probs=posterior,
        annotators=annotators,
        label_probs=label_probs_of(posterior, annotators),
        extras={"group_shares": shares, "group_matrices": matrices, "gates": gates},
    )


MODEL = ModelInfo(
    name="cmm-individual",
    title="Crowd Mixture Model for known annotators, who have groups of their own",
    model=CMMIndividual,
    steps="iterations",
    predicts_labels=True,
    checkpoints=True,
    source="Mena and Nanculef 2019, section 3 (Individual); gates in closed form",
    needs=frozenset({"features", "annotators"}),
    supports=frozenset({"soft_answers"}),
    space={
        "groups": {"min": 1, "max": 10},
        "smoothing": {"values": [0.01, 0.1, 1]},
        "gate_smoothing": {"values": [0, 1, 10]},
        "learning_rate": {"values": [3e-4, 1e-3, 3e-3]},
    },
    cost=joint_cost,
    label_symmetric=False,
    varies=VARIES | {"groups", "smoothing", "gate_smoothing"},
    version=4,
)
