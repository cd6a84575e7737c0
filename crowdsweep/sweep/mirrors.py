"""The sinks besides the journal: they are told, and may fail, without the sweep being any worse for it."""

import logging
from collections.abc import Callable, Sequence

from crowdsweep.sinks.contract import Sink
from crowdsweep.trial.events import Event

_log = logging.getLogger(__name__)


class Mirrors:
    """Passes events on to sinks. The first failure of each is logged; it is told of later events all the same."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = sinks
        self._failed: set[int] = set()

    def handle(self, events: Sequence[Event]) -> None:
        """Tells every sink."""
        for sink in self._sinks:
            for event in events:
                self._try(sink, lambda sink=sink, event=event: sink.handle(event))

    def close(self) -> None:
        """Closes every sink."""
        for sink in self._sinks:
            self._try(sink, sink.close)

    def _try(self, sink: Sink, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - whatever a mirror dies of, the sweep goes on
            if id(sink) not in self._failed:
                self._failed.add(id(sink))
                _log.warning("%s failed, the sweep goes on without it: %s", type(sink).__name__, error, exc_info=error)
