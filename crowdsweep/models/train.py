"""The training loop: from the first epoch or a checkpoint, until every replica has converged or is stopped."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np

from crowdsweep.models.checkpoints import CheckpointPart, CheckpointRefused, State, keep, with_prefix, without_prefix
from crowdsweep.models.contract import Predictor, Report
from crowdsweep.models.progress import still_improves
from crowdsweep.models.schedule import History, Schedule
from crowdsweep.models.trainer import Loss, ReplicaTrainer, Snapshot


@runtime_checkable
class OwnState(Protocol):
    """What a model keeps of a replica beside the trainer and changes while it trains."""

    def state(self) -> State:
        """Returns all that the next epoch depends on."""
        ...

    def restore(self, state: State) -> None:
        """Resumes from a state.

        Raises:
            CheckpointRefused: the state does not fit such a replica.
        """
        ...


def train(
    trainer: ReplicaTrainer,
    loss: Loss,
    schedule: Schedule,
    reports: Sequence[Report],
    *,
    predictor: Callable[[int, Snapshot], Predictor],
    validation: Callable[[int, Snapshot], float | None] | None = None,
    before: Callable[[Sequence[int]], None] | None = None,
    lengths: Sequence[int | None] | None = None,
    parts: Sequence[CheckpointPart] = (),
    own: Sequence[OwnState] = (),
) -> list[History[Snapshot]]:
    """Trains all replicas, from their checkpoints where there are any, until each has converged or is stopped.

    Args:
        trainer: with all replicas active.
        loss: to be minimised; minus its mean over the epoch is reported.
        reports: of each replica; a replica whose report answers False ends there.
        predictor: makes a predictor of a replica from what was kept of it.
        validation: of each replica, the loss on rows that are not trained on; None where it has none. Needed where the
            schedule has patience.
        before: is called before each epoch with the replicas that still train; what the loss reads may change there.
        lengths: of each replica, after how many epochs it ends at the latest; None for one without such a limit.
        parts: where the state of each replica is saved; empty where nothing is.
        own: further state of each replica that the model changes while it trains; empty where there is none.

    Raises:
        CheckpointRefused: a checkpoint has no state of such a replica.
    """
    histories = [History[Snapshot]() for _ in reports]
    _restore(trainer, histories, parts, own)

    def state(replica: int, ended: bool) -> State:
        more = with_prefix("own", own[replica].state()) if own else {}
        trained = {} if ended else with_prefix("trainer", trainer.state(replica))
        return {**with_prefix("history", histories[replica].state(Snapshot.state)), **trained, **more}

    while trainer.active:
        stopping: list[int] = []
        if before is not None:
            before(trainer.active)
        for replica, lost in trainer.run_epoch(loss).items():
            history = histories[replica]
            history.losses.append(lost)
            epoch = len(history.losses)
            if schedule.patience is not None and validation is not None:
                now = trainer.snapshot(replica)
                history.look(now, validation(replica, now))
            history.converged = history.ends(schedule) or (lengths is not None and lengths[replica] == epoch)

            def now_or_best(replica: int = replica, history: History[Snapshot] = history) -> Predictor:
                return predictor(replica, trainer.snapshot(replica) if history.kept is None else history.kept)

            goes_on = reports[replica](epoch, -lost, now_or_best)
            if history.converged or not goes_on or epoch >= schedule.epochs:
                stopping.append(replica)
                history.kept = trainer.snapshot(replica) if history.kept is None else history.kept
        trainer.drop(stopping)
        keep(parts, state, running=trainer.active, ended=stopping)
    for history in histories:
        history.converged |= not still_improves(-np.array(history.losses))
    return histories


def _restore(
    trainer: ReplicaTrainer,
    histories: Sequence[History[Snapshot]],
    parts: Sequence[CheckpointPart],
    own: Sequence[OwnState],
) -> None:
    """Resumes the replicas that have a checkpoint; those that had ended are dropped."""
    found = {replica: state for replica, part in enumerate(parts) if (state := part.found()) is not None}
    for replica, state in found.items():
        histories[replica].restore(without_prefix(state.arrays, "history"), partial(trainer.snapshot_of, replica))
        if own:
            own[replica].restore(without_prefix(state.arrays, "own"))
        if not state.ended:
            trainer.restore(replica, without_prefix(state.arrays, "trainer"))
        elif histories[replica].kept is None:
            raise CheckpointRefused("expected the result of an ended training in its saved state, found none")
    trainer.drop([replica for replica, state in found.items() if state.ended])
