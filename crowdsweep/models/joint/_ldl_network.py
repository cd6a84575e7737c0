"""The encoder and decoder of ldl-nm, on a leading axis of replicas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import torch
from jaxtyping import Float32

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import Items
from crowdsweep.models._classifiers import features_of
from crowdsweep.models.networks.replicas import Parameter, StackView

Activation = Literal["softsign", "tanh", "relu", "elu"]
Aggregation = Literal["mean", "vote"]

HEADS = ("label", "item", "annotator")  # z_y, z_yI, z_yA, one after another in the parameter `heads`
_BLOCK_FLOATS = 1 << 17  # units of the ensemble that are held at once: they stay in a cache


def activate(activation: Activation, units: torch.Tensor) -> torch.Tensor:
    """Applies phi in place."""
    match activation:
        case "softsign":
            return units.div_(units.abs().add_(1.0))
        case "tanh":
            return units.tanh_()
        case "relu":
            return units.relu_()
        case "elu":
            return torch.nn.functional.elu_(units)


def activation_slope(activation: Activation, units: torch.Tensor) -> torch.Tensor:
    """Returns the derivative of phi, from its values."""
    match activation:
        case "softsign":
            return (1.0 - units.abs()).square_()
        case "tanh":
            return 1.0 - units.square()
        case "relu":
            return (units > 0).to(units.dtype)
        case "elu":
            return units.clamp(max=0.0).add_(1.0)


def orthogonal_heads(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draws one such matrix for each head, side by side."""
    return np.concatenate([orthogonal(rng, (shape[0], shape[1] // len(HEADS))) for _ in HEADS], axis=1)


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
        """W_I [D, J_I], W_P [J_I + J_A, J_P], W_E [J_P, J_P], and the heads [J_P, 3 K]."""
        inner = (self.item_embedding + self.annotator_embedding, self.latent)
        return [
            Parameter(name="item", shape=(self.n_features, self.item_embedding), start=orthogonal),
            Parameter(name="fusion", shape=inner, start=orthogonal),
            Parameter(name="encoder", shape=(self.latent, self.latent), start=orthogonal),
            Parameter(name="heads", shape=(self.latent, len(HEADS) * self.n_classes), start=orthogonal_heads),
        ]

    @torch.no_grad()
    def gradients(
        self,
        view: StackView,
        features: torch.Tensor,
        annotators: torch.Tensor,
        targets: torch.Tensor,
        masks: Sequence[torch.Tensor] = (),
        kept: float = 1.0,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes the gradients of each replica's loss -sum targets * log softmax(heads).

        Args:
            view: parameters and where their gradients go.
            features: float32 [S, rows, D].
            annotators: embeddings [S, rows, J_A].
            targets: float32 [S, rows, 3, K]; a sum over classes is a row's weight in that head's loss.
            masks: two dropout masks [S, rows, J_P], for z_P and z_E; none without dropout.
            kept: probability that a unit stays, which kept units are divided by.

        Returns:
            Log-probabilities of all heads [S, rows, 3, K], and the slopes by `annotators`.
        """
        phi, values, written = self.activation, view.values, view.gradients
        joined = activate(phi, torch.cat([torch.bmm(features, values["item"]), annotators], dim=2))
        fused = activate(phi, torch.bmm(joined, values["fusion"]))
        through = fused * masks[0] / kept if masks else fused
        encoded = activate(phi, torch.baddbmm(through, through, values["encoder"]))
        last = encoded * masks[1] / kept if masks else encoded
        log_probs = torch.log_softmax(torch.bmm(last, values["heads"]).view(targets.shape), dim=3)
        slope = (log_probs.exp().mul_(targets.sum(dim=3, keepdim=True)).sub_(targets)).flatten(2)
        torch.bmm(last.mT, slope, out=written["heads"])
        slope = torch.bmm(slope, values["heads"].mT).mul_(activation_slope(phi, encoded))
        if masks:
            slope.mul_(masks[1]).div_(kept)
        torch.bmm(through.mT, slope, out=written["encoder"])
        slope = torch.baddbmm(slope, slope, values["encoder"].mT).mul_(activation_slope(phi, fused))
        if masks:
            slope.mul_(masks[0]).div_(kept)
        torch.bmm(joined.mT, slope, out=written["fusion"])
        slope = torch.bmm(slope, values["fusion"].mT).mul_(activation_slope(phi, joined))
        by_item, by_annotator = slope.split([self.item_embedding, self.annotator_embedding], dim=2)
        torch.bmm(features.mT, by_item, out=written["item"])
        return log_probs, by_annotator

    @torch.no_grad()
    def label_probs(
        self, values: Mapping[str, torch.Tensor], features: torch.Tensor, annotators: torch.Tensor
    ) -> torch.Tensor:
        """Returns float64 [S, rows, K]: what these annotators would say of these items, row by row."""
        joined = activate(self.activation, torch.cat([torch.bmm(features, values["item"]), annotators], dim=2))
        fused = activate(self.activation, torch.bmm(joined, values["fusion"]))
        encoded = activate(self.activation, torch.baddbmm(fused, fused, values["encoder"]))
        logits = torch.bmm(encoded, values["heads"][:, :, : self.n_classes])
        return torch.softmax(logits.to(torch.float64), dim=2)

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
        phi = self.activation
        by_item, by_annotator = values["fusion"].split([self.item_embedding, self.annotator_embedding], dim=1)
        first = HEADS.index(head) * self.n_classes
        weights = values["heads"][:, :, first : first + self.n_classes]
        from_annotators = torch.bmm(activate(phi, annotators.clone()), by_annotator)[:, None]
        n_replicas, n_members = annotators.shape[:2]
        n_items = features.shape[1]
        block = max(1, _BLOCK_FLOATS // (n_replicas * n_members * self.latent))
        found = torch.empty(n_replicas, n_items, self.n_classes, dtype=torch.float64, device=features.device)
        for start in range(0, n_items, block):
            rows = features[:, start : start + block].expand(n_replicas, -1, -1)
            from_items = torch.bmm(activate(phi, torch.bmm(rows, values["item"])), by_item)[:, :, None]
            fused = activate(phi, from_items + from_annotators).flatten(1, 2)
            encoded = activate(phi, torch.baddbmm(fused, fused, values["encoder"]))
            said = torch.softmax(torch.bmm(encoded, weights), dim=2).unflatten(1, (-1, n_members))
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
        head = "item" if use == "item_head" else "label"
        found = self.network.ensemble(self.stacked(), features, members, head=head, aggregation=self.aggregation)
        return found[0].cpu().numpy()

    def stacked(self) -> dict[str, torch.Tensor]:
        """Returns the parameters as a stack of one replica."""
        return {name: torch.from_numpy(array[None]).to(self.device) for name, array in self.values.items()}
