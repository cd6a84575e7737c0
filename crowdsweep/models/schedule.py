"""How long replicas train, and the training history of each."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, final

import numpy as np

from crowdsweep.models.checkpoints import State, checked_array, with_prefix, without_prefix
from crowdsweep.models.contract import FitResult

Kept = TypeVar("Kept")


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long replicas train.

    Attributes:
        epochs: the most.
        least_improvement: stop at the first epoch whose training loss is not below (1 - this) times the best; None
            for no such rule.
        patience: stop after so many epochs without a better loss on rows that are not trained on, and keep the best
            epoch; None for no such rule.
    """

    epochs: int
    least_improvement: float | None = None
    patience: int | None = None


@final
@dataclass(kw_only=True)
class History(Generic[Kept]):
    """The training history of one replica.

    Attributes:
        losses: of each epoch.
        scores: of each epoch, the loss on rows that are not trained on; empty where nobody looked.
        kept: what it ended as: the best epoch where patience looks for one, else the last.
        converged: whether a rule ended it before the last epoch, or its loss no longer clearly fell there.
    """

    losses: list[float] = field(default_factory=list[float])
    scores: list[float] = field(default_factory=list[float])
    kept: Kept | None = None
    converged: bool = False
    _best: float = np.inf
    _worse_since: int = 0

    @property
    def end(self) -> Kept:
        """The state that training ended with.

        Raises:
            RuntimeError: training has not ended.
        """
        if self.kept is None:
            raise RuntimeError("expected a replica that has ended; it still trains")
        return self.kept

    def result(self, **fields: Any) -> FitResult:
        """Returns the result of a fit that is this training: how it went, and these fields of `FitResult`."""
        objective = -np.array(self.losses)
        return FitResult(objective=objective, converged=self.converged, iterations=len(objective), **fields)

    def look(self, now: Kept, score: float | None) -> None:
        """Keeps the replica as it is now if its score is the best so far; without a score, always."""
        if score is not None:
            self.scores.append(score)
        if score is None or score < self._best:
            self.kept, self._best, self._worse_since = now, np.inf if score is None else score, 0
        else:
            self._worse_since += 1

    def ends(self, schedule: Schedule) -> bool:
        """Whether a stopping rule ends training here; a loss that is not finite does."""
        if not np.isfinite(self.losses[-1]):
            return True
        if schedule.patience is not None and self._worse_since >= schedule.patience:
            return True
        if schedule.least_improvement is None or len(self.losses) == 1:
            return False
        return self.losses[-1] >= (1 - schedule.least_improvement) * min(self.losses[:-1])

    def state(self, of_kept: Callable[[Kept], State]) -> State:
        """Returns the state that `restore` takes."""
        return {
            "losses": np.array(self.losses, np.float64),
            "scores": np.array(self.scores, np.float64),
            "best": np.array([self._best, self._worse_since], np.float64),
            "converged": np.array([self.converged]),
            **({} if self.kept is None else with_prefix("kept", of_kept(self.kept))),
        }

    def restore(self, state: State, kept_of: Callable[[State], Kept]) -> None:
        """Resumes from a state."""
        self.losses = checked_array(state, "losses", (None,)).tolist()
        self.scores = checked_array(state, "scores", (None,)).tolist()
        best, worse_since = checked_array(state, "best", (2,))
        self._best, self._worse_since = float(best), int(worse_since)
        self.converged = bool(checked_array(state, "converged", (1,), np.bool_)[0])
        kept = without_prefix(state, "kept")
        self.kept = kept_of(kept) if kept else None
