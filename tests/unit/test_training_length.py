"""Networks are trained until they are trained, and a fit that was not says so."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning as PeersWarning

import crowdsweep as cs
from crowdsweep.data import catalogue, splits
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Validation
from crowdsweep.errors import ConvergenceWarning
from crowdsweep.models import registered
from crowdsweep.models.contract import DataShape, FitContext
from crowdsweep.models.fitting import fit_one
from crowdsweep.models.networks.streams import Shuffler
from crowdsweep.models.progress import still_improves
from crowdsweep.models.trainer import passes_of
from crowdsweep.seeds import SeedStream


def sixty_items() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    features, fresh = random.normal(size=(60, 4)), random.normal(size=(2000, 4))
    truth, fresh_truth = (features[:, 0] > 0).astype(int), (fresh[:, 0] > 0).astype(int)
    answers = np.where(random.random((60, 3)) < 0.85, truth[:, None], 1 - truth[:, None])
    return features, answers, fresh, fresh_truth


@pytest.mark.parametrize(("network", "least"), [("linear", 0.92), pytest.param("mlp", 0.88, marks=pytest.mark.long)])
def test_sixty_items_are_enough(network: str, least: float) -> None:
    """A logistic regression on the votes has .952; one step an epoch, fifty in all, once gave .66."""
    features, answers, fresh, truth = sixty_items()
    model = cs.CrowdClassifier("soft-mv", seeds=2, network=network).fit(features, answers)
    assert model.score(fresh, truth) >= least


def test_a_fit_that_was_hardly_trained_says_so() -> None:
    features, answers, _, _ = sixty_items()
    short = {"seeds": 1, "network": "linear", "epochs": 50, "steps": 0, "patience": None}
    with pytest.warns(PeersWarning, match="raise steps or epochs"):
        cs.CrowdClassifier("soft-mv", **short).fit(features, answers)
    data = cs.load({"item": [0, 1, 0, 1], "annotator": [0, 0, 1, 1], "label": [0, 1, 0, 1]})
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        cs.fit("dawid-skene", data)


@pytest.mark.parametrize(
    ("objective", "improves"),
    [
        (-np.exp(-np.linspace(0, 1, 50)), True),
        (-np.exp(-np.linspace(0, 5, 50)), False),
        (np.linspace(-1, 0, 50), True),
        (np.linspace(0, -1, 50), False),
        (1e9 + 1e-3 * np.linspace(-1, 0, 50), True),  # of any scale
        (np.array([-3.0]), False),
        (np.array([-3.0, -2.0]), True),
        (np.array([]), False),
        (np.array([-1.0, np.nan]), False),
    ],
)
def test_what_still_improves(objective: np.ndarray, improves: bool) -> None:
    assert still_improves(objective) is improves


def test_noise_is_no_improvement() -> None:
    noisy = np.random.default_rng(0).normal(size=(200, 50))
    assert np.mean([still_improves(row) for row in noisy]) < 0.06


def test_few_rows_are_gone_through_until_they_make_the_steps() -> None:
    assert passes_of(60, 64, 40.0) == 43
    assert passes_of(10_000, 64, 40.0) == passes_of(60, 64, 0.0) == 1
    rows = [np.arange(60), np.arange(5)]
    shuffler = Shuffler(rows, [SeedStream(0), SeedStream(1)], 16, "cpu", [2, 3])
    batches = shuffler.epoch()
    assert [batch.n_replicas for batch in batches] == [2, *[1] * 7]
    seen = np.concatenate([batch.rows[0][: int(batch.sizes[0])].numpy() for batch in batches])
    assert sorted(seen[:60]) == sorted(seen[60:]) == list(range(60))
    assert not np.array_equal(seen[:60], seen[60:])
    assert sorted(batches[0].rows[1][:15].tolist()) == sorted([*range(5)] * 3)


def test_the_cost_follows() -> None:
    info = registered.model_info("soft-mv")

    assert info.cost is not None

    def cost(n_items: int, **params: object) -> float:
        shape = DataShape(n_items=n_items, n_annotators=5, n_classes=2, n_annotations=3 * n_items, n_features=10)
        assert info.cost is not None
        return info.cost(shape, registered.full_params("soft-mv", params))

    assert cost(60) > 10 * cost(60, protocol="equal_budget")  # 2,000 steps in place of 50, and folds
    assert cost(64) == pytest.approx(cost(128))  # steps do not grow with the items while these are few
    assert cost(100_000) < cost(100_000, protocol="equal_budget")


def test_what_gold_teaches_is_not_stopped_by_answers_to_dev_items() -> None:
    """They say what annotators answer: of a crowd that errs much, `ideal` was stopped at once (digits: 84 for 97 %)."""
    trial = splits.prepare(catalogue.load("gaussians", {"items": 90, "annotators": 6}), {}, 0)
    rows, items = trial.training.annotations, trial.training.items
    wrong = Annotations.of(
        item=rows.item,
        annotator=rows.annotator,
        label=(rows.label + 1) % rows.n_classes,
        n_items=rows.n_items,
        n_annotators=rows.n_annotators,
        n_classes=rows.n_classes,
    )
    dev = Validation(items=items, annotations=wrong)
    model = registered.build_model("ideal", {"steps": 400, "hidden": [4]})
    context = FitContext(seeds=SeedStream(0), gold=trial.gold)
    heard, deaf = (fit_one(model, replace(trial.training, validation=one), context).item_probs for one in (dev, None))
    np.testing.assert_array_equal(heard, deaf)


@pytest.mark.parametrize("name", ["hard-mv", "glad-mlp"])
def test_what_learns_single_classes_watches_single_classes(name: str) -> None:
    """Two answers of three and three of three are the same class: the distribution of answers would stop it early."""
    trial = splits.prepare(catalogue.load("gaussians", {"items": 90, "annotators": 6}), {}, 0)

    def dev(labels: tuple[int, int, int]) -> Validation:
        rows = Annotations.of(
            item=np.repeat(np.arange(trial.training.n_items), 3),
            annotator=np.tile(np.arange(3), trial.training.n_items),
            label=np.tile(labels, trial.training.n_items),
            n_items=trial.training.n_items,
            n_annotators=6,
            n_classes=trial.training.n_classes,
        )
        return Validation(items=trial.training.items, annotations=rows)

    model = registered.build_model(name, {"steps": 400, "hidden": [4]})
    probs = [
        fit_one(model, replace(trial.training, validation=dev(labels)), FitContext(seeds=SeedStream(0))).item_probs
        for labels in ((1, 1, 0), (1, 1, 1), (0, 0, 0))
    ]
    np.testing.assert_array_equal(probs[0], probs[1])
    assert not np.array_equal(probs[0], probs[2])
