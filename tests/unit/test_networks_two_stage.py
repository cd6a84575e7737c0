"""Two-stage models: what the classifier is taught, and which epoch is kept."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Gold, Items, TrainingData, Validation
from crowdsweep.errors import BadInput, FitFailed
from crowdsweep.models import registered
from crowdsweep.models.aggregate.dawid_skene import DawidSkene
from crowdsweep.models.contract import FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.models.registered import build_model
from crowdsweep.models.two_stage._targets import one_hot
from crowdsweep.seeds import SeedStream

MANY_STEPS = {"epochs": 400, "steps": 0, "patience": None, "learning_rate": 0.02, "dropout": 0.0, "hidden": [32]}
# Item 0: two votes for 1, one for 2. Item 1: a tie of 0 and 2. Item 2: one vote for 0. Item 3: no votes.
ROWS = [(0, 0, 1), (0, 1, 1), (0, 2, 2), (1, 0, 0), (1, 1, 2), (2, 2, 0)]


def built(name, **params):
    return build_model(name, params)


def _data(rows=ROWS, n_items=4, features=None):
    item, annotator, label = (np.array(column) for column in zip(*rows, strict=True))
    annotations = Annotations.of(
        item=item, annotator=annotator, label=label, n_items=n_items, n_annotators=3, n_classes=3
    )
    features = np.eye(n_items, 5, dtype=np.float32) if features is None else features
    return TrainingData(annotations=annotations, items=Items(n_items=n_items, features=features))


def _context(seed=0, gold=None):
    return FitContext(seeds=SeedStream(seed), gold=gold)


def test_soft_votes_are_learnt_as_shares():
    fitted = fit_one(built("soft-mv", **MANY_STEPS), _data(), _context())
    wanted = [[0, 2 / 3, 1 / 3], [1 / 2, 0, 1 / 2], [1, 0, 0]]
    np.testing.assert_allclose(fitted.item_probs[:3], wanted, atol=0.02)
    assert fitted.item_probs[3].max() < 0.95  # nobody labelled it, so nothing was taught


@pytest.mark.parametrize("seed", range(4))
def test_hard_votes_are_learnt_as_one_class_and_ties_are_broken(seed):
    first = fit_one(built("hard-mv", ties="first", **MANY_STEPS), _data(), _context(seed))
    assert first.item_probs[:3].argmax(axis=1).tolist() == [1, 0, 0]
    assert first.item_probs[:3].max(axis=1).min() > 0.98
    drawn = fit_one(built("hard-mv", **MANY_STEPS), _data(), _context(seed))
    assert drawn.item_probs[1].max() > 0.98
    assert drawn.item_probs[1].argmax() in (0, 2)


def test_random_ties_go_both_ways():
    winners = np.tile([0.5, 0.0, 0.5], (300, 1))
    broken = one_hot(winners, _context(1), draw=True)
    assert broken[:, 1].sum() == 0
    assert 110 < broken[:, 0].sum() < 190


def test_dawid_skene_first_teaches_its_posterior_and_keeps_its_annotators():
    data = _data()
    fitted = fit_one(built("dl-ds", smoothing=0.1, tolerance=0.0, iterations=7, **MANY_STEPS), data, _context())
    first = fit_one(DawidSkene(smoothing=0.1, shrinkage=0.0, tolerance=0.0, iterations=7), data, _context())
    np.testing.assert_allclose(fitted.item_probs[:3], first.item_probs[:3], atol=0.03)
    everybody = np.arange(3)
    np.testing.assert_array_equal(fitted.annotators.confusion(everybody), first.annotators.confusion(everybody))


def test_mv_mlp_is_hard_mv_with_other_defaults():
    params = {"epochs": 5, "steps": 0, "hidden": [8]}
    first, second = (fit_one(built(name, **params), _data(), _context(3)) for name in ("mv-mlp", "hard-mv"))
    np.testing.assert_array_equal(first.item_probs, second.item_probs)


def test_glad_first_teaches_its_likeliest_class_and_keeps_its_annotators():
    # Two agree all along, a third contradicts them. Of item 9 the two disagree, of item 10 one of them and the third.
    rows = [(item, annotator, item % 3) for item in range(9) for annotator in (0, 1)]
    rows += [(item, 2, (item + 1) % 3) for item in range(9)] + [(9, 0, 1), (9, 1, 0), (10, 0, 1), (10, 2, 0)]
    data, params = _data(rows, 11, np.eye(11, dtype=np.float32)), {"ability_spread": 2.0}
    fitted = fit_one(built("glad-mlp", **params, **MANY_STEPS), data, _context())
    first = fit_one(built("glad", **params), data, _context())
    assert first.item_probs[9].max() < 0.8  # which would be learnt as it is
    assert first.item_probs[10].argmax() == 1
    clear = [*range(9), 10]
    np.testing.assert_array_equal(fitted.item_probs[clear].argmax(axis=1), first.item_probs[clear].argmax(axis=1))
    assert fitted.item_probs.max(axis=1).min() > 0.98
    np.testing.assert_array_equal(fitted.annotators.confusion(np.arange(3)), first.annotators.confusion(np.arange(3)))


def test_ideal_learns_gold_and_not_the_labels():
    gold = Gold(item=np.array([0, 1], np.int32), label=np.array([2, 1], np.int32))
    fitted = fit_one(built("ideal", **MANY_STEPS), _data(), _context(gold=gold))
    assert fitted.item_probs[:2].argmax(axis=1).tolist() == [2, 1]
    assert fitted.item_probs[:2].max(axis=1).min() > 0.98
    with pytest.raises(FitFailed, match="expected gold"):
        fit_one(built("ideal", **MANY_STEPS), _data(), _context())


def _noisy(seed, n_items=60):
    """Items whose features say nothing: every epoch after the first few only overfits."""
    rng = np.random.default_rng(seed)
    rows = [(item, annotator, int(rng.integers(0, 3))) for item in range(n_items) for annotator in range(2)]
    return _data(rows, n_items, rng.normal(size=(n_items, 5)).astype(np.float32))


def test_pd_keeps_the_epoch_that_predicts_the_dev_items_best():
    data, dev = _noisy(0), _noisy(1)
    watched = replace(data, validation=Validation(items=dev.items, annotations=dev.annotations))
    settings = {"hidden": [64], "dropout": 0.0, "learning_rate": 0.02, "steps": 0}

    def loss_on_dev(model):
        predicted = fit_one(model, watched, _context()).predictor.predict(dev.items, "classifier")
        return -(dev.annotations.label_distribution() * np.log(predicted)).sum(axis=1).mean()

    lengths = [loss_on_dev(built("pd", epochs=epochs, patience=50, **settings)) for epochs in (1, 2, 4, 8, 30)]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(lengths))
    overfitted = fit_one(built("soft-mv", epochs=30, **{**settings, "patience": None}), watched, _context()).predictor
    predicted = overfitted.predict(dev.items, "classifier")
    assert -(dev.annotations.label_distribution() * np.log(predicted)).sum(axis=1).mean() > lengths[-1] + 0.05


def test_pd_stops_when_patience_is_lost():
    fitted = fit_one(built("pd", epochs=200, steps=0, patience=3, learning_rate=0.02), _noisy(2), _context())
    assert fitted.converged
    assert fitted.iterations < 200


def test_without_dev_items_training_items_say_how_long():
    rng = np.random.default_rng(3)
    rows = [(item, 0, int(item % 3)) for item in range(30)]
    features = np.eye(3, 5, dtype=np.float32)[np.arange(30) % 3] + rng.normal(0, 0.1, (30, 5)).astype(np.float32)
    fitted = fit_one(
        built("pd", epochs=200, steps=0, learning_rate=0.02, dropout=0.0), _data(rows, 30, features), _context()
    )
    assert (fitted.item_probs.argmax(axis=1) == np.arange(30) % 3).all()


def test_any_aggregator_goes_with_any_network():
    """The pair that dl-ds is, put together from its parts, gives its numbers."""
    params = {"smoothing": 0.1, "tolerance": 1e-5, "iterations": 50, "epochs": 5, "steps": 0, "network": "linear"}
    pair = fit_one(built("two-stage", aggregate="dawid-skene", shrinkage=0.0, **params), _data(), _context(3))
    named = fit_one(built("dl-ds", **params), _data(), _context(3))
    np.testing.assert_array_equal(pair.item_probs, named.item_probs)
    np.testing.assert_array_equal(pair.objective, named.objective)


def test_the_aggregators_own_parameters_stand_beside_its_name():
    known = registered.parameters("two-stage", {"aggregate": "dawid-skene"})
    assert {"aggregate", "smoothing", "start", "network", "hidden", "epochs"} <= set(known)
    assert "votes" in registered.parameters("two-stage")
    full = registered.full_params("two-stage", {"aggregate": "one-coin", "epochs": 3})
    assert registered.full_params("two-stage", full) == full
    assert full["aggregate"] == "one-coin"
    with pytest.raises(BadInput, match=r"aggregate.*\"dawid-skene\""):
        built("two-stage", aggregate="cmm")
    with pytest.raises(BadInput, match=r"'start': expected beside aggregate: dawid-skene, which was not chosen"):
        built("two-stage", aggregate="one-coin", start="hard")
