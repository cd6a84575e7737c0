"""A fitted LIA: what it says of items, of annotators, and of the two together."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int, Int64, Shaped
from scipy.special import softmax

from crowdsweep.arrays import ClassConfusions, Confusions, ItemProbs, add_rows, ratio
from crowdsweep.data.dataset import Items
from crowdsweep.models._em import chunks
from crowdsweep.models._stacked import weights_of
from crowdsweep.models.joint._lia_answers import Answers, Posterior, as_probs
from crowdsweep.models.joint._lia_network import LiaNetwork, LogConfusions
from crowdsweep.models.lazy_torch import torch, without_gradients
from crowdsweep.models.networks.values import Values
from crowdsweep.models.trainer import Snapshot

Confused = Float64[np.ndarray, "rows questions true observed"]

_LEAST_LOG = np.log(1e-30)
_MOST_PAIR_NUMBERS = 1 << 22  # 16 MB
_TYPICAL_ITEMS, _TYPICAL_ANNOTATORS = 32, 64  # so many stand for all where an average runs over them


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class FittedLia:
    """A fitted replica of LIA, and its annotators.

    Attributes:
        network, snapshot: the shapes and what is in them.
        inputs: what the network reads of the training items.
        answers: that it was trained on.
        code: of each annotator, as it stands in the answers.
        multilabel: whether questions are classes.
    """

    network: LiaNetwork
    snapshot: Snapshot
    inputs: Shaped[np.ndarray, " items *shape"]
    features: Float32[np.ndarray, "annotators _"] | None
    answers: Answers
    code: Int64[np.ndarray, " annotators"]
    multilabel: bool
    device: str

    @cached_property
    def _values(self) -> Values:
        # Double precision, so that an annotator's numbers do not depend on which others are asked about together.
        wide = {name: torch.from_numpy(array[None].astype(np.float64)) for name, array in self.snapshot.values.items()}
        return Values({name: array.to(self.device) for name, array in wide.items()})

    @cached_property
    def _vectors(self) -> Float32[torch.Tensor, "annotators width"]:
        # As they were trained: of a million annotators, those that are asked about are widened, not all.
        return torch.from_numpy(self.snapshot.tables["annotators"]).to(self.device)

    @cached_property
    def _features(self) -> Float[torch.Tensor, "annotators _"] | None:
        return None if self.features is None else torch.from_numpy(self.features).to(self.device, torch.float64)

    @cached_property
    def _of_items(self) -> tuple[Posterior, Float[torch.Tensor, "items cells"]]:
        """The classifier's log-probabilities, and the difficulty, of the training items."""
        return self._read(self.inputs)

    @without_gradients
    def _read(
        self, inputs: Shaped[np.ndarray, " items *shape"]
    ) -> tuple[Posterior, Float[torch.Tensor, "items cells"]]:
        network, read = self.network, torch.from_numpy(np.array(inputs)).to(self.device)
        read = read.to(torch.float64) if read.is_floating_point() else read
        size = network.n_cells + max(stream.row_size for stream in network.streams)
        logs = [np.zeros((0, network.n_questions, network.n_classes))]
        hard = [torch.zeros(0, network.n_cells, dtype=torch.float64, device=self.device)]
        for part in chunks(len(inputs), size):
            logits, difficulty = network.of_items(self._values, read[None, part], None)
            logs.append(network.log_classes(logits).permute(2, 0, 1).cpu().numpy())
            hard.append(difficulty[0].transpose(0, 1))
        return np.concatenate(logs), torch.cat(hard)

    def classes_of(self, items: Items) -> ItemProbs:
        """Returns what the classifier says of any items."""
        log_classes, _ = self._read(self.network.classes.inputs(items))
        return as_probs(softmax(log_classes, axis=2), multilabel=self.multilabel)

    @property
    def classifier(self) -> Posterior:
        """What the classifier says of the training items."""
        return softmax(self._of_items[0], axis=2)

    def posterior(self, *, prior: bool) -> Posterior:
        """Returns the classes of the training items given their answers; `prior` counts the classifier in."""
        log_joint = self._of_items[0].copy() if prior else np.zeros_like(self._of_items[0])
        answers, weight = self.answers, weights_of(self.answers.rows)
        for part in chunks(len(answers.said), self.network.n_cells):
            said = torch.from_numpy(answers.said[part]).to(self.device, torch.float64).permute(2, 1, 0).unsqueeze(2)
            log_q = self._log_confusions(answers.item[part], answers.annotator[part])
            gained = (log_q.clamp_(min=_LEAST_LOG) * said).sum(dim=0).permute(2, 0, 1).cpu().numpy()
            add_rows(log_joint, answers.item[part], weight[part, None, None] * gained)
        return softmax(log_joint, axis=2)

    def pairs(self, item: Int[np.ndarray, " rows"], annotator: Int[np.ndarray, " rows"]) -> Confused:
        """Returns how annotators, by their codes in the answers, answer items; rows sum to one."""
        shape = (self.network.n_questions, self.network.n_classes, self.network.n_classes)
        found = np.empty((len(item), *shape))
        for part in chunks(len(item), self.network.n_cells):
            log_q = self._log_confusions(item[part], annotator[part])
            found[part] = log_q.exp_().permute(3, 1, 2, 0).cpu().numpy()
        return found

    @without_gradients
    def _log_confusions(self, item: Int[np.ndarray, " rows"], annotator: Int[np.ndarray, " rows"]) -> LogConfusions:
        together = self.difficulty(item) + self.competence(annotator)
        return self.network.log_confusions(self.network.laid_out(together.transpose(0, 1)[None]))

    @without_gradients
    def competence(self, annotator: Int[np.ndarray, " rows"]) -> Float64[torch.Tensor, "rows cells"]:
        """Returns the competence of annotators, by their codes in the answers."""
        who = torch.from_numpy(annotator.astype(np.int64)).to(self.device)
        features = None if self._features is None else self._features[who][None]
        return self.network.competence(self._values, self._vectors[who].to(torch.float64)[None], features)[0]

    def difficulty(self, item: Int[np.ndarray, " rows"]) -> Float64[torch.Tensor, "rows cells"]:
        """Returns the difficulty of training items."""
        return self._of_items[1][torch.from_numpy(item.astype(np.int64)).to(self.device)]

    @without_gradients
    def mixtures(
        self,
        cells: Float64[torch.Tensor, "rows cells"],
        others: Float64[torch.Tensor, "others cells"],
        share: Float64[np.ndarray, "questions true others"],
    ) -> Confused:
        """Returns the mean matrix of each item over annotators, or of each annotator over items.

        Q[k, l] = sum over the latent axis of exp(D[k, l]) exp(C[k, l]) / Z[k], Z being the inner product of the two: of
        all pairs there is but Z, and the mean is what the others' exponentials, each by share / Z, add up to.

        Args:
            cells: difficulty of items or competence of annotators: a matrix is returned for each.
            others: competence or difficulty of those that the mean is over.
            share: of each of them.
        """
        network = self.network
        own, theirs = self._scaled(cells), self._scaled(others)
        by = torch.from_numpy(share).to(self.device).flatten(0, 1).unsqueeze(1)
        found = np.empty((len(cells), network.n_questions, network.n_classes, network.n_classes))
        for part in chunks(len(cells), len(by) * max(len(others), own.shape[2])):
            rows = own[:, part]
            mixed = rows * torch.bmm(by / torch.bmm(rows, theirs.transpose(1, 2)), theirs)
            mixed = mixed.unflatten(2, (network.n_classes, network.latent)).sum(dim=3)
            found[part] = mixed.transpose(0, 1).cpu().numpy().reshape(found[part].shape)
        return found

    def _scaled(self, cells: Float64[torch.Tensor, "rows cells"]) -> Float64[torch.Tensor, "matrices rows _"]:
        """Returns the exponentials of each matrix row (question, true class), the largest 1; none so small that the
        product of two vanishes."""
        rows = cells.unflatten(1, (self.network.n_questions * self.network.n_classes, -1)).transpose(0, 1)
        return (rows - rows.amax(dim=2, keepdim=True)).clamp_(min=-300.0).exp_()

    @cached_property
    def known(self) -> Bool[np.ndarray, " annotators"]:
        """Whether anything is known of each annotator, by the codes in the answers: an answer, or features."""
        if self.features is not None:
            return np.ones(len(self.code), dtype=bool)
        return self.answers.rows.labels_per_annotator > 0

    @cached_property
    def crowd(self) -> tuple[Int64[np.ndarray, " typical"], Float64[np.ndarray, " typical"]]:
        """Typical annotators and the share of each: an annotator without answers is predicted as their mixture."""
        given = self.answers.rows.labels_per_annotator
        active = np.flatnonzero(given)
        if len(active) <= _TYPICAL_ANNOTATORS:
            return active, given[active] / max(given.sum(), 1)
        # Annotators at evenly spaced quantiles of the answers: each then stands for an equal share of all answers.
        middles = (np.arange(_TYPICAL_ANNOTATORS) + 0.5) / _TYPICAL_ANNOTATORS
        picked = active[np.searchsorted(np.cumsum(given[active]), middles * given.sum())]
        return picked, np.full(len(picked), 1.0 / len(picked))

    def of_crowd(self, item: Int[np.ndarray, " rows"]) -> Confused:
        """Returns how the crowd answers each of these items."""
        members, share = self.crowd
        asked, place = np.unique(item, return_inverse=True)
        each = np.broadcast_to(share, (self.network.n_questions, self.network.n_classes, len(share))).copy()
        return self.mixtures(self.difficulty(asked), self.competence(members), each)[place]

    def predictive(
        self, posterior: Posterior, item: Int[np.ndarray, " rows"], annotator: Int[np.ndarray, " rows"]
    ) -> Float64[np.ndarray, "rows _"]:
        """Returns the probability of each answer that an annotator may give an item."""
        code = self.code[annotator]
        unknown = ~self.known[code]
        out = np.empty((len(item), self.network.n_questions, self.network.n_classes))
        for part in chunks(len(item), self.network.n_cells):
            confused = self.pairs(item[part], code[part])
            if unknown[part].any():
                confused[unknown[part]] = self.of_crowd(item[part][unknown[part]])
            out[part] = np.einsum("rjk,rjkl->rjl", posterior[item[part]], confused)
        return as_probs(out, multilabel=self.multilabel)

    def unseen_label_probs(
        self, items: Items, item: Int[np.ndarray, " rows"], annotator: Int[np.ndarray, " rows"]
    ) -> Float64[np.ndarray, "rows _"]:
        """Returns the same of items that nobody answered: the classifier alone says what they are."""
        asked = replace(self, inputs=self.network.classes.inputs(items))
        return asked.predictive(asked.classifier, item, annotator)

    def loss(self, posterior: Posterior, validation: Answers) -> float:
        """Returns minus the mean log-probability of answers that were not trained on."""
        lost, weight = np.zeros(len(validation.said)), weights_of(validation.rows)
        for part in chunks(len(lost), self.network.n_cells):
            probs = np.einsum(
                "rjk,rjkl->rjl",
                posterior[validation.item[part]],
                self.pairs(validation.item[part], validation.annotator[part]),
            )
            lost[part] = -(validation.said[part] * np.log(np.maximum(probs, 1e-12))).sum(axis=(1, 2))
        return float(weight @ lost / weight.sum())

    def annotators(self, posterior: Posterior) -> "LiaAnnotators":
        """Returns how annotators answer typical items."""
        answered = np.flatnonzero(self.answers.rows.labels_per_item > 0)
        places = np.linspace(0, len(answered) - 1, min(_TYPICAL_ITEMS, len(answered))).round().astype(np.int64)
        return LiaAnnotators(fitted=self, items=answered[places], posterior=posterior[answered[places]])

    def extras(self, posterior: Posterior, annotators: "LiaAnnotators") -> Mapping[str, Shaped[np.ndarray, "..."]]:
        """Returns what LIA promises besides labels.

        `item_difficulty`: of each item (multi-label: and class), how probably somebody of the crowd answers it wrongly.
        `annotator_competence`: of each annotator, the probability of a right answer, a mean over typical items (and
        classes). `annotator_errors`: the share of wrong answers, by the posterior of the items; NaN where there are
        none. `annotator_embeddings`: vectors. `pair_confusions`: for each answer, in the order of the annotations, how
        its annotator answers its item [answers, true, observed] (multi-label: [answers, classes, 2, 2]); left out
        where these are more than an artifact may hold.
        """
        rows, n_annotators = self.answers.rows, len(self.code)
        everything = np.arange(rows.n_items)
        right = np.einsum("ijk,ijkk->ij", posterior, self.of_crowd(everything))
        agreed = (posterior[self.answers.item] * self.answers.said).sum(axis=2).mean(axis=1)
        given = np.bincount(rows.annotator, weights_of(rows), minlength=n_annotators)
        agreeing = np.bincount(rows.annotator, weights_of(rows) * agreed, minlength=n_annotators)
        shares = annotators.posterior.mean(axis=0)
        competence = np.concatenate(
            [
                np.einsum("jk,ajkk->a", shares, annotators.matrices(np.arange(n_annotators)[part]))
                for part in chunks(n_annotators, _TYPICAL_ITEMS * self.network.n_cells)
            ]
            or [np.zeros(0)]
        )
        found = {
            "item_difficulty": 1.0 - (right if self.multilabel else right[:, 0]),
            "annotator_competence": competence / self.network.n_questions,
            "annotator_errors": ratio(given - agreeing, given, at_zero=np.nan)[self.code],
            "annotator_embeddings": self.vectors()[self.code],
        }
        if len(self.answers.said) * self.network.n_cells <= _MOST_PAIR_NUMBERS:
            own = np.argsort(self.code)  # by item, then by the data set's own code of the annotator
            by_pair = np.lexsort((own[self.answers.annotator], self.answers.item))
            confused = self.pairs(self.answers.item[by_pair], self.answers.annotator[by_pair]).astype(np.float32)
            found["pair_confusions"] = confused if self.multilabel else confused[:, 0]
        return found

    @without_gradients
    def vectors(self) -> Float32[np.ndarray, "annotators width"]:
        """Returns the annotators' vectors, by the codes in the answers."""
        if self._features is None or self.network.describing is None:
            return self._vectors.cpu().numpy()
        described = self.network.describing.logits(self._values, self._features[None], None)[0].transpose(0, 1)
        return (self._vectors.to(torch.float64) + described).to(torch.float32).cpu().numpy()


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class LiaAnnotators:
    """An `AnnotatorModel`: how annotators answer typical items, of each class by their posterior."""

    fitted: FittedLia
    items: Int64[np.ndarray, " typical"]
    posterior: Posterior

    @property
    def n_annotators(self) -> int:
        return len(self.fitted.code)

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> Confusions | ClassConfusions:
        """Returns the matrices of these annotators; unknown ones have the pooled matrix."""
        found = self.matrices(annotators)
        return found if self.fitted.multilabel else found[:, 0]

    def global_confusion(self) -> None:
        return None

    def matrices(self, annotators: Int[np.ndarray, " annotators"]) -> Confused:
        """Returns a matrix for each annotator and question."""
        code = self.fitted.code[annotators]
        known = self.fitted.known[code]
        if known.all():
            return self._of(code)
        found = np.broadcast_to(self._crowd, (len(code), *self._crowd.shape)).copy()
        found[known] = self._of(code[known])
        return found

    @cached_property
    def _crowd(self) -> Float64[np.ndarray, "questions true observed"]:
        """The pooled matrix of each question. Annotators are asked about in chunks, and most may be unknown."""
        members, share = self.fitted.crowd
        return np.tensordot(share, self._of(members), axes=1)

    def _of(self, code: Int64[np.ndarray, " annotators"]) -> Confused:
        share = ratio(self.posterior, self.posterior.sum(axis=0), at_zero=1.0 / len(self.items)).transpose(1, 2, 0)
        hard = self.fitted.difficulty(self.items)
        return self.fitted.mixtures(self.fitted.competence(code), hard, np.ascontiguousarray(share))
