"""The sparse EM of Dawid-Skene, one-coin and majority vote against dense twins with explicit loops."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from crowdsweep.arrays import LOG_FLOOR
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models._em import (
    annotator_model,
    confusion_columns,
    evenly,
    label_probs_of,
    log_confusion_prior,
    soft_vote,
    stack,
)
from crowdsweep.models.aggregate.dawid_skene import DawidSkene
from crowdsweep.models.aggregate.majority_vote import MajorityVote
from crowdsweep.models.aggregate.multinomial import Multinomial
from crowdsweep.models.aggregate.one_coin import OneCoin
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.fitting import fit_all, fit_one
from crowdsweep.seeds import SeedStream
from crowdsweep.testing.small_data import small_data

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


def given_by_one(rows: Annotations) -> Annotations:
    """The same answers, all by annotator 0."""
    return replace(rows, annotator=np.zeros(len(rows), np.int32), n_annotators=1)


Matrices = Callable[[Annotations, Table, float], list[Table]]


def with_unknown_annotators(matrices_of: Matrices) -> Matrices:
    """Annotators without answers get the matrix of all answers together."""

    def found(rows: Annotations, posterior: Table, smoothing: float) -> list[Table]:
        together = matrices_of(given_by_one(rows), posterior, smoothing)[0]
        idle = set(range(rows.n_annotators)) - {annotator for _, annotator, _ in answers_of(rows)}
        own = matrices_of(rows, posterior, smoothing)
        return [together if annotator in idle else matrix for annotator, matrix in enumerate(own)]

    return found


def dense_em(rows: Annotations, matrices_of: Matrices, smoothing: float, steps: int) -> tuple[Table, list[float]]:
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
            for k in [0] if matrices_of is one_coin_matrices else classes:
                value += smoothing * sum(math.log(max(p, LOG_FLOOR)) for p in matrices[t][k])
        objective.append(value)
    return posterior, objective


def training(rows: Annotations) -> TrainingData:
    return TrainingData(annotations=rows, items=Items(n_items=rows.n_items))


def fit(model: DawidSkene | OneCoin | MajorityVote | Multinomial, rows: Annotations) -> FitResult:
    return fit_one(model, training(rows), FitContext(seeds=SeedStream(0)))


@pytest.mark.parametrize("smoothing", [0.0, 0.01, 1.0])
@pytest.mark.parametrize("kind", [{}, {"weights": True}, {"soft": True}, {"weights": True, "soft": True}], ids=str)
@pytest.mark.parametrize(
    ("model", "matrices_of"),
    [(DawidSkene(shrinkage=0.0), dawid_skene_matrices), (OneCoin(shrinkage=0.0), one_coin_matrices)],
    ids=["ds", "one-coin"],
)
def test_em_equals_its_dense_twin(
    model: DawidSkene | OneCoin,
    matrices_of: Matrices,
    kind: dict[str, bool],
    smoothing: float,
) -> None:
    for seed in range(2):
        rows = random_crowd(seed, **kind)
        posterior, objective = dense_em(rows, matrices_of, smoothing, steps=6)
        found = fit(replace(model, smoothing=smoothing, iterations=6, tolerance=0.0), rows)
        np.testing.assert_allclose(found.item_probs, posterior, atol=1e-9)
        np.testing.assert_allclose(found.objective, objective, rtol=1e-9)
        matrices = np.array(with_unknown_annotators(matrices_of)(rows, posterior, smoothing))
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


@pytest.mark.parametrize("kind", [{}, {"weights": True}, {"soft": True}], ids=str)
@pytest.mark.parametrize("votes", ["soft", "hard"])
def test_majority_vote_takes_no_answer_as_evidence_for_itself(
    votes: Literal["soft", "hard"], kind: dict[str, bool]
) -> None:
    rows = random_crowd(4, **kind)
    found = fit(MajorityVote(votes=votes, smoothing=0.5), rows)
    own = np.zeros((rows.n_annotators, 3, 3))
    for item, annotator, parts in answers_of(rows):
        others = np.zeros(3)
        for other_item, other, other_parts in answers_of(rows):
            if other_item == item and other != annotator:
                others += other_parts
        if others.sum() == 0:
            believed = np.full(3, 1 / 3)
        elif votes == "soft":
            believed = others / others.sum()
        else:
            believed = (others > others.max() - 1e-9) / (others > others.max() - 1e-9).sum()
        own[annotator] += np.outer(believed, parts)

    def matrix(counts: np.ndarray) -> np.ndarray:
        return (counts + 0.5) / (counts + 0.5).sum(axis=-1, keepdims=True)

    crowd = matrix(own.sum(axis=0))
    assert found.label_probs is not None
    assert found.annotators is not None
    items, annotators = np.array([0, 3, 11], dtype=np.int32), np.array([6, 0, 1], dtype=np.int32)
    np.testing.assert_allclose(found.label_probs(items, annotators), found.item_probs[items] @ crowd, atol=1e-9)
    matrices = found.annotators.confusion(np.arange(7))
    np.testing.assert_allclose(matrices[:6], matrix(own[:6]), atol=1e-9)
    np.testing.assert_allclose(matrices[6], crowd, atol=1e-9)


def test_an_answer_of_an_unknown_annotator_is_drawn_from_the_crowds_matrix() -> None:
    """Ten anonymous votes an item, nine of them right: of an item that is surely 0, a further one is 0 with .9."""
    item, vote = (codes.ravel() for codes in np.indices((4, 10)))
    label = (item % 2 + (vote == 0)) % 2
    rows = Annotations.of(
        item=item, annotator=np.arange(40), label=label, n_items=4, n_annotators=41, n_classes=2, anonymous=True
    )
    crowds = stack([rows])
    posterior = np.eye(2)[[0, 1, 0, 1]]
    for smoothing in (0.0, 0.01, 1.0):
        columns = confusion_columns(crowds, posterior, evenly(crowds, smoothing))
        annotators = annotator_model(crowds, columns, smoothing=smoothing)
        expected = (18 + smoothing) / (20 + 2 * smoothing)
        found = label_probs_of(posterior, annotators)(np.array([0, 1], np.int32), np.array([40, 40], np.int32))
        np.testing.assert_allclose(found, [[expected, 1 - expected], [1 - expected, expected]], atol=1e-9)


def test_one_label_an_item_says_nothing_of_annotators() -> None:
    """Nobody can be told to be right or wrong: whatever the class, an answer is what answers are on the whole."""
    rows = Annotations.of(
        item=np.arange(10),
        annotator=np.arange(10) % 3,
        label=np.arange(10) % 5 % 2,
        n_items=10,
        n_annotators=3,
        n_classes=2,
    )
    found = fit(MajorityVote(), rows)
    assert found.annotators is not None
    crowd = found.annotators.global_confusion()
    np.testing.assert_allclose(crowd, [[0.6, 0.4], [0.6, 0.4]], atol=1e-3)


@pytest.mark.parametrize("kind", [{}, {"weights": True}, {"soft": True}], ids=str)
def test_multinomial_is_dawid_skene_with_one_annotator(kind: dict[str, bool]) -> None:
    rows = random_crowd(6, **kind)
    posterior, objective = dense_em(given_by_one(rows), dawid_skene_matrices, 0.1, steps=6)
    found = fit(Multinomial(smoothing=0.1, iterations=6, tolerance=0.0), rows)
    np.testing.assert_allclose(found.item_probs, posterior, atol=1e-9)
    np.testing.assert_allclose(found.objective, objective, rtol=1e-9)
    crowd = np.array(dawid_skene_matrices(given_by_one(rows), posterior, 0.1)[0])
    assert found.annotators is not None
    np.testing.assert_allclose(found.annotators.global_confusion(), crowd, atol=1e-9)
    np.testing.assert_allclose(found.annotators.confusion(np.arange(7)), np.tile(crowd, (7, 1, 1)), atol=1e-9)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_shrinkage_adds_answers_drawn_from_the_crowds_matrix(smoothing: float) -> None:
    rows = random_crowd(7, weights=True)
    together, _ = dense_em(given_by_one(rows), dawid_skene_matrices, smoothing, steps=100)
    crowd = dawid_skene_matrices(given_by_one(rows), together, smoothing)[0]
    share = 2.5

    def matrices_of(rows: Annotations, posterior: Table, smoothing: float) -> list[Table]:
        own = np.zeros((rows.n_annotators, 3, 3))
        for item, annotator, parts in answers_of(rows):
            own[annotator] += np.outer(posterior[item], parts)
        own += smoothing + share * np.array(crowd)
        return (own / own.sum(axis=2, keepdims=True)).tolist()

    posterior, _ = dense_em(rows, matrices_of, smoothing, steps=6)
    model = DawidSkene(smoothing=smoothing, shrinkage=share, iterations=6, tolerance=0.0)
    found = fit(model, rows)
    near = 1e-6  # the crowd's EM stops once its objective does not rise in its last digits
    np.testing.assert_allclose(found.item_probs, posterior, atol=near)
    assert found.annotators is not None
    expected = np.array(matrices_of(rows, posterior, smoothing))[:6]
    np.testing.assert_allclose(found.annotators.confusion(np.arange(6)), expected, atol=near)
    # With iterations to spare, the objective is one that EM pushes up.
    objective = fit(replace(model, iterations=100), rows).objective
    assert (np.diff(objective) >= -1e-9 * np.abs(objective[1:])).all()


def test_shrunk_all_the_way_dawid_skene_is_multinomial() -> None:
    rows = small_data().training.annotations
    shrunk = fit(DawidSkene(shrinkage=1e6, tolerance=0.0), rows)
    np.testing.assert_allclose(shrunk.item_probs, fit(Multinomial(tolerance=0.0), rows).item_probs, atol=1e-4)


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
    found = log_confusion_prior(crowds, confusion_columns(crowds, posterior, evenly(crowds, 0.3)))
    np.testing.assert_allclose(found, [expected], rtol=1e-12)
