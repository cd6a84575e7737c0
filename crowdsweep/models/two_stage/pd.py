"""Plain supervised learning of label distributions: the classifier learns each item's histogram of answers.

The whole distribution of answers is what is wanted, not a true class behind them. The loss is the Kullback-Leibler
divergence of the prediction from the histogram, and the epoch is chosen on items that are not trained on: the dev
items' annotations where there are any, else a tenth of the training items.
Weerasooriya, Ororbia and Homan, baseline PD.

    y_i = counts / sum   targets     h(x)   the classifier     KL(y || h)   loss, up to the histogram's entropy

Deviations: a multilayer perceptron on given features, where the paper has a convolutional network on words; the epoch
is chosen, where their code trains a fixed number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

from annotated_types import Ge, Gt, Lt

from crowdsweep.arrays import AnnotatorCodes, ItemCodes, ItemProbs, RowProbs
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._classifiers import NetworkKind, build_network, features_of
from crowdsweep.models._cost import training_cost
from crowdsweep.models._training import Lesson, Schedule, train_classifiers, watched_of
from crowdsweep.models.contract import FitContext, FitResult, LabelProbs, ModelInfo
from crowdsweep.models.two_stage._aggregate_then_train import answered, report_losses


@final
@dataclass(frozen=True, kw_only=True)
class PD:
    """Hyper-parameters of plain label-distribution learning.

    Attributes:
        network: the classifier.
        hidden: widths of the hidden layers of an mlp.
        dropout: share of hidden units dropped in training.
        learning_rate: of Adam.
        batch_size: items in a step.
        epochs: the most passes over the items.
        patience: stop after so many epochs without a better one on the items that are watched.
    """

    network: NetworkKind = "mlp"
    hidden: tuple[Annotated[int, Ge(1)], ...] = (256,)
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.5
    learning_rate: Annotated[float, Gt(0)] = 1e-3
    batch_size: Annotated[int, Ge(1)] = 64
    epochs: Annotated[int, Ge(1)] = 100
    patience: Annotated[int, Ge(1)] = 10

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Trains on the histograms and keeps the epoch that predicts the watched items best."""
        lessons = [
            Lesson(
                features=features_of(part.items),
                targets=answered(part, part.annotations.label_distribution()),
                seeds=context.seeds.child("classifier"),
                watched=watched_of(part),
            )
            for part, context in zip(data, contexts, strict=True)
        ]
        schedule = Schedule(
            epochs=self.epochs, batch_size=self.batch_size, learning_rate=self.learning_rate, patience=self.patience
        )
        network = build_network(self, lessons[0].features.shape[1], data[0].n_classes)
        trained = train_classifiers(network, lessons, schedule, contexts[0].device)
        for classifier, context in zip(trained, contexts, strict=True):
            report_losses(classifier, context)
        return [
            FitResult(
                item_probs=classifier.probs,
                label_probs=_of_item(classifier.probs),
                predictor=classifier.predictor,
                objective=-classifier.losses,
                converged=classifier.converged,
                iterations=len(classifier.losses),
            )
            for classifier in trained
        ]


def _of_item(probs: ItemProbs) -> LabelProbs:
    """An answer is drawn from its item's distribution, whoever gives it."""

    def label_probs(item: ItemCodes, _: AnnotatorCodes) -> RowProbs:
        return probs[item]

    return label_probs


MODEL = ModelInfo(
    name="pd",
    title="Plain label-distribution learning: a classifier trained on histograms of answers",
    model=PD,
    source="Weerasooriya, Ororbia and Homan, baseline PD",
    needs=frozenset({"features"}),
    supports=frozenset({"votes", "soft_answers"}),
    space={
        "hidden": {"values": [[64], [128], [256], [256, 64]]},
        "learning_rate": {"values": [3e-4, 1e-3, 3e-3]},
        "dropout": {"values": [0.0, 0.25, 0.5]},
    },
    cost=training_cost,
    label_symmetric=False,
)
