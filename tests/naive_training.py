"""Training by the book, for oracles of whole fits: a loss in loops over items and labels, its gradient, and Adam.

Classifiers are linear in two features and trained on all rows at once, so that nothing is drawn after the first
weights. These are read off what the model under test says at a learning rate of next to nothing: log f at the origin
and at each unit vector gives all logits but for a common shift, which neither probabilities nor gradients know of.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Gold, Items, TrainingData
from crowdsweep.models import registered
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.fitting import fit_one
from crowdsweep.seeds import SeedStream

N_ITEMS, N_ANNOTATORS, N_CLASSES, N_FEATURES = 9, 5, 3, 2
RATE, STEPS = 0.05, 4
STILL = 1e-30  # a learning rate at which nothing moves
CLOSE = 2e-6  # what float32 leaves of four steps
KINDS = ["plain", "mixed"]
SETTINGS = {
    "network": "linear",
    "batch_size": 64,
    "standardise": False,
    "steps": 0,
    "learning_rate": RATE,
    "dropout": 0.0,
    "patience": None,
    "epochs": STEPS,
}

Label = tuple[int, int, int, float]
"""Item, annotator, class, and how many labels it counts as."""


def training_data(kind: str = "plain") -> TrainingData:
    """Draws labels; the last item has none, the last annotator none, the one before a single one; a pair has two.

    Args:
        kind: of the labels: `plain`, `weighted` (no two sums of weights are equal), or `mixed`: with weights, and
            probabilities too.
    """
    random = np.random.default_rng(4)
    rows = [(i, t, int(random.integers(N_CLASSES))) for i in range(N_ITEMS - 1) for t in range(3) if (i + t) % 4]
    rows += [(2, 3, 1), (1, 1, 2), (1, 1, 0)]
    item, annotator, label = np.array(rows).T
    annotations = Annotations.of(
        item=item,
        annotator=annotator,
        label=label,
        n_items=N_ITEMS,
        n_annotators=N_ANNOTATORS,
        n_classes=N_CLASSES,
        weight=None if kind == "plain" else 0.5 + np.arange(len(item)) / 8,
        probability=random.choice([0.5, 0.75, 1.0], len(item)) if kind == "mixed" else None,
    )
    features = random.standard_normal((N_ITEMS, N_FEATURES)).astype(np.float32)
    return TrainingData(annotations=annotations, items=Items(n_items=N_ITEMS, features=features))


def labels_of(rows: Annotations) -> list[Label]:
    """Returns the labels one by one; a label of probability p is p of one, and each other class shares in the rest."""
    found: list[Label] = []
    for j in range(len(rows)):
        weight = 1.0 if rows.weight is None else float(rows.weight[j])
        certain = 1.0 if rows.probability is None else float(rows.probability[j])
        for label in range(rows.n_classes):
            share = certain if label == rows.label[j] else (1 - certain) / (rows.n_classes - 1)
            if share > 0:
                found.append((int(rows.item[j]), int(rows.annotator[j]), label, weight * share))
    return found


def votes_of(labels: Sequence[Label]) -> torch.Tensor:
    """Returns how often each item got each label [items, classes]."""
    votes = torch.zeros(N_ITEMS, N_CLASSES, dtype=torch.float64)
    for i, _, y, weight in labels:
        votes[i, y] += weight
    return votes


def shares_of(votes: torch.Tensor) -> torch.Tensor:
    """Returns the votes of each row as shares; uniform where there are none."""
    return torch.stack([row / row.sum() if row.sum() > 0 else torch.full_like(row, 1 / len(row)) for row in votes])


def fit(name: str, data: TrainingData, gold: Gold | None = None, **params: object) -> FitResult:
    """Fits a model under the settings of this file, of which it takes those that it has."""
    known = registered.parameters(name)
    model = registered.build_model(name, {key: value for key, value in SETTINGS.items() if key in known} | params)
    return fit_one(model, data, FitContext(seeds=SeedStream(0), gold=gold))


def features_of(data: TrainingData) -> torch.Tensor:
    """Returns a one and the features of each item."""
    assert data.items.features is not None
    return torch.from_numpy(np.hstack([np.ones((data.n_items, 1)), data.items.features.astype(np.float64)]))


def first_weights(fitted: FitResult, use: int = 0) -> torch.Tensor:
    """Returns a bias and weights [1 + features, classes] that give the logits of a linear classifier."""
    corners = np.vstack([np.zeros(N_FEATURES), np.eye(N_FEATURES)]).astype(np.float32)
    assert fitted.predictor is not None
    items = Items(n_items=len(corners), features=corners)
    log_f = np.log(fitted.predictor.predict(items, fitted.predictor.uses[use]))
    return torch.from_numpy(np.vstack([log_f[:1], log_f[1:] - log_f[0]]))


def classified(weights: torch.Tensor, data: TrainingData) -> torch.Tensor:
    """Returns the class probabilities of each item."""
    return torch.stack([torch.softmax(x @ weights, dim=0) for x in features_of(data)])


class Adam:
    """Kingma and Ba (2015), with epsilon where Keras has it; keeps its moments between calls."""

    def __init__(self, start: dict[str, torch.Tensor], rate: float = RATE) -> None:
        """Takes the parameters to begin with, by name."""
        self.values = {name: value.to(torch.float64).clone().requires_grad_(True) for name, value in start.items()}
        self._rate, self._steps = rate, 0
        self._first = {name: torch.zeros_like(value) for name, value in self.values.items()}
        self._second = {name: torch.zeros_like(value) for name, value in self.values.items()}

    def step(self, loss: Callable[[dict[str, torch.Tensor]], torch.Tensor]) -> float:
        """Steps against the gradient, and returns the loss before the step."""
        lost = loss(self.values)
        slopes = torch.autograd.grad(lost, list(self.values.values()))
        self._steps += 1
        rate = self._rate * (1 - 0.999**self._steps) ** 0.5 / (1 - 0.9**self._steps)
        with torch.no_grad():
            for (name, value), slope in zip(self.values.items(), slopes, strict=True):
                first, second = self._first[name], self._second[name]
                first.mul_(0.9).add_(0.1 * slope)
                second.mul_(0.999).add_(0.001 * slope**2)
                value -= rate * first / (second.sqrt() + 1e-7)
        return float(lost.detach())

    def train(self, loss: Callable[[dict[str, torch.Tensor]], torch.Tensor], steps: int = STEPS) -> list[float]:
        """Steps so many times, and returns the loss before each step."""
        return [self.step(loss) for _ in range(steps)]


def posterior(
    f: torch.Tensor, likelihood: Callable[[int, int, int], torch.Tensor], labels: Sequence[Label]
) -> torch.Tensor:
    """Returns f of each item times p(label | class) of each of its labels, normalised.

    Args:
        likelihood: returns p(label | each class) for an item, an annotator and a label.
    """
    log = [torch.log(row) for row in f]
    for i, t, y, weight in labels:
        log[i] = log[i] + weight * torch.log(likelihood(i, t, y))
    return torch.softmax(torch.stack(log), dim=1)


def must_be(found: np.ndarray, expected: object, what: str, close: float = CLOSE) -> None:
    """Checks that numbers are those of the twin."""
    wanted = expected.detach().numpy() if isinstance(expected, torch.Tensor) else np.array(expected)
    np.testing.assert_allclose(found, wanted, atol=close, rtol=close, err_msg=what)
