"""A model trained end to end, once it is fitted: posterior of the items, confusion matrices, predicted labels.

All of these come from the likelihood that it was trained with (`label_likelihood`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Float64, Int

from crowdsweep.arrays import (
    LOG_FLOOR,
    AnnotatorCodes,
    Confusion,
    Confusions,
    ItemCodes,
    ItemProbs,
    RowProbs,
    add_rows,
    floored_log,
    normalised_rows,
)
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models._answers import ActiveAnswers
from crowdsweep.models._em import chunks, normalised
from crowdsweep.models._stacked import weights_of
from crowdsweep.models.classifier import NetworkPredictor
from crowdsweep.models.contract import FitResult
from crowdsweep.models.label_likelihood import Distinct, LogLikelihood, PerRow, Shared, Which
from crowdsweep.models.lazy_torch import torch, without_gradients
from crowdsweep.models.networks.named import NamedNetwork
from crowdsweep.models.schedule import History
from crowdsweep.models.trainer import Snapshot


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class FittedLabels:
    """Labels of a trained model, in double precision; see `Labels`.

    Attributes:
        item: of each label, a training item.
        place: of each label's annotator among those who labelled anything.
    """

    trained: "Trained"
    item: Int[np.ndarray, " labels"]
    place: Int[np.ndarray, " labels"]
    label: Which

    def annotators(self, name: str) -> tuple[Distinct, Which]:
        distinct, which = np.unique(self.place, return_inverse=True)
        return self.trained.tensor(self.trained.rows(name)[distinct]), self.trained.tensor(which)

    def outputs(self, network: NamedNetwork) -> PerRow:
        return self.trained.tensor(self.trained.outputs[network.name][self.item])

    def parameter(self, name: str) -> tuple[Shared, Which]:
        return self.trained.tensor(self.trained.snapshot.values[name][None]), torch.zeros_like(self.label)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Trained:
    """One trained replica.

    Attributes:
        likelihood: how likely a label is given each true class.
        networks: besides the classifier; without any, p(y | k) is the same for all items.
        answers: of the annotators who labelled anything, to whom the rows of `snapshot.tables` belong in this order.
    """

    likelihood: LogLikelihood
    networks: Sequence[NamedNetwork]
    data: TrainingData
    answers: ActiveAnswers
    predictor: NetworkPredictor
    history: History[Snapshot]
    device: str

    @property
    def snapshot(self) -> Snapshot:
        """The parameters that training ended with."""
        return self.history.end

    def rows(self, name: str) -> Float[np.ndarray, "active width"]:
        """Returns the parameters of each annotator who labelled anything."""
        return self.snapshot.tables[name][: len(self.answers.code)]

    @cached_property
    def outputs(self) -> Mapping[str, Float64[np.ndarray, "items outputs"]]:
        """What networks besides the classifier give for the training items, by name."""
        return {
            network.name: NetworkPredictor(network=network, values=self.snapshot.values, device=self.device)
            .logits(self.data.items)
            .T
            for network in self.networks
        }

    def tensor(self, array: np.ndarray) -> torch.Tensor:
        """Returns an array on the device; real numbers in double precision."""
        wide = np.float64 if np.issubdtype(array.dtype, np.floating) else np.int64
        return torch.from_numpy(np.ascontiguousarray(array, wide)).to(self.device)

    def labels(
        self, item: Int[np.ndarray, " labels"], place: Int[np.ndarray, " labels"], label: Int[np.ndarray, " labels"]
    ) -> FittedLabels:
        """Returns labels, to ask for their likelihood; `place` is their annotators' among those who labelled any."""
        return FittedLabels(trained=self, item=item, place=place, label=self.tensor(label))

    @without_gradients
    def log_likelihood(
        self, item: Int[np.ndarray, " labels"], place: Int[np.ndarray, " labels"], label: Int[np.ndarray, " labels"]
    ) -> Float64[np.ndarray, "labels classes"]:
        """Returns log p(y | k) of each label (see `labels`), not below the logarithm of LOG_FLOOR."""
        found = self.likelihood(self.labels(item, place, label))
        return np.maximum(found.cpu().numpy(), np.log(LOG_FLOOR))

    def confusions(
        self, item: Int[np.ndarray, " pairs"], place: Int[np.ndarray, " pairs"]
    ) -> Float64[np.ndarray, "pairs true label"]:
        """Returns how each of these annotators labels each of these items; rows sum to one."""
        n_classes = self.data.n_classes
        every = np.tile(np.arange(n_classes), len(item))
        found = self.log_likelihood(np.repeat(item, n_classes), np.repeat(place, n_classes), every)
        return np.exp(found).reshape(-1, n_classes, n_classes).transpose(0, 2, 1)

    def matrices(self, place: Int[np.ndarray, " annotators"]) -> Confusions:
        """Returns the matrix of each annotator: the mean over the items that the annotator labelled."""
        if not self.networks:  # every item has the same
            return self.confusions(np.zeros(len(place), np.int32), place)
        rows, weights = self.answers.rows, weights_of(self.answers.rows)
        members, which = np.unique(place, return_inverse=True)
        given = rows.labels_per_annotator[members]
        member = np.repeat(np.arange(len(members)), given)
        begins = rows.annotator_pointers[members] - (np.cumsum(given) - given)
        own = rows.by_annotator[np.arange(len(member)) + np.repeat(begins, given)]
        total = np.zeros((len(members), self.data.n_classes, self.data.n_classes))
        for part in chunks(len(own), self.data.n_classes**2):
            mine = own[part]
            found = self.confusions(rows.item[mine], rows.annotator[mine])
            add_rows(total, member[part], weights[mine][:, None, None] * found)
        return (total / np.bincount(member, weights[own], len(members))[:, None, None])[which]

    def result(self, **extras: Float64[np.ndarray, "..."]) -> FitResult:
        """Returns the result, with further named arrays."""
        rows, n_classes = self.answers.rows, self.data.n_classes

        def log_likelihood(part: slice) -> Float64[np.ndarray, "rows classes"]:
            return self.log_likelihood(rows.item[part], rows.annotator[part], rows.label[part])

        prior = self.predictor.predict(self.data.items, "classifier")
        posterior = posterior_of(rows, prior, log_likelihood, n_classes**2)
        annotators = TrainedAnnotators(
            trained=self,
            crowd=pooled(rows, posterior, self.matrices),
            n_annotators=self.answers.declared,
        )

        def unseen_label_probs(items: Items, item: ItemCodes, annotator: AnnotatorCodes) -> RowProbs:
            asked = replace(annotators, trained=replace(self, data=replace(self.data, items=items)))
            return asked.label_probs(self.predictor.predict(items, "classifier"), item, annotator)

        return self.history.result(
            item_probs=posterior,
            annotators=annotators,
            label_probs=partial(annotators.label_probs, posterior),
            predictor=self.predictor,
            unseen_label_probs=unseen_label_probs,
            extras=extras,
        )


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedAnnotators:
    """An `AnnotatorModel` that asks a trained model.

    Attributes:
        crowd: pooled confusion matrix, which annotators without labels have.
        n_annotators: declared.
    """

    trained: Trained
    crowd: Confusion
    n_annotators: int

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> Confusions:
        known, place = self._known(annotators)
        found = np.tile(self.crowd, (len(annotators), 1, 1))
        found[known] = self.trained.matrices(place[known])
        return found

    def global_confusion(self) -> Confusion | None:
        return None

    def of(self, item: Int[np.ndarray, " annotators"], annotators: Int[np.ndarray, " annotators"]) -> Confusions:
        """Returns how each of these annotators labels each of these items."""
        known, place = self._known(annotators)
        found = np.tile(self.crowd, (len(annotators), 1, 1))
        found[known] = self.trained.confusions(item[known], place[known])
        return found

    def label_probs(self, classes: ItemProbs, item: ItemCodes, annotator: AnnotatorCodes) -> RowProbs:
        """Returns the predictive probabilities of each annotator's label of each item, given the items' class
        probabilities.
        """
        out = np.empty((len(item), classes.shape[1]))
        for part in chunks(len(item), classes.shape[1] ** 2):
            out[part] = np.einsum("ak,akl->al", classes[item[part]], self.of(item[part], annotator[part]))
        return out

    def _known(
        self, annotators: Int[np.ndarray, " rows"]
    ) -> tuple[Bool[np.ndarray, " rows"], Int[np.ndarray, " rows"]]:
        """Returns whether each of these labelled anything, and the place of those who did."""
        code = self.trained.answers.code
        place = np.minimum(np.searchsorted(code, annotators), len(code) - 1)
        return code[place] == annotators, place


def pooled(
    answers: Annotations, posterior: ItemProbs, matrices: Callable[[Int[np.ndarray, " some"]], Confusions]
) -> Confusion:
    """Returns the annotators' mean matrix, each row of it weighted by how often each of them met the class."""
    n_classes, weights = posterior.shape[1], weights_of(answers)
    met = np.zeros((answers.n_annotators, n_classes))
    for true, column in enumerate(posterior.T):
        met[:, true] = np.bincount(answers.annotator, column[answers.item] * weights, answers.n_annotators)
    total = np.zeros((n_classes, n_classes))
    for part in chunks(answers.n_annotators, n_classes * n_classes):
        everybody = np.arange(part.start, part.stop)
        total += np.einsum("tk,tkl->kl", met[part], matrices(everybody))
    return normalised_rows(total)


def posterior_of(
    answers: Annotations,
    prior: ItemProbs,
    log_likelihood: Callable[[slice], Float64[np.ndarray, "rows classes"]],
    row_size: int,
) -> ItemProbs:
    """Returns each item's class given what is known of it before, and its labels.

    Args:
        answers: their weights multiply log-likelihoods.
        log_likelihood: of some of the labels (a slice of rows), for each true class.
        row_size: numbers that it holds for one label.
    """
    log_joint, weights, classes = floored_log(prior), weights_of(answers), np.arange(prior.shape[1])
    for part in chunks(len(answers), row_size):
        first, last = int(answers.item[part.start]), int(answers.item[part.stop - 1])  # rows are sorted by item
        cells = (answers.item[part].astype(np.int64) - first)[:, None] * len(classes) + classes
        votes = log_likelihood(part) * weights[part][:, None]
        here = log_joint[first : last + 1]
        here += np.bincount(cells.ravel(), votes.ravel(), minlength=here.size).reshape(here.shape)
    return normalised(log_joint)[0]
