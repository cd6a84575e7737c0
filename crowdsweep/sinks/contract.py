"""What a sink is: it hears of everything that happens, in order.

The journal is the record: its failure stops the sweep. All other sinks are mirrors: their failure is reported once,
retried, and never loses or delays a trial.
"""

from typing import Protocol, runtime_checkable

from crowdsweep.trial.events import Event


@runtime_checkable
class Sink(Protocol):
    """Takes events one at a time, from one thread."""

    def handle(self, event: Event) -> None:
        """Takes one event; returns soon."""
        ...

    def close(self) -> None:
        """Writes what is still buffered and lets go of files and connections; may be called twice."""
        ...
