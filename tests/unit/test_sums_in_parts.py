"""Sums over answers are made in parts that a cache holds, and are the same whatever the parts."""

import numpy as np
import pytest
from scipy.special import xlogy

from crowdsweep.arrays import LOG_FLOOR
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models import _em
from crowdsweep.models._em import StackedCrowds, columns_of_counts, log_confusion_prior, soft_vote, stack, winners
from crowdsweep.models.aggregate import _weighted_votes, majority_vote
from crowdsweep.models.aggregate._weighted_votes import counts_against_others
from crowdsweep.models.aggregate.majority_vote import MajorityVote
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.seeds import SeedStream

N_ITEMS, N_ANNOTATORS, N_CLASSES = 40, 9, 4


def crowd(seed: int, *, weighted: bool = False, soft: bool = False) -> Annotations:
    """Answers of which a few come twice; the last annotator and the last class have none."""
    rng = np.random.default_rng(seed)
    item, annotator = rng.integers(0, N_ITEMS, 120), rng.integers(0, N_ANNOTATORS - 1, 120)
    return Annotations.of(
        item=item,
        annotator=annotator,
        label=rng.integers(0, N_CLASSES - 1, 120),
        weight=rng.uniform(0.5, 2.0, 120).astype(np.float32) if weighted else None,
        probability=rng.uniform(0.6, 1.0, 120).astype(np.float32) if soft else None,
        n_items=N_ITEMS,
        n_annotators=N_ANNOTATORS,
        n_classes=N_CLASSES,
    )


def two_crowds() -> StackedCrowds:
    return stack([crowd(1), crowd(2)])


@pytest.mark.parametrize("numbers", [1, 10, 1 << 15])
@pytest.mark.parametrize("pseudo", [0.0, 0.3])
def test_confusion_columns_and_their_prior_equal_loops(monkeypatch: pytest.MonkeyPatch, numbers: int, pseudo: float):
    monkeypatch.setattr(_em, "IN_CACHE", numbers)
    crowds, rng = two_crowds(), np.random.default_rng(3)
    pseudo_answers = pseudo * rng.uniform(size=(2, N_CLASSES, N_CLASSES))
    counts = rng.integers(0, 3, size=(len(crowds.column_label), N_CLASSES)).astype(np.float64)
    counts[:, 0] = 0.0  # a class that nobody has: without pseudo-answers its rows have no mass
    columns = columns_of_counts(crowds, counts.copy(), pseudo_answers)
    prior = log_confusion_prior(crowds, columns)
    expected = np.zeros(2)
    for annotator in range(crowds.n_annotators):
        replica, mine = crowds.annotator_replica[annotator], crowds.column_annotator == annotator
        for true in range(N_CLASSES):
            row = pseudo_answers[replica, true].copy()
            np.add.at(row, crowds.column_label[mine], counts[mine, true])
            whole = row.sum()
            probs = np.full(N_CLASSES, 1.0 / N_CLASSES) if whole == 0 else row / whole
            found = columns.log_probs[mine, true]
            wanted = np.log(np.maximum(probs, LOG_FLOOR))[crowds.column_label[mine]]
            np.testing.assert_allclose(found, wanted, atol=1e-12)
            expected[replica] += xlogy(pseudo_answers[replica, true], np.where(probs > 0, probs, 1.0)).sum()
    np.testing.assert_allclose(prior, expected, atol=1e-9)


@pytest.mark.parametrize("settings", [{}, {"weighted": True}, {"soft": True}, {"weighted": True, "soft": True}])
def test_counts_against_the_others_are_the_same_in_parts_of_one_pair(monkeypatch: pytest.MonkeyPatch, settings) -> None:
    crowds = stack([crowd(4, **settings)])
    weights = np.random.default_rng(5).uniform(size=crowds.n_annotators)
    weights[0] = 1e-7  # of who counts for little, the little still counts against nobody
    whole = counts_against_others(crowds, weights, lambda shares: shares)
    monkeypatch.setattr(_weighted_votes, "IN_CACHE", 1)
    np.testing.assert_array_equal(counts_against_others(crowds, weights, lambda shares: shares), whole)
    assert whole.sum() == pytest.approx(crowds.answers.sum())


@pytest.mark.parametrize("settings", [{}, {"weighted": True}, {"soft": True}])
@pytest.mark.parametrize("votes", ["soft", "hard"])
def test_the_vote_is_that_of_the_stacked_answers(settings, votes) -> None:
    rows = crowd(6, **settings)
    data = TrainingData(annotations=rows, items=Items(n_items=N_ITEMS))
    fitted = fit_one(MajorityVote(votes=votes), data, FitContext(seeds=SeedStream(0)))
    shares = soft_vote(stack([rows]))
    np.testing.assert_allclose(fitted.item_probs, winners(shares) if votes == "hard" else shares, rtol=1e-15)


def test_the_vote_counts_its_annotators_once_and_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def counting(*arguments):
        counted.append(1)
        return counts_against_others(*arguments)

    monkeypatch.setattr(majority_vote, "counts_against_others", counting)
    data = TrainingData(annotations=crowd(7), items=Items(n_items=N_ITEMS))
    fitted = fit_one(MajorityVote(), data, FitContext(seeds=SeedStream(0)))
    assert fitted.annotators is not None
    assert fitted.annotators.n_annotators == N_ANNOTATORS
    assert not counted
    crowd_matrix = fitted.annotators.global_confusion()
    items = np.array([3, 5, 3], np.int32)
    found = fitted.label_probs(items, np.zeros(3, np.int32))
    np.testing.assert_allclose(found, (fitted.item_probs @ crowd_matrix)[items], atol=1e-15)
    fitted.annotators.confusion(np.arange(N_ANNOTATORS))
    assert counted == [1]
