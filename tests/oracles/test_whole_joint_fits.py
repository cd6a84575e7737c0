"""Joint models from the first weights to the last prediction, against training in loops: see `naive_training`.

Each twin is written from the paper's equations as the model's own file states them: likelihood, loss, gradient, Adam,
posterior, matrices, and what is predicted of labels that nobody has seen.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.contract import FitResult
from crowdsweep.models.end_to_end_fitted import TrainedAnnotators
from tests.naive_training import (
    KINDS,
    N_ANNOTATORS,
    N_CLASSES,
    N_ITEMS,
    STEPS,
    STILL,
    Adam,
    Label,
    classified,
    features_of,
    first_weights,
    fit,
    labels_of,
    must_be,
    posterior,
    shares_of,
    training_data,
    votes_of,
)

Values = dict[str, torch.Tensor]
Answers = Callable[[Values, int, int], torch.Tensor]
"""p(label | true class) of an item and an annotator [true, observed]."""

EVERY = np.arange(N_ITEMS, dtype=np.int32)
IDLE = N_ANNOTATORS - 1
EYE = torch.eye(N_CLASSES, dtype=torch.float64)
BEGINS_RIGHT = 0.7


@dataclass(frozen=True)
class Twin:
    """An end-to-end model in loops.

    Attributes:
        start: its parameters besides the classifier's, given the fit that did not move.
        answers: how an annotator labels an item of each class.
        said: p(label) of an item with these class probabilities in the loss, where that is not the mixture.
        penalty: added to the loss for each label.
    """

    start: Callable[[FitResult, TrainingData], Values]
    answers: Answers
    said: Callable[[Values, int, torch.Tensor], torch.Tensor] | None = None
    penalty: Callable[[Values, int], torch.Tensor] | None = None


def logits_that_are_right() -> torch.Tensor:
    """Logits [observed, true] whose softmax over the labels is right with the probability that all begin with."""
    wrong = (1 - BEGINS_RIGHT) / (N_CLASSES - 1)
    return torch.log(torch.where(EYE > 0, BEGINS_RIGHT, wrong))


def columns(logits: torch.Tensor) -> torch.Tensor:
    """Softmax over the labels: [true, observed] of logits [observed, true]."""
    return torch.stack([torch.softmax(logits[:, k], dim=0) for k in range(N_CLASSES)])


SPEELFC = Twin(
    start=lambda _, __: {f"matrix {t}": logits_that_are_right() for t in range(IDLE)},
    answers=lambda v, _, t: columns(v[f"matrix {t}"]),
)


def crowd_layer(form: str) -> Twin:
    def said(v: Values, t: int, f: torch.Tensor) -> torch.Tensor:
        logits = v[f"weights {t}"] @ f if form == "MW" else v[f"weights {t}"] * f + v[f"biases {t}"]
        return torch.softmax(logits, dim=0)

    def start(_: FitResult, __: TrainingData) -> Values:
        ones, zeros = torch.ones(1 if form == "SW" else N_CLASSES), torch.zeros(N_CLASSES)
        found: Values = {}
        for t in range(IDLE):
            found[f"weights {t}"] = torch.eye(N_CLASSES) if form == "MW" else ones
            found[f"biases {t}"] = zeros
        return found

    fixed = {"MW": ["biases"], "VW": ["biases"], "SW": ["biases"], "VB": ["weights"], "VW+B": []}[form]

    def only_its_own(v: Values) -> Values:
        return {name: value.detach() if name.split()[0] in fixed else value for name, value in v.items()}

    return Twin(
        start=start,
        answers=lambda v, _, t: torch.stack([said(v, t, certain) for certain in EYE]),
        said=lambda v, t, f: said(only_its_own(v), t, f),
    )


LAMBDA1, LAMBDA2 = 0.1, 4.0


def of_features(values: np.ndarray, data: TrainingData) -> torch.Tensor:
    """Returns the weights of a linear function of the features that has these values."""
    return torch.from_numpy(np.linalg.lstsq(features_of(data).numpy(), values, rcond=None)[0])


def start_of_speelfc_d(still: FitResult, data: TrainingData) -> Values:
    share = (still.extras["easiness"] - LAMBDA1) / LAMBDA2
    begins = np.log(BEGINS_RIGHT / (1 - BEGINS_RIGHT)) / (LAMBDA1 + LAMBDA2 / 2)
    abilities = {f"ability {t}": torch.tensor(begins) for t in range(IDLE)}
    return {"easiness": of_features(np.log(share / (1 - share)), data), **abilities}


def speelfc_d(data: TrainingData) -> Twin:
    def answers(v: Values, i: int, t: int) -> torch.Tensor:
        easy = LAMBDA1 + LAMBDA2 * torch.sigmoid(features_of(data)[i] @ v["easiness"])
        right = torch.sigmoid(v[f"ability {t}"] * easy)
        return EYE * right + (1 - EYE) * (1 - right) / (N_CLASSES - 1)

    return Twin(start=start_of_speelfc_d, answers=answers)


SEPARATION, WIDTH = 0.3, 2


def conal(data: TrainingData) -> Twin:
    def start(still: FitResult, data: TrainingData) -> Values:
        assert isinstance(still.annotators, TrainedAnnotators)
        trained = still.annotators.trained
        own = {f"matrix {t}": logits_that_are_right() for t in range(IDLE)}
        embedded = {f"embedding {t}": torch.from_numpy(trained.rows("embedding")[t]) for t in range(IDLE)}
        gate = {"gate": of_features(trained.outputs["gate"], data), "common": logits_that_are_right()}
        return {**own, **embedded, **gate}

    def answers(v: Values, i: int, t: int) -> torch.Tensor:
        item, annotator = features_of(data)[i] @ v["gate"], v[f"embedding {t}"]
        omega = torch.sigmoid(item @ annotator / (item.norm() * annotator.norm()))
        return omega * columns(v["common"]) + (1 - omega) * columns(v[f"matrix {t}"])

    def penalty(v: Values, t: int) -> torch.Tensor:
        return -SEPARATION * torch.linalg.vector_norm(columns(v[f"matrix {t}"]) - columns(v["common"]))

    return Twin(start=start, answers=answers, penalty=penalty)


CASES = {
    "speelfc": (lambda _: SPEELFC, {"initial_correctness": BEGINS_RIGHT}),
    "speelfc-d": (
        speelfc_d,
        {"initial_correctness": BEGINS_RIGHT, "lambda1": LAMBDA1, "lambda2": LAMBDA2, "difficulty_hidden": []},
    ),
    "conal": (
        conal,
        {
            "initial_correctness": BEGINS_RIGHT,
            "separation": SEPARATION,
            "gate_embedding": WIDTH,
            "gate_hidden": [],
        },
    ),
    **{
        f"crowd-layer {form}": (lambda _, form=form: crowd_layer(form), {"form": form})
        for form in ("MW", "VW", "VB", "VW+B", "SW")
    },
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_a_model_trained_end_to_end(case: str, kind: str) -> None:
    name, data, (make, params) = case.partition(" ")[0], training_data(kind), CASES[case]
    labels, twin = labels_of(data.annotations), make(data)
    total = sum(label[3] for label in labels)

    def said(v: Values, f: torch.Tensor, i: int, t: int) -> torch.Tensor:
        return f @ twin.answers(v, i, t) if twin.said is None else twin.said(v, t, f)

    def loss(v: Values) -> torch.Tensor:
        f, lost = classified(v["w"], data), 0.0 * v["w"].sum()
        for value in v.values():  # so that each has a gradient, of zero where nothing depends on it
            lost = lost + 0.0 * value.sum()
        for i, t, y, weight in labels:
            lost = lost - weight * torch.log(said(v, f[i], i, t)[y])
            if twin.penalty is not None:
                lost = lost + weight * twin.penalty(v, t)
        return lost / total

    still = fit(name, data, **{**params, "learning_rate": STILL})
    adam = Adam({"w": first_weights(still), **twin.start(still, data)})
    lost = adam.train(loss)
    v, found = {name: value.detach() for name, value in adam.values.items()}, fit(name, data, **params)
    must_be(-found.objective, lost, "losses")
    must_say_the_same(found, data, labels, classified(v["w"], data), lambda i, t: twin.answers(v, i, t))


def must_say_the_same(
    found: FitResult,
    data: TrainingData,
    labels: list[Label],
    f: torch.Tensor,
    answers: Callable[[int, int], torch.Tensor],
) -> None:
    """Checks items, annotators and predicted labels of a fit, given how each annotator answers each item."""
    q = posterior(f, lambda i, t, y: answers(i, t)[:, y], labels)
    assert found.predictor is not None
    assert found.annotators is not None
    assert found.label_probs is not None
    assert found.unseen_label_probs is not None
    must_be(found.predictor.predict(data.items, "classifier"), f, "classifier", 2e-5)
    must_be(found.item_probs, q, "posterior", 5e-5)
    means, crowd, met = [], torch.zeros(N_CLASSES, N_CLASSES, dtype=torch.float64), torch.zeros(N_CLASSES)
    for t in range(IDLE):
        own = [(i, weight) for i, who, _, weight in labels if who == t]
        mean = sum(weight * answers(i, t) for i, weight in own) / sum(weight for _, weight in own)
        often = sum(weight * q[i] for i, weight in own)
        crowd, met, means = crowd + often[:, None] * mean, met + often, [*means, mean]
    means.append(crowd / met[:, None])  # of an annotator without labels
    must_be(found.annotators.confusion(np.arange(N_ANNOTATORS)), torch.stack(means), "matrices", 5e-5)
    for t in range(N_ANNOTATORS):
        who = np.full(N_ITEMS, t, np.int32)
        matrices = [means[IDLE] if t == IDLE else answers(i, t) for i in range(N_ITEMS)]
        for probs, given in ((found.label_probs(EVERY, who), q), (found.unseen_label_probs(data.items, EVERY, who), f)):
            expected = torch.stack([given[i] @ matrices[i] for i in range(N_ITEMS)])
            must_be(probs, expected, f"labels of annotator {t}", 5e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.5])
@pytest.mark.parametrize("kind", KINDS)
def test_dl_em_is_em_whose_m_step_is_an_epoch(kind: str, smoothing: float) -> None:
    data = training_data(kind)
    labels, params = labels_of(data.annotations), {"smoothing": smoothing, "restarts": 1, "protocol": "equal_budget"}
    votes = votes_of(labels)
    labelled, q, objective = votes.sum(dim=1) > 0, shares_of(votes), []

    def loss(v: Values) -> torch.Tensor:
        return -(q * torch.log(classified(v["w"], data)))[labelled].sum() / labelled.sum()

    adam = Adam({"w": first_weights(fit("dl-em", data, iterations=1, **{**params, "learning_rate": STILL}))})
    for _ in range(STEPS):
        adam.step(loss)
        f = classified(adam.values["w"], data).detach()
        matrices = [torch.full((N_CLASSES, N_CLASSES), smoothing, dtype=torch.float64) for _ in range(IDLE)]
        for i, t, y, weight in labels:
            matrices[t][:, y] += weight * q[i]
        matrices = [shares_of(matrix).clamp(min=1e-12) for matrix in matrices]
        log_joint = torch.log(f)
        for i, t, y, weight in labels:
            log_joint[i] += weight * torch.log(matrices[t][:, y])
        objective.append(float(torch.logsumexp(log_joint[labelled], dim=1).sum()))
        q = torch.softmax(log_joint, dim=1)
    found = fit("dl-em", data, iterations=STEPS, **params)
    assert found.annotators is not None
    must_be(found.objective, objective, "log-likelihoods")
    must_be(found.item_probs, q, "posterior", 1e-5)
    must_be(found.annotators.confusion(np.arange(IDLE)), torch.stack(matrices), "matrices", 1e-5)


@pytest.mark.parametrize("weighting", ["labels", "uniform"])
@pytest.mark.parametrize("kind", KINDS)
def test_cmm_of_one_group_is_em_on_counts(kind: str, weighting: str) -> None:
    """One matrix for the whole crowd; that of several groups is in `test_joint_steps`."""
    data, smoothing = training_data(kind), 0.5
    counts = votes_of(labels_of(data.annotations))
    params = {"groups": 1, "smoothing": smoothing, "restarts": 1, "protocol": "equal_budget"}
    params["item_weighting"] = weighting
    labelled, objective = counts.sum(dim=1) > 0, []
    # q[i][j]: the class of an item's labels j.
    q = [[share for _ in range(N_CLASSES)] for share in shares_of(counts)]

    def expected() -> torch.Tensor:
        rows = [sum(counts[i, j] * q[i][j] for j in range(N_CLASSES)) for i in range(N_ITEMS)]
        return torch.stack([torch.as_tensor(row) for row in rows])

    def loss(v: Values) -> torch.Tensor:
        wanted = expected() if weighting == "labels" else shares_of(expected())
        return -(wanted * torch.log(classified(v["w"], data)))[labelled].sum() / wanted[labelled].sum()

    adam = Adam({"w": first_weights(fit("cmm", data, iterations=1, **{**params, "learning_rate": STILL}))})
    for _ in range(STEPS):
        adam.step(loss)
        f = classified(adam.values["w"], data).detach()
        matrix = torch.full((N_CLASSES, N_CLASSES), smoothing, dtype=torch.float64)
        for i in range(N_ITEMS):
            for j in range(N_CLASSES):
                matrix[:, j] += counts[i, j] * q[i][j]
        matrix = shares_of(matrix)
        said = f @ matrix
        objective.append(float((counts * torch.log(said)).sum()))
        q = [[f[i] * matrix[:, j] / said[i, j] for j in range(N_CLASSES)] for i in range(N_ITEMS)]
    found = fit("cmm", data, iterations=STEPS, **params)
    assert found.annotators is not None
    assert found.label_probs is not None
    # Gradients of the authors' weighting are longer; Adam's epsilon is then less beside them.
    must_be(found.objective, objective, "log-likelihoods", 2e-5)
    must_be(found.item_probs, torch.where(labelled[:, None], shares_of(expected()), f), "posterior", 5e-5)
    must_be(found.annotators.confusion(np.arange(N_ANNOTATORS)), torch.stack([matrix] * N_ANNOTATORS), "matrix", 5e-5)
    must_be(found.label_probs(EVERY, np.zeros_like(EVERY)), said, "labels: those of an item are drawn apart", 5e-5)
