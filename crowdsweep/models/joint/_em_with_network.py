"""EM whose M-step is one epoch of a network: the loop that dl-em and cmm share, over replicas and restarts.

Every iteration is an M-step (the crowd's own parameters in closed form, the classifier by one epoch on the expected
labels) and an E-step (expected labels and log-likelihood at the new parameters). A restart stops by itself, and the
restart with the highest last log-likelihood is kept. A model file brings its `Crowd`.

**Names of the classes.** The likelihood stays the same where the classifier's classes are exchanged together with the
rows of the matrices. A restart is therefore held against the votes, and its classes take the order in which they agree
best, if another order than its own does so much better (`_votes.permuted_classes`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, final, runtime_checkable

import numpy as np
from annotated_types import Ge
from jaxtyping import Bool, Float64, Int64

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models._cost import MATRIX_PRODUCT, network_weights, passes_over, stopping_share
from crowdsweep.models._votes import agreement, permuted_classes
from crowdsweep.models.checkpoints import (
    CheckpointPart,
    CheckpointRefused,
    State,
    checked_array,
    keep,
    with_prefix,
    without_prefix,
)
from crowdsweep.models.classifier import Classifier, ClassifierReplicas, TrainingProtocol
from crowdsweep.models.contract import DataShape, FitContext, FitResult, Predictor
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.contract import Network
from crowdsweep.models.networks.replicas import count_parameters, numbers_held, replica_chunks
from crowdsweep.models.networks.tensors import ReplicaValues
from crowdsweep.models.progress import still_improves

ActiveProbs = Float64[torch.Tensor, "active items classes"]
ActiveValues = Float64[np.ndarray, " active"]
ActiveChanges = Float64[torch.Tensor, " active"] | ActiveValues  # where it was computed: few look at it

ClassOrder = Int64[np.ndarray, " classes"]

PAPER_RESTARTS = 20
RESTARTS = 5


@runtime_checkable
class Crowd(Protocol):
    """The annotators' side of EM for R replicas; item axes are as long as the longest data set, the rest is padding.

    `active` are replica numbers, ascending; the others have stopped.
    """

    def first_targets(self) -> Float64[torch.Tensor, "replicas items classes"]:
        """Returns what the classifiers learn first; zeros where there is no label."""
        ...

    def maximise(self, active: Sequence[int]) -> ActiveChanges:
        """M-step of the annotators, from the last E-step; returns the mean relative change of the matrices."""
        ...

    def expect(self, active: Sequence[int], probs: ActiveProbs) -> tuple[ActiveProbs, ActiveValues]:
        """E-step: from the classifiers' probabilities to targets and log-likelihoods."""
        ...

    def solution(self, replica: int) -> Any:
        """Returns the annotators' parameters of one replica, and whatever else its result is made of."""
        ...

    def state(self, replica: int) -> State:
        """Returns, after an E-step, what the next M-step and the solution of one replica depend on."""
        ...

    def restore(self, replica: int, state: State) -> None:
        """Has one replica go on from a state, while all are in the stack.

        Raises:
            CheckpointRefused: it is not one of such a replica.
        """
        ...


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """One restart, run to its end.

    Attributes:
        solution: of the crowd, its true classes as they came out.
        order: for each class as it is named here, its number in `solution`.
        probs: the classifier's for the training items.
        targets: the last E-step's expected labels; zeros for items without labels.
        converged: whether the stop rule was met; where there is none, whether the log-likelihood had converged.
    """

    solution: Any
    order: ClassOrder
    probs: ItemProbs
    targets: ItemProbs
    predictor: Predictor
    log_likelihoods: Float64[np.ndarray, " steps"]
    converged: bool

    def is_better_than(self, other: "Fitted | None") -> bool:
        """Whether its last log-likelihood is higher; a finite one beats one that is not."""
        if other is None or not np.isfinite(other.log_likelihoods[-1]):
            return True
        return bool(self.log_likelihoods[-1] > other.log_likelihoods[-1])

    def result(self, **fields: Any) -> FitResult:
        """Returns how the fit went, and these fields of `FitResult`, which the model makes of it."""
        return FitResult(
            predictor=self.predictor,
            objective=self.log_likelihoods,
            converged=self.converged,
            iterations=len(self.log_likelihoods),
            **fields,
        )


@final
@dataclass(frozen=True, kw_only=True)
class NetworkEM:
    """Hyper-parameters of EM with a network.

    Attributes:
        classifier: what learns the expected labels.
        restarts: fits of which the one with the highest likelihood is kept; null: 5, or 20 under `protocol: paper`.
        iterations: EM steps, each with one epoch of the classifier; the most under `protocol: paper`.
        tolerance: where the paper stops: relative change of log-likelihood and, on average, of the matrices' entries.
        protocol: `paper` stops by tolerance; the others run all iterations, `until_trained` with `steps` in all.
    """

    classifier: Classifier = Classifier()
    restarts: Annotated[int, Ge(1)] | None = None
    iterations: Annotated[int, Ge(1)] = 50
    tolerance: Annotated[float, Ge(0)] = 0.03
    protocol: TrainingProtocol = "until_trained"

    def stops(self, history: Sequence[float], change: float) -> bool:
        """Whether log-likelihood and matrices have both converged; only `paper` stops by that."""
        if not np.isfinite(history[-1]):
            return True
        if self.protocol != "paper" or len(history) == 1:
            return False
        now, before = history[-1], history[-2]
        return abs(now - before) <= self.tolerance * abs(before) and change <= self.tolerance


VARIES = frozenset({"learning_rate", "steps", "iterations", "tolerance"})
"""The settings of `NetworkEM` that may differ among fits side by side."""


def fit_side_by_side(
    settings: Sequence[NetworkEM],
    data: Sequence[TrainingData],
    contexts: Sequence[FitContext],
    crowd_of: Callable[[Sequence[int], Sequence[int]], Crowd],
) -> list[Fitted]:
    """Runs all restarts of all fits and returns the best restart of each.

    Args:
        settings: of each fit, equal but for `VARIES`.
        data: of each fit; they agree in the numbers of classes and features.
        crowd_of: makes the crowd of a list of replicas, given the number of each one's fit, and its own number among
            the restarts of that fit.
    """
    shared = settings[0]
    network = shared.classifier.build(data[0], sentences=True)
    restarts = shared.restarts or (PAPER_RESTARTS if shared.protocol == "paper" else RESTARTS)
    floats = count_parameters(network.parameters()) * restarts
    best: list[Fitted] = []
    for part in replica_chunks(len(data), floats, contexts[0].device, restarts * numbers_held(data)):
        owners = np.repeat(np.arange(len(data))[part], restarts).tolist()
        numbers = [place % restarts for place in range(len(owners))]
        crowd = crowd_of(owners, numbers)
        best += _Run(settings, network, data, owners, numbers, contexts, crowd).to_the_end()
    return best


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Reordered:
    """A predictor whose class k is another's class `order[k]`."""

    predictor: Predictor
    order: ClassOrder

    @property
    def uses(self) -> tuple[str, ...]:
        return self.predictor.uses

    def predict(self, items: Items, use: str) -> ItemProbs:
        return self.predictor.predict(items, use)[:, self.order]


@final
@dataclass(kw_only=True)
class _Owner:
    """One fit: the votes of its items, its best restart that has ended, and the log-likelihoods of all."""

    votes: ItemProbs
    answered: Bool[np.ndarray, " items"]
    best: Fitted | None = None
    histories: dict[int, list[float]] = field(default_factory=dict[int, list[float]])

    def order_of(self, targets: ItemProbs) -> ClassOrder:
        """Returns the order of the classes of expected labels that the votes name them in."""
        found = None
        if np.isfinite(targets).all():
            agreeing = agreement(self.votes[self.answered], targets[self.answered])
            found = permuted_classes(agreeing, int(self.answered.sum()))
        return np.arange(targets.shape[1]) if found is None else found


@final
class _Run:
    """The restarts of some fits, side by side."""

    def __init__(
        self,
        settings: Sequence[NetworkEM],
        network: Network,
        data: Sequence[TrainingData],
        owners: Sequence[int],
        numbers: Sequence[int],
        contexts: Sequence[FitContext],
        crowd: Crowd,
    ) -> None:
        self._settings = [settings[owner] for owner in owners]
        self._parts = parts = [data[owner] for owner in owners]
        self._owner_of, self._crowd, self._contexts = owners, crowd, contexts
        self._protocol = settings[0].protocol
        self._ended: dict[int, tuple[Fitted, ReplicaValues]] = {}  # in this iteration
        self._owners = {
            owner: _Owner(
                votes=part.annotations.label_distribution(), answered=np.asarray(part.annotations.labels_per_item > 0)
            )
            for owner, part in dict(zip(owners, parts, strict=True)).items()
        }
        seeds = [contexts[o].seeds.child("restart").child(n) for o, n in zip(owners, numbers, strict=True)]
        self._checkpoints = [
            CheckpointPart.of(contexts[o].checkpoint, own) for o, own in zip(owners, seeds, strict=True)
        ]
        first = crowd.first_targets()
        self._replicas = ClassifierReplicas(
            [own.classifier.under(self._protocol).unstopped() for own in self._settings],
            network,
            inputs=[network.inputs(part.items) for part in parts],
            layouts=[network.layout(part.items) for part in parts],
            rows=[np.flatnonzero(part.annotations.labels_per_item) for part in parts],
            targets=first.to(torch.float32).contiguous(),
            seeds=seeds,
            epochs=[own.iterations for own in self._settings],
            device=contexts[0].device,
        )

    def to_the_end(self) -> list[Fitted]:
        """Returns the best restart of each fit."""
        self._restore()
        while self._replicas.trainer.active:
            self._iterate()
        return [owner.best for owner in self._owners.values() if owner.best is not None]

    def _iterate(self) -> None:
        replicas = self._replicas
        active = replicas.trainer.active
        changes = self._crowd.maximise(active)
        replicas.trainer.step_through(replicas.loss)
        probs = replicas.probabilities()
        expected, log_likelihoods = self._crowd.expect(active, probs)
        replicas.targets[active] = expected.to(torch.float32)
        moved = changes.tolist() if self._protocol == "paper" else [0.0] * len(active)  # else nothing stops by it
        ended: dict[int, bool] = {}
        for place, replica in enumerate(active):
            history = self._owners[self._owner_of[replica]].histories.setdefault(replica, [])
            history.append(float(log_likelihoods[place]))
            ended[replica] = self._settings[replica].stops(history, moved[place])
        go_on = self._report(active, expected)
        self._ended = {}
        for place, replica in enumerate(active):
            owner = self._owners[self._owner_of[replica]]
            iterations, most = len(owner.histories[replica]), self._settings[replica].iterations
            if not ended[replica] and iterations < most and go_on[self._owner_of[replica]]:
                continue
            n_items = self._parts[replica].n_items
            targets = expected[place, :n_items].cpu().numpy()
            order, history = owner.order_of(targets), np.array(owner.histories[replica])
            predictor = replicas.predictor(replicas.trainer.snapshot(replica))
            fitted = Fitted(
                solution=self._crowd.solution(replica),
                order=order,
                probs=probs[place, :n_items].cpu().numpy()[:, order],
                targets=targets[:, order],
                predictor=Reordered(predictor=predictor, order=order),
                log_likelihoods=history,
                converged=ended[replica] or not (self._protocol == "paper" or still_improves(history)),
            )
            self._ended[replica] = fitted, predictor.values
            if fitted.is_better_than(owner.best):
                owner.best = fitted
        replicas.trainer.drop([*self._ended])
        keep(self._checkpoints, self._state, running=replicas.trainer.active, ended=[*self._ended])

    def _state(self, replica: int, ended: bool) -> State:
        """Returns how far a restart is, or what came out of it: of one that is not the best, its history alone."""
        owner = self._owners[self._owner_of[replica]]
        history = {"history": np.array(owner.histories[replica])}
        n_items = self._parts[replica].n_items
        if not ended:
            targets = self._replicas.targets[replica, :n_items].cpu().numpy().copy()
            trained = with_prefix("trainer", self._replicas.trainer.state(replica))
            return {**history, "targets": targets, **trained, **with_prefix("crowd", self._crowd.state(replica))}
        fitted, values = self._ended[replica]
        if fitted is not owner.best:
            return history
        return {
            **history,
            "order": fitted.order,
            "probs": fitted.probs,
            "targets": fitted.targets,
            "converged": np.array([fitted.converged]),
            **with_prefix("values", values),
            **with_prefix("crowd", self._crowd.state(replica)),
        }

    def _restore(self) -> None:
        """Has the restarts go on that a checkpoint has; those that had ended are dropped."""
        replicas, dropped = self._replicas, list[int]()
        for replica, part in enumerate(self._checkpoints):
            if (found := part.found()) is None:
                continue
            owner, state = self._owners[self._owner_of[replica]], found.arrays
            owner.histories[replica] = checked_array(state, "history", (None,)).tolist()
            shape = (self._parts[replica].n_items, replicas.network.n_classes)
            if not found.ended:
                replicas.trainer.restore(replica, without_prefix(state, "trainer"))
                self._crowd.restore(replica, without_prefix(state, "crowd"))
                targets = torch.from_numpy(checked_array(state, "targets", shape, np.float32))
                replicas.targets[replica, : shape[0]] = targets.to(replicas.targets.device)
                continue
            dropped.append(replica)
            if "probs" in state:
                fitted = self._fitted_of(replica, state, shape)
                owner.best = fitted if fitted.is_better_than(owner.best) else owner.best
        replicas.trainer.drop(dropped)

    def _fitted_of(self, replica: int, state: State, shape: tuple[int, int]) -> Fitted:
        """Returns what came out of a restart that had ended."""
        order = checked_array(state, "order", (shape[1],), np.int64)
        if sorted(order) != list(range(shape[1])):
            raise CheckpointRefused(f"expected an order of {shape[1]} classes, got {order}")
        self._crowd.restore(replica, without_prefix(state, "crowd"))
        predictor = self._replicas.predictor(self._replicas.trainer.snapshot_of(replica, state))
        return Fitted(
            solution=self._crowd.solution(replica),
            order=order,
            probs=checked_array(state, "probs", shape),
            targets=checked_array(state, "targets", shape),
            predictor=Reordered(predictor=predictor, order=order),
            log_likelihoods=checked_array(state, "history", (None,)),
            converged=bool(checked_array(state, "converged", (1,), np.bool_)[0]),
        )

    def _report(self, active: Sequence[int], expected: ActiveProbs) -> dict[int, bool]:
        """Tells of each fit's best restart so far; returns which go on."""
        running: dict[int, dict[int, int]] = {}
        for place, replica in enumerate(active):
            running.setdefault(self._owner_of[replica], {})[replica] = place
        go_on: dict[int, bool] = {}
        for number, own in running.items():
            step = max(len(self._owners[number].histories[replica]) for replica in own)
            leader = self._leader(self._owners[number], own, expected)
            go_on[number] = self._contexts[number].report(step, *leader)
        return go_on

    def _leader(
        self, owner: _Owner, running: Mapping[int, int], expected: ActiveProbs
    ) -> tuple[float, Callable[[], Predictor]]:
        """Returns the highest log-likelihood of a fit's restarts, and what makes that one's predictor."""
        replica = max(running, key=lambda replica: owner.histories[replica][-1])
        value, ended = owner.histories[replica][-1], owner.best
        if ended is not None and ended.log_likelihoods[-1] >= value:
            return float(ended.log_likelihoods[-1]), lambda: ended.predictor

        def predictor() -> Predictor:
            targets = expected[running[replica], : self._parts[replica].n_items].cpu().numpy()
            now = self._replicas.predictor(self._replicas.trainer.snapshot(replica))
            return Reordered(predictor=now, order=owner.order_of(targets))

        return value, predictor


def joint_cost(shape: DataShape, params: Mapping[str, Any]) -> float:
    """Returns the cost of all restarts: the network's epochs, and K products for each annotation and class."""
    restarts = params["restarts"] or (PAPER_RESTARTS if params["protocol"] == "paper" else RESTARTS)
    product = MATRIX_PRODUCT * shape.n_items * network_weights(shape, params)
    iterations = params["iterations"]
    trained = 3.0 * passes_over(shape.n_items, params, iterations, stops=False) * product
    expected = iterations * (product + 3.0 * shape.n_annotations * shape.n_classes)
    return restarts * stopping_share(params) * (trained + expected)
