"""LIA's losses of a minibatch, with their slopes in what its three functions give; autograd follows these alone.

Every answer has a matrix of its own, so that a step's time goes by the passes over all of them: there are a dozen, half
of those that autograd makes, none of them across memory.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal, cast, final

import numpy as np
from jaxtyping import Float, Float32, Int64, Shaped

from crowdsweep.models._answers import BatchAnswers
from crowdsweep.models._batches import Batch, StackedRows
from crowdsweep.models.joint._lia_answers import Answers, SaidInBatch, StackedSaid
from crowdsweep.models.joint._lia_network import (
    Annotators,
    ClassLogits,
    ItemCells,
    LiaNetwork,
    LogClasses,
    LogConfusions,
)
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.tensors import LANES, PerReplica
from crowdsweep.models.networks.values import Values

Objective = Literal["expectation", "composite", "joint"]
ItemNumbers = Int64[torch.Tensor, " pairs"]
PerItem = Float[torch.Tensor, " items"]
PerPair = Float[torch.Tensor, " pairs"]
SaidOfPairs = Float[torch.Tensor, "observed questions 1 pairs"]  # what an answer says, times its weight
Sloped = tuple[PerItem | None, PerPair | None, LogClasses, LogConfusions]  # losses, and slopes in log h and in log Q


@final
class LiaLoss:
    """Minus EM's expectation, or minus the likelihood of the answers: of each by itself, or of all to an item."""

    def __init__(
        self,
        network: LiaNetwork,
        inputs: StackedRows,
        posterior: StackedRows,
        answers: Sequence[Answers],
        annotators: Annotators,
        *,
        pull: Float32[np.ndarray, " replicas"],
        per_answer: bool,
        device: str,
    ) -> None:
        """Lays out the answers.

        Args:
            posterior: of the items, which may change between steps.
            pull: what (log Q)² weighs in the loss of each replica.
            per_answer: whether the classifier's expectation counts once per answer; else once per item.
        """
        self._network, self._inputs, self._posterior, self._annotators = network, inputs, posterior, annotators
        self._said = StackedSaid(answers, device)
        self._pull = torch.from_numpy(pull).to(device)
        self._pulls, self._per_answer = bool(pull.any()), per_answer

    def __call__(self, objective: Objective, values: Values, batch: Batch) -> tuple[PerReplica, PerReplica]:
        from crowdsweep.models.networks.written_gradients import WithSlopes  # noqa: PLC0415 - it imports torch

        seen, said = self._said.of(batch)
        logits, difficulty = self._network.of_items(values, batch.take(self._inputs), batch)
        competence, who = self._annotators.seen(self._network, values, seen, batch)
        made = partial(self.with_slopes, objective, batch, seen, said, who)
        return cast(torch.Tensor, WithSlopes.apply(made, logits, difficulty, competence)), batch.sizes

    def with_slopes(
        self,
        objective: Objective,
        batch: Batch,
        seen: BatchAnswers,
        said: SaidInBatch,
        who: Int64[torch.Tensor, " answers"],
        logits: ClassLogits,
        difficulty: ItemCells,
        competence: Float[torch.Tensor, "replicas cells annotators"],
    ) -> tuple[PerReplica, list[torch.Tensor]]:
        """Returns each replica's loss, and its slopes in logits, difficulty and competence."""
        network, n_replicas = self._network, len(logits)
        # Filled up with answers that weigh nothing: then no number depends on how many there are (`LANES`).
        item, who, place, weight = map(_filled, (seen.item, who, seen.place, seen.weight.to(logits.dtype)))
        spoken = (_filled(said.permute(2, 1, 0)) * weight).unsqueeze(2)
        hard, able = network.laid_out(difficulty), network.laid_out(competence)
        together = hard.index_select(1, item).add_(able.index_select(1, who))
        log_h, log_q = network.log_classes(logits), network.log_confusions(together)

        counted = torch.ones_like(log_h[0, 0]) if batch.mask is None else batch.mask.flatten()
        if objective == "composite":
            found = _of_each_answer(log_h, log_q, item, spoken)
        elif objective == "joint":
            found = _of_all_answers(log_h, log_q, item, spoken, counted)
        else:
            if self._per_answer:
                counted = torch.zeros_like(log_h[0, 0]).index_add_(0, item, weight)
            posterior = batch.take(self._posterior).permute(2, 3, 0, 1).flatten(2)
            found = _expected(log_h, log_q, item, spoken, posterior, counted)
        of_items, of_pairs, h_slope, q_slope = found
        lost = log_h.new_zeros(n_replicas)
        if of_items is not None:
            lost += of_items.view(n_replicas, -1).sum(dim=1)
        if self._pulls:
            pull = self._pull[batch.block.replicas].index_select(0, place).mul_(weight)
            pulled = log_q.square().flatten(0, 2).sum(dim=0).mul_(pull)
            of_pairs = pulled if of_pairs is None else of_pairs + pulled
            q_slope.addcmul_(log_q, pull, value=2.0)
        if of_pairs is not None:
            lost.index_add_(0, place, of_pairs)

        # Through the softmaxes, and back to the functions' own order.
        slope = q_slope.addcmul_(log_q.exp_(), q_slope.sum(dim=0), value=-1.0)
        if network.latent > 1:
            cells = together.view(*slope.shape[:3], network.latent, -1)
            slope = slope.unsqueeze(3) * torch.softmax(cells, dim=3)
        slope = slope.reshape(together.shape)
        h_slope = h_slope - log_h.exp_() * h_slope.sum(dim=1, keepdim=True)
        return lost, [
            h_slope.unflatten(2, (n_replicas, -1)).permute(2, 0, 1, 3).flatten(1, 2),
            network.put_back(torch.zeros_like(hard).index_add_(1, item, slope), n_replicas),
            network.put_back(torch.zeros_like(able).index_add_(1, who, slope), n_replicas),
        ]


def _expected(
    log_h: LogClasses, log_q: LogConfusions, item: ItemNumbers, said: SaidOfPairs, posterior: LogClasses, n: PerItem
) -> Sloped:
    """Minus sum_k p_k log h_k, n times, and minus sum_k p_k log Q[k, y]."""
    slope = said * _at(-posterior, item)
    h_slope = posterior * -n
    return (h_slope * log_h).flatten(0, 1).sum(dim=0), (slope * log_q).flatten(0, 2).sum(dim=0), h_slope, slope


def _of_each_answer(log_h: LogClasses, log_q: LogConfusions, item: ItemNumbers, said: SaidOfPairs) -> Sloped:
    """Minus log sum_k h_k Q[k, y], of each answer."""
    joint = log_q + _at(log_h, item)
    top = joint.amax(dim=2, keepdim=True)
    shares = joint.sub_(top).exp_()
    total = shares.sum(dim=2, keepdim=True)
    lost = (said * (total.log() + top)).flatten(0, 2).sum(dim=0)
    slope = shares.mul_(said / -total)
    return None, -lost, _to_items(slope, item, log_h), slope


def _of_all_answers(
    log_h: LogClasses, log_q: LogConfusions, item: ItemNumbers, said: SaidOfPairs, counted: PerItem
) -> Sloped:
    """Minus log sum_k h_k prod over t of Q_t[k, y_t], of each item that counts."""
    joint = log_h + _to_items(log_q * said, item, log_h)
    evidence = joint.logsumexp(dim=1, keepdim=True)
    h_slope = (joint - evidence).exp_().mul_(-counted)
    return evidence.flatten(0, 1).sum(dim=0) * -counted, None, h_slope, said * _at(h_slope, item)


def _at(of_items: LogClasses, item: ItemNumbers) -> Float[torch.Tensor, "questions classes pairs"]:
    """Returns of each pair what there is of its item."""
    return of_items.flatten(0, 1).index_select(1, item).unflatten(0, of_items.shape[:2])


def _to_items(of_pairs: LogConfusions, item: ItemNumbers, like: LogClasses) -> LogClasses:
    """Returns the sum over the labels, and over the pairs of each item."""
    found = torch.zeros_like(like).flatten(0, 1)
    return found.index_add_(1, item, of_pairs.sum(dim=0).flatten(0, 1)).view(like.shape)


def _filled(of_answers: Shaped[torch.Tensor, "*shape answers"]) -> Shaped[torch.Tensor, "*shape pairs"]:
    """Returns the same with zeros behind, to a multiple of `LANES`."""
    return torch.nn.functional.pad(of_answers, (0, -of_answers.shape[-1] % LANES))
