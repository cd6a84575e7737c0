"""CROWDLAB against cleanlab's figures, and a twin of the paper's formulas with explicit loops."""

import numpy as np
import pytest

from crowdsweep.data.annotations import Annotations
from crowdsweep.models import registered
from crowdsweep.models._em import stack
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.models.two_stage.crowdlab import weigh
from crowdsweep.seeds import SeedStream
from crowdsweep.testing.small_data import small_data

MODEL_WEIGHT = 1.0442148320075786
WEIGHTS = [0.0384615385, 1e-06, 0.3902439024, 0.3243243243, 0.4575936884, 0.1822494308]
CONSENSUS = [
    1,
    1,
    2,
    0,
    0,
    0,
    1,
    0,
    0,
    2,
    1,
    2,
    1,
    2,
    2,
    2,
    1,
    0,
    1,
    2,
    0,
    2,
    2,
    0,
    1,
    2,
    1,
    0,
    2,
    0,
    2,
    0,
    0,
    1,
    1,
    1,
    0,
    0,
    1,
    1,
]
QUALITY = [
    0.5010157387,
    0.7434980979,
    0.6023940792,
    0.6973153832,
    0.6118562759,
    0.7007213657,
    0.7665343344,
    0.7481126406,
]


def crowd(seed: int, n_items: int, n_annotators: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns answers [items, annotators], nan where there is none, and predictions; one answers two items alone."""
    random = np.random.default_rng(seed)
    gold = random.integers(n_classes, size=n_items)
    accuracy = random.uniform(0.3, 0.95, n_annotators)
    answers = np.full((n_items, n_annotators), np.nan)
    for item in range(n_items):
        size = random.integers(1, 5)
        for annotator in random.permutation(n_annotators - 1)[:size]:
            right = random.random() < accuracy[annotator]
            answers[item, annotator] = gold[item] if right else random.integers(n_classes)
    for item in (n_items - 1, n_items - 2):
        answers[item] = np.nan
        answers[item, -1] = gold[item]
    logits = random.normal(size=(n_items, n_classes))
    logits[np.arange(n_items), gold] += 1.5
    return answers, np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def annotations_of(answers: np.ndarray, n_classes: int) -> Annotations:
    item, annotator = np.nonzero(~np.isnan(answers))
    return Annotations.of(
        item=item,
        annotator=annotator,
        label=answers[item, annotator].astype(int),
        n_items=answers.shape[0],
        n_annotators=answers.shape[1],
        n_classes=n_classes,
    )


def twin(answers: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, list[float], float]:
    """Returns item probabilities, the annotators' weights and the classifier's."""
    n_items, n_annotators = answers.shape
    n_classes = predicted.shape[1]
    given = [{t: int(answers[i, t]) for t in range(n_annotators) if answers[i, t] >= 0} for i in range(n_items)]
    several = [i for i in range(n_items) if len(given[i]) > 1]
    agreement: list[float | None] = []
    for t in range(n_annotators):
        pairs = [given[i][u] == given[i][t] for i in several if t in given[i] for u in given[i] if u != t]
        agreement.append(sum(pairs) / len(pairs) if pairs else None)
    known = [share for share in agreement if share is not None]
    mean = sum(known) / len(known)
    votes = [[list(own.values()).count(k) for k in range(n_classes)] for own in given]
    consensus = [max(range(n_classes), key=lambda k, i=i: (votes[i][k], predicted[i, k])) for i in range(n_items)]
    for _ in range(2):
        agreeing = sum(votes[i][consensus[i]] / len(given[i]) for i in several) / len(several)
        most = max([consensus[i] for i in several].count(k) for k in range(n_classes))
        chance_error = 1 - most / len(several)
        weights = [max(1 - (1 - (mean if s is None else s)) / chance_error, 1e-6) for s in agreement]
        wrong = sum(consensus[i] != predicted[i].argmax() for i in several) / len(several)
        size = sum(map(len, given)) / n_items
        model_weight = max(1 - wrong / chance_error, 1e-6) * size**0.5
        probs = np.empty_like(predicted)
        for i in range(n_items):
            for k in range(n_classes):
                total = model_weight * predicted[i, k]
                for t, label in given[i].items():
                    total += weights[t] * (agreeing if label == k else (1 - agreeing) / (n_classes - 1))
                probs[i, k] = total / (model_weight + sum(weights[t] for t in given[i]))
        consensus = probs.argmax(axis=1).tolist()
    return probs, weights, model_weight


@pytest.mark.parametrize("sizes", [(0, 40, 6, 3), (2, 60, 9, 5), (3, 30, 5, 2)])
def test_weighs_as_the_formulas_say(sizes: tuple[int, int, int, int]) -> None:
    answers, predicted = crowd(*sizes)
    found = weigh(stack([annotations_of(answers, sizes[3])]), predicted)
    probs, weights, model_weight = twin(answers, predicted)
    np.testing.assert_allclose(found.weights, weights, atol=1e-12)
    assert found.model_weight == pytest.approx(model_weight)
    np.testing.assert_allclose(found.item_probs, probs, atol=1e-12)


def test_weighs_as_cleanlab_does() -> None:
    """What cleanlab 2.9.0 gave on this crowd (get_label_quality_multiannotator, return_weights=True)."""
    answers, predicted = crowd(0, 40, 6, 3)
    found = weigh(stack([annotations_of(answers, 3)]), predicted)
    assert found.model_weight == pytest.approx(MODEL_WEIGHT, abs=1e-12)
    np.testing.assert_allclose(found.weights, WEIGHTS, rtol=1e-8)
    np.testing.assert_array_equal(found.item_probs.argmax(axis=1), CONSENSUS)
    np.testing.assert_allclose(found.item_probs.max(axis=1)[:8], QUALITY, atol=1e-8)


def test_nobodys_answers_reach_the_prediction_of_their_own_item() -> None:
    """Out of sample: if an item's answers change, its own prediction does not, and those of other folds do."""
    data = small_data()
    rows = data.training.annotations
    model = registered.build_model("crowdlab", {"fold_epochs": 5, "epochs": 1, "steps": 0})
    changed = Annotations.of(
        item=rows.item,
        annotator=rows.annotator,
        label=np.where(rows.item == 4, (rows.label + 1) % 3, rows.label),
        n_items=rows.n_items,
        n_annotators=rows.n_annotators,
        n_classes=rows.n_classes,
    )
    before, after = (
        fit_one(
            model, type(data.training)(annotations=part, items=data.training.items), FitContext(seeds=SeedStream(0))
        )
        for part in (rows, changed)
    )
    moved = np.abs(before.extras["out_of_sample_probs"] - after.extras["out_of_sample_probs"]).max(axis=1)
    assert moved[4] == 0
    assert np.count_nonzero(moved) >= 18
