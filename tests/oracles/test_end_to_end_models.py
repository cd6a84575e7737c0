"""Models that are trained end to end on answers, against explicit loops in float64, and crowds that are known."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData, TrueCrowd
from crowdsweep.errors import FitFailed
from crowdsweep.metrics.annotators import js_annotators
from crowdsweep.models._answers import ActiveAnswers
from crowdsweep.models.classifier import Classifier
from crowdsweep.models.contract import FitContext
from crowdsweep.models.end_to_end import EndToEnd, Rows
from crowdsweep.models.end_to_end_fitted import TrainedAnnotators
from crowdsweep.models.fitting import fit_all, fit_one
from crowdsweep.models.joint import conal, crowd_layer
from crowdsweep.models.joint._matrix_rows import confident_logits, log_columns
from crowdsweep.models.joint.speelfc import Speelfc
from crowdsweep.models.joint.speelfc_d import SpeelfcD
from crowdsweep.models.label_likelihood import mixture
from crowdsweep.models.networks.initial import zeros
from crowdsweep.seeds import SeedStream

ANNOTATORS, ANSWERS = 4, 25


def softmax(logits: torch.Tensor) -> torch.Tensor:
    return logits.exp() / logits.exp().sum()


def drawn(classes: int, width: int) -> tuple[torch.Tensor, torch.Tensor, np.ndarray, np.ndarray]:
    """Logits of the item of each answer, rows of annotators, and who answered what."""
    rng = np.random.default_rng(classes)
    raw = torch.from_numpy(2 * rng.normal(size=(ANSWERS, classes))).requires_grad_(True)
    rows = torch.from_numpy(2 * rng.normal(size=(ANNOTATORS, width))).requires_grad_(True)
    return raw, rows, rng.integers(0, ANNOTATORS, ANSWERS), rng.integers(0, classes, ANSWERS)


def must_agree(found: torch.Tensor, expected: torch.Tensor, *leaves: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=0)
    slopes = (torch.autograd.grad(total.sum(), leaves, retain_graph=True) for total in (found, expected))
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=0)


@pytest.mark.parametrize("classes", [2, 5])
def test_speelfc_likelihood_and_slopes_are_those_of_the_sum_over_classes(classes: int) -> None:
    raw, rows, who, label = drawn(classes, classes**2)
    expected = []
    for answer in range(ANSWERS):
        matrix = rows[who[answer]].view(classes, classes)  # [observed, true]
        f = softmax(raw[answer])
        terms = [f[n] * softmax(matrix[:, n])[label[answer]] for n in range(classes)]
        expected.append(torch.log(torch.stack(terms).sum()))
    found = mixture(torch.log_softmax(raw, dim=1), log_columns(rows, torch.from_numpy(who), torch.from_numpy(label)))
    must_agree(found, torch.stack(expected), raw, rows)


@pytest.mark.parametrize("form", ["MW", "VW", "VB", "VW+B", "SW"])
def test_crowd_layer_gives_the_softmax_of_its_layer(form: crowd_layer.Form) -> None:
    classes = 4
    raw, rows, who, label = drawn(classes, crowd_layer.first_rows(form, classes, 1.0).width)
    expected = []
    for answer in range(ANSWERS):
        f, own = softmax(raw[answer]), rows[who[answer]]
        logits = []
        for observed in range(classes):
            if form == "MW":
                logits.append(sum((own[observed * classes + k] * f[k] for k in range(classes)), torch.zeros(())))
            else:
                weight = own[0] if form == "SW" else torch.ones(()) if form == "VB" else own[observed]
                bias = own[observed] if form == "VB" else own[classes + observed] if form == "VW+B" else 0.0
                logits.append(weight * f[observed] + bias)
        expected.append(torch.log(softmax(torch.stack(logits))[label[answer]]))
    found = crowd_layer.log_probs(form, torch.softmax(raw, dim=1), rows, torch.from_numpy(who), torch.from_numpy(label))
    must_agree(found, torch.stack(expected), raw, rows)


@pytest.mark.parametrize("form", ["MW", "VW", "VB", "VW+B", "SW"])
def test_crowd_layers_matrices_are_what_it_answers_a_certain_classifier(form: crowd_layer.Form) -> None:
    data, _ = crowd_data(1, items=30, annotators=4, per_annotator=20)
    model = crowd_layer.CrowdLayer(form=form, epochs=2, classifier=Classifier(steps=0))
    annotators = fit_one(model, data, FitContext(seeds=SeedStream(0))).annotators
    assert isinstance(annotators, TrainedAnnotators)
    layers = torch.from_numpy(annotators.trained.rows("layer").astype(np.float64))
    for who, matrix in enumerate(annotators.confusion(np.arange(4))):
        for true in range(3):
            certain, which = torch.eye(3, dtype=torch.float64)[[true] * 3], torch.full((3,), who)
            found = crowd_layer.log_probs(form, certain, layers, which, torch.arange(3)).exp()
            np.testing.assert_allclose(matrix[true], found.numpy(), atol=1e-12)


@pytest.mark.parametrize("form", ["MW", "VW", "VB", "VW+B", "SW"])
def test_crowd_layer_begins_as_annotators_who_repeat_the_classifier(form: crowd_layer.Form) -> None:
    first = crowd_layer.first_rows(form, 3, 1.0)
    rows = torch.from_numpy(first.start(np.random.default_rng(0), (1, first.width)).copy())
    f = torch.tensor([[0.5, 0.3, 0.2]] * 3)
    found = crowd_layer.log_probs(form, f, rows, torch.zeros(3, dtype=torch.int64), torch.arange(3))
    torch.testing.assert_close(found, torch.log_softmax(f[0], dim=0))


def test_conal_likelihood_and_slopes_are_those_of_the_mixture() -> None:
    classes, replicas = 3, 2
    raw, rows, who, label = drawn(classes, classes**2)
    rng = np.random.default_rng(0)
    towards = torch.from_numpy(2 * rng.normal(size=ANSWERS)).requires_grad_(True)
    common = torch.from_numpy(rng.normal(size=(replicas, classes**2))).requires_grad_(True)
    place = np.sort(rng.integers(0, replicas, ANSWERS))
    expected = []
    for answer in range(ANSWERS):
        own, shared = rows[who[answer]].view(classes, classes), common[place[answer]].view(classes, classes)
        omega, f = 1 / (1 + torch.exp(-towards[answer])), softmax(raw[answer])
        y = label[answer]
        terms = [
            f[k] * (omega * softmax(shared[:, k])[y] + (1 - omega) * softmax(own[:, k])[y]) for k in range(classes)
        ]
        expected.append(torch.log(torch.stack(terms).sum()))
    found = conal.log_likelihood(
        towards, rows, torch.from_numpy(who), common, torch.from_numpy(place), torch.from_numpy(label)
    )
    must_agree(mixture(torch.log_softmax(raw, dim=1), found), torch.stack(expected), raw, rows, towards, common)


@pytest.mark.long
def test_conal_recovers_matrices_and_trusts_the_common_one_less_where_an_annotator_differs() -> None:
    """Most take class 2 for class 1 half of the time; two never do; annotator 0 does and exchanges classes 0 and 1."""
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 3, 400)
    item, annotator = np.repeat(np.arange(400), 10), np.tile(np.arange(10), 400)
    label = np.where((gold[item] == 2) & (annotator < 8) & (rng.random(len(item)) < 0.5), 1, gold[item])
    label = np.where((annotator == 0) & (gold[item] < 2), 1 - gold[item], label)
    annotations = Annotations.of(item=item, annotator=annotator, label=label, n_items=400, n_annotators=10, n_classes=3)
    features = (3.0 * np.eye(3)[gold] + rng.normal(0, 0.3, (400, 3))).astype(np.float32)
    data = TrainingData(annotations=annotations, items=Items(n_items=400, features=features))
    fitted = fit_one(
        conal.Conal(classifier=Classifier(learning_rate=2e-2, steps=0), epochs=40),
        data,
        FitContext(seeds=SeedStream(0)),
    )
    assert fitted.annotators is not None
    odd, usual, right = fitted.annotators.confusion(np.array([0, 5, 9]))
    np.testing.assert_allclose(usual, [[1, 0, 0], [0, 1, 0], [0, 0.5, 0.5]], atol=0.12)
    # omega lies in (.27, .73): at least a quarter of what an annotator says is the crowd's.
    assert 0.55 < odd[[0, 1], [1, 0]].min() <= odd[[0, 1], [1, 0]].max() < 0.74
    np.testing.assert_allclose(right, np.eye(3), atol=0.15)
    np.testing.assert_allclose(fitted.extras["common"][:2, :2], np.eye(2), atol=0.1)
    assert fitted.extras["gate"][0] < fitted.extras["gate"][1:].mean()


def test_speelfc_likelihood_is_finite_where_everything_saturates() -> None:
    raw = torch.tensor([[200.0, -200.0], [-200.0, 200.0]], requires_grad=True)
    rows = torch.tensor([[150.0, -150.0, -150.0, 150.0]], requires_grad=True)
    who, label = torch.zeros(2, dtype=torch.int64), torch.ones(2, dtype=torch.int64)
    found = mixture(torch.log_softmax(raw, dim=1), log_columns(rows, who, label))
    for part in (found, *torch.autograd.grad(found.sum(), (raw, rows))):
        assert torch.isfinite(part).all()


@pytest.mark.parametrize(("classes", "diagonal", "rest"), [(2, 1.4, 1.0), (10, 4.7, 1.0)])
def test_matrices_begin_where_the_paper_begins_them(classes: int, diagonal: float, rest: float) -> None:
    theirs = softmax(torch.tensor([diagonal, *[rest] * (classes - 1)]))[0].item()
    assert theirs == pytest.approx({2: 0.599, 10: 0.818}[classes], abs=1e-3)
    rows, labels = torch.from_numpy(confident_logits(classes, theirs))[None], torch.arange(classes)
    np.testing.assert_allclose(
        log_columns(rows, torch.zeros_like(labels), labels).exp().numpy().T,
        np.full((classes, classes), (1 - theirs) / (classes - 1)) * (1 - np.eye(classes)) + theirs * np.eye(classes),
        atol=1e-6,
    )


def crowd_data(seed: int, *, items: int, annotators: int, per_annotator: int) -> tuple[TrainingData, TrueCrowd]:
    """Three classes, and annotators with any matrix whose diagonal is the largest of its row, mostly."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 3, items)
    features = (2.0 * np.eye(3, 6)[gold] + rng.normal(0, 0.7, (items, 6))).astype(np.float32)
    matrices = np.array([rng.dirichlet(np.ones(3) + 4 * np.eye(3)[row % 3]) for row in range(3 * annotators)])
    crowd = TrueCrowd(group=np.arange(annotators, dtype=np.int32), confusion=matrices.reshape(-1, 3, 3))
    annotator = np.repeat(np.arange(annotators), per_annotator)
    item = np.concatenate([rng.choice(items, per_annotator, replace=False) for _ in range(annotators)])
    draws = rng.random(len(item))[:, None]
    label = (draws > crowd.confusion[annotator, gold[item]].cumsum(axis=1)[:, :2]).sum(axis=1)
    annotations = Annotations.of(
        item=item, annotator=annotator, label=label, n_items=items, n_annotators=annotators, n_classes=3
    )
    return TrainingData(annotations=annotations, items=Items(n_items=items, features=features)), crowd


@pytest.mark.long
def test_speelfc_recovers_the_matrices_of_annotators_with_two_hundred_answers() -> None:
    crowds = [crowd_data(seed, items=500, annotators=15, per_annotator=200) for seed in range(3)]
    contexts = [FitContext(seeds=SeedStream(seed)) for seed in range(3)]
    model = Speelfc(classifier=Classifier(learning_rate=3e-3, steps=0), epochs=60)
    for fitted, (_, crowd) in zip(fit_all(model, [data for data, _ in crowds], contexts), crowds, strict=True):
        assert fitted.annotators is not None
        assert js_annotators(crowd, fitted.annotators, np.arange(15)) <= 0.05


@pytest.mark.long
def test_speelfc_d_recovers_which_items_are_hard() -> None:
    """Every annotator is right more often the farther an item lies from where the classes meet."""
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (600, 1)).astype(np.float32)
    gold, easiness = (features[:, 0] > 0).astype(np.int64), 0.2 + 4.8 * np.abs(features[:, 0])
    ability = rng.uniform(-0.3, 1.5, 30)
    annotator = np.repeat(np.arange(30), 200)
    item = np.concatenate([rng.choice(600, 200, replace=False) for _ in range(30)])
    right = rng.random(len(item)) < 1 / (1 + np.exp(-ability[annotator] * easiness[item]))
    annotations = Annotations.of(
        item=item,
        annotator=annotator,
        label=np.where(right, gold[item], 1 - gold[item]),
        n_items=600,
        n_annotators=30,
        n_classes=2,
    )
    data = TrainingData(annotations=annotations, items=Items(n_items=600, features=features))
    classifier = Classifier(learning_rate=3e-3, steps=0, standardise=False)
    model = SpeelfcD(lambda1=0.1, lambda2=10.0, classifier=classifier, epochs=60)
    fitted = fit_one(model, data, FitContext(seeds=SeedStream(0)))
    assert spearmanr(fitted.extras["easiness"], easiness).statistic >= 0.9
    assert spearmanr(fitted.extras["ability"], ability).statistic >= 0.9


def test_soft_answers_are_fractions_of_answers_and_idle_annotators_are_left_out() -> None:
    rows = Annotations.of(
        item=np.array([0, 1]),
        annotator=np.array([2, 5]),
        label=np.array([0, 1]),
        probability=np.array([0.6, 1.0], np.float32),
        weight=np.array([2.0, 1.0], np.float32),
        n_items=2,
        n_annotators=7,
        n_classes=3,
    )
    plain = ActiveAnswers.of(rows)
    assert plain.code.tolist() == [2, 5]
    assert plain.declared == 7
    assert plain.rows.annotator.tolist() == [0, 0, 0, 1]
    assert plain.rows.label.tolist() == [0, 1, 2, 1]
    assert plain.rows.weight is not None
    np.testing.assert_allclose(plain.rows.weight, [1.2, 0.4, 0.4, 1.0], rtol=1e-6)


def test_what_would_not_fit_into_memory_is_refused_at_once() -> None:
    data, _ = crowd_data(0, items=20, annotators=5, per_annotator=4)
    training = EndToEnd(
        classifier=Classifier(steps=0),
        epochs=1,
        annotators={"matrix": Rows(width=1 << 26, start=zeros)},
        log_likelihood=lambda labels: labels.annotators("matrix")[0],
    )
    with pytest.raises(FitFailed, match="5 annotators × 67,108,864"):
        training.fit([data], [FitContext(seeds=SeedStream(0))])


def test_an_annotator_counts_where_the_codes_of_others_are_never_used() -> None:
    data, _ = crowd_data(0, items=40, annotators=5, per_annotator=20)
    far = replace(data.annotations, annotator=data.annotations.annotator * 1000, n_annotators=10_000)
    model, context = Speelfc(epochs=2, classifier=Classifier(steps=0)), FitContext(seeds=SeedStream(0))
    near, spread = (fit_one(model, replace(data, annotations=rows), context) for rows in (data.annotations, far))
    np.testing.assert_array_equal(near.item_probs, spread.item_probs)
    assert near.annotators is not None
    assert spread.annotators is not None
    np.testing.assert_array_equal(
        near.annotators.confusion(np.arange(5)), spread.annotators.confusion(1000 * np.arange(5))
    )
