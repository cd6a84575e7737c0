"""Trains ldl-nm: annotations in minibatches, many replicas at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

import numpy as np
import torch

from crowdsweep.data.dataset import TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._classifiers import features_of
from crowdsweep.models._training import watched_of
from crowdsweep.models.contract import FitContext
from crowdsweep.models.joint._answers import stacked_tables, step_blocks
from crowdsweep.models.joint._ldl_network import Aggregation, AnnotatorEnsemble, LdlNetwork
from crowdsweep.models.networks.replicas import (
    Adam,
    DropoutMasks,
    EmbeddingTables,
    Initialiser,
    Minibatch,
    ReplicaStack,
    Shuffler,
    take_rows,
)


@runtime_checkable
class LdlSettings(Protocol):
    """The hyper-parameters of ldl-nm that training reads."""

    @property
    def annotator_embedding(self) -> int: ...
    @property
    def latent(self) -> int: ...
    @property
    def item_weight(self) -> float: ...
    @property
    def annotator_weight(self) -> float: ...
    @property
    def dropout(self) -> float: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def aggregation(self) -> Aggregation: ...
    @property
    def max_annotators(self) -> int: ...
    @property
    def item_balanced(self) -> bool: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Lesson:
    """What one replica learns from: rows are annotations, of items that are not set aside.

    Attributes:
        rows: annotations to train on.
        weight: of every annotation.
        item_shares, annotator_shares: the histograms y_I and y_A.
        watched: features and label distributions that the epoch is chosen on; empty where nothing can be spared.
        members: annotators of the final ensemble.
    """

    rows: np.ndarray
    weight: np.ndarray
    item_shares: np.ndarray
    annotator_shares: np.ndarray
    watched: tuple[np.ndarray, np.ndarray]
    members: np.ndarray


def _lesson(settings: LdlSettings, data: TrainingData, context: FitContext) -> Lesson:
    annotations = data.annotations
    if not len(annotations):
        raise FitFailed("expected at least one annotation to train on, got none")
    labelled = np.flatnonzero(annotations.labels_per_item > 0)
    watched, aside = watched_of(data), np.empty(0, np.int64)
    if watched is None:
        aside = context.seeds.numpy("set aside").permutation(labelled)[: len(labelled) // 10]
        watched = features_of(data.items)[aside], annotations.label_distribution()[aside]
    weight = np.ones(len(annotations)) if annotations.weight is None else annotations.weight.astype(np.float64)
    if settings.item_balanced:
        weight = weight / annotations.labels_per_item[annotations.item]
        weight *= len(weight) / weight.sum()
    shape = (annotations.n_annotators, annotations.n_classes)
    cells = annotations.annotator.astype(np.int64) * annotations.n_classes + annotations.label
    shares = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
    active = np.flatnonzero(annotations.labels_per_annotator)
    if len(active) > settings.max_annotators:
        active = np.sort(context.seeds.numpy("ensemble").choice(active, settings.max_annotators, replace=False))
    return Lesson(
        rows=np.flatnonzero(~np.isin(annotations.item, aside)),
        weight=weight,
        item_shares=annotations.label_distribution(),
        annotator_shares=shares / np.maximum(shares.sum(axis=1, keepdims=True), 1.0),
        watched=watched,
        members=active,
    )


@final
class LdlTrainer:
    """The replicas of one chunk in training; rows of all of them lie under one another in flat arrays."""

    def __init__(
        self, settings: LdlSettings, network: LdlNetwork, data: Sequence[TrainingData], contexts: Sequence[FitContext]
    ) -> None:
        self.settings, self.network, self.device = settings, network, contexts[0].device
        self.lessons = [_lesson(settings, part, context) for part, context in zip(data, contexts, strict=True)]
        self.order = Shuffler.by_steps([len(lesson.rows) for lesson in self.lessons], settings.batch_size)
        seeds = [contexts[s].seeds for s in self.order]
        self.n_annotators = max(part.n_annotators for part in data)
        self.stack = ReplicaStack.start(network.parameters(), seeds, self.device)
        self.tables = EmbeddingTables(
            rows=self.n_annotators,
            width=settings.annotator_embedding,
            start=_normal(settings.annotator_embedding**-0.5),
            seeds=seeds,
            device=self.device,
        )
        self.shuffler = Shuffler([self.lessons[s].rows for s in self.order], seeds, settings.batch_size, self.device)
        names = ("dropout P", "dropout E") if settings.dropout else ()
        self.dropout = [DropoutMasks(seeds, settings.dropout, self.device, name) for name in names]
        self._lay_out(data)

    def _lay_out(self, data: Sequence[TrainingData]) -> None:
        starts, held = stacked_tables([features_of(part.items) for part in data])
        items = [part.annotations.item.astype(np.int64) for part in data]
        first_row = np.cumsum([0, *map(len, items)])
        first_item = np.cumsum([0, *(part.n_items for part in data)])
        lessons = self.lessons
        self.features = self._tensor(held, np.float32)
        self.feature_row = self._tensor(np.concatenate([i + start for i, start in zip(items, starts, strict=True)]))
        self.item = self._tensor(np.concatenate([i + a for i, a in zip(items, first_item, strict=False)]))
        self.annotator = self._tensor(np.concatenate([part.annotations.annotator.astype(np.int64) for part in data]))
        self.label = self._tensor(np.concatenate([part.annotations.label.astype(np.int64) for part in data]))
        self.weight = self._tensor(np.concatenate([lesson.weight for lesson in lessons]), np.float32)
        self.item_shares = self._tensor(np.concatenate([lesson.item_shares for lesson in lessons]), np.float32)
        shares = np.zeros((len(data), self.n_annotators, self.network.n_classes), np.float32)
        for row, lesson in zip(shares, lessons, strict=True):
            row[: len(lesson.annotator_shares)] = lesson.annotator_shares
        self.annotator_shares = self._tensor(shares, np.float32)
        self.first_row = first_row

    def _tensor(self, array: np.ndarray, kind: type = np.int64) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array, kind)).to(self.device)

    @torch.no_grad()
    def run_epoch(self) -> dict[int, float]:
        """Steps every replica once through its annotations; returns minus each one's mean loss."""
        settings = self.settings
        adam = Adam(learning_rate=settings.learning_rate)
        replicas = torch.tensor(self.order, device=self.device)[:, None]
        first_row = torch.tensor([int(self.first_row[s]) for s in self.order], device=self.device)[:, None]
        places = torch.arange(len(self.order), device=self.device)[:, None]
        totals = torch.zeros(2, len(self.order), dtype=torch.float64, device=self.device)
        shape = (settings.batch_size, settings.latent)
        for block in step_blocks(self.shuffler.epoch(), 2 * len(self.order) * shape[0] * shape[1]):
            n = block[0].n_replicas
            drawn = [masks.draw(len(block), shape, n) for masks in self.dropout]
            for step, batch in enumerate(block):
                rows = batch.rows + first_row[:n]
                annotator = take_rows(self.annotator, rows)
                touched, embedded = self.tables.gather(annotator + places[:n] * self.n_annotators)
                targets = self._targets(rows, self.annotator_shares[replicas[:n], annotator], batch)
                log_probs, slopes = self.network.gradients(
                    self.stack.prefix(n),
                    take_rows(self.features, take_rows(self.feature_row, rows)),
                    embedded,
                    targets / batch.sizes[:, None, None, None],
                    [mask[step] for mask in drawn],
                    1.0 - settings.dropout,
                )
                touched.add_gradients(slopes)
                adam.step(self.stack, n)
                self.tables.step(touched, adam, n)
                totals[0, :n] += (targets * log_probs).sum(dim=(1, 2, 3))
                totals[1, :n] += batch.sizes
        return dict(zip(self.order, (totals[0] / totals[1]).tolist(), strict=True))

    def _targets(self, rows: torch.Tensor, annotator_shares: torch.Tensor, batch: Minibatch) -> torch.Tensor:
        """Returns what each head is to say of each annotation [n, batch, 3, K], times its weight in the loss.

        The label itself, and both histograms: KL(y_I || z_yI) and KL(y_A || z_yA) up to the entropies.
        """
        weight = take_rows(self.weight, rows)
        if batch.mask is not None:
            weight = weight * batch.mask
        label = torch.nn.functional.one_hot(take_rows(self.label, rows), self.network.n_classes).to(torch.float32)
        heads = [
            label,
            take_rows(self.item_shares, take_rows(self.item, rows)) * self.settings.item_weight,
            annotator_shares * self.settings.annotator_weight,
        ]
        return torch.stack(heads, dim=2).mul_(weight[:, :, None, None])

    def fitted(self, replica: int, members: np.ndarray) -> tuple[AnnotatorEnsemble, np.ndarray]:
        """Returns a copy of a replica as it is now, with these members, and its whole annotator table."""
        place = self.order.index(replica)
        table = self.tables.values_of(place)
        ensemble = AnnotatorEnsemble(
            network=self.network,
            values=self.stack.values_of(place),
            annotators=table[members],
            aggregation=self.settings.aggregation,
            device=self.device,
        )
        return ensemble, table

    def drop(self, replicas: Sequence[int]) -> None:
        """Takes replicas out: they cost nothing and never change again."""
        kept = [place for place, replica in enumerate(self.order) if replica not in replicas]
        if len(kept) == len(self.order):
            return
        self.order = [self.order[place] for place in kept]
        self.stack.keep(kept)
        self.tables.keep(kept)
        self.shuffler.keep(kept)
        for masks in self.dropout:
            masks.keep(kept)


def _normal(scale: float) -> Initialiser:
    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return rng.normal(0.0, scale, shape).astype(np.float32)

    return draw
