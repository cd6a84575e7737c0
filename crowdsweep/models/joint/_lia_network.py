"""LIA's three functions, for many replicas at once: classes of items, difficulty of items, competence of annotators.

One stream reads an item (its features, or a vector of its own) and gives the logits of its classes and its difficulty.
An annotator is a vector, learned, or made of its features, or both; competence is linear in it. Both are arrays
[questions, true, observed, latent], whose sum decides how the annotator answers the item (`log_confusions`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Float, Float32, Int64

from crowdsweep.models._answers import BatchAnswers
from crowdsweep.models._batches import Batch, StackedRows
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.contract import Masks
from crowdsweep.models.networks.initial import Initialiser, Start, glorot_uniform
from crowdsweep.models.networks.named import NamedNetwork
from crowdsweep.models.networks.replicas import Parameter
from crowdsweep.models.networks.streams import Dropout
from crowdsweep.models.networks.tensors import Inputs, log_softmax, products, take_rows
from crowdsweep.models.networks.values import Values

# Pairs, items and annotators stand along memory: a softmax over few classes runs along it, too.
CellColumns = Float[torch.Tensor, "cells columns"]
LogConfusions = Float[torch.Tensor, "observed questions true pairs"]
ClassLogits = Float[torch.Tensor, "replicas _ each"]  # item of a replica
ItemCells = Float[torch.Tensor, "replicas cells each"]
LogClasses = Float[torch.Tensor, "questions classes items"]
Flat = Float[torch.Tensor, "replicas rows _"]  # of vectors, of features or of cells

RIGHT_AT_START = 0.8  # how often the competence that all begin with has an annotator answer rightly


@final
@dataclass(frozen=True, kw_only=True)
class LiaNetwork:
    """The architecture; parameters are in `values`, but for the annotators' own vectors, which are a table.

    Attributes:
        classes: the stream of an item's classes [questions × classes]; with a shared trunk its difficulty stands
            behind them.
        difficulty: the stream of its difficulty alone, where the two share no trunk.
        describing: makes vectors of annotators' features; None where they have none.
        n_questions, n_classes, latent: J, K, L.
        width: of an annotator's vector.
    """

    classes: NamedNetwork
    difficulty: NamedNetwork | None
    describing: NamedNetwork | None
    n_questions: int
    n_classes: int
    latent: int
    width: int

    @property
    def n_cells(self) -> int:
        return self.n_questions * self.n_classes**2 * self.latent

    @property
    def streams(self) -> list[NamedNetwork]:
        return [stream for stream in (self.classes, self.difficulty, self.describing) if stream is not None]

    @property
    def dropouts(self) -> list[Dropout]:
        return [dropout for stream in self.streams[: 1 + (self.difficulty is not None)] for dropout in stream.dropouts]

    def parameters(self) -> list[Parameter]:
        """Returns all parameters: items begin equally difficult, annotators as rather good ones."""
        quiet = self.n_questions * self.n_classes if self.difficulty is None else 0
        found: list[Parameter] = []
        for stream in (self.classes, *([] if self.difficulty is None else [self.difficulty])):
            for parameter in stream.parameters():
                is_output = parameter.shape[-1] == stream.n_classes and (stream is self.difficulty or quiet)
                start = _zeros_from(parameter.start, quiet) if is_output else parameter.start
                found.append(replace(parameter, start=start))
        if self.describing is not None:
            found += self.describing.parameters()
        return [
            *found,
            Parameter(name="competence weights", shape=(self.width, self.n_cells), start=glorot_uniform),
            Parameter(name="competence", shape=(1, self.n_cells), start=self._mostly_right),
        ]

    def _mostly_right(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Start:  # noqa: ARG002 - an Initialiser
        right = np.log(RIGHT_AT_START * max(self.n_classes - 1, 1) / (1.0 - RIGHT_AT_START))
        diagonal = np.broadcast_to(
            right * np.eye(self.n_classes)[None, :, :, None],
            (self.n_questions, self.n_classes, self.n_classes, self.latent),
        )
        return diagonal.reshape(shape).astype(np.float32)

    def of_items(self, values: Values, inputs: Inputs, masks: Masks | None) -> tuple[ClassLogits, ItemCells]:
        """Returns logits of each item's classes, and its difficulty."""
        outputs = self.classes.logits(values, inputs, masks)
        n_logits = self.n_questions * self.n_classes
        if self.difficulty is not None:
            return outputs, self.difficulty.logits(values, inputs, masks)
        return outputs[:, :n_logits], outputs[:, n_logits:]

    def log_classes(self, logits: ClassLogits) -> LogClasses:
        """Returns the log-probabilities of classes from their logits."""
        shape = (len(logits), self.n_questions, self.n_classes, -1)
        return log_softmax(logits.reshape(shape).permute(1, 2, 0, 3).flatten(2), dim=1)

    def competence(self, values: Values, own: Flat, features: Flat | None) -> Flat:
        """Returns the competence of annotators [replicas, annotators, cells], given their vectors and features."""
        if features is not None and self.describing is not None:
            own = own + self.describing.logits(values, features, None).transpose(1, 2)
        return products(own, values["competence weights"], bias=values["competence"])

    def laid_out(self, cells: Float[torch.Tensor, "replicas cells each"]) -> CellColumns:
        """Returns the cells of all replicas' columns (items, annotators) side by side, the observed label first."""
        shape = (len(cells), self.n_questions, self.n_classes, self.n_classes, self.latent, -1)
        return cells.reshape(shape).permute(3, 1, 2, 4, 0, 5).reshape(self.n_cells, -1)

    def put_back(self, columns: CellColumns, n_replicas: int) -> Float[torch.Tensor, "replicas cells each"]:
        """Returns columns as `laid_out` takes them."""
        shape = (self.n_classes, self.n_questions, self.n_classes, self.latent, n_replicas, -1)
        return columns.view(shape).permute(4, 1, 2, 0, 3, 5).reshape(n_replicas, self.n_cells, -1)

    def log_confusions(self, together: CellColumns) -> LogConfusions:
        """Returns log Q[observed, question, true] for pairs of an item and an annotator, each row [true] normalised.

        log Q[k, :] = log_softmax over observed l of logsumexp over the latent axis of D[k, l] + C[k, l].

        Args:
            together: D + C, as `laid_out` lays them out.
        """
        cells = together.view(self.n_classes, self.n_questions, self.n_classes, self.latent, -1)
        return log_softmax(cells[:, :, :, 0] if self.latent == 1 else cells.logsumexp(dim=3), dim=0)


def _zeros_from(start: Initialiser, first: int) -> Initialiser:
    """Returns an initialiser that draws the same and then sets all outputs from `first` on to zero."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Start:
        values = start(rng, shape)
        values[..., first:] = 0.0
        return values

    return draw


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Annotators:
    """What is known of annotators before the fit, on the device: their features, standardised, if they have any."""

    features: StackedRows | None

    @classmethod
    def of(cls, parts: Sequence[Float32[np.ndarray, "_ annotator_features"] | None], device: str) -> "Annotators":
        """Takes the features of each replica's annotators."""
        known = [part for part in parts if part is not None]
        return cls(features=StackedRows.of(known, device) if len(known) == len(parts) else None)

    def seen(
        self, network: LiaNetwork, values: Values, seen: BatchAnswers, batch: Batch
    ) -> tuple[Float[torch.Tensor, "replicas cells annotators"], Int64[torch.Tensor, " answers"]]:
        """Returns the competence of those who gave these answers, each once, and which of them gave each: a column of
        all replicas' side by side. Where a replica has fewer of them than another, the rest stands for nobody."""
        own, which = values.distinct_rows("annotators", seen.annotator, seen.place)
        rows, place, n_rows = values.touched("annotators")
        features = None
        if self.features is not None:
            features = take_rows(self.features.table, rows % n_rows + self.features.starts[batch.block.replicas][place])
        n_replicas, longest = len(seen.given), min(int(seen.given.max(initial=1)), n_rows)
        if n_replicas == 1:
            own, features = own[None], None if features is None else features[None]
        else:
            counts = torch.zeros(n_replicas, dtype=torch.int64, device=place.device)
            counts.index_add_(0, place, torch.ones_like(place))
            before = torch.arange(n_replicas, device=place.device) * longest - (counts.cumsum(0) - counts)
            column = torch.arange(len(place), device=place.device) + take_rows(before, place)

            def spread(rows: torch.Tensor) -> torch.Tensor:
                table = rows.new_zeros(n_replicas * longest, rows.shape[1])
                return table.index_copy(0, column, rows).unflatten(0, (n_replicas, longest))

            own, features = spread(own), None if features is None else spread(features)
            which = take_rows(column, which)
        return network.competence(values, own, features).transpose(1, 2), which
