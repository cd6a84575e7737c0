"""How wrong models are about single answers, against loops over items, annotators and values that do as LeWiDi says."""

from typing import Literal

import numpy as np
import pytest

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import annotations_of
from crowdsweep.data.dataset import Scale
from crowdsweep.metrics import distributions, items
from crowdsweep.metrics.kinds import HeldoutAnswers
from crowdsweep.metrics.metric_table import METRICS, AnswerMetric
from crowdsweep.metrics.single_answers import distances, wrong_answers

By = Literal["item", "annotator"]
N_ITEMS, N_ANNOTATORS, N_CLASSES = 9, 5, 4


def crowd(rng: np.random.Generator) -> tuple[Annotations, np.ndarray]:
    """Returns answers, some items and annotators without one, and for each pair the distribution that is predicted."""
    given = rng.random((N_ITEMS, N_ANNOTATORS)) < 0.6
    given[0, 0], given[3], given[:, 4] = True, False, False
    item, annotator = np.nonzero(given)
    answers = Annotations.of(
        item=item,
        annotator=annotator,
        label=rng.integers(0, N_CLASSES, len(item)),
        n_items=N_ITEMS,
        n_annotators=N_ANNOTATORS,
        n_classes=N_CLASSES,
    )
    return answers, rng.dirichlet(np.ones(N_CLASSES), (N_ITEMS, N_ANNOTATORS))


def scored(answers: Annotations, probs: np.ndarray, scale: Scale) -> dict[str, float]:
    given = HeldoutAnswers(label_probs=lambda item, who: probs[item, who], answers=answers, scale=scale)
    known = [metric for metric in METRICS.values() if isinstance(metric, AnswerMetric) and scale in metric.scales]
    return {metric.name: metric.score(given) for metric in known}


def median_of(probs: np.ndarray) -> int:
    total = 0.0
    for value, prob in enumerate(probs):
        total += prob
        if total > 0.5:
            return value
    raise AssertionError


def looped(answers: Annotations, probs: np.ndarray, error: dict[tuple[int, int], float], by: By) -> float:
    """Averages the errors of the answers of each item or annotator that has any, and then these."""
    own: dict[int, list[float]] = {}
    for (item, who), value in error.items():
        own.setdefault(item if by == "item" else who, []).append(value)
    return sum(sum(values) / len(values) for values in own.values()) / len(own)


@pytest.mark.parametrize("chunk", [8_000_000, 1])
def test_errors_and_distances_as_loops_have_them(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr("crowdsweep.metrics.single_answers.CHUNK_ENTRIES", chunk)
    for seed in range(5):
        answers, probs = crowd(np.random.default_rng(seed))
        wrong, away = dict[tuple[int, int], float](), dict[tuple[int, int], float]()
        for item, who, label in zip(answers.item.tolist(), answers.annotator.tolist(), answers.label, strict=True):
            wrong[item, who] = float(probs[item, who].argmax() != label)
            away[item, who] = abs(median_of(probs[item, who]) - int(label)) / N_CLASSES
        found = scored(answers, probs, "ordinal")
        assert found == {
            "error_rate": pytest.approx(looped(answers, probs, wrong, "item")),
            "error_rate_annotators": pytest.approx(looped(answers, probs, wrong, "annotator")),
            "absolute_distance": pytest.approx(looped(answers, probs, away, "item")),
            "absolute_distance_annotators": pytest.approx(looped(answers, probs, away, "annotator")),
        }
        nominal = scored(answers, probs, "nominal")
        assert nominal == {name: found[name] for name in ("error_rate", "error_rate_annotators")}


def test_choices_as_loops_have_them() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        sets, probs = (
            rng.random((N_ITEMS, N_ANNOTATORS, N_CLASSES)) < 0.4,
            rng.random((N_ITEMS, N_ANNOTATORS, N_CLASSES)),
        )
        pairs = [(i, t) for i in range(N_ITEMS) for t in range(N_ANNOTATORS) if rng.random() < 0.6]
        answers = annotations_of(
            item=np.array([i for i, _ in pairs]),
            annotator=np.array([t for _, t in pairs]),
            chosen=np.array([sets[pair] for pair in pairs]),
            n_items=N_ITEMS,
            n_annotators=N_ANNOTATORS,
        )
        wrong: dict[tuple[int, int], float] = {}
        for i, t in pairs:
            differs = [bool(probs[i, t, k] > 0.5) != bool(sets[i, t, k]) for k in range(N_CLASSES)]
            wrong[i, t] = sum(differs) / N_CLASSES
        assert scored(answers, probs, "multilabel") == {
            "error_rate": pytest.approx(looped(answers, probs, wrong, "item")),
            "error_rate_annotators": pytest.approx(looped(answers, probs, wrong, "annotator")),
        }


def test_three_answers_by_hand() -> None:
    answers = Annotations.of(
        item=np.array([0, 0, 1]),
        annotator=np.array([0, 1, 0]),
        label=np.array([0, 3, 2]),
        n_items=2,
        n_annotators=2,
        n_classes=4,
    )
    probs = np.zeros((2, 2, 4))
    probs[0, 0, 0] = probs[0, 1, 1] = probs[1, 0, 3] = 1.0
    assert scored(answers, probs, "ordinal") == {
        "error_rate": 0.75,
        "error_rate_annotators": 0.75,
        "absolute_distance": 0.25,
        "absolute_distance_annotators": 0.3125,
    }


def test_ties_count_what_they_are_worth() -> None:
    answers, _ = crowd(np.random.default_rng(0))
    even = np.full((N_ITEMS, N_ANNOTATORS, N_CLASSES), 1 / N_CLASSES)
    assert np.allclose(wrong_answers(lambda item, who: even[item, who], answers).error, 1 - 1 / N_CLASSES)
    # The median of four even values is the second or the third.
    expected = (np.abs(1 - answers.label) + np.abs(2 - answers.label)) / 2 / N_CLASSES
    assert np.allclose(distances(lambda item, who: even[item, who], answers).error, expected)


def test_a_scale_that_is_turned_around_has_the_same_distances() -> None:
    answers, probs = crowd(np.random.default_rng(1))
    turned = Annotations.of(
        item=answers.item,
        annotator=answers.annotator,
        label=N_CLASSES - 1 - answers.label,
        n_items=N_ITEMS,
        n_annotators=N_ANNOTATORS,
        n_classes=N_CLASSES,
    )
    assert scored(turned, probs[:, :, ::-1], "ordinal") == pytest.approx(scored(answers, probs, "ordinal"))


def test_an_answer_of_twice_the_weight_counts_as_two() -> None:
    answers, probs = crowd(np.random.default_rng(2))
    columns = {"item": answers.item, "annotator": answers.annotator, "label": answers.label}
    sizes = {"n_items": N_ITEMS, "n_annotators": N_ANNOTATORS, "n_classes": N_CLASSES}
    weight = np.where(np.arange(len(answers)) % 3 == 0, 2, 1)
    weighted = Annotations.of(**columns, **sizes, weight=weight.astype(np.float32))
    repeated = Annotations.of(**{name: np.repeat(column, weight) for name, column in columns.items()}, **sizes)
    assert scored(weighted, probs, "ordinal") == pytest.approx(scored(repeated, probs, "ordinal"))


def test_no_answers_have_no_score() -> None:
    answers, probs = crowd(np.random.default_rng(0))
    with pytest.raises(ValueError, match="no answer is scored"):
        scored(answers.take(np.zeros(len(answers), dtype=bool)), probs, "nominal")


def test_manhattan_as_loops_have_it() -> None:
    rng = np.random.default_rng(0)
    reference, predicted = rng.dirichlet(np.ones(3), 7), rng.dirichlet(np.ones(3), 7)
    looped = sum(sum(abs(p - t) for p, t in zip(*pair, strict=True)) for pair in zip(predicted, reference, strict=True))
    assert distributions.manhattan_of_each(reference, predicted).mean() == pytest.approx(looped / 7)
    assert distributions.manhattan_of_each(np.array([[0.5, 0.5]]), np.array([[0.8, 0.2]])).mean() == pytest.approx(0.6)
    # Of multi-label items: two numbers a class, mean over the classes and then over the items.
    shares, chosen = rng.random((5, 3)), rng.random((5, 3))
    per_item = [
        np.mean([abs(p - t) + abs((1 - p) - (1 - t)) for p, t in zip(*pair, strict=True)])
        for pair in zip(chosen, shares, strict=True)
    ]
    assert distributions.manhattan_of_each(items.as_binary(shares), items.as_binary(chosen)).mean() == pytest.approx(
        np.mean(per_item)
    )
