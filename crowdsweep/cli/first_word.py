"""The first words of a command, printed while it loads its libraries: longer than people wait in silence."""

from contextlib import suppress
from threading import Timer

import click

from crowdsweep.errors import plain

_PATIENCE_S = 1.0


class Waiting:
    """In the context of a command, somebody started it as a process and waits for its first word."""

    def __init__(self) -> None:
        self.words = ""
        self._timer: Timer | None = None

    def begin(self, words: str) -> None:
        """Says these words on stderr, or those that stand in their place by then, unless something else is said, or the
        command ends, within a second."""
        self.words = words
        self._timer = Timer(_PATIENCE_S, self._say)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """Says nothing any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _say(self) -> None:
        with suppress(OSError):  # a terminal that was closed costs nobody the rest
            click.echo(plain(f"{self.words}…"), err=True)


def wait_for(context: click.Context) -> None:
    """Begins to wait for the first word of the command that a group is about to run, whichever it is."""
    if (waiting := context.find_object(Waiting)) is not None:
        waiting.begin(f"{context.command_path} {context.invoked_subcommand}: loading")
        context.call_on_close(waiting.end)


def say_first(what: str) -> None:
    """Sets the first words of a command."""
    if (waiting := _waiting()) is not None:
        waiting.words = what


def say_nothing_first() -> None:
    """Suppresses the first words: the command was asked to be quiet, or has printed something."""
    if (waiting := _waiting()) is not None:
        waiting.end()


def _waiting() -> Waiting | None:
    context = click.get_current_context(silent=True)
    return None if context is None else context.find_object(Waiting)
