"""The embedding of an annotator that an LDL-NM was not trained on, inferred from a few answers.

Weerasooriya, Ororbia and Homan, algorithm 4: the network is fixed, and gradient descent from an embedding of zeros
minimises the divergence of its predictions from the annotator's answers:

    z_A <- z_A - step_size * d/dz_A KL(wanted || said by z_A) - decay * z_A

Deviations: it has the width J_A of embeddings (the public code gives it that of the latent vector); steps run from 1 to
`steps` (the paper counts one too many); where the divergence would not fall, the embedding stays and the step is halved
(the public code ends there: a first step too wide, and nothing is found); of several items the mean divergence counts.
The paper matches item distributions with the item head (`head: item`); an annotator's own answers, one-hot, are matched
with the head that says what annotators say (`head: label`). It starts at zeros (`start: zeros`); where kinds of
annotators contradict each other, these are a saddle point, and the known annotator whose predicted answers are closest
is the better start (`start: nearest`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items
from crowdsweep.errors import BadInput
from crowdsweep.models.joint._ldl_network import HEADS, AnnotatorEnsemble
from crowdsweep.models.lazy_torch import torch

_MOST_ITEMS = 128  # of one annotator that `inferred_loglik` looks at
_MOST_NEAR = 64  # known annotators among whom the nearest is looked for


@dataclass(frozen=True, kw_only=True)
class Descent:
    """Hyper-parameters of the search for an embedding; the defaults are the paper's.

    Attributes:
        head: what is matched: `item` with item label distributions, `label` with an annotator's answers.
        start: zeros, or the known annotator whose answers are most like these to the network.
        step_size: to begin with, above 0.
        decay: of the embedding at each step, at least 0.
        steps: limit, at least 1.
    """

    head: Literal["label", "item"] = "item"
    start: Literal["zeros", "nearest"] = "zeros"
    step_size: float = 0.1
    decay: float = 1e-3
    steps: int = 50


ANSWERS = Descent(head="label", start="nearest", step_size=2.0, steps=200)
"""Of answers: of the step sizes and numbers of steps that were tried (0.5 and 2, 50 and 200) these predicted annotators
left out of jobs-q1 to q3 best."""


@dataclass(frozen=True, kw_only=True, eq=False)
class UnseenAnnotator:
    """An annotator that the fit never saw, inferred from a few answers.

    Attributes:
        embedding: z_A.
        divergences: the mean KL divergence in nats at the start, then after each step that was taken: it falls.
    """

    ensemble: AnnotatorEnsemble
    embedding: Float32[np.ndarray, " annotator_embedding"]
    divergences: Float64[np.ndarray, " steps"]

    def answers(self, items: Items) -> ItemProbs:
        """Returns what this annotator would say of these items, each label with its probability."""
        return self._said(items, "label")

    def histogram(self, items: Items) -> ItemProbs:
        """Returns the annotator's own label distribution, as the network guesses it beside each of these items."""
        return self._said(items, "annotator")

    def _said(self, items: Items, head: str) -> ItemProbs:
        embedding = torch.from_numpy(self.embedding).to(self.ensemble.device)
        with torch.no_grad():
            return _log_said(self.ensemble, self.ensemble.features(items), embedding, head).exp().cpu().numpy()


def infer_annotator(
    ensemble: AnnotatorEnsemble,
    items: Items,
    wanted: ItemProbs,
    how: Descent = Descent(),
) -> UnseenAnnotator:
    """Finds the embedding with which the network says what was seen (algorithm 4).

    Args:
        ensemble: the predictor of a fit of ldl-nm.
        items: those with answers, at least one, with the features that it was trained on.
        wanted: their label distributions (`head: item`), or the annotator's answers, one-hot (`head: label`).

    Raises:
        BadInput: there is no item, or not one distribution of the network's classes for each.
    """
    if not items.n_items or wanted.shape != (items.n_items, ensemble.network.n_classes):
        expected = f"at least one item and distributions of shape [items, {ensemble.network.n_classes}]"
        raise BadInput(f"expected {expected} to tell an annotator by; got {items.n_items} items and {wanted.shape}")
    who = np.zeros(items.n_items, np.int64)
    found = _inferred(ensemble, items, wanted, who, how)
    return UnseenAnnotator(
        ensemble=ensemble,
        embedding=found.embeddings[0],
        divergences=np.array([now[0] for now, moved in found.steps if moved[0]], np.float64),
    )


def inferred_loglik(
    ensemble: AnnotatorEnsemble, items: Items, annotations: Annotations, annotators: Int64[np.ndarray, " annotators"]
) -> Float64[np.ndarray, "annotators 2"]:
    """Returns how well answers of annotators whom the network was not trained on are predicted from others of theirs.

    Of the items that one answered, every second tells the embedding (`infer_annotator`, by the `label` head), and the
    others' answers are predicted.

    Args:
        ensemble: the predictor of a fit of ldl-nm.
        items: those that `annotations` are of.
        annotations: with at least two items of each of these annotators.
        annotators: distinct codes.

    Returns:
        The mean log-probability in nats of an annotator's answers by the mean of the known annotators, and by the
        annotator's own embedding.
    """
    answers = [_answers(annotations, annotator) for annotator in annotators.tolist()]
    told, asked = ([(item[part], shares[part]) for item, shares in answers] for part in (np.s_[::2], np.s_[1::2]))
    seen_items, seen, seen_by = _stacked(told)
    inferred = _inferred(ensemble, items.take(seen_items), seen, seen_by, ANSWERS)
    asked_items, given, given_by = _stacked(asked)
    others = items.take(asked_items)
    embeddings = torch.from_numpy(inferred.embeddings[given_by]).to(ensemble.device)
    with torch.no_grad():
        own = _log_said(ensemble, ensemble.features(others), embeddings, "label").cpu().numpy()
    crowd = np.log(replace(ensemble, aggregation="mean").predict(others, "ensemble"))
    counts = np.bincount(given_by)
    return np.stack([np.bincount(given_by, (given * said).sum(axis=1)) / counts for said in (crowd, own)], axis=1)


def _answers(annotations: Annotations, annotator: int) -> tuple[Int64[np.ndarray, " items"], ItemProbs]:
    """Returns the first items that somebody answered, and what shares of which answers they were given."""
    first, end = annotations.annotator_pointers[annotator : annotator + 2]
    mine = annotations.take(annotations.by_annotator[first:end])
    items = np.flatnonzero(mine.labels_per_item)[:_MOST_ITEMS]
    return items, mine.of_items(items).label_distribution()


def _stacked(
    answers: Sequence[tuple[Int64[np.ndarray, " _"], Float64[np.ndarray, "_ classes"]]],
) -> tuple[Int64[np.ndarray, " rows"], Float64[np.ndarray, "rows classes"], Int64[np.ndarray, " rows"]]:
    """Returns the rows of all annotators one after another, with each row's annotator by place."""
    items, shares = (np.concatenate(column) for column in zip(*answers, strict=True))
    return items, shares, np.repeat(np.arange(len(answers)), [len(item) for item, _ in answers])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Inferred:
    """Embeddings of some annotators, and how they came to be: after each step the divergences, and who moved."""

    embeddings: Float32[np.ndarray, "annotators annotator_embedding"]
    steps: Sequence[tuple[Float64[np.ndarray, " annotators"], Bool[np.ndarray, " annotators"]]]


def _inferred(
    ensemble: AnnotatorEnsemble,
    items: Items,
    wanted: ItemProbs,
    who: Int64[np.ndarray, " items"],
    how: Descent,
) -> _Inferred:
    """Goes downhill for all annotators at once: row by row an item, what is wanted there, and of which annotator."""
    features = ensemble.features(items)
    target = torch.from_numpy(np.array(wanted)).to(ensemble.device)
    negative_entropy = torch.xlogy(target, target).sum(dim=1)
    of = torch.from_numpy(who).to(ensemble.device)
    counts = torch.bincount(of).to(torch.float64)

    def divergence(embeddings: torch.Tensor) -> torch.Tensor:
        log_said = _log_said(ensemble, features, embeddings[of], how.head)
        return torch.zeros_like(counts).index_add(0, of, negative_entropy - (target * log_said).sum(dim=1)) / counts

    def measured(embeddings: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        followed = embeddings.detach().requires_grad_()
        apart = divergence(followed)
        (slopes,) = torch.autograd.grad(apart.sum(), followed)
        return apart.detach(), slopes

    embeddings = torch.zeros(len(counts), ensemble.network.annotator_embedding, device=ensemble.device)
    if how.start == "nearest":
        with torch.no_grad():
            apart = divergence(embeddings)
            for known in ensemble.annotators[:: max(1, len(ensemble.annotators) // _MOST_NEAR)]:
                other = torch.from_numpy(known).to(ensemble.device).expand(len(counts), -1)
                there = divergence(other)
                embeddings = torch.where((there < apart)[:, None], other, embeddings)
                apart = torch.minimum(there, apart)
    apart, slopes = measured(embeddings)
    sizes = torch.full((len(counts), 1), how.step_size, device=ensemble.device)
    steps = [(apart.cpu().numpy(), np.ones(len(counts), bool))]
    for _ in range(how.steps):
        moved = embeddings - sizes * slopes - how.decay * embeddings
        there, slopes_there = measured(moved)
        # A step that does not lead down is not made, and the next one is half as long: for each annotator by itself.
        falls = there < apart
        embeddings = torch.where(falls[:, None], moved, embeddings)
        slopes = torch.where(falls[:, None], slopes_there, slopes)
        apart = torch.where(falls, there, apart)
        sizes = torch.where(falls[:, None], sizes, sizes / 2)
        steps.append((apart.cpu().numpy(), falls.cpu().numpy()))
    return _Inferred(embeddings=embeddings.cpu().numpy(), steps=steps)


def _log_said(ensemble: AnnotatorEnsemble, features: torch.Tensor, embedding: torch.Tensor, head: str) -> torch.Tensor:
    """Returns the log-probabilities of a head [items, classes], float64, of one annotator or of one for each item."""
    annotators = embedding.expand(1, features.shape[1], -1)
    heads = ensemble.network.log_heads(ensemble.stacked(), features, annotators, None, 1.0)
    return heads[0, :, HEADS.index(head)].to(torch.float64)
