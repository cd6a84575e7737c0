"""Music genre, a linear classifier on its 124 features: test accuracies (%) of Chen et al. (2020), within 4."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdsweep.data import catalogue, splits
from crowdsweep.data.dataset import TrialData
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.fitting import fit_all
from crowdsweep.seeds import SeedStream

TOLERANCE = 4.0


@cache
def trial_of(path: Path) -> TrialData:
    return splits.prepare(catalogue.load(str(path), {}), {}, 0)


def fits(name: str, params: dict[str, Any], trial: TrialData, seeds: int) -> list[FitResult]:
    contexts = [FitContext(seeds=SeedStream(seed)) for seed in range(seeds)]
    return fit_all(registered.build_model(name, params), [trial.training] * seeds, contexts)


def percent(name: str, params: dict[str, Any], path: Path, seeds: int = 1) -> float:
    trial = trial_of(path / "music-genre")
    test, found = trial.evaluation["test"], []
    for fitted in fits(name, params, trial, seeds):
        assert fitted.predictor is not None
        predicted = fitted.predictor.predict(test.items, "classifier")[test.scored].argmax(axis=1)
        found.append(100 * (predicted == test.reference.argmax(axis=1)).mean())
    return float(np.mean(found))


def test_raykar_with_a_prior_is_as_printed(shared_data: Path) -> None:
    """Ten rounds and weights of variance one, as in the code of Rodrigues et al.: 63.0 printed."""
    assert percent("raykar-prior", {"iterations": 10}, shared_data) == pytest.approx(63.0, abs=TOLERANCE)


def test_raykar_without_a_prior_fails_as_printed_only_where_empty_rows_are_divided(shared_data: Path) -> None:
    """12.0 printed: one class for every item. As the formulas stand, nothing is left after one step; ours goes on."""
    trial = trial_of(shared_data / "music-genre")
    rows, posterior = trial.training.annotations, trial.training.annotations.label_distribution()
    counts = np.zeros((rows.n_annotators, rows.n_classes, rows.n_classes))
    np.add.at(counts.transpose(0, 2, 1), (rows.annotator, rows.label), posterior[rows.item])
    with np.errstate(invalid="ignore"):
        matrices = counts / counts.sum(axis=2, keepdims=True)
    likelihood = np.ones_like(posterior)
    np.multiply.at(likelihood, rows.item, matrices[rows.annotator, :, rows.label])
    posterior = likelihood / likelihood.sum(axis=1, keepdims=True)  # times the regression, which changes no nan
    inputs = trial.training.items.features
    assert inputs is not None
    assert np.isnan(inputs.T @ posterior).all()  # the slope of every weight in the next M-step
    shares = trial.evaluation["test"].reference.mean(axis=0)
    assert np.isclose(shares, 0.12).any()  # what naming one class for all is worth
    assert percent("raykar", {}, shared_data) == pytest.approx(63.0, abs=TOLERANCE)


def test_ma_lr_is_as_printed(shared_data: Path) -> None:
    """64.0 printed."""
    assert percent("ma-lr", {}, shared_data) == pytest.approx(64.0, abs=TOLERANCE)


@pytest.mark.long
@pytest.mark.parametrize(("name", "printed"), [("mv-mlp", 62.67), ("glad-mlp", 66.03)])
def test_pairs_are_as_printed(name: str, printed: float, shared_data: Path) -> None:
    """A thousand full-batch steps, for speed. Five seeds of the paper's own setting (learning rate 1e-3, batches of 64,
    5,000 epochs), which take ten times as long, give 59.4 and 65.3; these give 59.5 and 62.5."""
    settings = {"network": "linear", "epochs": 1000, "learning_rate": 0.01, "batch_size": 700}
    settings |= {"protocol": "equal_budget", "standardise": False}
    assert percent(name, settings, shared_data, seeds=5) == pytest.approx(printed, abs=TOLERANCE)
