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

from crowdsweep.arrays import AnnotatorFeatures
from crowdsweep.models._answers import BatchAnswers
from crowdsweep.models._batches import Batch, StackedRows
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.contract import Masks
from crowdsweep.models.networks.dense import DenseNetwork
from crowdsweep.models.networks.initial import Initialiser, Start, glorot_uniform
from crowdsweep.models.networks.named import Named
from crowdsweep.models.networks.replicas import Parameter
from crowdsweep.models.networks.streams import Dropout
from crowdsweep.models.networks.tensors import Inputs, log_softmax, take_rows
from crowdsweep.models.networks.values import Values

LogConfusions = Float[torch.Tensor, "pairs questions true observed"]
Flat = Float[torch.Tensor, "rows _"]  # of vectors, of features or of cells
LogClasses = Float[torch.Tensor, "replicas rows questions classes"]
Difficulty = Float[torch.Tensor, "replicas rows _"]

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

    classes: Named
    difficulty: Named | None
    describing: Named | None
    n_questions: int
    n_classes: int
    latent: int
    width: int

    @property
    def n_cells(self) -> int:
        return self.n_questions * self.n_classes**2 * self.latent

    @property
    def streams(self) -> list[Named]:
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

    def of_items(self, values: Values, inputs: Inputs, masks: Masks | None) -> tuple[LogClasses, Difficulty]:
        """Returns log-probabilities of each item's classes, and its difficulty."""
        outputs = self.classes.logits(values, inputs, masks)
        n_logits = self.n_questions * self.n_classes
        hard = outputs[:, n_logits:] if self.difficulty is None else self.difficulty.logits(values, inputs, masks)
        logits = outputs[:, :n_logits].transpose(1, 2)
        log_classes = log_softmax(logits.unflatten(2, (self.n_questions, self.n_classes)), dim=3)
        return log_classes, hard.transpose(1, 2)

    def competence(
        self,
        values: Values,
        own: Flat,
        features: Flat | None,
        place: Int64[torch.Tensor, " rows"],
        given: Int64[np.ndarray, " replicas"],
    ) -> Flat:
        """Returns the competence of annotators.

        Args:
            values: parameters.
            own: their vectors.
            features: of theirs.
            place: the replica of each, ascending.
            given: how many there are of each replica.
        """
        laid_out = _Padded(place, given)
        vectors = laid_out.spread(own)
        if features is not None and self.describing is not None:
            described = self.describing.logits(values, laid_out.spread(features), None)
            vectors = vectors + described.transpose(1, 2)
        found = torch.baddbmm(values["competence"], vectors, values["competence weights"])
        return laid_out.gathered(found)

    def log_confusions(self, difficulty: Flat, competence: Flat) -> LogConfusions:
        """Returns log Q[true, observed] for rows (item, annotator): what the two say together, each row normalised.

        log Q[k, :] = log_softmax over observed l of logsumexp over the latent axis of D[k, l] + C[k, l].
        """
        shape = (self.n_questions, self.n_classes, self.n_classes, self.latent)
        together = (difficulty + competence).unflatten(1, shape)
        summed = together[..., 0] if self.latent == 1 else together.logsumexp(dim=4)
        return log_softmax(summed, dim=3)


def _zeros_from(start: Initialiser, first: int) -> Initialiser:
    """Returns an initialiser that draws the same and then sets all outputs from `first` on to zero."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Start:
        values = start(rng, shape)
        values[..., first:] = 0.0
        return values

    return draw


@final
class _Padded:
    """Rows of several replicas, one behind the other, laid out as a table of one line per replica."""

    def __init__(self, place: Int64[torch.Tensor, " rows"], given: Int64[np.ndarray, " replicas"]) -> None:
        """Takes the replica of each row, and how many rows each replica has, which is known without the device."""
        self._n_replicas = n_replicas = len(given)
        self._longest = int(given.max(initial=0))
        if n_replicas == 1:
            return
        counts = torch.zeros(n_replicas, dtype=torch.int64, device=place.device)
        counts.index_add_(0, place, torch.ones_like(place))
        starts = torch.cumsum(counts, 0) - counts
        self._cells = (
            torch.arange(len(place), device=place.device)
            + (torch.arange(n_replicas, device=place.device) * self._longest - starts)[place]
        )

    def spread(self, rows: Flat) -> Float[torch.Tensor, "replicas longest width"]:
        if self._n_replicas == 1:
            return rows[None]
        table = rows.new_zeros(self._n_replicas * self._longest, rows.shape[1])
        return table.index_copy(0, self._cells, rows).unflatten(0, (self._n_replicas, self._longest))

    def gathered(self, table: Float[torch.Tensor, "replicas longest width"]) -> Flat:
        return table[0] if self._n_replicas == 1 else take_rows(table.flatten(0, 1), self._cells)


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

    def seen(self, seen: BatchAnswers, batch: Batch) -> Flat | None:
        """Returns the features of who gave each of these answers."""
        if self.features is None:
            return None
        return take_rows(self.features.table, seen.annotator + self.features.starts[batch.block.replicas][seen.place])


def standardised(features: AnnotatorFeatures) -> AnnotatorFeatures:
    """Returns features with mean zero and deviation one over the annotators; one that is constant becomes zero."""
    wide = features.astype(np.float64)
    deviation = wide.std(axis=0)
    return ((wide - wide.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)).astype(np.float32)


def describing_network(n_features: int, hidden: Sequence[int], width: int) -> Named:
    """Returns the network that makes annotators' vectors of their features."""
    return Named(name="describing", network=DenseNetwork(widths=(n_features, *hidden, width)))
