"""Who is this? The embedding of an annotator that an LDL-NM was not trained on, found from a few answers.

Weerasooriya, Ororbia and Homan, algorithm 4: the network stays as it is, and an embedding of zeros goes downhill on the
divergence of what the network says from what was seen:

    z_A <- z_A - step_size * d/dz_A KL(wanted || said by z_A) - decay * z_A

Deviations: it has the width J_A of embeddings (the public code gives it that of the latent vector); steps run from 1 to
`steps` (the paper counts one too many); where the divergence would not fall, the embedding stays and the step is halved
(the public code ends there: a first step too wide, and nothing is found); of several items the mean divergence counts.
The paper matches item distributions with the item head (`head: item`); an annotator's own answers, one-hot, are matched
with the head that says what annotators say (`head: label`).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float32, Float64

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import Items
from crowdsweep.errors import BadInput
from crowdsweep.models.joint._ldl_network import HEADS, AnnotatorEnsemble
from crowdsweep.models.networks.contract import features_of

Head = Literal["label", "item"]


@dataclass(frozen=True, kw_only=True, eq=False)
class UnseenAnnotator:
    """What is known of an annotator that the fit never saw.

    Attributes:
        ensemble: the trained network.
        embedding: z_A.
        divergences: the mean KL divergence in nats at z_A = 0, then after each step that was taken: it falls.
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
            return _log_said(self.ensemble, _features(self.ensemble, items), embedding, head).exp().cpu().numpy()


def infer_annotator(
    ensemble: AnnotatorEnsemble,
    items: Items,
    wanted: ItemProbs,
    *,
    head: Head = "item",
    step_size: float = 0.1,
    decay: float = 1e-3,
    steps: int = 50,
) -> UnseenAnnotator:
    """Finds the embedding with which the network says what was seen (algorithm 4).

    Args:
        ensemble: the predictor of a fit of ldl-nm.
        items: those with answers, at least one, with the features that it was trained on.
        wanted: their label distributions (`head: item`), or the annotator's answers, one-hot (`head: label`).
        head: what is matched.
        step_size: to begin with, above 0.
        decay: of the embedding at each step, at least 0.
        steps: limit, at least 1.

    Raises:
        BadInput: there is no item, or not one distribution of the network's classes for each.
    """
    if not items.n_items or wanted.shape != (items.n_items, ensemble.network.n_classes):
        expected = f"at least one item and distributions of shape [items, {ensemble.network.n_classes}]"
        raise BadInput(f"expected {expected} to tell an annotator by; got {items.n_items} items and {wanted.shape}")
    features = _features(ensemble, items)
    target = torch.from_numpy(np.array(wanted)).to(ensemble.device)
    negative_entropy = torch.xlogy(target, target).sum(dim=1).mean()

    def divergence(embedding: torch.Tensor) -> torch.Tensor:
        return negative_entropy - (target * _log_said(ensemble, features, embedding, head)).sum(dim=1).mean()

    embedding = torch.zeros(ensemble.network.annotator_embedding, device=ensemble.device, requires_grad=True)
    loss = divergence(embedding)
    kept = [float(loss.detach())]
    for _ in range(steps):
        (slope,) = torch.autograd.grad(loss, embedding, retain_graph=True)
        moved = (embedding - step_size * slope - decay * embedding).detach().requires_grad_()
        there = divergence(moved)
        if (value := float(there.detach())) < kept[-1]:
            embedding, loss = moved, there
            kept.append(value)
        else:
            step_size /= 2
    return UnseenAnnotator(
        ensemble=ensemble, embedding=embedding.detach().cpu().numpy(), divergences=np.array(kept, np.float64)
    )


def _features(ensemble: AnnotatorEnsemble, items: Items) -> torch.Tensor:
    return torch.from_numpy(np.array(features_of(items), np.float32)).to(ensemble.device)[None]


def _log_said(ensemble: AnnotatorEnsemble, features: torch.Tensor, embedding: torch.Tensor, head: str) -> torch.Tensor:
    """Returns the log-probabilities of a head for each item [items, classes], in float64."""
    annotators = embedding.expand(1, features.shape[1], -1)
    heads = ensemble.network.log_heads(ensemble.stacked(), features, annotators, None, 1.0)
    return heads[0, :, HEADS.index(head)].to(torch.float64)
