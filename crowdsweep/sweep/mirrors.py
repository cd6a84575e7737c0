"""The mirrors of the journal: they are told, and may fail, without the sweep being any worse for it."""

import logging
from collections.abc import Callable, Sequence

from crowdsweep.record.events import Event, Mirror

_log = logging.getLogger(__name__)


class Mirrors:
    """Passes events on to mirrors. The first failure of each is logged; it is told of later events all the same."""

    def __init__(self, mirrors: Sequence[Mirror]) -> None:
        self._mirrors = mirrors
        self._failed: set[int] = set()

    def handle(self, events: Sequence[Event]) -> None:
        """Tells every mirror."""
        for mirror in self._mirrors:
            for event in events:
                self._try(mirror, lambda mirror=mirror, event=event: mirror.handle(event))

    def close(self) -> None:
        """Closes every mirror, also where a person breaks off the wait for one of them.

        Raises:
            KeyboardInterrupt: the person did; the others are closed.
        """
        broken_off: KeyboardInterrupt | None = None
        for mirror in self._mirrors:
            try:
                self._try(mirror, mirror.close)
            except KeyboardInterrupt as error:
                broken_off = error
        if broken_off is not None:
            raise broken_off

    def _try(self, mirror: Mirror, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - whatever a mirror dies of, the sweep goes on
            if id(mirror) not in self._failed:
                self._failed.add(id(mirror))
                _log.warning(
                    "%s failed, the sweep goes on without it: %s", type(mirror).__name__, error, exc_info=error
                )
