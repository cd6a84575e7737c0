"""MeTaL, which goes by how often annotators agree two by two, against a dense twin with explicit loops."""

import math
from pathlib import Path

import numpy as np
import pytest

from crowdsweep.data import catalogue, splits
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.metrics.items import accuracy_of_each
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.fitting import fit_one
from crowdsweep.seeds import SeedStream

KINDS = [{}, {"weights": True}, {"soft": True}]


def random_crowd(seed: int, *, weights: bool = False, soft: bool = False) -> Annotations:
    """A small odd crowd of three classes: repeats, an item and an annotator without answers."""
    random = SeedStream(seed).numpy("crowd")
    item = random.integers(0, 11, 60)
    return Annotations.of(
        item=item,
        annotator=random.integers(0, 6, 60),
        label=np.where(random.random(60) < 0.7, item % 3, random.integers(0, 3, 60)),
        n_items=12,
        n_annotators=7,
        n_classes=3,
        weight=random.uniform(0.2, 3, 60) if weights else None,
        probability=random.uniform(0.3, 1, 60) if soft else None,
    )


def answers_of(rows: Annotations) -> np.ndarray:
    """Returns how much answer each annotator gave for each label of each answered item [items, columns]."""
    found = np.zeros((rows.n_items, rows.n_annotators * rows.n_classes))
    for j in range(len(rows)):
        weight = 1.0 if rows.weight is None else float(rows.weight[j])
        certain = 1.0 if rows.probability is None else float(rows.probability[j])
        for label in range(rows.n_classes):
            share = certain if label == rows.label[j] else (1 - certain) / (rows.n_classes - 1)
            found[rows.item[j], rows.annotator[j] * rows.n_classes + label] += weight * share
    return found[found.sum(axis=1) > 0]


class DenseTwin:
    """The loss on the whole matrix O, entry by entry, and its slope by differences."""

    def __init__(self, rows: Annotations) -> None:
        answers = answers_of(rows)
        self.n_classes, self.size = rows.n_classes, answers.shape[1]
        self.together = answers.T @ answers / len(answers)
        self.given = answers.sum(axis=0) / len(answers)

    def loss(self, rates: np.ndarray) -> float:
        total = 0.0
        for c in range(self.size):
            total += (sum(rates[c]) / self.n_classes - self.given[c]) ** 2
            for d in range(self.size):
                if c // self.n_classes != d // self.n_classes:
                    explained = sum(rates[c, k] * rates[d, k] / self.n_classes for k in range(self.n_classes))
                    total += (self.together[c, d] - explained) ** 2
        return total

    def slope(self, rates: np.ndarray) -> np.ndarray:
        found = np.zeros_like(rates)
        for place in np.ndindex(rates.shape):
            step = np.zeros_like(rates)
            step[place] = 1e-4
            # The loss is of the fourth degree in a rate: a difference of five points has no error but rounding.
            far = self.loss(rates + 2 * step) - self.loss(rates - 2 * step)
            found[place] = (8 * (self.loss(rates + step) - self.loss(rates - step)) - far) / 12e-4
        return found

    def descend(self, rate: float, steps: int) -> tuple[np.ndarray, list[float]]:
        """Returns the rates after so many steps, and the loss after each."""
        start = np.zeros((self.size, self.n_classes))
        for c in range(self.size):
            start[c, c % self.n_classes] = min(0.7 * self.given[c] * self.n_classes, 1.0)
        rates, velocity, losses = start, np.zeros_like(start), []
        for _ in range(steps):
            velocity = 0.9 * velocity - rate * self.slope(rates)
            rates = rates + velocity
            losses.append(self.loss(rates))
            if losses[-1] > self.loss(start):
                rates, velocity, losses[-1], rate = start, np.zeros_like(start), self.loss(start), rate / 2
        return rates, losses


def fit(rows: Annotations, **params: object) -> FitResult:
    data = TrainingData(annotations=rows, items=Items(n_items=rows.n_items))
    return fit_one(registered.build_model("metal", params), data, FitContext(seeds=SeedStream(0)))


@pytest.mark.parametrize("rate", [0.01, 8.0], ids=["authors' rate", "a rate that diverges"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_metal_descends_as_on_the_dense_matrix(kind: dict[str, bool], rate: float) -> None:
    rows = random_crowd(2, **kind)
    twin = DenseTwin(rows)
    expected, losses = twin.descend(rate, 5)
    found = fit(rows, step_size=rate, iterations=5, tolerance=0.0)
    shown = twin.given > 0
    np.testing.assert_allclose(found.extras["rates"], expected[shown], atol=1e-7)
    np.testing.assert_allclose(expected[~shown], 0.0, atol=1e-7)
    np.testing.assert_allclose(np.diff(found.objective), -np.diff(losses), atol=1e-7)
    floored = np.clip(found.extras["rates"], 0.01, 0.99)  # of eleven items none is rarer
    answers = answers_of(rows)[:, shown]
    for item, posterior in zip(answers, found.item_probs, strict=False):
        joint = [math.exp(sum(item * np.log(floored[:, k]))) for k in range(3)]
        np.testing.assert_allclose(posterior, np.array(joint) / sum(joint), atol=1e-9)
    np.testing.assert_allclose(found.item_probs[11], 1 / 3)
    assert found.annotators is not None
    columns = np.flatnonzero(shown)
    for annotator, matrix in enumerate(found.annotators.confusion(np.arange(6))):
        own = np.zeros((3, 3))
        for place, column in enumerate(columns):
            if column // 3 == annotator:
                own[:, column % 3] = floored[place]
        np.testing.assert_allclose(matrix, own / own.sum(axis=1, keepdims=True), atol=1e-9)


@pytest.mark.parametrize(("dataset", "printed", "tolerance"), [("bluebirds", 89.0, 0.5), ("rte", 78.0, 3.0)])
def test_metal_does_as_well_as_printed(dataset: str, printed: float, tolerance: float, shared_data: Path) -> None:
    """Platanios et al. (2020), table 2, at full redundancy; theirs is the authors' program as it comes."""
    trial = splits.prepare(catalogue.load(str(shared_data / dataset), {"features": None}), {"training": "all"}, 0)
    train = trial.evaluation["train"]
    found = fit_one(registered.build_model("metal", {}), trial.training, FitContext(seeds=SeedStream(0))).item_probs
    percent = 100 * accuracy_of_each(train.reference[train.has_gold], found[train.scored[train.has_gold]]).mean()
    assert percent == pytest.approx(printed, abs=tolerance)
