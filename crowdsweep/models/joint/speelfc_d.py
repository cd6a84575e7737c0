"""SpeeLFC-D: annotators of one ability each, items of one difficulty each, and a classifier, learned together.

A classifier f gives an item's class. An annotator answers it correctly with probability sigmoid(ability × easiness),
else with each other class equally often; easiness is itself a network of the item's features. All is trained by
gradient on the likelihood of the observed labels alone.

Chen et al. (2020), "Structured Probabilistic End-to-End Learning from Crowds", IJCAI, section on item difficulty.

    f(x)                                       class probabilities: network, hidden, dropout
    beta'_i = lambda1 + lambda2 sigmoid(f2(x))  easiness: difficulty_hidden; large is EASY, whatever its name
    alpha_t                                    ability, any sign: negative is adversarial
    s = sigmoid(alpha_t beta'_i)               probability of the right answer; (1 - s)/(K - 1) for each wrong one
    loss = - mean over observed labels of log sum_k f_k p(y | k)

Deviations: the loss is averaged over observed labels, not over items × annotators. All abilities start at the value
that makes `initial_correctness` of an item of middling easiness. Training items are labelled by the posterior given
their labels; the paper scores f alone, as we do on unseen items. An annotator's matrix is the mean over the items
that the annotator labelled; one without labels has the pooled matrix of the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, final

import numpy as np
from annotated_types import Ge, Gt, Lt
from scipy.special import expit, logit

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.classifier import Classifier
from crowdsweep.models.contract import DataShape, FitContext, FitResult, ModelInfo
from crowdsweep.models.end_to_end import EndToEnd, Rows, end_to_end_cost
from crowdsweep.models.label_likelihood import Labels, PerClass, PerLabel, Which
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.dense import Dense
from crowdsweep.models.networks.initial import constant
from crowdsweep.models.networks.named import NamedNetwork
from crowdsweep.models.networks.tensors import take_rows


@final
@dataclass(frozen=True, kw_only=True)
class SpeelfcD:
    """Hyper-parameters of SpeeLFC-D.

    Attributes:
        lambda1: least easiness.
        lambda2: how much the item's features can add to it.
        initial_correctness: probability of a right answer of every annotator at the start.
        difficulty_hidden: widths of the hidden layers of the network of the easiness.
        epochs: passes over the items.
    """

    lambda1: Annotated[float, Ge(0)] = 0.001
    lambda2: Annotated[float, Gt(0)] = 100.0
    initial_correctness: Annotated[float, Gt(0.5), Lt(1)] = 0.8
    classifier: Classifier = Classifier()
    difficulty_hidden: tuple[Annotated[int, Ge(1)], ...] = (32,)
    epochs: Annotated[int, Ge(1)] = 50

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        dropouts = self.classifier.build(data[0]).dropouts
        dropout = dropouts[0].probability if dropouts else 0.0
        easiness = NamedNetwork(
            name="easiness", network=Dense(hidden=self.difficulty_hidden, dropout=dropout).build(data[0].items, 1)
        )
        start = float(logit(self.initial_correctness)) / (self.lambda1 + self.lambda2 / 2)

        training = EndToEnd(
            classifier=self.classifier,
            epochs=self.epochs,
            annotators={"ability": Rows(width=1, start=constant(start))},
            log_likelihood=partial(self.likelihood, easiness, data[0].n_classes),
            networks=[easiness],
        )
        results: list[FitResult] = []
        for one in training.fit(data, contexts):
            ability = np.full(one.data.n_annotators, start)
            ability[one.answers.code] = one.rows("ability")[:, 0]
            easy = self.lambda1 + self.lambda2 * expit(one.outputs[easiness.name][:, 0])
            results.append(one.result(ability=ability, easiness=easy))
        return results

    def likelihood(self, easiness: NamedNetwork, n_classes: int, labels: Labels) -> PerClass:
        """Returns log p(y | k) of each label."""
        ability, which = labels.annotators("ability")
        # Torch rounds its sigmoid by where a number lies in memory, which the exponential of this does not.
        share = torch.exp(torch.nn.functional.logsigmoid(labels.outputs(easiness)[:, 0]))
        easy = self.lambda1 + self.lambda2 * share
        return log_likelihood(take_rows(ability[:, 0], which) * easy, labels.label, n_classes)


def log_likelihood(product: PerLabel, label: Which, n_classes: int) -> PerClass:
    """Returns log p(y | k) of each label, without ever forming s.

    Args:
        product: alpha_t beta'_i.
    """
    right, wrong = (torch.nn.functional.logsigmoid(sign * product) for sign in (1.0, -1.0))
    is_right = label[:, None] == torch.arange(n_classes, device=label.device)
    return torch.where(is_right, right[:, None], wrong[:, None] - np.log(max(n_classes - 1, 1)))


def _cost(shape: DataShape, params: Mapping[str, Any]) -> float:
    hidden = params["difficulty_hidden"]
    return end_to_end_cost(shape, params, per_label=10.0, more_weights=shape.n_features * (hidden[0] if hidden else 1))


MODEL = ModelInfo(
    name="speelfc-d",
    title="SpeeLFC-D: a classifier, annotators' abilities and items' difficulties, end to end",
    model=SpeelfcD,
    steps="epochs",
    predicts_labels=True,
    checkpoints=True,
    source="Chen et al. 2020, IJCAI",
    needs=frozenset({"features", "annotators"}),
    supports=frozenset({"soft_answers"}),
    version=7,
    space={
        "lambda1": {"values": [0.001, 0.1, 1]},
        "lambda2": {"values": [1, 10, 100]},
        "initial_correctness": {"values": [0.7, 0.8, 0.9]},
        "difficulty_hidden": {"values": [[32], [128]]},
    },
    cost=_cost,
    label_symmetric=False,
)
