"""SpeeLFC: a classifier and a confusion matrix for each annotator, learned together by gradient.

A classifier f gives an item's class, and the row of that class in an annotator's matrix says how the annotator answers.
The rows are softmaxes of free numbers, so that they stay probabilities without any constraint. All is trained on the
likelihood of the observed labels, whose sum over the classes is exact: no EM, no majority vote.

Chen et al. (2020), "Structured Probabilistic End-to-End Learning from Crowds", IJCAI, sections 3.1 and 3.2.

    f(x)                        class probabilities: network, hidden, dropout
    Pi_t[m, n]                  logits of annotator t: answer m, true class n
    Pi'_t = softmax over m      confusion matrix: row n sums to one over the answers m
    loss = - mean over observed labels of log sum_n f_n Pi'_t[y, n]

Deviations: the loss is averaged over observed labels, not over items × annotators, and is a logsumexp, never the log of
a product. The paper starts the diagonal of Pi at 1.4 (K = 2) or 4.7 (K = 10) and the rest at 1; here
`initial_correctness` says what the softmax of that start is (.60 and .82 there). Training items are labelled by the
posterior given their labels; the paper scores f alone, as we do on unseen items. An annotator without answers gets the
average matrix of the others. The paper trains 200 epochs (sentiment polarity) and 5,000 (music genre) and follows the
test accuracy; how long decides more than the model does, so `epochs` and `steps` are in the default space.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

from annotated_types import Ge, Gt, Lt

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.classifier import Classifier
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo
from crowdsweep.models.end_to_end import EndToEnd, end_to_end_cost
from crowdsweep.models.joint._matrix_rows import confident_rows, log_columns
from crowdsweep.models.label_likelihood import Labels, PerClass
from crowdsweep.models.training_length import SEARCHED_UNSTOPPED


@final
@dataclass(frozen=True, kw_only=True)
class Speelfc:
    """Hyper-parameters of SpeeLFC.

    Attributes:
        initial_correctness: probability of a right answer of every annotator at the start.
        epochs: passes over the items.
    """

    initial_correctness: Annotated[float, Gt(0), Lt(1)] = 0.8
    classifier: Classifier = Classifier()
    epochs: Annotated[int, Ge(1)] = 200

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        training = EndToEnd(
            classifier=self.classifier,
            epochs=self.epochs,
            annotators={"matrix": confident_rows(data[0].n_classes, self.initial_correctness)},
            log_likelihood=log_likelihood,
        )
        return [one.result() for one in training.fit(data, contexts)]


def log_likelihood(labels: Labels) -> PerClass:
    """Returns log Pi'_t[y, n] of each label."""
    return log_columns(*labels.annotators("matrix"), labels.label)


MODEL = ModelInfo(
    name="speelfc",
    title="SpeeLFC: a classifier and annotators' confusion matrices, end to end",
    model=Speelfc,
    steps="epochs",
    predicts_labels=True,
    checkpoints=True,
    source="Chen et al. 2020, IJCAI, sections 3.1 and 3.2",
    needs=frozenset({"features", "annotators"}),
    supports=frozenset({"soft_answers"}),
    space={
        "initial_correctness": {"values": [0.6, 0.7, 0.8, 0.9]},
        "learning_rate": {"values": [1e-4, 1e-3, 3e-3]},
        "epochs": {"values": [200, 1000, 2000]},
        "steps": {"values": SEARCHED_UNSTOPPED},
        "network": {"values": ["auto", "linear"]},
    },
    cost=lambda shape, params: end_to_end_cost(shape, params, per_label=6.0 * shape.n_classes**2),
    label_symmetric=False,
    version=4,
)
