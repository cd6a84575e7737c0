"""How LIA is trained: rounds of EM on the answers, then on their marginal likelihood, all replicas side by side."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import numpy as np
from jaxtyping import Float32, Int64

from crowdsweep.data import thinning
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._batches import StackedRows
from crowdsweep.models._stacked import weights_of
from crowdsweep.models.checkpoints import (
    CheckpointPart,
    CheckpointRefused,
    State,
    checked_array,
    keep,
    with_prefix,
    without_prefix,
)
from crowdsweep.models.contract import FitContext, FitResult, Predictor
from crowdsweep.models.joint._lia import BuildStream, LiaTraining, network_for
from crowdsweep.models.joint._lia_answers import Answers, Posterior, answers_of, as_probs
from crowdsweep.models.joint._lia_fitted import FittedLia
from crowdsweep.models.joint._lia_loss import LiaLoss, Objective
from crowdsweep.models.joint._lia_network import Annotators, LiaNetwork
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.initial import normal, zeros
from crowdsweep.models.networks.replicas import Adam, count_parameters, numbers_held, replica_chunks
from crowdsweep.models.networks.tables import Table
from crowdsweep.models.progress import still_improves
from crowdsweep.models.scaling import standardised
from crowdsweep.models.schedule import History, Schedule
from crowdsweep.models.trainer import Loss, ReplicaTrainer, Snapshot

VALIDATION_SHARE = 0.1


def fit(
    settings: LiaTraining,
    data: Sequence[TrainingData],
    contexts: Sequence[FitContext],
    stream: BuildStream,
    *,
    labels_unseen: bool = True,
) -> list[FitResult]:
    """Fits all data sets, as many at a time as the machine's cache holds.

    Args:
        data: all nominal or all multi-label.
        stream: builds what reads items, with so many outputs.
        labels_unseen: whether it reads items that were not trained on.

    Raises:
        FitFailed: there are no answers, or an answer's matrices would be too large.
    """
    network = network_for(settings, data[0], stream)
    results: dict[int, FitResult] = {}
    floats = count_parameters(network.parameters())
    for part in replica_chunks(len(data), floats, contexts[0].device, numbers_held(data)):
        for members in _in_step(range(len(data))[part], contexts):
            parts, own = [data[n] for n in members], [contexts[n] for n in members]
            replicas = _Replicas(settings, network, parts, own, labels_unseen=labels_unseen)
            results.update(zip(members, replicas.results(), strict=True))
    return [results[number] for number in range(len(data))]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Crowd:
    """What one replica learns from.

    Attributes:
        code: of each annotator in the answers: its place in an order that only the answers decide.
        answers: that are trained on.
        validation: answers that decide when training ends; None for none.
        every: both.
        features: of annotators, by their codes in the answers.
    """

    data: TrainingData
    code: Int64[np.ndarray, " annotators"]
    answers: Answers
    validation: Answers | None
    every: Answers
    features: Float32[np.ndarray, "annotators _"] | None

    @classmethod
    def of(cls, data: TrainingData, context: FitContext, *, validates: bool) -> "_Crowd":
        if not len(data.annotations):
            raise FitFailed("expected at least one annotation to train on, got none")
        every, code = answers_of(data, context.seeds.numpy("order"))
        kept = np.ones(len(every.said), dtype=bool)
        if validates:
            pairs = thinning.pairs_of(every.rows)
            kept = thinning.keep_for_fit(every.rows, VALIDATION_SHARE, context.seeds.numpy("set aside"), pairs)
        features = None if data.annotator_features is None else standardised(data.annotator_features)[np.argsort(code)]
        return cls(
            data=data,
            code=code,
            answers=every.take(kept),
            validation=None if kept.all() else every.take(~kept),
            every=every,
            features=features,
        )


def _part(context: FitContext) -> CheckpointPart:
    return CheckpointPart.of(context.checkpoint, context.seeds)


def _in_step(numbers: Sequence[int], contexts: Sequence[FitContext]) -> list[list[int]]:
    """Returns the fits that can be trained side by side, as a round has one loss for all: those of which checkpoints
    say that they have made equally many passes."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for number in numbers:
        found = _part(contexts[number]).found()
        made = () if found is None else tuple(checked_array(found.arrays, "passes", (2,), np.int64).tolist())
        groups.setdefault(made, []).append(number)
    return [*groups.values()]


@final
class _Replicas:
    """Several fits in training."""

    def __init__(
        self,
        model: LiaTraining,
        network: LiaNetwork,
        data: Sequence[TrainingData],
        contexts: Sequence[FitContext],
        *,
        labels_unseen: bool,
    ) -> None:
        device = contexts[0].device
        self._model, self._network, self._contexts, self._device = model, network, contexts, device
        self._labels_unseen = labels_unseen
        self._checkpoints = [_part(context) for context in contexts]
        self._histories = [History[FittedLia]() for _ in contexts]
        self._passes: tuple[int, ...] = (0, 0)  # rounds that were made, and passes of the next one
        validates = model.patience is not None
        self._crowds = [
            _Crowd.of(part, context, validates=validates) for part, context in zip(data, contexts, strict=True)
        ]
        self._own_inputs = [network.classes.inputs(part.items) for part in data]
        start = zeros if network.describing is not None else normal(model.annotator_embedding**-0.5)
        orders = [np.arange(part.n_annotators) for part in data]
        self._trainer = ReplicaTrainer(
            network.parameters(),
            rows=[np.flatnonzero(crowd.answers.rows.labels_per_item > 0) for crowd in self._crowds],
            seeds=[context.seeds for context in contexts],
            optimiser=Adam(learning_rate=model.classifier.learning_rate),
            batch_size=model.classifier.batch_size,
            device=device,
            dropout=network.dropouts,
            tables={"annotators": Table(width=model.annotator_embedding, start=start, orders=orders)},
            row_size=network.n_cells + max(stream.row_size for stream in network.streams),
            least_steps=model.classifier.least_steps(model.iterations * model.epochs),
        )
        posterior = [np.ascontiguousarray(crowd.answers.votes(), np.float32) for crowd in self._crowds]
        longest = max(map(len, posterior))
        self._posterior = torch.zeros(len(data), longest, network.n_questions, network.n_classes, device=device)
        for replica, probs in enumerate(posterior):
            self._set_posterior(replica, probs)
        per_item = [
            weights_of(crowd.answers.rows).sum() / np.count_nonzero(crowd.answers.rows.labels_per_item)
            for crowd in self._crowds
        ]
        self._marginal: Objective = "joint" if model.finetune == "joint" else "composite"
        self._loss = LiaLoss(
            network,
            StackedRows.of(self._own_inputs, device),
            StackedRows(table=self._posterior.flatten(0, 1), starts=torch.arange(len(data), device=device) * longest),
            [crowd.answers for crowd in self._crowds],
            Annotators.of([crowd.features for crowd in self._crowds], device),
            pull=(model.regularisation / np.array(per_item)).astype(np.float32),
            per_answer=model.item_weighting == "code",
            device=device,
        )

    def _set_posterior(
        self, replica: int, posterior: Posterior | Float32[np.ndarray, "items questions classes"]
    ) -> None:
        self._posterior[replica, : len(posterior)] = torch.from_numpy(posterior.astype(np.float32))

    def results(self) -> list[FitResult]:
        """Rounds of M-step (the functions) and E-step (the classes), then of fine-tuning, until each has stopped."""
        self._restore()
        while self._trainer.active:
            iteration = self._passes[0]
            self._maximise(partial(self._loss, "expectation" if self._is_em(iteration) else self._marginal))
            running = self._running(iteration)
            if self._is_em(iteration + 1):
                for replica, now in running.items():
                    self._set_posterior(replica, now.posterior(prior=self._model.estep_prior))
            ended = [replica for replica in self._trainer.active if replica not in running]
            self._trainer.drop(ended)
            self._passes = (iteration + 1, 0)
            self._keep(ended)
        return [self._result(replica, history) for replica, history in enumerate(self._histories)]

    def _keep(self, ended: Sequence[int] = ()) -> None:
        keep(self._checkpoints, self._state, running=self._trainer.active, ended=ended)

    def _state(self, replica: int, ended: bool) -> State:
        """Returns how far a replica is, or what came out of it."""
        passes = {"passes": np.array(self._passes, np.int64)}
        history = with_prefix("history", self._histories[replica].state(lambda kept: kept.snapshot.state()))
        if ended:
            return {**passes, **history}
        posterior = self._posterior[replica, : self._crowds[replica].data.n_items].cpu().numpy().copy()
        return {**passes, **history, "posterior": posterior, **with_prefix("trainer", self._trainer.state(replica))}

    def _restore(self) -> None:
        """Has the replicas go on that a checkpoint has, all from the same pass; those that had ended are dropped."""
        dropped: list[int] = []
        for replica, part in enumerate(self._checkpoints):
            if (found := part.found()) is None:
                continue
            state, history = found.arrays, self._histories[replica]
            self._passes = tuple(checked_array(state, "passes", (2,), np.int64).tolist())

            def of_kept(kept: State, replica: int = replica) -> FittedLia:
                return self._fitted(replica, self._trainer.snapshot_of(replica, kept))

            history.restore(without_prefix(state, "history"), of_kept)
            if found.ended and history.kept is None:
                raise CheckpointRefused("expected what a training came out as in its state, which lacks it")
            if found.ended:
                dropped.append(replica)
                continue
            shape = (self._crowds[replica].data.n_items, *self._posterior.shape[2:])
            self._set_posterior(replica, checked_array(state, "posterior", shape, np.float32))
            self._trainer.restore(replica, without_prefix(state, "trainer"))
        self._trainer.drop(dropped)

    def _is_em(self, iteration: int) -> bool:
        """Whether a round is one of EM, not of fine-tuning."""
        return iteration < self._model.em_iterations or self._model.finetune == "none"

    def _maximise(self, loss: Loss) -> None:
        """Passes over the items, each step against the gradient of a loss; notes that of the last pass."""
        iteration, made = self._passes
        for passed in range(made + 1, self._model.epochs):
            self._trainer.step_through(loss)
            self._passes = (iteration, passed)
            self._keep()
        lost = self._trainer.run_epoch(loss)
        for replica in self._trainer.active:
            self._histories[replica].losses.append(lost[replica])

    def _running(self, iteration: int) -> dict[int, FittedLia]:
        """Scores validation answers and reports; returns the replicas that do not end here, as they are now."""
        model, running = self._model, dict[int, FittedLia]()
        schedule = Schedule(epochs=model.iterations, patience=model.patience)
        for replica in self._trainer.active:
            history, validation = self._histories[replica], self._crowds[replica].validation
            now = self._fitted(replica, self._trainer.snapshot(replica))
            if model.patience is not None:
                history.look(now, None if validation is None else now.loss(self._labels(now), validation))
            history.converged = history.ends(schedule)

            def reported(now: FittedLia = now, history: History[FittedLia] = history) -> Predictor:
                return LiaPredictor(fitted=history.kept or now)

            made = reported if self._labels_unseen else None
            goes_on = self._contexts[replica].report(iteration + 1, -history.losses[-1], made)
            if history.converged or not goes_on or iteration == model.iterations - 1:
                history.kept = history.kept or now
            else:
                running[replica] = now
        return running

    def _fitted(self, replica: int, snapshot: Snapshot) -> FittedLia:
        crowd = self._crowds[replica]
        return FittedLia(
            network=self._network,
            snapshot=snapshot,
            inputs=self._own_inputs[replica],
            features=crowd.features,
            answers=crowd.answers,
            code=crowd.code,
            multilabel=crowd.data.scale == "multilabel",
            device=self._device,
        )

    def _labels(self, fitted: FittedLia) -> Posterior:
        if self._model.predict == "h":
            return fitted.classifier
        return fitted.posterior(prior=self._model.estep_prior)

    def _result(self, replica: int, history: History[FittedLia]) -> FitResult:
        crowd = self._crowds[replica]
        end = replace(history.end, answers=crowd.every)
        posterior = self._labels(end)
        annotators = end.annotators(posterior)
        history.converged |= not still_improves(-np.array(history.losses))
        return history.result(
            item_probs=as_probs(posterior, multilabel=crowd.data.scale == "multilabel"),
            annotators=annotators,
            label_probs=partial(end.predictive, posterior),
            predictor=LiaPredictor(fitted=end) if self._labels_unseen else None,
            unseen_label_probs=end.unseen_label_probs if self._labels_unseen else None,
            extras=end.extras(posterior, annotators),
        )


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class LiaPredictor:
    """Labels unseen items with the classifier."""

    fitted: FittedLia
    uses = ("classifier",)

    def predict(self, items: Items, use: str) -> np.ndarray:  # noqa: ARG002 - there is one use
        return self.fitted.classes_of(items)
