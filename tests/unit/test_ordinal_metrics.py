"""Metrics of an ordinal scale, against scikit-learn, scipy and what ties are worth on average; where they apply."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from one_trial import run_one
from scipy.stats import wasserstein_distance
from sklearn.metrics import cohen_kappa_score, mean_absolute_error

from crowdsweep.errors import BadInput
from crowdsweep.metrics.ordinal import errors_in_steps, wasserstein_of_each, weighted_kappa_of_each
from crowdsweep.record.array_names import BASELINES
from crowdsweep.sweep.plan import make_plan
from crowdsweep.sweepfile.read import parse_sweep


def predictions(n_items: int = 80, n_classes: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Gold, and distributions that lean to it and its neighbours."""
    rng = np.random.default_rng(n_classes)
    gold = rng.choice(n_classes, n_items, p=rng.dirichlet(np.ones(n_classes)))
    near = np.exp(-np.abs(np.arange(n_classes) - gold[:, None]))
    return gold, np.stack([rng.dirichlet(3 * row) for row in near])


@pytest.mark.parametrize("n_classes", [2, 3, 5, 9])
def test_classes_against_gold_as_scikit_learn_scores_them(n_classes: int) -> None:
    gold, predicted = predictions(n_classes=n_classes)
    reference, labels = np.eye(n_classes)[gold], predicted.argmax(axis=1)
    assert errors_in_steps(reference, predicted).mean() == pytest.approx(mean_absolute_error(gold, labels))
    expected = cohen_kappa_score(gold, labels, weights="quadratic")
    assert weighted_kappa_of_each(reference, predicted).mean() == pytest.approx(expected)
    assert weighted_kappa_of_each(np.eye(n_classes)[::-1][gold], predicted[:, ::-1]).mean() == pytest.approx(expected)


@pytest.mark.parametrize("one_hot", [True, False])
def test_distributions_as_scipy_compares_them(one_hot: bool) -> None:
    gold, predicted = predictions()
    reference = np.eye(5)[gold] if one_hot else predictions(n_items=80)[1][::-1]
    steps = np.arange(5)
    expected = [wasserstein_distance(steps, steps, *pair) for pair in zip(reference, predicted, strict=True)]
    np.testing.assert_allclose(wasserstein_of_each(reference, predicted), expected, atol=1e-12)


def test_ties_are_worth_what_drawing_a_class_gives_on_average() -> None:
    reference = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    predicted = np.array([[0.4, 0.1, 0.1, 0.4], [0.1, 0.4, 0.4, 0.1], [0.25, 0.25, 0.25, 0.25]])
    tied = [[np.flatnonzero(row == row.max()) for row in side] for side in (reference, predicted)]
    draws = list(zip(*tied, strict=True))
    steps = [np.mean([abs(j - k) for j, k in product(*both)]) for both in draws]
    np.testing.assert_allclose(errors_in_steps(reference, predicted), steps)
    # Kappa is that of the expected table of both sides, in which each draw is an item of its own weight.
    rows = [(j, k, 1 / len(list(product(*both)))) for both in draws for j, k in product(*both)]
    one, other, weight = zip(*rows, strict=True)
    expected = cohen_kappa_score(one, other, weights="quadratic", sample_weight=weight)
    assert weighted_kappa_of_each(reference, predicted).mean() == pytest.approx(expected)


def test_kappa_where_nobody_can_disagree_and_where_nothing_agrees() -> None:
    same = np.eye(3)[[1, 1, 1]]
    assert weighted_kappa_of_each(same, same).mean() == 1.0
    np.testing.assert_array_equal(weighted_kappa_of_each(same, same), np.ones(3))
    assert weighted_kappa_of_each(np.eye(3)[[0, 2]], np.eye(3)[[2, 0]]).mean() == pytest.approx(-1.0)
    assert weighted_kappa_of_each(np.eye(3)[[0, 1, 2]], same).mean() == pytest.approx(0.0)  # a constant prediction


ON_SCALES = ("mae", "weighted_kappa", "wasserstein")


def ratings(folder: Path, scale: str = "ordinal", *, gold: bool = True) -> str:
    """Forty items rated 1 to 4 by six annotators, off by a step now and then; ten are dev items, ten test."""
    rng = np.random.default_rng(3)
    true = rng.integers(1, 5, size=40)
    rated = np.clip(true[:, None] + rng.choice([-1, 0, 0, 0, 1], (40, 6)), 1, 4)
    folder.mkdir()
    rows = [f"i{i},w{w},{rated[i, w]}" for i in range(40) for w in range(6)]
    (folder / "annotations.csv").write_text("\n".join(["item,annotator,label", *rows]) + "\n")
    splits = ["train"] * 20 + ["dev"] * 10 + ["test"] * 10
    lines = [f"i{i},{split},{true[i] if gold else ''}" for i, split in enumerate(splits)]
    (folder / "items.csv").write_text("\n".join(["item,split,gold", *lines]) + "\n")
    (folder / "dataset.yaml").write_text(f"scale: {scale}\n")
    return str(folder)


def test_a_trial_on_an_ordinal_dataset_has_them_and_no_other(tmp_path: Path) -> None:
    found = run_one(ratings(tmp_path / "ordinal"), "majority-vote")
    for kind in ON_SCALES:
        scores = found.artifacts["item_scores.train"][kind]
        assert scores.mean() == pytest.approx(found.metrics[f"train_{kind}"], abs=1e-6)
    assert 0 < found.metrics["train_mae"] < 0.5 < found.metrics["train_weighted_kappa"] < 1
    nominal = run_one(ratings(tmp_path / "nominal", "nominal"), "majority-vote")
    assert not [name for name in nominal.metrics if name.partition("_")[2] in ON_SCALES]
    assert {name: found.metrics[name] for name in nominal.metrics} == pytest.approx(dict(nominal.metrics))


def test_without_gold_only_distributions_are_compared(tmp_path: Path) -> None:
    found = run_one(ratings(tmp_path / "votes", gold=False), "marginal")
    assert "train_wasserstein" in found.metrics
    assert not {"train_mae", "train_weighted_kappa"} & set(found.metrics)
    assert {"test_mae", "test_weighted_kappa", "test_wasserstein"} <= set(found.metrics)
    rows = {(name, metric): value for name, metric, value in found.artifacts[BASELINES].tolist()}
    for name in ("train_wasserstein", "test_wasserstein", "test_mae"):
        assert rows["marginal", name] == pytest.approx(found.metrics[name])


def test_a_sweep_may_rank_by_them_on_ordinal_data_alone(tmp_path: Path) -> None:
    def plan(scale: str) -> None:
        given = {"name": "steps", "datasets": [ratings(tmp_path / scale, scale)], "models": ["majority-vote"]}
        make_plan(parse_sweep({**given, "metric": {"name": "train_mae", "goal": "minimize"}, "engine": "inline"}))

    plan("ordinal")
    with pytest.raises(BadInput, match=r"'train_mae' is defined for ordinal classes \(`scale` in dataset.yaml\)"):
        plan("nominal")
