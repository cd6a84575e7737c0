"""Learns for a while, and says at every step how far it is: the nearest class mean, seen through noise that fades."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Ge

from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo
from crowdsweep.seeds import SeedStream


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """Class means, and how much noise lies over the distances to them."""

    means: np.ndarray
    noise: float
    seeds: SeedStream
    step: int

    @property
    def uses(self) -> tuple[str, ...]:
        return ("classifier",)

    def predict(self, items: Items, use: str) -> np.ndarray:
        features = np.asarray(items.features, dtype=np.float64)
        distances = ((features[:, None, :] - self.means[None]) ** 2).mean(axis=2)
        drawn = self.seeds.numpy(f"noise {self.step}").standard_normal(distances.shape)
        scores = -distances / distances.mean() + self.noise / self.step * drawn
        probs = np.exp(scores - scores.max(axis=1, keepdims=True))
        return probs / probs.sum(axis=1, keepdims=True)


@final
@dataclass(frozen=True, kw_only=True)
class Rising:
    noise: Annotated[float, Ge(0)] = 1.0
    steps: Annotated[int, Ge(1)] = 12
    pause_s: Annotated[float, Ge(0)] = 0.0

    def fit(self, data: TrainingData, context: FitContext) -> FitResult:
        votes = data.annotations.label_distribution()
        features = np.asarray(data.items.features, dtype=np.float64)
        means = votes.T @ features / np.maximum(votes.sum(axis=0), 1e-9)[:, None]
        step = 0
        for step in range(1, self.steps + 1):
            time.sleep(self.pause_s)
            if not context.report(step, float(step), self._seen(means, context.seeds, step)):
                break
        last = Seen(means=means, noise=self.noise, seeds=context.seeds, step=step)
        return FitResult(item_probs=votes, predictor=last, iterations=step)

    def _seen(self, means: np.ndarray, seeds: SeedStream, step: int) -> Callable[[], Seen]:
        return lambda: Seen(means=means, noise=self.noise, seeds=seeds, step=step)


MODEL = ModelInfo(
    name="rising",
    title="The nearest class mean, clearer at every step",
    model=Rising,
    source="made up",
    needs=frozenset({"features"}),
    cost=lambda shape, params: float(shape.n_annotations),
)
