"""Crowd-Layer: a classifier with an output layer for each annotator, trained on the annotators' answers.

The layer maps the classifier's probabilities to the logits of the annotator's answers. Its weights are unconstrained
and start at the identity, so that at first every annotator repeats the classifier. After training it is removed, and
the classifier labels items.

Rodrigues and Pereira (2018), "Deep learning from crowds", AAAI, section 4.

    sigma                   f(x): class probabilities: network, hidden, dropout
    W^r, w^r, s^r, b^r      of annotator r, by `form`:
      MW                    logits = W^r f: a matrix, beginning at the identity
      VW                    logits = w^r * f: a weight for each class, beginning at one
      VB                    logits = f + b^r: a bias for each class, beginning at zero
      VW+B                  both
      SW                    logits = s^r f: one weight, beginning at one
    loss                    mean cross-entropy of softmax(logits) with the observed labels

Deviations: the loss is averaged over observed labels; the authors' code averages over items × annotators, so that its
steps shrink as labels become sparse. The paper does not define an annotator's confusion matrix; here row k is the
softmax of the layer's output for f one-hot at k. With these matrices training items are labelled by the posterior given
their labels, where the paper scores f alone, as we do on unseen items, and through them labels are predicted: f mixes
their rows, where the layer itself says softmax(W^r f). (On dev and test answers of jobs-q1, two seeds, and of
medical-causes, one, the mixture has 0.002 to 0.008 nats per answer more; it errs as often on jobs-q1, and in 0.4 to 1.4
points more of the answers on medical-causes.) An annotator without answers gets the average matrix of the others. As
the layer needs many steps to move away from the identity, `epochs` and `steps` are in the default space.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, final

import numpy as np
from annotated_types import Ge, Gt
from jaxtyping import Float

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.classifier import Classifier
from crowdsweep.models.contract import DataShape, FitContext, FitResult, ModelInfo
from crowdsweep.models.end_to_end import EndToEnd, Rows, end_to_end_cost
from crowdsweep.models.joint._matrix_rows import log_columns
from crowdsweep.models.label_likelihood import Distinct, Labels, PerClass, PerLabel, Which
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.initial import repeated
from crowdsweep.models.networks.tensors import log_softmax, take_rows
from crowdsweep.models.training_length import SEARCHED_UNSTOPPED

Form = Literal["MW", "VW", "VB", "VW+B", "SW"]


@final
@dataclass(frozen=True, kw_only=True)
class CrowdLayer:
    """Hyper-parameters of Crowd-Layer.

    Attributes:
        form: what an annotator's layer holds: a matrix MW, weights VW, biases VB, both VW+B, or one weight SW.
        initial_scale: the weights of MW, VW, VW+B and SW at the start, in place of one.
        epochs: passes over the items.
    """

    form: Form = "MW"
    initial_scale: Annotated[float, Gt(0)] = 1.0
    classifier: Classifier = Classifier()
    epochs: Annotated[int, Ge(1)] = 200

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        n_classes = data[0].n_classes

        def gained(labels: Labels, log_f: PerClass) -> PerLabel:
            return log_probs(self.form, log_f.exp(), *labels.annotators("layer"), labels.label)

        training = EndToEnd(
            classifier=self.classifier,
            epochs=self.epochs,
            annotators={"layer": first_rows(self.form, n_classes, self.initial_scale)},
            log_likelihood=partial(log_likelihood, self.form, n_classes),
            gained=gained,
        )
        return [one.result() for one in training.fit(data, contexts)]


def first_rows(form: Form, n_classes: int, scale: float) -> Rows:
    """Returns an annotator's layer before training: W [observed, true] flat, w, b, w and b, or s."""
    weights, biases = np.full(n_classes, scale), np.zeros(n_classes)
    begins: Mapping[Form, np.ndarray] = {
        "MW": np.diag(weights).ravel(),
        "VW": weights,
        "VB": biases,
        "VW+B": np.concatenate([weights, biases]),
        "SW": weights[:1],
    }
    return Rows(width=len(begins[form]), start=repeated(begins[form].astype(np.float32)))


def log_likelihood(form: Form, n_classes: int, labels: Labels) -> PerClass:
    """Returns log p(y | k) of each label: what its annotator's layer makes of a certain classifier."""
    layers, which = labels.annotators("layer")
    return log_columns(certain_logits(form, layers, n_classes), which, labels.label)


def certain_logits(form: Form, layers: Distinct, n_classes: int) -> Float[torch.Tensor, "distinct cells"]:
    """Returns each annotator's logits, for a classifier that is certain of each class: [observed, true], flat."""
    certain = torch.eye(n_classes, dtype=layers.dtype, device=layers.device)
    match form:
        case "MW":
            return layers
        case "VW" | "SW":
            logits = certain * layers[:, :, None]
        case "VB":
            logits = certain + layers[:, :, None]
        case "VW+B":
            logits = certain * layers[:, :n_classes, None] + layers[:, n_classes:, None]
    return logits.flatten(1)


def log_probs(form: Form, f: PerClass, layers: Distinct, which: Which, label: Which) -> PerLabel:
    """Returns the log-probability of each label: log softmax of its annotator's layer.

    Args:
        f: of the labelled item.
        layers: of the annotators who gave the labels.
        which: of them gave each label.
    """
    own, n_classes = take_rows(layers, which), f.shape[1]
    match form:
        case "MW":
            logits = torch.bmm(own.unflatten(1, (n_classes, n_classes)), f[:, :, None])[:, :, 0]
        case "VW" | "SW":
            logits = own * f
        case "VB":
            logits = f + own
        case "VW+B":
            logits = own[:, :n_classes] * f + own[:, n_classes:]
    return log_softmax(logits, dim=1).gather(1, label[:, None])[:, 0]


def _cost(shape: DataShape, params: Mapping[str, Any]) -> float:
    width = shape.n_classes**2 if params["form"] == "MW" else shape.n_classes
    return end_to_end_cost(shape, params, per_label=6.0 * width)


MODEL = ModelInfo(
    name="crowd-layer",
    title="Crowd-Layer: a classifier with a layer for each annotator on top",
    model=CrowdLayer,
    steps="epochs",
    predicts_labels=True,
    checkpoints=True,
    source="Rodrigues and Pereira 2018, AAAI, section 4",
    needs=frozenset({"features", "annotators"}),
    supports=frozenset({"soft_answers"}),
    space={
        "form": {"values": ["MW", "VW", "VB", "VW+B", "SW"]},
        "initial_scale": {"values": [1, 4]},
        "learning_rate": {"values": [1e-3, 3e-3]},
        "epochs": {"values": [50, 200, 1000]},
        "steps": {"values": SEARCHED_UNSTOPPED},
    },
    cost=_cost,
    label_symmetric=False,
    version=4,
)
