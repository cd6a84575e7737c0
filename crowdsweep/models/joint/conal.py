"""CoNAL: annotators share a common confusion and have one of their own; item and annotator decide which of them speaks.

An answer comes from the crowd's common confusion matrix with a probability that the item and the annotator decide
together, else from the annotator's own matrix. The probability is a sigmoid of how well the item's embedding (made by a
network of its features) points where the annotator's does. Own matrices are pushed away from the common one, so that
what all confuse is learnt once.

Chu, Ma and Wang (2021), "Learning from Crowds by Modeling Common Confusions", AAAI, section 3.

    f(x)                        class probabilities: network, hidden, dropout
    W^g, W^r                    common matrix, and annotator r's: softmaxes over the answers
    v_i, u_r                    embeddings of item and annotator, of unit length: gate_embedding
    omega_ir = sigmoid(v_i u_r) probability that the common matrix speaks, in (.27, .73)
    p(y | k) = omega W^g[y, k] + (1 - omega) W^r[y, k]
    loss = mean over observed labels of - log sum_k f_k p(y | k) - lambda |W^r - W^g|      separation

Deviations: both matrices are softmaxed, so that an answer's probability is one (of the public code some softmaxes the
own matrices alone, some neither); they begin at `initial_correctness`, where the paper begins their logits at twice the
identity (.45 for K = 10). The loss, and the distance of an annotator's matrix (the norm of the difference of the
probabilities, once for each answer, where the paper sums over all annotators in every step), is averaged over observed
labels. Training items are labelled by the posterior given their labels. An annotator's matrix is the average over the
items that the annotator answered; one without answers gets the average of the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, final

import numpy as np
import torch
from annotated_types import Ge, Gt, Lt
from jaxtyping import Float, Float64, Int, Int64
from scipy.special import expit

from crowdsweep.arrays import AnnotatorCodes, Confusion, Confusions, ItemCodes, RowProbs, floored_log
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._cost import MATRIX_PRODUCT, passes_over
from crowdsweep.models._em import chunks
from crowdsweep.models._stacked import weights_of
from crowdsweep.models.classifier import Classifier
from crowdsweep.models.contract import DataShape, FitContext, FitResult, ModelInfo
from crowdsweep.models.joint._end_to_end import (
    EndToEnd,
    Learnt,
    LearntMatrices,
    PerAnswer,
    Rows,
    Step,
    crowd_of,
    end_to_end_cost,
    fit_result,
    posterior_of,
)
from crowdsweep.models.joint._matrix_rows import confident_logits, confident_rows, log_columns, softmax_matrices
from crowdsweep.models.networks.dense import Dense
from crowdsweep.models.networks.initial import normal, repeated
from crowdsweep.models.networks.named import Named
from crowdsweep.models.networks.replicas import Parameter
from crowdsweep.models.networks.tensors import take_rows
from crowdsweep.models.training_length import SEARCHED_UNSTOPPED

_SHORTEST = 1e-6  # an embedding of less length counts as one of this


@final
@dataclass(frozen=True, kw_only=True)
class Conal:
    """Hyper-parameters of CoNAL.

    Attributes:
        initial_correctness: probability of a right answer by each matrix at the start.
        gate_embedding: width of the embeddings of items and annotators.
        gate_hidden: widths of the hidden layers of the network that embeds items.
        separation: how much the distance of own matrices from the common one is worth.
        epochs: passes over the items.
    """

    initial_correctness: Annotated[float, Gt(0), Lt(1)] = 0.8
    gate_embedding: Annotated[int, Ge(1)] = 20
    gate_hidden: tuple[Annotated[int, Ge(1)], ...] = (128,)
    separation: Annotated[float, Ge(0)] = 1e-5
    classifier: Classifier = Classifier()
    epochs: Annotated[int, Ge(1)] = 200

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Fits all data sets, as many at a time as the machine's cache holds."""
        n_classes = data[0].n_classes
        gate = Named(
            name="gate", network=Dense(hidden=self.gate_hidden, dropout=0.0).build(data[0].items, self.gate_embedding)
        )
        common = confident_logits(n_classes, self.initial_correctness)

        def log_probs(step: Step) -> PerAnswer:
            return _log_probs(step, gate, self.separation)

        training = EndToEnd(
            classifier=self.classifier,
            epochs=self.epochs,
            annotators={
                "matrix": confident_rows(n_classes, self.initial_correctness),
                "embedding": Rows(width=self.gate_embedding, start=normal(self.gate_embedding**-0.5)),
            },
            log_probs=log_probs,
            networks=[gate],
            parameters=[Parameter(name="common", shape=(n_classes**2,), start=repeated(common))],
        )
        return [_result(one, gate) for one in training.fit(data, contexts)]


def _log_probs(step: Step, gate: Named, separation: float) -> PerAnswer:
    seen, (matrices, which), (embeddings, of) = step.seen, step.annotators("matrix"), step.annotators("embedding")
    items = gate.logits(step.values, step.inputs, step.batch).transpose(1, 2).flatten(0, 1)
    towards = (_unit(take_rows(items, seen.item)) * _unit(take_rows(embeddings, of))).sum(dim=1)
    common = step.values["common"]
    log_probs = log_answer_probs(step.classes(), towards, matrices, which, common, seen.place, seen.label)
    if not separation:
        return log_probs
    return log_probs + separation * take_rows(_distances(matrices, which, common, seen.place), which)


def log_answer_probs(
    log_f: Float[torch.Tensor, "answers classes"],
    towards: Float[torch.Tensor, " answers"],
    own: Float[torch.Tensor, "distinct cells"],
    which: Int64[torch.Tensor, " answers"],
    common: Float[torch.Tensor, "replicas cells"],
    place: Int64[torch.Tensor, " answers"],
    label: Int64[torch.Tensor, " answers"],
) -> PerAnswer:
    """Returns log sum_k f_k (omega W^g[y, k] + (1 - omega) W^r[y, k]) of each answer.

    Args:
        log_f: of the answered item.
        towards: logit of omega.
        own: logits of the matrices of the annotators who gave the answers.
        which: of them gave each answer.
        common: logits of each replica's common matrix.
        place: which replica's each answer is.
        label: y.
    """
    gate = torch.nn.functional.logsigmoid
    both = torch.logaddexp(
        log_columns(common, place, label) + gate(towards)[:, None],
        log_columns(own, which, label) + gate(-towards)[:, None],
    )
    return torch.logsumexp(log_f + both, dim=1)


def _distances(
    own: Float[torch.Tensor, "distinct cells"],
    which: Int64[torch.Tensor, " answers"],
    common: Float[torch.Tensor, "replicas cells"],
    place: Int64[torch.Tensor, " answers"],
) -> Float[torch.Tensor, " distinct"]:
    """Returns |W^r - W^g| of the annotators who gave the answers (see `log_answer_probs`)."""
    n_classes = round(own.shape[1] ** 0.5)
    replica = torch.zeros(len(own), dtype=torch.int64, device=own.device).index_copy_(0, which, place)
    theirs, shared = (torch.softmax(logits.unflatten(1, (n_classes, n_classes)), dim=1) for logits in (own, common))
    return ((theirs - take_rows(shared, replica)).square().sum(dim=(1, 2)) + _SHORTEST**2).sqrt()


def _unit(vectors: Float[torch.Tensor, "rows width"]) -> Float[torch.Tensor, "rows width"]:
    return torch.nn.functional.normalize(vectors, dim=1, eps=_SHORTEST)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class GatedMatrices:
    """The annotators of one replica, those who answered anything, by their place.

    Attributes:
        common: the common matrix.
        logits: of the own matrices.
        items, annotators: embeddings of unit length.
    """

    common: Confusion
    logits: Float[np.ndarray, "active cells"]
    items: Float64[np.ndarray, "items width"]
    annotators: Float64[np.ndarray, "active width"]

    def gates(self, item: ItemCodes, place: Int[np.ndarray, " annotations"]) -> Float64[np.ndarray, " annotations"]:
        """Returns omega of each pair of an item and an annotator."""
        return expit((self.items[item] * self.annotators[place]).sum(axis=1))

    def matrices(self, place: Int[np.ndarray, " annotators"], gates: Float64[np.ndarray, " annotators"]) -> Confusions:
        """Returns omega W^g + (1 - omega) W^r."""
        shares = gates[:, None, None]
        return shares * self.common + (1.0 - shares) * softmax_matrices(self.logits, place)


def _result(learnt: Learnt, gate: Named) -> FitResult:
    rows, prior = learnt.answers.rows, learnt.predictor.predict(learnt.data.items, "classifier")
    gated = GatedMatrices(
        common=softmax_matrices(learnt.snapshot.values["common"][None], np.zeros(1, np.int64))[0],
        logits=learnt.rows("matrix"),
        items=_unit_rows(learnt.logits(gate).T),
        annotators=_unit_rows(learnt.rows("embedding").astype(np.float64)),
    )

    def log_likelihood(part: slice) -> Float64[np.ndarray, "rows classes"]:
        who = rows.annotator[part]
        found = gated.matrices(who, gated.gates(rows.item[part], who))
        return floored_log(np.take_along_axis(found, rows.label[part].astype(np.int64)[:, None, None], axis=2)[:, :, 0])

    posterior = posterior_of(rows, prior, log_likelihood, rows.n_classes**2)
    weights, opened = weights_of(rows), np.zeros(len(learnt.answers.code))
    for part in chunks(len(rows), gated.items.shape[1]):
        gates = gated.gates(rows.item[part], rows.annotator[part]) * weights[part]
        opened += np.bincount(rows.annotator[part], gates, len(opened))
    opened /= np.bincount(rows.annotator, weights, len(opened))

    def matrices(place: Int[np.ndarray, " annotators"]) -> Confusions:
        return gated.matrices(place, opened[place])

    annotators = LearntMatrices(
        matrices=matrices,
        code=learnt.answers.code,
        crowd=crowd_of(rows, posterior, matrices),
        n_annotators=learnt.answers.declared,
    )

    def label_probs(item: ItemCodes, annotator: AnnotatorCodes) -> RowProbs:
        out = np.empty((len(item), rows.n_classes))
        for part in chunks(len(item), rows.n_classes**2):
            known, place = annotators.known(annotator[part])
            found = np.tile(annotators.crowd, (len(place), 1, 1))
            found[known] = gated.matrices(place[known], gated.gates(item[part][known], place[known]))
            out[part] = np.einsum("ak,akl->al", posterior[item[part]], found)
        return out

    return fit_result(learnt, posterior, annotators, label_probs, {"common": gated.common, "gate": opened})


def _unit_rows(vectors: Float64[np.ndarray, "rows width"]) -> Float64[np.ndarray, "rows width"]:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _SHORTEST)


def _cost(shape: DataShape, params: Mapping[str, Any]) -> float:
    hidden = params["gate_hidden"]
    gate = 3.0 * MATRIX_PRODUCT * shape.n_items * shape.n_features * (hidden[0] if hidden else params["gate_embedding"])
    per_answer = 8.0 * shape.n_classes**2 + 6.0 * params["gate_embedding"]
    return (
        end_to_end_cost(shape, params, per_answer)
        + passes_over(shape.n_items, params, params["epochs"], stops=False) * gate
    )


MODEL = ModelInfo(
    name="conal",
    title="CoNAL: a classifier, a common confusion, and annotators' own",
    model=Conal,
    steps="epochs",
    predicts_labels=True,
    source="Chu, Ma and Wang 2021, AAAI, section 3",
    needs=frozenset({"features", "annotators"}),
    supports=frozenset({"soft_answers"}),
    space={
        "initial_correctness": {"values": [0.6, 0.7, 0.8, 0.9]},
        "separation": {"values": [0, 1e-5, 1e-3]},
        "learning_rate": {"values": [1e-3, 3e-3]},
        "epochs": {"values": [50, 200, 1000]},
        "steps": {"values": SEARCHED_UNSTOPPED},
    },
    cost=_cost,
    label_symmetric=False,
    version=4,
)
