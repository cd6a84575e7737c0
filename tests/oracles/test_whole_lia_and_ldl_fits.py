"""LIA, LIA-E, LIA-ML and LDL-NM from the first weights to the last prediction, against training in loops."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models.contract import FitResult
from crowdsweep.models.joint._ldl_network import AnnotatorEnsemble
from crowdsweep.models.joint._lia_fitted import FittedLia
from tests.naive_training import (
    N_ANNOTATORS,
    N_CLASSES,
    N_ITEMS,
    STILL,
    Adam,
    Label,
    features_of,
    first_weights,
    fit,
    labels_of,
    must_be,
    shares_of,
    training_data,
)

Values = dict[str, torch.Tensor]
Answer = tuple[int, int, float, torch.Tensor]
"""Item, annotator, weight, and what is said: how much of a label of each question and class."""

EVERY = np.arange(N_ITEMS, dtype=np.int32)
ROUNDS, EM_ROUNDS, PASSES, GAMMA, WIDTH = 3, 2, 2, 0.3, 2
RIGHT = 0.8  # how often annotators are right at the start


def read(values: Values, data: TrainingData) -> torch.Tensor:
    """Returns a one and what is read of each item: its features, or its own vector."""
    if "item vectors" not in values:
        return features_of(data)
    return torch.cat([torch.ones(N_ITEMS, 1, dtype=torch.float64), values["item vectors"]], dim=1)


def loops(values: Values, data: TrainingData, shape: tuple[int, int, int], i: int, t: int) -> torch.Tensor:
    """Returns log Q[question, true, observed] of an item and an annotator."""
    questions, classes, latent = shape
    difficulty = (read(values, data)[i] @ values["difficulty"]).reshape(questions, classes, classes, latent)
    competence = values[f"vector {t}"] @ values["competence weights"] + values["competence"]
    both = difficulty + competence.reshape(questions, classes, classes, latent)
    return torch.log_softmax(torch.logsumexp(both, dim=3), dim=2)


def classes_of(values: Values, data: TrainingData, questions: int) -> torch.Tensor:
    """Returns log h [items, questions, classes]."""
    logits = read(values, data) @ values["w"]
    return torch.log_softmax(logits.reshape(N_ITEMS, questions, -1), dim=2)


def start_of(fitted: FitResult, shape: tuple[int, int, int], multilabel: bool) -> Values:
    """Returns what LIA begins at: items equally difficult, annotators rather good."""
    questions, classes, latent = shape
    assert isinstance(fitted.label_probs, partial)
    drawn = fitted.label_probs.func.__self__
    assert isinstance(drawn, FittedLia)
    values = {name: torch.from_numpy(value) for name, value in drawn.snapshot.values.items()}
    if fitted.predictor is None:
        both = torch.cat([values["items b0"], values["items w0"]])
        begins = {"item vectors": values["items item vectors"], "w": both[:, :classes]}
    elif multilabel:  # probabilities of each class: one logit of its question may be zero
        corners = np.vstack([np.zeros(2), np.eye(2)]).astype(np.float32)
        chosen = fitted.predictor.predict(with_features(corners), "classifier")
        logits = np.log(chosen / (1 - chosen))
        affine = np.vstack([logits[:1], logits[1:] - logits[0]])
        begins = {"w": torch.from_numpy(np.stack([np.zeros_like(affine), affine], axis=2).reshape(3, -1))}
    else:
        begins = {"w": first_weights(fitted)}
    good = np.log(RIGHT * (classes - 1) / (1 - RIGHT))
    competence = torch.stack([good * torch.eye(classes, dtype=torch.float64)] * latent, dim=2)
    vectors = drawn.snapshot.tables["annotators"][drawn.code]
    return {
        **begins,
        "difficulty": torch.zeros(3, questions * classes**2 * latent),
        "competence weights": values["competence weights"],
        "competence": competence.repeat(questions, 1, 1, 1).flatten(),
        **{f"vector {t}": torch.from_numpy(vectors[t]) for t in range(N_ANNOTATORS - 1)},
    }


def with_features(features: np.ndarray) -> Items:
    """Returns items with these features."""
    return Items(n_items=len(features), features=features)


@dataclass(frozen=True)
class LiaTwin:
    """LIA's losses and posterior in loops.

    Attributes:
        shape: questions, classes, latent.
        given: weight of each item's answers.
    """

    data: TrainingData
    answers: list[Answer]
    shape: tuple[int, int, int]
    settings: dict[str, Any]
    given: torch.Tensor

    def is_em(self, made: int) -> bool:
        """Whether the round after so many is one of EM."""
        return made < EM_ROUNDS or self.settings["finetune"] == "none"

    def votes(self) -> torch.Tensor:
        """Returns the first posterior."""
        said = torch.zeros(N_ITEMS, *self.shape[:2], dtype=torch.float64)
        for i, _, weight, what in self.answers:
            said[i] += weight * what
        return torch.stack([shares_of(of_item) for of_item in said])

    def log_posterior(self, values: Values, prior: bool) -> torch.Tensor:
        """Returns log (h prod Q[:, y]) of each item, not normalised; `prior` counts h in."""
        log_h = classes_of(values, self.data, self.shape[0])
        joint = list(log_h if prior else torch.zeros_like(log_h))
        for i, t, weight, what in self.answers:
            log_q = loops(values, self.data, self.shape, i, t)
            joint[i] = joint[i] + weight * torch.einsum("jkl,jl->jk", log_q, what)
        return torch.stack(joint)

    def posterior(self, values: Values) -> torch.Tensor:
        """Returns it as the E-step has it."""
        return torch.softmax(self.log_posterior(values, self.settings.get("estep_prior", True)), dim=2).detach()

    def loss(self, values: Values, made: int, q: torch.Tensor) -> torch.Tensor:
        """Returns what the round after so many minimises, at the posterior q."""
        labelled = self.given > 0
        total = self._pull(values)
        if self.is_em(made):
            log_h = classes_of(values, self.data, self.shape[0])
            often = self.given if self.settings.get("item_weighting") == "code" else labelled.to(torch.float64)
            total = total - (often[:, None, None] * q * log_h).sum()
            for i, t, weight, what in self.answers:
                log_q = loops(values, self.data, self.shape, i, t)
                total = total - weight * torch.einsum("jk,jkl,jl->", q[i], log_q, what)
        elif self.settings["finetune"] == "joint":
            total = total - torch.logsumexp(self.log_posterior(values, prior=True), dim=2)[labelled].sum()
        else:
            total = total - self._composite(values)
        return total / labelled.sum()

    def _pull(self, values: Values) -> torch.Tensor:
        per_item = self.given[self.given > 0].mean()
        squares = [w * (loops(values, self.data, self.shape, i, t) ** 2).sum() for i, t, w, _ in self.answers]
        return GAMMA / per_item * torch.stack(squares).sum()

    def _composite(self, values: Values) -> torch.Tensor:
        """Equation 9: sum over answers of log sum_k h_k Q[k, y]."""
        h, total = torch.exp(classes_of(values, self.data, self.shape[0])), torch.zeros((), dtype=torch.float64)
        for i, t, weight, what in self.answers:
            confusions = torch.exp(loops(values, self.data, self.shape, i, t))
            for j in range(self.shape[0]):
                total = total + weight * what[j] @ torch.log(h[i, j] @ confusions[j])
        return total


def must_train_as_in_loops(
    name: str, data: TrainingData, answers: list[Answer], latent: int, settings: dict[str, Any]
) -> None:
    """Checks a whole fit of LIA: rounds of EM from the votes, then rounds on the likelihood of the answers."""
    multilabel = data.scale == "multilabel"
    shape = (N_CLASSES, 2, latent) if multilabel else (1, N_CLASSES, latent)
    given = torch.zeros(N_ITEMS, dtype=torch.float64)
    for i, _, weight, _ in answers:
        given[i] += weight
    twin = LiaTwin(data, answers, shape, settings, given)
    params = {
        "latent": latent,
        "annotator_embedding": WIDTH,
        "iterations": ROUNDS,
        "em_iterations": EM_ROUNDS,
        "epochs": PASSES,
        "regularisation": GAMMA,
        **settings,
    }
    adam = Adam(start_of(fit(name, data, **{**params, "learning_rate": STILL}), shape, multilabel))
    lost, q = [], twin.votes()
    for made in range(ROUNDS):
        lost.append(adam.train(partial(twin.loss, made=made, q=q), PASSES)[-1])
        if twin.is_em(made + 1):
            q = twin.posterior(adam.values)
    end = {key: value.detach() for key, value in adam.values.items()}
    h = torch.exp(classes_of(end, data, shape[0]))
    labels = twin.posterior(end) if settings.get("predict") == "posterior" else h

    def shown(probs: torch.Tensor) -> torch.Tensor:
        return probs[:, :, 1] if multilabel else probs[:, 0]

    found = fit(name, data, **params)
    assert found.label_probs is not None
    must_be(-found.objective, lost, "losses", 1e-5)
    if found.predictor is not None:
        must_be(found.predictor.predict(data.items, "classifier"), shown(h), "classifier")
    must_be(found.item_probs, shown(labels), "items")
    for t in range(N_ANNOTATORS - 1):
        expected = [torch.einsum("jk,jkl->jl", labels[i], loops(end, data, shape, i, t).exp()) for i in range(N_ITEMS)]
        probs = found.label_probs(EVERY, np.full(N_ITEMS, t, np.int32))
        must_be(probs, shown(torch.stack(expected)), f"labels of annotator {t}")


def answers_of(labels: list[Label], rows: Annotations) -> list[Answer]:
    """Returns an answer for each row, which says one label or, where it is unsure, parts of several."""
    found: list[Answer] = []
    for j in range(len(rows)):
        weight = 1.0 if rows.weight is None else float(rows.weight[j])
        certain = 1.0 if rows.probability is None else float(rows.probability[j])
        what = torch.full((1, N_CLASSES), (1 - certain) / (N_CLASSES - 1), dtype=torch.float64)
        what[0, rows.label[j]] = certain
        found.append((int(rows.item[j]), int(rows.annotator[j]), weight, what))
    assert abs(sum(label[3] for label in labels) - sum(answer[2] for answer in found)) < 1e-9
    return found


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("plain", {"finetune": "composite"}),
        ("mixed", {"finetune": "joint"}),
        ("mixed", {"finetune": "none", "predict": "posterior"}),
        (
            "mixed",
            {
                "finetune": "composite",
                "estep_prior": False,
                "item_weighting": "code",
                "predict": "posterior",
                "shared_trunk": False,
            },
        ),
    ],
    ids=["composite", "joint", "none", "as in the code"],
)
def test_lia(kind: str, settings: dict[str, Any]) -> None:
    data = training_data(kind)
    answers = answers_of(labels_of(data.annotations), data.annotations)
    must_train_as_in_loops("lia", data, answers, 2, settings)


def test_lia_e_learns_a_vector_of_each_item() -> None:
    data = training_data("mixed")
    answers = answers_of(labels_of(data.annotations), data.annotations)
    must_train_as_in_loops("lia-e", data, answers, 1, {"finetune": "composite", "item_embedding": 2})


def test_lia_ml_asks_of_each_class_whether_it_applies() -> None:
    nominal = training_data("weighted")
    rows = nominal.annotations
    once = rows.take(~((rows.item == 1) & (rows.annotator == 1)))  # whose two labels have different weights
    also = {(0, 1): 2, (2, 0): 0, (3, 2): 1}
    item, annotator, label = list(once.item), list(once.annotator), list(once.label)
    assert once.weight is not None
    weight = list(once.weight)
    for (i, t), more in also.items():
        place = next(j for j in range(len(once)) if (once.item[j], once.annotator[j]) == (i, t))
        if once.label[place] != more:
            item, annotator, label, weight = [*item, i], [*annotator, t], [*label, more], [*weight, weight[place]]
    annotations = Annotations.of(
        item=np.array(item),
        annotator=np.array(annotator),
        label=np.array(label),
        weight=np.array(weight),
        n_items=N_ITEMS,
        n_annotators=N_ANNOTATORS,
        n_classes=N_CLASSES,
    )
    answers: dict[tuple[int, int], Answer] = {}
    for i, t, y, one in zip(item, annotator, label, weight, strict=True):
        nothing = torch.tensor([[1.0, 0.0]] * N_CLASSES, dtype=torch.float64)
        what = answers.get((i, t), (i, t, float(one), nothing))[3]
        what[y] = torch.tensor([0.0, 1.0])
        answers[i, t] = (i, t, float(one), what)
    assert len(answers) < len(item)
    data = replace(nominal, annotations=annotations, scale="multilabel")
    must_train_as_in_loops("lia-ml", data, list(answers.values()), 1, {"finetune": "composite"})


@pytest.mark.parametrize(
    ("activation", "weights", "balanced", "aggregation"),
    [("softsign", (1.0, 1.0), False, "mean"), ("tanh", (0.5, 2.0), True, "vote"), ("elu", (0.0, 1.0), False, "mean")],
)
def test_ldl_nm(activation: str, weights: tuple[float, float], balanced: bool, aggregation: str) -> None:
    data = training_data("weighted")
    labels, features = labels_of(data.annotations), features_of(data)[:, 1:]
    params = {
        "item_embedding": 2,
        "annotator_embedding": 2,
        "latent": 3,
        "activation": activation,
        "item_weight": weights[0],
        "annotator_weight": weights[1],
        "item_balanced": balanced,
        "aggregation": aggregation,
    }
    still = fit("ldl-nm", data, **{**params, "learning_rate": STILL})
    assert isinstance(still.predictor, AnnotatorEnsemble)
    assert still.label_probs is not None

    def phi(v: torch.Tensor) -> torch.Tensor:
        if activation == "softsign":
            return v / (1 + v.abs())
        return torch.tanh(v) if activation == "tanh" else torch.where(v > 0, v, torch.exp(v) - 1)

    def heads(values: Values, i: int, embedding: torch.Tensor) -> torch.Tensor:
        z_p = phi(phi(torch.cat([features[i] @ values["item"], embedding])) @ values["fusion"])
        z_e = phi(z_p @ values["encoder"] + z_p)
        return torch.softmax((z_e @ values["heads"]).reshape(3, N_CLASSES), dim=1)

    # Which drawn embedding is whose: what each annotator would say tells.
    first = {key: torch.from_numpy(value.astype(np.float64)) for key, value in still.predictor.values.items()}
    drawn, whose = torch.from_numpy(still.predictor.annotators.astype(np.float64)), {}
    for t in range(N_ANNOTATORS - 1):
        says = still.label_probs(EVERY, np.full(N_ITEMS, t, np.int32))
        apart = [max(np.abs(heads(first, i, a)[0].numpy() - says[i]).max() for i in range(N_ITEMS)) for a in drawn]
        assert sorted(apart)[0] < 1e-6 < sorted(apart)[1]
        whose[t] = int(np.argmin(apart))

    of_items, of_annotators = np.zeros((N_ITEMS, N_CLASSES)), np.zeros((N_ANNOTATORS, N_CLASSES))
    for i, t, y, weight in labels:
        of_items[i, y] += weight
        of_annotators[t, y] += weight
    counts = [weight / of_items[i].sum() if balanced else weight for i, _, _, weight in labels]
    counts = [count * len(labels) / sum(counts) for count in counts] if balanced else counts

    def loss(values: Values) -> torch.Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for (i, t, y, _), count in zip(labels, counts, strict=True):
            said = torch.log(heads(values, i, values["annotators"][whose[t]]))
            item, annotator = (torch.from_numpy(row / row.sum()) for row in (of_items[i], of_annotators[t]))
            total = total - count * (said[0, y] + weights[0] * item @ said[1] + weights[1] * annotator @ said[2])
        return total / len(labels)

    adam = Adam({**first, "annotators": drawn})
    lost, found = adam.train(loss), fit("ldl-nm", data, **params)
    assert found.predictor is not None
    assert found.label_probs is not None
    must_be(-found.objective, lost, "losses")
    end = {key: value.detach() for key, value in adam.values.items()}
    said = torch.stack(
        [torch.stack([heads(end, i, end["annotators"][whose[t]]) for t in whose]) for i in range(N_ITEMS)]
    )
    ensemble = said
    if aggregation == "vote":
        ensemble = torch.nn.functional.one_hot(said.argmax(dim=3), N_CLASSES).to(torch.float64)
    must_be(found.item_probs, ensemble[:, :, 0].mean(dim=1), "ensemble")
    must_be(found.predictor.predict(data.items, "item_head"), ensemble[:, :, 1].mean(dim=1), "item head")
    for t in whose:
        must_be(found.label_probs(EVERY, np.full(N_ITEMS, t, np.int32)), said[:, t, 0], f"labels of annotator {t}")
    idle = found.label_probs(EVERY, np.full(N_ITEMS, N_ANNOTATORS - 1, np.int32))
    must_be(idle, said[:, :, 0].mean(dim=1), "labels of an annotator without any")
