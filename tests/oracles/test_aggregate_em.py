"""The sparse EM of Dawid-Skene, one-coin and majority vote against dense twins with explicit loops."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from crowdsweep.arrays import LOG_FLOOR
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models._em import confusion_columns, log_confusion_prior, soft_vote, stack
from crowdsweep.models.aggregate.dawid_skene import DawidSkene
from crowdsweep.models.aggregate.majority_vote import MajorityVote
from crowdsweep.models.aggregate.one_coin import OneCoin
from crowdsweep.models.contract import FitContext, FitResult, fit_all, fit_one
from crowdsweep.seeds import SeedStream

Table = list[list[float]]
Answers = list[tuple[int, int, list[float]]]  # item, annotator, how much answer each label got


def random_crowd(seed: int, *, weights: bool = False, soft: bool = False, n_classes: int = 3) -> Annotations:
    """A small odd crowd: repeats, an item and an annotator without answers, a class that nobody uses."""
    random = SeedStream(seed).numpy("crowd")
    n_rows = 60
    return Annotations.of(
        item=random.integers(0, 11, n_rows),
        annotator=random.integers(0, 6, n_rows),
        label=random.integers(0, n_classes - 1, n_rows),
        n_items=12,
        n_annotators=7,
        n_classes=n_classes,
        weight=random.uniform(0.2, 3, n_rows) if weights else None,
        probability=random.uniform(0.3, 1, n_rows) if soft else None,
    )


def answers_of(rows: Annotations) -> Answers:
    found: Answers = []
    for j in range(len(rows)):
        weight = 1.0 if rows.weight is None else float(rows.weight[j])
        certain = 1.0 if rows.probability is None else float(rows.probability[j])
        parts = [weight * (1 - certain) / (rows.n_classes - 1)] * rows.n_classes
        parts[rows.label[j]] = weight * certain
        found.append((int(rows.item[j]), int(rows.annotator[j]), parts))
    return found


def dense_soft_vote(rows: Annotations) -> Table:
    votes = [[0.0] * rows.n_classes for _ in range(rows.n_items)]
    for item, _, parts in answers_of(rows):
        for label, part in enumerate(parts):
            votes[item][label] += part
    return [[v / sum(row) if sum(row) > 0 else 1 / rows.n_classes for v in row] for row in votes]


def dawid_skene_matrices(rows: Annotations, posterior: Table, smoothing: float) -> list[Table]:
    classes = range(rows.n_classes)
    matrices: list[Table] = []
    for t in range(rows.n_annotators):
        matrix: Table = []
        for k in classes:
            counts = [smoothing for _ in classes]
            for item, annotator, parts in answers_of(rows):
                if annotator == t:
                    for label in classes:
                        counts[label] += parts[label] * posterior[item][k]
            total = sum(counts)
            matrix.append([c / total if total > 0 else 1 / rows.n_classes for c in counts])
        matrices.append(matrix)
    return matrices


def one_coin_matrices(rows: Annotations, posterior: Table, smoothing: float) -> list[Table]:
    classes = range(rows.n_classes)
    matrices: list[Table] = []
    for t in range(rows.n_annotators):
        right, total = smoothing, smoothing * rows.n_classes
        for item, annotator, parts in answers_of(rows):
            if annotator == t:
                right += sum(parts[k] * posterior[item][k] for k in classes)
                total += sum(parts)
        p = right / total if total > 0 else 1 / rows.n_classes
        matrices.append([[p if k == label else (1 - p) / (rows.n_classes - 1) for label in classes] for k in classes])
    return matrices


def dense_em(
    rows: Annotations, matrices_of: Callable[[Annotations, Table, float], list[Table]], smoothing: float, steps: int
) -> tuple[Table, list[float]]:
    """Returns the posterior after so many steps, and log-likelihood plus log prior at each step."""
    classes = range(rows.n_classes)
    posterior = dense_soft_vote(rows)
    answered = sorted({item for item, _, _ in answers_of(rows)})
    active = sorted({annotator for _, annotator, _ in answers_of(rows)})
    objective: list[float] = []
    for _ in range(steps):
        shares = [sum(posterior[i][k] for i in answered) / len(answered) for k in classes]
        matrices = matrices_of(rows, posterior, smoothing)
        joint = [[math.log(max(shares[k], LOG_FLOOR)) for k in classes] for _ in range(rows.n_items)]
        for item, annotator, parts in answers_of(rows):
            for k in classes:
                for label in classes:
                    joint[item][k] += parts[label] * math.log(max(matrices[annotator][k][label], LOG_FLOOR))
        value = 0.0
        for item in range(rows.n_items):
            largest = max(joint[item])
            mass = sum(math.exp(j - largest) for j in joint[item])
            posterior[item] = [math.exp(j - largest) / mass for j in joint[item]]
            value += largest + math.log(mass)
        for t in active:
            for k in classes if matrices_of is dawid_skene_matrices else [0]:
                value += smoothing * sum(math.log(max(p, LOG_FLOOR)) for p in matrices[t][k])
        objective.append(value)
    return posterior, objective


def training(rows: Annotations) -> TrainingData:
    return TrainingData(annotations=rows, items=Items(n_items=rows.n_items))


def fit(model: DawidSkene | OneCoin | MajorityVote, rows: Annotations) -> FitResult:
    return fit_one(model, training(rows), FitContext(seeds=SeedStream(0)))


@pytest.mark.parametrize("smoothing", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("kind", [{}, {"weights": True}, {"soft": True}, {"weights": True, "soft": True}], ids=str)
@pytest.mark.parametrize(
    ("model", "matrices_of"), [(DawidSkene, dawid_skene_matrices), (OneCoin, one_coin_matrices)], ids=["ds", "one-coin"]
)
def test_em_equals_its_dense_twin(
    model: type[DawidSkene | OneCoin],
    matrices_of: Callable[[Annotations, Table, float], list[Table]],
    kind: dict[str, bool],
    smoothing: float,
) -> None:
    for seed in range(2):
        rows = random_crowd(seed, **kind)
        posterior, objective = dense_em(rows, matrices_of, smoothing, steps=6)
        found = fit(model(smoothing=smoothing, iterations=6, tolerance=0.0), rows)
        np.testing.assert_allclose(found.item_probs, posterior, atol=1e-9)
        np.testing.assert_allclose(found.objective, objective, rtol=1e-9)
        matrices = np.array(matrices_of(rows, posterior, smoothing))
        assert found.annotators is not None
        assert found.label_probs is not None
        np.testing.assert_allclose(found.annotators.confusion(np.arange(rows.n_annotators)), matrices, atol=1e-9)
        item, annotator = np.divmod(np.arange(rows.n_items * rows.n_annotators, dtype=np.int32), rows.n_annotators)
        expected = [
            [sum(posterior[i][k] * matrices[t][k][label] for k in range(3)) for label in range(3)]
            for i, t in zip(item, annotator, strict=True)
        ]
        np.testing.assert_allclose(found.label_probs(item, annotator), expected, atol=1e-9)


@pytest.mark.parametrize("kind", [{}, {"weights": True}, {"soft": True}], ids=str)
def test_votes_are_counted(kind: dict[str, bool]) -> None:
    rows = random_crowd(3, **kind)
    shares = dense_soft_vote(rows)
    np.testing.assert_allclose(fit(MajorityVote(), rows).item_probs, shares, atol=1e-12)
    hard = fit(MajorityVote(votes="hard"), rows).item_probs
    for row, found in zip(shares, hard, strict=True):
        best = [abs(share - max(row)) < 1e-9 for share in row]
        np.testing.assert_allclose(found, [b / sum(best) for b in best])


def test_majority_vote_scores_answers_by_the_crowds_matrix() -> None:
    rows = random_crowd(4)
    found = fit(MajorityVote(smoothing=0.5), rows)
    counts = np.full((3, 3), 0.5)
    for item, _, parts in answers_of(rows):
        counts += np.outer(found.item_probs[item], parts)
    crowd = counts / counts.sum(axis=1, keepdims=True)
    assert found.label_probs is not None
    items, annotators = np.array([0, 3, 11], dtype=np.int32), np.array([6, 0, 1], dtype=np.int32)
    np.testing.assert_allclose(found.label_probs(items, annotators), found.item_probs[items] @ crowd, atol=1e-12)


def test_multilabel_votes_are_shares_of_annotators() -> None:
    """Item 0: three annotators, class 0 chosen by all, 1 by two (one of them twice), 2 by nobody. Item 1: nobody."""
    rows = Annotations.of(
        item=np.zeros(6, dtype=int),
        annotator=np.array([0, 1, 2, 0, 0, 2]),
        label=np.array([0, 0, 0, 1, 1, 1]),
        n_items=2,
        n_annotators=3,
        n_classes=3,
    )
    data = replace(training(rows), scale="multilabel")
    context = FitContext(seeds=SeedStream(0))
    np.testing.assert_allclose(fit_one(MajorityVote(), data, context).item_probs, [[1, 2 / 3, 0], [0.5, 0.5, 0.5]])
    hard = fit_one(MajorityVote(votes="hard"), data, context).item_probs
    np.testing.assert_allclose(hard, [[1, 1, 0], [0.5, 0.5, 0.5]])


@pytest.mark.parametrize("model", [DawidSkene(tolerance=1e-4), OneCoin(tolerance=1e-4)], ids=["ds", "one-coin"])
def test_stacked_data_sets_end_as_each_alone(model: DawidSkene | OneCoin) -> None:
    """Replicas of different sizes that stop at different steps; one comes twice, as a restart does."""
    parts = [random_crowd(seed, n_classes=3) for seed in range(4)]
    parts = [parts[0], parts[1], parts[2].of_items(np.arange(5)), parts[1], parts[3]]
    contexts = [FitContext(seeds=SeedStream(0)) for _ in parts]
    together = fit_all(model, [training(part) for part in parts], contexts)
    assert len({result.iterations for result in together}) > 1
    for part, result in zip(parts, together, strict=True):
        alone = fit(model, part)
        assert result.iterations == alone.iterations
        np.testing.assert_allclose(result.item_probs, alone.item_probs, atol=1e-12)
        np.testing.assert_allclose(result.objective, alone.objective, rtol=1e-12)
        assert result.annotators is not None
        assert alone.annotators is not None
        everybody = np.arange(part.n_annotators)
        np.testing.assert_allclose(
            result.annotators.confusion(everybody), alone.annotators.confusion(everybody), atol=1e-12
        )


def test_stacking_is_laying_behind_each_other() -> None:
    parts = [random_crowd(0), random_crowd(1).of_items(np.arange(3))]
    crowds = stack(parts)
    assert crowds.n_replicas == 2
    assert crowds.n_items == 15
    assert crowds.declared_annotators == (7, 7)
    dense = crowds.answers.toarray()
    for replica, part in enumerate(parts):
        expected = np.zeros((part.n_items, 7, 3))
        np.add.at(expected, (part.item, part.annotator, part.label), 1.0)
        mine, columns = crowds.items_of(replica), slice(*crowds.column_pointers[replica : replica + 2])
        found = np.zeros_like(expected)
        codes = crowds.annotator_code[crowds.column_annotator[columns]]
        found[:, codes, crowds.column_label[columns]] = dense[mine, columns]
        np.testing.assert_array_equal(found, expected)
        outside = np.delete(dense[mine], np.arange(columns.start, columns.stop), axis=1)
        assert not outside.any()


def test_prior_of_unobserved_cells_counts() -> None:
    rows = random_crowd(5)
    crowds = stack([rows])
    posterior = soft_vote(crowds)
    matrices = np.array(dawid_skene_matrices(rows, posterior.tolist(), 0.3))
    active = rows.labels_per_annotator > 0
    expected = 0.3 * np.log(matrices[active]).sum()
    found = log_confusion_prior(crowds, confusion_columns(crowds, posterior, 0.3))
    np.testing.assert_allclose(found, [expected], rtol=1e-12)
