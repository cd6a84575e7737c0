"""The encoder and decoder of ldl-nm, on a leading axis of replicas."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import torch
from jaxtyping import Float32

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import Items
from crowdsweep.models._training import features_of
from crowdsweep.models.networks.replicas import Parameter

Activation = Literal["softsign", "tanh", "relu", "elu"]
Aggregation = Literal["mean", "vote"]

_ACTIVATIONS: Mapping[Activation, Callable[[torch.Tensor], torch.Tensor]] = {
    "softsign": torch.nn.functional.softsign,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "elu": torch.nn.functional.elu,
}
HEADS = ("label head", "item head", "annotator head")  # z_y, z_yI, z_yA
_BLOCK_FLOATS = 1 << 20  # units of the ensemble that are held at once


def orthogonal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draws a matrix with orthonormal rows or columns, whichever are fewer (Saxe et al. 2014)."""
    tall = max(shape), min(shape)
    basis, triangle = np.linalg.qr(rng.standard_normal(tall))
    basis *= np.sign(np.diag(triangle))
    return np.ascontiguousarray(basis if shape == tall else basis.T, np.float32)


@final
@dataclass(frozen=True, kw_only=True)
class LdlNetwork:
    """Shapes: D features, J_I and J_A embedding widths of items and annotators, J_P latent, K classes; no biases."""

    n_features: int
    n_classes: int
    item_embedding: int
    annotator_embedding: int
    latent: int
    activation: Activation

    def parameters(self) -> list[Parameter]:
        """W_I [D, J_I], the two parts of W_P [J_I, J_P] and [J_A, J_P], W_E [J_P, J_P], a head [J_P, K] for each."""
        inner = (self.item_embedding + self.annotator_embedding, self.latent)
        return [
            Parameter(name="item", shape=(self.n_features, self.item_embedding), start=orthogonal),
            Parameter(name="fusion", shape=inner, start=orthogonal),
            Parameter(name="encoder", shape=(self.latent, self.latent), start=orthogonal),
            *(Parameter(name=head, shape=(self.latent, self.n_classes), start=orthogonal) for head in HEADS),
        ]

    def encode(
        self,
        values: Mapping[str, torch.Tensor],
        features: torch.Tensor,
        annotators: torch.Tensor,
        masks: Sequence[torch.Tensor] = (),
        kept: float = 1.0,
    ) -> torch.Tensor:
        """Returns z_E [S, rows, J_P] for features [S, rows, D] and annotator embeddings [S, rows, J_A].

        Args:
            values: parameters, [S, *shape].
            features, annotators: of each row.
            masks: two dropout masks [S, rows, J_P], for z_P and z_E; none at test time.
            kept: probability that a unit stays, which kept units are divided by.
        """
        phi = _ACTIVATIONS[self.activation]
        joined = phi(torch.cat([torch.bmm(features, values["item"]), annotators], dim=2))
        fused = phi(torch.bmm(joined, values["fusion"]))
        if masks:
            fused = fused * masks[0] / kept
        encoded = phi(torch.baddbmm(fused, fused, values["encoder"]))
        return encoded * masks[1] / kept if masks else encoded

    @torch.no_grad()
    def ensemble(
        self,
        values: Mapping[str, torch.Tensor],
        features: torch.Tensor,
        annotators: torch.Tensor,
        *,
        head: str,
        aggregation: Aggregation,
    ) -> torch.Tensor:
        """Returns float64 [S, items, K]: what these annotators would say of each item, averaged.

        W_P acts on items and annotators apart, so that its annotator part is computed once.

        Args:
            values: parameters, [S, *shape].
            features: float32 [S or 1, items, D].
            annotators: float32 [S, M, J_A], their embeddings.
            head: one of `HEADS`.
            aggregation: `mean` of their distributions, or histogram of the classes they would `vote` for.
        """
        phi = _ACTIVATIONS[self.activation]
        by_item, by_annotator = values["fusion"].split([self.item_embedding, self.annotator_embedding], dim=1)
        from_annotators = torch.bmm(phi(annotators), by_annotator)[:, None]
        n_replicas, n_members = annotators.shape[:2]
        n_items = features.shape[1]
        block = max(1, _BLOCK_FLOATS // (n_replicas * n_members * self.latent))
        found = torch.empty(n_replicas, n_items, self.n_classes, dtype=torch.float64, device=features.device)
        for start in range(0, n_items, block):
            rows = features[:, start : start + block].expand(n_replicas, -1, -1)
            from_items = torch.bmm(phi(torch.bmm(rows, values["item"])), by_item)[:, :, None]
            fused = phi(from_items + from_annotators).flatten(1, 2)
            encoded = phi(torch.baddbmm(fused, fused, values["encoder"]))
            said = torch.softmax(torch.bmm(encoded, values[head]), dim=2).unflatten(1, (-1, n_members))
            if aggregation == "vote":
                said = torch.nn.functional.one_hot(said.argmax(dim=3), self.n_classes)
            found[:, start : start + block] = said.to(torch.float64).mean(dim=2)
        return found / found.sum(dim=2, keepdim=True)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AnnotatorEnsemble:
    """A trained network with the embeddings of the annotators that it asks.

    Its uses are `ensemble` (the `label` head: what each would say) and `item_head` (the head that was trained on item
    label distributions), both averaged over the annotators.
    """

    network: LdlNetwork
    values: dict[str, np.ndarray]
    annotators: Float32[np.ndarray, "members annotator_embedding"]
    aggregation: Aggregation
    device: str = "cpu"

    @property
    def uses(self) -> tuple[str, ...]:
        return ("ensemble", "item_head")

    def predict(self, items: Items, use: str) -> ItemProbs:
        """Returns float64 [items, classes]."""
        features = torch.from_numpy(np.array(features_of(items), np.float32)).to(self.device)[None]
        members = torch.from_numpy(self.annotators).to(self.device)[None]
        head = "item head" if use == "item_head" else "label head"
        found = self.network.ensemble(self.stacked(), features, members, head=head, aggregation=self.aggregation)
        return found[0].cpu().numpy()

    def stacked(self) -> dict[str, torch.Tensor]:
        """Returns the parameters as a stack of one replica."""
        return {name: torch.from_numpy(array[None]).to(self.device) for name, array in self.values.items()}
