"""The mirrors of the journal: they receive every event, and may fail without harm to the sweep."""

import logging
from collections.abc import Callable, Sequence

from crowdsweep.record.events import Event, Mirror

_log = logging.getLogger(__name__)


class Mirrors:
    """A group of mirrors that receive the same events.

    Only the first failure of each mirror is logged; the mirror receives later events all the same.
    """

    def __init__(self, mirrors: Sequence[Mirror]) -> None:
        self._mirrors = mirrors
        self._failed: set[int] = set()

    def handle(self, events: Sequence[Event]) -> None:
        """Sends the events to every mirror."""
        for mirror in self._mirrors:
            for event in events:
                self._try(mirror, lambda mirror=mirror, event=event: mirror.handle(event))

    def close(self) -> None:
        """Closes every mirror, even if the user presses Ctrl-C while one of them closes.

        Raises:
            KeyboardInterrupt: the user pressed Ctrl-C; the other mirrors are closed.
        """
        interrupt: KeyboardInterrupt | None = None
        for mirror in self._mirrors:
            try:
                self._try(mirror, mirror.close)
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def _try(self, mirror: Mirror, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - no error of a mirror may end the sweep
            if id(mirror) not in self._failed:
                self._failed.add(id(mirror))
                _log.warning(
                    "%s failed, the sweep continues without it: %s", type(mirror).__name__, error, exc_info=error
                )
