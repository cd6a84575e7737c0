"""The encoder and decoder of ldl-nm, on a leading axis of replicas."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, cast, final

import numpy as np
from jaxtyping import Float, Float32, Float64

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import Items
from crowdsweep.models.lazy_torch import torch, without_gradients
from crowdsweep.models.networks.contract import Masks, features_of
from crowdsweep.models.networks.initial import orthogonal
from crowdsweep.models.networks.replicas import Parameter
from crowdsweep.models.networks.streams import Dropout
from crowdsweep.models.networks.tensors import Probs, ReplicaValues, log_softmax, softmax
from crowdsweep.models.networks.values import Values

Activation = Literal["softsign", "tanh", "relu", "elu"]
Aggregation = Literal["mean", "vote"]

RowFeatures = Float[torch.Tensor, "replicas rows features"]
RowEmbeddings = Float[torch.Tensor, "replicas rows width"]
Units = Float[torch.Tensor, "*shape"]

HEADS = ("label", "item", "annotator")  # z_y, z_yI, z_yA, one after another in the parameter `heads`
_BLOCK_FLOATS = 1 << 17  # units of the ensemble that are held at once: they stay in a cache


def activate(activation: Activation, units: Units) -> Units:
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


def followed(activation: Activation, units: Units) -> Units:
    """Returns phi as autograd follows it."""
    match activation:
        case "softsign":
            from crowdsweep.models.networks.written_gradients import Softsign  # noqa: PLC0415 - it imports torch

            return cast(torch.Tensor, Softsign.apply(units))
        case "tanh":
            return torch.tanh(units)
        case "relu":
            return torch.relu(units)
        case "elu":
            return torch.nn.functional.elu(units)


def orthogonal_heads(rng: np.random.Generator, shape: tuple[int, ...]) -> Float32[np.ndarray, "latent outputs"]:
    """Draws one such matrix for each head, side by side."""
    return np.concatenate([orthogonal(rng, (shape[0], shape[1] // len(HEADS))) for _ in HEADS], axis=1)


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

    def dropouts(self, probability: float) -> list[Dropout]:
        """Returns where units are dropped in training: of z_P and z_E."""
        names = ("dropout P", "dropout E") if probability else ()
        return [Dropout(name=name, shape=(self.latent,), probability=probability) for name in names]

    def log_heads(
        self, values: Values, features: RowFeatures, annotators: RowEmbeddings, masks: Masks | None, kept: float
    ) -> Float[torch.Tensor, "replicas rows heads classes"]:
        """Returns the log-probabilities of all heads.

        Args:
            masks: of `dropouts`; None drops nothing.
            kept: probability that a unit stays, which kept units are divided by.
        """
        phi = partial(followed, self.activation)
        joined = phi(torch.cat([torch.bmm(features, values["item"]), annotators], dim=2))
        fused = phi(torch.bmm(joined, values["fusion"]))
        if masks is not None:
            fused = fused * (masks.kept("dropout P") / kept)
        encoded = phi(torch.baddbmm(fused, fused, values["encoder"]))
        if masks is not None:
            encoded = encoded * (masks.kept("dropout E") / kept)
        heads = torch.bmm(encoded, values["heads"])
        return log_softmax(heads.unflatten(2, (len(HEADS), self.n_classes)), dim=3)

    @without_gradients
    def label_probs(self, values: Values, features: RowFeatures, annotators: RowEmbeddings) -> Probs:
        """Returns what these annotators would say of these items, row by row."""
        logits = torch.bmm(self._encoded(values, features, annotators), values["heads"][:, :, : self.n_classes])
        return torch.softmax(logits.to(torch.float64), dim=2)

    @without_gradients
    def latents(
        self,
        values: Values,
        features: Float[torch.Tensor, "replicas items features"],
        annotators: Float[torch.Tensor, "replicas members width"],
    ) -> Float[torch.Tensor, "replicas items latent"]:
        """Returns z_E of each item, a mean over these annotators."""
        found = features.new_empty(len(annotators), features.shape[1], self.latent)
        for part, encoded in self._of_all(values, features, annotators):
            found[:, part] = encoded.unflatten(1, (-1, annotators.shape[1])).mean(dim=2)
        return found

    def _of_all(
        self,
        values: Values,
        features: Float[torch.Tensor, "#replicas items features"],
        annotators: Float[torch.Tensor, "replicas members width"],
    ) -> Iterator[tuple[slice, Units]]:
        """Yields z_E of all annotators on some items, item after item.

        W_P acts on items and annotators apart, so that its annotator part is computed once.
        """
        phi = self.activation
        by_item, by_annotator = values["fusion"].split([self.item_embedding, self.annotator_embedding], dim=1)
        from_annotators = torch.bmm(activate(phi, annotators.clone()), by_annotator)[:, None]
        n_replicas, n_members = annotators.shape[:2]
        block = max(1, _BLOCK_FLOATS // (n_replicas * n_members * self.latent))
        for start in range(0, features.shape[1], block):
            rows = features[:, start : start + block].expand(n_replicas, -1, -1)
            from_items = torch.bmm(activate(phi, torch.bmm(rows, values["item"])), by_item)[:, :, None]
            fused = activate(phi, from_items + from_annotators).flatten(1, 2)
            yield slice(start, start + block), activate(phi, torch.baddbmm(fused, fused, values["encoder"]))

    def _encoded(self, values: Values, features: RowFeatures, annotators: RowEmbeddings) -> Units:
        """Returns z_E, row by row, not followed by autograd."""
        joined = activate(self.activation, torch.cat([torch.bmm(features, values["item"]), annotators], dim=2))
        fused = activate(self.activation, torch.bmm(joined, values["fusion"]))
        return activate(self.activation, torch.baddbmm(fused, fused, values["encoder"]))

    @without_gradients
    def ensemble(
        self,
        values: Values,
        features: Float[torch.Tensor, "#replicas items features"],
        annotators: Float[torch.Tensor, "replicas members width"],
        *,
        head: str,
        aggregation: Aggregation,
    ) -> Float64[torch.Tensor, "replicas items classes"]:
        """Returns what these annotators would say of each item, averaged.

        Args:
            head: one of `HEADS`.
            aggregation: `mean` of their distributions, or histogram of the classes they would `vote` for.
        """
        first = HEADS.index(head) * self.n_classes
        weights = values["heads"][:, :, first : first + self.n_classes]
        n_replicas, n_members = annotators.shape[:2]
        shape = (n_replicas, features.shape[1], self.n_classes)
        found = torch.empty(shape, dtype=torch.float64, device=features.device)
        for part, encoded in self._of_all(values, features, annotators):
            said = softmax(torch.bmm(encoded, weights), dim=2).unflatten(1, (-1, n_members))
            if aggregation == "vote":
                said = torch.nn.functional.one_hot(said.argmax(dim=3), self.n_classes)
            found[:, part] = said.to(torch.float64).mean(dim=2)
        return found / found.sum(dim=2, keepdim=True)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AnnotatorEnsemble:
    """A trained network with the embeddings of the annotators that it asks.

    Its uses are `ensemble` (the `label` head: what each would say) and `item_head` (the head that was trained on item
    label distributions), both averaged over the annotators.
    """

    network: LdlNetwork
    values: ReplicaValues
    annotators: Float32[np.ndarray, "members annotator_embedding"]
    aggregation: Aggregation
    device: str = "cpu"
    uses = ("ensemble", "item_head")

    def predict(self, items: Items, use: str) -> ItemProbs:
        """Returns what the annotators would say of each item, averaged."""
        members = torch.from_numpy(self.annotators).to(self.device)[None]
        head = "item" if use == "item_head" else "label"
        found = self.network.ensemble(
            self.stacked(), self.features(items), members, head=head, aggregation=self.aggregation
        )
        return found[0].cpu().numpy()

    def said_by(self, items: Items, annotators: Float32[np.ndarray, "rows annotator_embedding"]) -> ItemProbs:
        """Returns what an annotator would say of each item, each item having an embedding beside it."""
        asked = torch.from_numpy(np.array(annotators)).to(self.device)[None]
        found = self.network.label_probs(self.stacked(), self.features(items), asked)
        return found[0].cpu().numpy().astype(np.float64)

    def latents(self, items: Items) -> Float32[np.ndarray, "items latent"]:
        """Returns z_E of each item, a mean over what the annotators make of it."""
        members = torch.from_numpy(self.annotators).to(self.device)[None]
        return self.network.latents(self.stacked(), self.features(items), members)[0].cpu().numpy()

    def features(self, items: Items) -> RowFeatures:
        """Returns the items' features for a stack of one replica."""
        return torch.from_numpy(np.array(features_of(items), np.float32)).to(self.device)[None]

    def stacked(self) -> Values:
        """Returns the parameters as a stack of one replica."""
        return Values.of_one(self.values, self.device)
