"""SpeeLFC-D: annotators of one ability each, items of one difficulty each, and a classifier, learned together.

A classifier f gives an item's class. An annotator answers it correctly with probability sigmoid(ability × easiness),
else with any other class alike; easiness is itself a network of the item's features. All is trained by gradient on the
likelihood of the observed labels alone.

Chen et al. (2020), "Structured Probabilistic End-to-End Learning from Crowds", IJCAI, section on item difficulty.

    f(x)                                       class probabilities: network, hidden, dropout
    beta'_i = lambda1 + lambda2 sigmoid(f2(x))  easiness: difficulty_hidden; large is EASY, whatever its name
    alpha_t                                    ability, any sign: negative is adversarial
    s = sigmoid(alpha_t beta'_i)               probability of the right answer; (1 - s)/(K - 1) for each wrong one
    loss = - mean over observed labels of log sum_k f_k p(y | k)

Deviations: the loss is averaged over observed labels, not over items × annotators. All abilities start at the value
that makes `initial_correctness` of an item of middling easiness. Training items are labelled by the posterior given
their labels; the paper scores f alone, as we do on unseen items. An annotator without answers is taken for any of the
others, in proportion to the answers that they gave.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, final

import numpy as np
import torch
from annotated_types import Ge, Gt, Lt
from jaxtyping import Float, Float64
from scipy.special import expit, log_expit, logit

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._abilities import Abilities, Easiness, abilities_of, label_probs_of_abilities
from crowdsweep.models._answers import BatchAnswers
from crowdsweep.models._cost import MATRIX_PRODUCT, passes_over
from crowdsweep.models.classifier import Classifier
from crowdsweep.models.contract import DataShape, FitContext, FitResult, ModelInfo
from crowdsweep.models.joint._end_to_end import (
    EndToEnd,
    Learnt,
    LogProbs,
    PerAnswer,
    Rows,
    Step,
    end_to_end_cost,
    fit_result,
    posterior_of,
)
from crowdsweep.models.networks.dense import Dense
from crowdsweep.models.networks.initial import constant
from crowdsweep.models.networks.named import Named
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
        """Fits all data sets, as many at a time as the machine's cache holds."""
        dropouts = self.classifier.build(data[0]).dropouts
        dropout = dropouts[0].probability if dropouts else 0.0
        easiness = Named(
            name="easiness", network=Dense(hidden=self.difficulty_hidden, dropout=dropout).build(data[0].items, 1)
        )
        start = float(logit(self.initial_correctness)) / (self.lambda1 + self.lambda2 / 2)

        def log_probs(step: Step) -> PerAnswer:
            easy = self.lambda1 + self.lambda2 * torch.sigmoid(easiness.logits(step.values, step.inputs, step.batch))
            ability, which = step.annotators("ability")
            return log_answer_probs(step.log_f, easy.flatten(), take_rows(ability[:, 0], which), step.seen)

        training = EndToEnd(
            classifier=self.classifier,
            epochs=self.epochs,
            annotators={"ability": Rows(width=1, start=constant(start))},
            log_probs=log_probs,
            networks=[easiness],
        )
        results: list[FitResult] = []
        for one in training.fit(data, contexts):
            ability = np.full(one.data.n_annotators, start)
            ability[one.answers.code] = one.rows("ability")[:, 0]
            easy = self.lambda1 + self.lambda2 * expit(one.logits(easiness)[0])
            results.append(_result(one, easy, ability))
        return results


def log_answer_probs(
    log_f: LogProbs,
    easiness: Float[torch.Tensor, " replicas*batch"],
    ability: Float[torch.Tensor, " answers"],
    seen: BatchAnswers,
) -> Float[torch.Tensor, " answers"]:
    """Returns log p(y | x) = log(f_y s + (1 - f_y) (1 - s) / (K - 1)) of each answer, without ever forming s.

    Args:
        log_f: log class probabilities.
        easiness: beta' of each item of the flat batch.
        ability: alpha of each answer's annotator.
        seen: the answers.
    """
    n_classes, size = log_f.shape[1:]
    cell = seen.item + (seen.place * (n_classes - 1) + seen.label) * size
    product = ability * take_rows(easiness, seen.item)
    log_y, log_rest = take_rows(log_f.flatten(), cell), take_rows(log_others(log_f).flatten(), cell)
    # log s before the bracket, and log (1 - s) = log s - alpha beta'.
    log_s = torch.nn.functional.logsigmoid(product)
    return log_s + torch.logaddexp(log_y, log_rest - product - np.log(max(n_classes - 1, 1)))


def log_others(log_f: LogProbs) -> LogProbs:
    """Returns log(1 - f) of log-probabilities: of all classes but one.

    Of a class above one half by the others' own logarithms: 1 - f loses all its digits as f nears one.
    """
    large = log_f > -np.log(2.0)
    rest = log_f.masked_fill(large, torch.finfo(log_f.dtype).min).logsumexp(dim=1, keepdim=True)
    return torch.where(large, rest, torch.log1p(-log_f.exp().clamp(max=0.5)))


def _result(learnt: Learnt, easiness: Easiness, ability: Abilities) -> FitResult:
    rows, prior = learnt.answers.rows, learnt.predictor.predict(learnt.data.items, "classifier")
    active, wrong_labels = ability[learnt.answers.code], max(rows.n_classes - 1, 1)

    def log_likelihood(part: slice) -> Float64[np.ndarray, "rows classes"]:
        product = active[rows.annotator[part]] * easiness[rows.item[part]]
        right = rows.label[part, None] == np.arange(rows.n_classes)
        return np.where(right, log_expit(product)[:, None], log_expit(-product)[:, None] - np.log(wrong_labels))

    posterior = posterior_of(rows, prior, log_likelihood, rows.n_classes)
    annotators = abilities_of(learnt.data.annotations, easiness, ability)
    label_probs = label_probs_of_abilities(posterior, annotators, easiness)
    return fit_result(learnt, posterior, annotators, label_probs, {"ability": ability, "easiness": easiness})


def _cost(shape: DataShape, params: Mapping[str, Any]) -> float:
    hidden = params["difficulty_hidden"]
    easiness = 3.0 * MATRIX_PRODUCT * shape.n_items * shape.n_features * (hidden[0] if hidden else 1)
    return (
        end_to_end_cost(shape, params, per_answer=10.0)
        + passes_over(shape.n_items, params, params["epochs"], stops=False) * easiness
    )


MODEL = ModelInfo(
    name="speelfc-d",
    title="SpeeLFC-D: a classifier, annotators' abilities and items' difficulties, end to end",
    model=SpeelfcD,
    steps="epochs",
    predicts_labels=True,
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
