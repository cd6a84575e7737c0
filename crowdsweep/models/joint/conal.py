"""CoNAL: an answer comes from a confusion matrix that all annotators share, or from the annotator's own.

The probability that it comes from the common matrix depends on item and annotator: it is the sigmoid of the cosine of
their embeddings, the item's being a network's output. A penalty keeps own matrices away from the common one,
so that what all annotators confuse is learned once.

Chu, Ma and Wang (2021), "Learning from Crowds by Modeling Common Confusions", AAAI, section 3.

    f(x)                        class probabilities: network, hidden, dropout
    W^g, W^r                    common matrix, and annotator r's: softmaxes over the answers
    v_i, u_r                    embeddings of item and annotator, of unit length: gate_embedding
    omega_ir = sigmoid(v_i u_r) probability of the common matrix, in (.27, .73)
    p(y | k) = omega W^g[y, k] + (1 - omega) W^r[y, k]
    loss = mean over observed labels of - log sum_k f_k p(y | k) - lambda |W^r - W^g|      separation

Deviations: both matrices are softmaxed, so that the probabilities of answers sum to one (of the public code some
softmaxes the own matrices alone, some neither); they begin at `initial_correctness`, where the paper begins their
logits at twice the identity (.45 for K = 10). The loss, and the distance of an annotator's matrix (the norm of the
difference of the probabilities, once for each answer, where the paper sums over all annotators in every step), is
averaged over observed labels. Training items are labelled by the posterior given their labels. An annotator's matrix is
the average over the items that the annotator answered; one without answers gets the average of the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, final

import numpy as np
from annotated_types import Ge, Gt, Lt
from jaxtyping import Float64
from scipy.special import softmax

from crowdsweep.arrays import Confusion
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import chunks
from crowdsweep.models._stacked import weights_of
from crowdsweep.models.classifier import Classifier
from crowdsweep.models.contract import DataShape, FitContext, FitResult, ModelInfo
from crowdsweep.models.end_to_end import EndToEnd, Rows, end_to_end_cost
from crowdsweep.models.end_to_end_fitted import Trained
from crowdsweep.models.joint._matrix_rows import confident_logits, confident_rows, log_columns
from crowdsweep.models.label_likelihood import Distinct, Labels, PerClass, PerLabel, PerRow, Shared, Which, mixture
from crowdsweep.models.lazy_torch import torch, without_gradients
from crowdsweep.models.networks.dense import Dense
from crowdsweep.models.networks.initial import normal, repeated
from crowdsweep.models.networks.named import NamedNetwork
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
        n_classes = data[0].n_classes
        gate = NamedNetwork(
            name="gate", network=Dense(hidden=self.gate_hidden, dropout=0.0).build(data[0].items, self.gate_embedding)
        )
        common = confident_logits(n_classes, self.initial_correctness)

        def gained(labels: Labels, log_f: PerClass) -> PerLabel:
            found = mixture(log_f, likelihood(gate, labels))
            return found + self.separation * distances(labels) if self.separation else found

        training = EndToEnd(
            classifier=self.classifier,
            epochs=self.epochs,
            annotators={
                "matrix": confident_rows(n_classes, self.initial_correctness),
                "embedding": Rows(width=self.gate_embedding, start=normal(self.gate_embedding**-0.5)),
            },
            log_likelihood=partial(likelihood, gate),
            gained=gained,
            networks=[gate],
            parameters=[Parameter(name="common", shape=(n_classes**2,), start=repeated(common))],
        )
        return [one.result(common=_common(one), gate=_opened(one, gate)) for one in training.fit(data, contexts)]


def likelihood(gate: NamedNetwork, labels: Labels) -> PerClass:
    """Returns log p(y | k) of each label."""
    common, replica = labels.parameter("common")
    own, which = labels.annotators("matrix")
    return log_likelihood(gates(labels, gate), own, which, common, replica, labels.label)


def gates(labels: Labels, gate: NamedNetwork) -> PerLabel:
    """Returns the logit of omega of each label: how well its item's embedding points where its annotator's does."""
    embeddings, which = labels.annotators("embedding")
    return (_unit(labels.outputs(gate)) * _unit(take_rows(embeddings, which))).sum(dim=1)


def log_likelihood(
    towards: PerLabel, own: Distinct, which: Which, common: Shared, replica: Which, label: Which
) -> PerClass:
    """Returns log (omega W^g[y, k] + (1 - omega) W^r[y, k]) of each label.

    Args:
        towards: logit of omega.
        own: logits of the matrices of the annotators who gave the labels.
        which: of them gave each label.
        common: logits of each replica's common matrix.
        replica: which replica's each label is.
    """
    log_sigmoid = torch.nn.functional.logsigmoid
    return torch.logaddexp(
        log_columns(common, replica, label) + log_sigmoid(towards)[:, None],
        log_columns(own, which, label) + log_sigmoid(-towards)[:, None],
    )


def distances(labels: Labels) -> PerLabel:
    """Returns |W^r - W^g| of the annotator of each label."""
    (own, which), (common, place) = labels.annotators("matrix"), labels.parameter("common")
    n_classes = round(own.shape[1] ** 0.5)
    replica = torch.zeros(len(own), dtype=torch.int64, device=own.device).index_copy_(0, which, place)
    theirs, shared = (torch.softmax(logits.unflatten(1, (n_classes, n_classes)), dim=1) for logits in (own, common))
    # At the start own and common matrices are equal, where the slope of a root is infinite: a tiny number keeps it
    # finite.
    apart = ((theirs - take_rows(shared, replica)).square().sum(dim=(1, 2)) + _SHORTEST**2).sqrt()
    return take_rows(apart, which)


def _unit(vectors: PerRow) -> PerRow:
    return torch.nn.functional.normalize(vectors, dim=1, eps=_SHORTEST)


def _common(trained: Trained) -> Confusion:
    """Returns the common matrix [true, observed]."""
    n_classes = trained.data.n_classes
    return softmax(trained.snapshot.values["common"].astype(np.float64).reshape(n_classes, n_classes), axis=0).T


@without_gradients
def _opened(trained: Trained, gate: NamedNetwork) -> Float64[np.ndarray, " active"]:
    """Returns the mean of omega over the labels of each annotator who gave any."""
    rows, weights = trained.answers.rows, weights_of(trained.answers.rows)
    opened = np.zeros(len(trained.answers.code))
    for part in chunks(len(rows), trained.outputs[gate.name].shape[1]):
        labels = trained.labels(rows.item[part], rows.annotator[part], rows.label[part])
        omega = torch.sigmoid(gates(labels, gate)).cpu().numpy()
        opened += np.bincount(rows.annotator[part], omega * weights[part], len(opened))
    return opened / np.bincount(rows.annotator, weights, len(opened))


def _cost(shape: DataShape, params: Mapping[str, Any]) -> float:
    hidden = params["gate_hidden"]
    per_label = 8.0 * shape.n_classes**2 + 6.0 * params["gate_embedding"]
    gate = shape.n_features * (hidden[0] if hidden else params["gate_embedding"])
    return end_to_end_cost(shape, params, per_label, more_weights=gate)


MODEL = ModelInfo(
    name="conal",
    title="CoNAL: a classifier, a common confusion, and annotators' own",
    model=Conal,
    steps="epochs",
    predicts_labels=True,
    checkpoints=True,
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
