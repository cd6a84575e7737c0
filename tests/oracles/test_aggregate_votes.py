"""Models that weigh votes against dense twins with explicit loops."""

from pathlib import Path

import numpy as np
import pytest
from naive_answers import fit, table_of

from crowdsweep.data import catalogue
from crowdsweep.data.annotations import Annotations
from crowdsweep.errors import FitFailed
from crowdsweep.models.contract import FitResult
from crowdsweep.seeds import SeedStream

KINDS = [{}, {"weights": True}, {"soft": True}, {"weights": True, "soft": True}]


def random_crowd(seed: int, *, weights: bool = False, soft: bool = False, n_classes: int = 3) -> Annotations:
    """A small odd crowd: repeats, an item and an annotator without answers, a class that nobody uses."""
    random = SeedStream(seed).numpy("crowd")
    n_rows = 60
    return Annotations.of(
        item=random.integers(0, 11, n_rows),
        annotator=random.integers(0, 6, n_rows),
        label=random.integers(0, max(n_classes - 1, 2), n_rows),
        n_items=12,
        n_annotators=7,
        n_classes=n_classes,
        weight=random.uniform(0.2, 3, n_rows) if weights else None,
        probability=random.uniform(0.3, 1, n_rows) if soft else None,
    )


def winning(row: np.ndarray) -> np.ndarray:
    best = row > row.max() - 1e-9
    return best / best.sum()


def shares(row: np.ndarray, otherwise: np.ndarray | None = None) -> np.ndarray:
    if row.sum() > 1e-9:
        return row / row.sum()
    return np.full(len(row), 1 / len(row)) if otherwise is None else otherwise


def agreement(table: np.ndarray, weights: list[float]) -> list[float]:
    """Returns the share of each annotator's answers that agree with the weighted vote; 0 without any."""
    n_items, n_annotators, n_classes = table.shape
    right, total = [0.0] * n_annotators, [0.0] * n_annotators
    for item in range(n_items):
        votes = sum(weights[t] * table[item, t] for t in range(n_annotators))
        chosen = winning(votes)
        for t in range(n_annotators):
            for label in range(n_classes):
                right[t] += table[item, t, label] * chosen[label]
                total[t] += table[item, t, label]
    return [r / n if n > 0 else 0.0 for r, n in zip(right, total, strict=True)]


def voted(table: np.ndarray, weights: list[float]) -> list[np.ndarray]:
    plain = table.sum(axis=1)
    return [
        shares(sum(w * row for w, row in zip(weights, item, strict=True)), shares(plain[i]))
        for i, item in enumerate(table)
    ]


def accuracy_against_others(table: np.ndarray, weights: list[float], smoothing: float) -> list[float]:
    """Of each annotator, the last of them all together: an answer is held against the others' weighted votes."""
    n_items, n_annotators, n_classes = table.shape
    right, total = np.zeros(n_annotators), np.zeros(n_annotators)
    for item in range(n_items):
        for t in range(n_annotators):
            others = sum((weights[u] * table[item, u] for u in range(n_annotators) if u != t), np.zeros(n_classes))
            right[t] += table[item, t] @ shares(others)
            total[t] += table[item, t].sum()
    found = (right + smoothing) / (total + smoothing * n_classes)
    together = (right.sum() + smoothing) / (total.sum() + smoothing * n_classes)
    return [own if n > 0 else together for own, n in zip(found, total, strict=True)]


def must_weigh_so(found: FitResult, rows: Annotations, weights: list[float]) -> None:
    """Checks items, annotators and predicted answers of a model that gives its annotators these weights."""
    table = table_of(rows)
    np.testing.assert_allclose(found.item_probs, voted(table, weights), atol=1e-9)
    accuracy = accuracy_against_others(table, weights, 0.01)
    np.testing.assert_allclose(found.extras["annotator_accuracy"], accuracy, atol=1e-9)
    assert found.annotators is not None
    assert found.label_probs is not None
    matrices = found.annotators.confusion(np.arange(rows.n_annotators))
    for matrix, right in zip(matrices, accuracy, strict=True):
        wrong = (1 - right) / (rows.n_classes - 1)
        np.testing.assert_allclose(
            matrix, np.full((rows.n_classes,) * 2, wrong) + (right - wrong) * np.eye(rows.n_classes)
        )
    item, annotator = np.array([0, 3, 11], dtype=np.int32), np.array([6, 0, 1], dtype=np.int32)
    expected = [found.item_probs[i] @ matrices[t] for i, t in zip(item, annotator, strict=True)]
    np.testing.assert_allclose(found.label_probs(item, annotator), expected, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_wawa_counts_twice(kind: dict[str, bool]) -> None:
    for seed in range(2):
        rows = random_crowd(seed, **kind)
        must_weigh_so(fit("wawa", rows), rows, agreement(table_of(rows), [1.0] * 7))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(("steps", "rate"), [(3, 1.0), (45, 0.3)])
def test_zero_based_skills_move_in_shrinking_steps(steps: int, rate: float, kind: dict[str, bool]) -> None:
    rows = random_crowd(5, **kind)
    table = table_of(rows)
    skill = [1 / 3 + 1e-5] * 7
    objective: list[float] = []
    given = table.sum(axis=(0, 2))
    for number in range(1, steps + 1):
        if number % 20 == 0:
            rate /= 2
        agreeing = agreement(table, skill)
        skill = [own + rate * (towards - own) for own, towards in zip(skill, agreeing, strict=True)]
        objective.append(float(given @ agreeing / given.sum()))
    found = fit("zero-based-skill", rows, skill_rate=0.3 if steps == 45 else 1.0, iterations=steps, tolerance=0.0)
    must_weigh_so(found, rows, skill)
    np.testing.assert_allclose(found.objective, objective[: found.iterations], atol=1e-9)


def test_who_never_agrees_with_the_majority_weighs_nothing() -> None:
    rows = Annotations.of(
        item=np.array([0, 0, 0, 1, 1, 1, 2, 2, 2]),
        annotator=np.array([0, 1, 2, 0, 1, 2, 0, 1, 2]),
        label=np.array([0, 1, 1, 1, 0, 0, 0, 1, 1]),
        n_items=4,
        n_annotators=3,
        n_classes=2,
    )
    found = fit("wawa", rows)
    np.testing.assert_array_equal(found.extras["annotator_weight"], [0, 1, 1])
    np.testing.assert_allclose(found.item_probs, [[0, 1], [1, 0], [0, 1], [0.5, 0.5]])


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_kos_passes_the_papers_messages(kind: dict[str, bool]) -> None:
    """Two classes: A is 1 or -1 (a pair's repeats, weights and fractions of answers summed)."""
    rows = random_crowd(8, n_classes=2, **kind)
    table = table_of(rows)
    answers = {(i, t): table[i, t, 1] - table[i, t, 0] for i in range(12) for t in range(7) if table[i, t].sum() > 0}
    reliability = dict.fromkeys(answers, 1.0)
    for _ in range(4):
        evidence = {
            (i, t): sum(a * reliability[i, u] for (j, u), a in answers.items() if j == i and u != t) for i, t in answers
        }
        reliability = {
            (i, t): sum(a * evidence[j, t] for (j, u), a in answers.items() if u == t and j != i) for i, t in answers
        }
    score = [sum(a * reliability[i, t] for (i, t), a in answers.items() if i == item) for item in range(12)]
    labels = [[0.5, 0.5] if s == 0 else [float(s < 0), float(s > 0)] for s in score]
    found = fit("kos", rows, iterations=4, tolerance=0.0)
    np.testing.assert_array_equal(found.item_probs, labels)
    right, total = np.zeros(7), np.zeros(7)
    for i, t in answers:
        others = sum(a * reliability[i, u] for (j, u), a in answers.items() if j == i and u != t)
        believed = np.array([0.5, 0.5] if others == 0 else [others < 0, others > 0])
        right[t] += table[i, t] @ believed
        total[t] += table[i, t].sum()
    expected = (right[:6] + 0.01) / (total[:6] + 0.02)
    np.testing.assert_allclose(found.extras["annotator_accuracy"][:6], expected, atol=1e-9)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("dataset", ["bluebirds", "product"])
def test_kos_labels_as_crowd_kit_does(dataset: str, shared_data: Path) -> None:
    peer = pytest.importorskip("crowdkit.aggregation", reason="crowd-kit is not installed")
    pandas = pytest.importorskip("pandas")
    rows = catalogue.load(str(shared_data / dataset), {"features": None}).annotations
    table = pandas.DataFrame({"task": rows.item, "worker": rows.annotator, "label": rows.label})
    theirs = peer.KOS(n_iter=20, random_state=0).fit_predict(table).reindex(range(rows.n_items)).to_numpy()
    ours = fit("kos", rows, iterations=20).item_probs.argmax(axis=1)
    assert np.mean(ours == theirs) >= 0.998


def test_an_item_whose_answers_weigh_nothing_is_what_its_votes_say() -> None:
    """Everybody answers once, so that nothing is known of their reliability."""
    rows = Annotations.of(
        item=np.array([0, 0, 0, 1, 1]),
        annotator=np.arange(5),
        label=np.array([1, 1, 0, 0, 2]),
        n_items=2,
        n_annotators=5,
        n_classes=3,
    )
    np.testing.assert_array_equal(fit("kos", rows).item_probs, [[0, 1, 0], [0.5, 0, 0.5]])


def reduced(values: list[float], own: float, trimmed: int, noise: float) -> float:
    """The mean without the largest above `own` and the smallest below it, so many of each at most."""
    values = sorted(values)
    low = min(sum(v < own for v in values), trimmed)
    high = min(sum(v > own for v in values), trimmed)
    kept = values[low : len(values) - high]
    return max(sum(kept) / len(kept) if kept else own, noise)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_m_msr_completes_the_agreement_matrix(kind: dict[str, bool]) -> None:
    rows = random_crowd(9, **kind)
    table = table_of(rows)[:, :6]  # the last annotator is idle
    given = table.sum(axis=2)
    shared = np.array([[(given[:, t] * given[:, u]).sum() * (t != u) for u in range(6)] for t in range(6)])
    agree = np.array([[(table[:, t] * table[:, u]).sum() for u in range(6)] for t in range(6)])
    fellows = [[u for u in range(6) if shared[t, u] > 0] for t in range(6)]
    matrix = 1.5 * agree / np.where(shared > 0, shared, 1) - 0.5
    trimmed = max(min(map(len, fellows)) // 2 - 1, 0)
    assert trimmed > 0
    noise = 1 / np.sqrt(np.count_nonzero(given.sum(axis=1)))
    left = right = [0.5] * 6
    for _ in range(3):
        right = [reduced([abs(matrix[t, u]) / left[u] for u in fellows[t]], right[t], trimmed, noise) for t in range(6)]
        left = [reduced([abs(matrix[t, u]) / right[u] for u in fellows[t]], left[t], trimmed, noise) for t in range(6)]
    scale = np.sqrt(np.linalg.norm(left) / np.linalg.norm(right))
    sign = np.ones(6)
    for _ in range(20):
        pull = [sum(matrix[t, u] * shared[t, u] * left[u] * sign[u] for u in fellows[t]) for t in range(6)]
        sign = np.where(np.array(pull) < 0, -1.0, 1.0)
    skill = np.clip(sign * np.array(left) / scale, noise - 0.5, 1 - noise)
    accuracy = (2 * skill + 1) / 3
    found = fit("m-msr", rows, iterations=3, tolerance=0.0)
    together = np.average(accuracy, weights=given.sum(axis=0))
    np.testing.assert_allclose(found.extras["annotator_accuracy"], [*accuracy, together], atol=1e-9)
    joint = np.array(
        [[sum(table[i, :, k] * np.log(2 * accuracy / (1 - accuracy))) for k in range(3)] for i in range(12)]
    )
    expected = np.exp(joint) / np.exp(joint).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.item_probs, expected, atol=1e-9)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("dataset", ["bluebirds", "dog"])
def test_m_msr_labels_as_crowd_kit_does(dataset: str, shared_data: Path) -> None:
    peer = pytest.importorskip("crowdkit.aggregation", reason="crowd-kit is not installed")
    pandas = pytest.importorskip("pandas")
    rows = catalogue.load(str(shared_data / dataset), {"features": None}).annotations
    table = pandas.DataFrame({"task": rows.item, "worker": rows.annotator, "label": rows.label})
    theirs = peer.MMSR(random_state=0, n_iter=300).fit_predict(table).reindex(range(rows.n_items)).to_numpy()
    assert np.mean(fit("m-msr", rows).item_probs.argmax(axis=1) == theirs) >= 0.98


def test_m_msr_refuses_items_with_too_many_annotators() -> None:
    rows = Annotations.of(
        item=np.zeros(5000, dtype=int),
        annotator=np.arange(5000),
        label=np.arange(5000) % 2,
        n_items=1,
        n_annotators=5000,
        n_classes=2,
    )
    with pytest.raises(FitFailed, match="25,000,000"):
        fit("m-msr", rows)
