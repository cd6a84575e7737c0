"""EM whose M-step is one epoch of a network: the loop that dl-em and cmm share, over replicas and restarts.

Every iteration is an M-step (the crowd's own parameters in closed form, the classifier by one epoch on the expected
labels) and an E-step (expected labels and log-likelihood at the new parameters). A restart stops by itself, and the
restart with the highest last log-likelihood is kept. A model file brings its `Crowd`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float64

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._classifiers import (
    ClassifierSettings,
    NetworkPredictor,
    Protocols,
    StackedClassifiers,
    build_network,
    features_of,
)
from crowdsweep.models._cost import MATRIX_PRODUCT, network_weights, stopping_share
from crowdsweep.models.contract import DataShape, FitContext
from crowdsweep.models.networks.replicas import Adam, count_parameters, replica_chunks

PAPER_RESTARTS = 20
RESTARTS = 5


@runtime_checkable
class JointSettings(ClassifierSettings, Protocol):
    """The hyper-parameters that both models have."""

    @property
    def restarts(self) -> int | None: ...
    @property
    def iterations(self) -> int: ...
    @property
    def tolerance(self) -> float: ...
    @property
    def protocol(self) -> Protocols: ...


@runtime_checkable
class Crowd(Protocol):
    """The annotators' side of EM for R replicas; item axes are as long as the longest data set, the rest is padding.

    `active` are replica numbers, ascending; the others have stopped.
    """

    def first_targets(self) -> torch.Tensor:
        """Returns what the classifiers learn first, float64 [R, items, classes]; zeros where there is no label."""
        ...

    def maximise(self, active: Sequence[int]) -> np.ndarray:
        """M-step of the annotators, from the last E-step; returns the mean relative change of the matrices [active]."""
        ...

    def expect(self, active: Sequence[int], probs: torch.Tensor) -> tuple[torch.Tensor, np.ndarray]:
        """E-step: from the classifiers' probs [active, items, classes] to targets of that shape and log-likelihoods."""
        ...

    def solution(self, replica: int) -> Any:
        """Returns the annotators' parameters of one replica, and whatever else its result is made of."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """One restart, run to its end.

    Attributes:
        solution: of the crowd.
        probs: float64 [items, classes], the classifier's for the training items.
        targets: float64 [items, classes], the last E-step's expected labels; zeros for items without labels.
        predictor: the classifier.
        log_likelihoods: of each iteration.
        converged: whether the stop rule was met.
    """

    solution: Any
    probs: ItemProbs
    targets: ItemProbs
    predictor: NetworkPredictor
    log_likelihoods: Float64[np.ndarray, " steps"]
    converged: bool


def n_restarts(settings: JointSettings) -> int:
    """Returns how many restarts are run: as asked for, else 20 under `protocol: paper` and 5 otherwise."""
    return settings.restarts or (PAPER_RESTARTS if settings.protocol == "paper" else RESTARTS)


def fit_with_network(
    settings: JointSettings,
    data: Sequence[TrainingData],
    contexts: Sequence[FitContext],
    crowd_of: Callable[[Sequence[TrainingData]], Crowd],
) -> list[Fitted]:
    """Runs all restarts of all data sets and returns the best restart of each.

    Args:
        settings: hyper-parameters.
        data: agree in the numbers of classes and features.
        contexts: one for each.
        crowd_of: makes the crowd of a list of data sets, in which one may come several times.
    """
    restarts = n_restarts(settings)
    network = build_network(settings, features_of(data[0].items).shape[1], data[0].n_classes)
    owners = np.repeat(np.arange(len(data)), restarts)
    best: dict[int, Fitted] = {}
    device = contexts[0].device
    for part in replica_chunks(len(owners), count_parameters(network.parameters()), device):
        members = owners[part].tolist()
        parts = [data[owner] for owner in members]
        numbers = np.arange(part.start, part.stop) % restarts
        stack = StackedClassifiers(
            network,
            features=[features_of(one.items) for one in parts],
            rows=[np.flatnonzero(one.annotations.labels_per_item) for one in parts],
            seeds=[contexts[o].seeds.child("restart").child(int(n)) for o, n in zip(members, numbers, strict=True)],
            adam=Adam(learning_rate=settings.learning_rate),
            batch_size=settings.batch_size,
            device=device,
        )
        _run(settings, stack, crowd_of(parts), parts, members, best)
    for owner, context in enumerate(contexts):
        for step, value in enumerate(best[owner].log_likelihoods, start=1):
            context.report(step, float(value))
    return [best[owner] for owner in range(len(data))]


@dataclass
class _Restart:
    history: list[float] = field(default_factory=list)

    def stops(self, settings: JointSettings, change: float) -> bool:
        """Whether log-likelihood and matrices have both come to rest; `equal_budget` never stops."""
        if not np.isfinite(self.history[-1]):
            return True
        if settings.protocol == "equal_budget" or len(self.history) == 1:
            return False
        now, before = self.history[-1], self.history[-2]
        return abs(now - before) <= settings.tolerance * abs(before) and change <= settings.tolerance


def _run(
    settings: JointSettings,
    stack: StackedClassifiers,
    crowd: Crowd,
    parts: Sequence[TrainingData],
    owners: Sequence[int],
    best: dict[int, Fitted],
) -> None:
    restarts = [_Restart() for _ in parts]
    targets = crowd.first_targets()
    network_targets = targets.to(torch.float32)
    for iteration in range(settings.iterations):
        active = stack.active
        changes = crowd.maximise(active)
        stack.run_epoch(network_targets)
        probs = stack.probabilities(targets.shape[1])
        expected, log_likelihoods = crowd.expect(active, probs)
        network_targets[active] = expected.to(torch.float32)
        stopped: list[int] = []
        for place, replica in enumerate(active):
            restarts[replica].history.append(float(log_likelihoods[place]))
            converged = restarts[replica].stops(settings, float(changes[place]))
            if converged or iteration == settings.iterations - 1:
                n_items, owner = parts[replica].n_items, owners[replica]
                stopped.append(replica)
                if owner not in best or _better(restarts[replica].history[-1], best[owner]):
                    best[owner] = Fitted(
                        solution=crowd.solution(replica),
                        probs=probs[place, :n_items].cpu().numpy().copy(),
                        targets=expected[place, :n_items].cpu().numpy().copy(),
                        predictor=stack.predictor(replica),
                        log_likelihoods=np.array(restarts[replica].history),
                        converged=converged or settings.protocol == "equal_budget",
                    )
        stack.drop(stopped)
        if not stack.active:
            return


def _better(log_likelihood: float, other: Fitted) -> bool:
    known = float(other.log_likelihoods[-1])
    return not np.isfinite(known) or log_likelihood > known


def joint_cost(shape: DataShape, params: Mapping[str, Any]) -> float:
    """Returns the cost of all restarts: the network's epochs, and K products for each annotation and class."""
    restarts = params["restarts"] or (PAPER_RESTARTS if params["protocol"] == "paper" else RESTARTS)
    epoch = 4.0 * MATRIX_PRODUCT * shape.n_items * network_weights(shape, params)
    iterations = params["iterations"] * stopping_share(params)
    return restarts * iterations * (epoch + 3.0 * shape.n_annotations * shape.n_classes)
