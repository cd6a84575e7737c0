"""What annotators said, as LIA takes it: each answer says something of every question of its item.

Nominal data ask one question of K classes. Multi-label data ask one of each class, of two answers: not chosen, chosen.
What is said is a distribution, so that soft answers are what they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int, Int64

from crowdsweep.arrays import ratio
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import choices_of
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._answers import BatchAnswers, StackedAnswers
from crowdsweep.models._batches import Batch
from crowdsweep.models._stacked import weights_of
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.tensors import take_rows

Posterior = Float64[np.ndarray, "items questions classes"]
Said = Float32[np.ndarray, "answers questions classes"]
SaidInBatch = Float32[torch.Tensor, "answers questions classes"]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """All answers of a data set, by item and then by annotator.

    Attributes:
        rows: item, annotator and weight of each; its label is its own number, in `said`.
        said: what each says of each question, a distribution.
    """

    rows: Annotations
    said: Said

    @property
    def item(self) -> Int64[np.ndarray, " answers"]:
        return self.rows.item.astype(np.int64)

    @property
    def annotator(self) -> Int64[np.ndarray, " answers"]:
        return self.rows.annotator.astype(np.int64)

    def take(self, mask: Bool[np.ndarray, " answers"]) -> "Answers":
        """Returns some of the answers."""
        rows = self.rows
        return _numbered(rows.item[mask], rows.annotator[mask], weights_of(rows)[mask], self.said[mask], rows)

    def votes(self) -> Posterior:
        """Returns the weighted mean of what the answers to each item say; uniform where it has none."""
        weight = weights_of(self.rows)
        votes = np.zeros((self.rows.n_items, *self.said.shape[1:]))
        np.add.at(votes, self.rows.item, weight[:, None, None] * self.said)
        total = np.bincount(self.rows.item, weight, minlength=self.rows.n_items)[:, None, None]
        return ratio(votes, total, at_zero=1.0 / self.said.shape[2])


def answers_of(data: TrainingData, rng: np.random.Generator) -> tuple[Answers, Int64[np.ndarray, " annotators"]]:
    """Returns the answers of a data set, and the code of each annotator in them, which only the answers decide.

    Each thing that may be said of an item gets a random number, and annotators are sorted by the sums of theirs.
    """
    rows = data.annotations
    if data.scale == "multilabel":
        choices = choices_of(rows)
        chosen = choices.chosen.toarray()
        item, annotator, weight = choices.item, choices.annotator, choices.weight
        said = np.stack([1.0 - chosen, chosen], axis=2)
    else:
        item, annotator, weight = rows.item, rows.annotator, weights_of(rows)
        sure = np.eye(rows.n_classes)[rows.label] if rows.soft_labels is None else rows.soft_labels
        said = sure[:, None, :]
    numbers = rng.random((rows.n_items, *said.shape[1:]))
    signature = np.bincount(annotator, weight * (numbers[item] * said).sum(axis=(1, 2)), minlength=rows.n_annotators)
    code = np.argsort(np.argsort(signature, kind="stable"))
    order = np.lexsort((*said.reshape(len(said), -1).T[:2], code[annotator], item))
    own = code[annotator[order]]
    return _numbered(item[order], own, weight[order], said[order].astype(np.float32), rows), code


def _numbered(
    item: Int[np.ndarray, " answers"],
    annotator: Int[np.ndarray, " answers"],
    weight: Float64[np.ndarray, " answers"],
    said: Said,
    sizes: Annotations,
) -> Answers:
    rows = Annotations.of(
        item=item,
        annotator=annotator,
        label=np.arange(len(item)),
        weight=weight,
        n_items=sizes.n_items,
        n_annotators=sizes.n_annotators,
        n_classes=len(item),
    )
    return Answers(rows=rows, said=said)


def as_probs(posterior: Posterior, *, multilabel: bool) -> Float64[np.ndarray, "items _"]:
    """Returns a posterior of items (or predictions of answers) as the contract of models has it."""
    return np.ascontiguousarray(posterior[:, :, 1] if multilabel else posterior[:, 0])


@final
class StackedSaid:
    """The answers of several data sets on the device."""

    def __init__(self, parts: Sequence[Answers], device: str) -> None:
        self._answers = StackedAnswers([part.rows for part in parts], device)
        self._said = torch.from_numpy(np.concatenate([part.said for part in parts])).to(device)
        starts = np.cumsum([0, *(len(part.said) for part in parts)])[:-1]
        self._starts = torch.from_numpy(starts.astype(np.int64)).to(device)

    def of(self, batch: Batch) -> tuple[BatchAnswers, SaidInBatch]:
        """Returns all answers to a batch's items, and what they say."""
        seen = self._answers.of(batch)
        return seen, take_rows(self._said, seen.label + self._starts[batch.block.replicas][seen.place])
