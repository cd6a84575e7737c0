"""The driver's handling of checkpoints: stores them, passes them to the next slot of their trial, and removes them.

A checkpoint saves time and affects no number. So one that cannot be written or read costs a warning, and no trial.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from crowdsweep.errors import JournalError
from crowdsweep.record.checkpoint_files import Checkpoints
from crowdsweep.record.events import TrialSaved
from crowdsweep.record.spec import TrialSpec

Returned = TypeVar("Returned")

_log = logging.getLogger(__name__)


class KeptCheckpoints:
    """The checkpoints of a sweep's trials.

    Args:
        minutes: time between checkpoints of a trial; None for no checkpoints, with existing ones left unused.
    """

    def __init__(self, files: Checkpoints, minutes: float | None) -> None:
        self._files, self.minutes = files, minutes
        self._warned = False

    def saved(self, specs: Sequence[TrialSpec]) -> dict[str, bytes]:
        """Returns trial key → checkpoint from which the trial continues."""
        if self.minutes is None:
            return {}
        found = {spec.key: self._tried(self._files.get, spec.key) for spec in specs}
        return {key: content for key, content in found.items() if content is not None}

    def take(self, event: TrialSaved) -> None:
        """Writes a checkpoint into the store."""
        self._tried(self._files.put, event.key, event.step, event.content)

    def finished(self, key: str) -> None:
        """Removes the checkpoint of a trial that has its result."""
        self._tried(self._files.remove, [key])

    def done(self) -> None:
        """Removes all checkpoints, since the sweep has ended."""
        self._tried(self._files.remove)

    def _tried(self, act: Callable[..., Returned], *arguments: object) -> Returned | None:
        try:
            return act(*arguments)
        except JournalError as error:
            if not self._warned:
                self._warned = True
                _log.warning(
                    "checkpoints cannot be kept, so a lost trial may have to start again from the beginning: %s", error
                )
            return None
