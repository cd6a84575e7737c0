"""The first message of a command, printed if the command is silent for more than a second while it loads libraries."""

from contextlib import suppress
from threading import Timer

import click

from crowdsweep.errors import plain

_PATIENCE_S = 1.0


class LoadingNotice:
    """Timer of a command's first message; it is in the click context if a user has started the command as a process."""

    def __init__(self) -> None:
        self.words = ""
        self._timer: Timer | None = None

    def begin(self, words: str) -> None:
        """Starts the timer: after a second, `words` is printed on stderr, unless `end` is called before.

        The attribute `words` may be replaced meanwhile.
        """
        self.words = words
        self._timer = Timer(_PATIENCE_S, self._say)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """Cancels the message."""
        if self._timer is not None:
            self._timer.cancel()

    def _say(self) -> None:
        with suppress(OSError):  # a closed terminal must not end the command
            click.echo(plain(f"{self.words}…"), err=True)


def start_loading_notice(context: click.Context) -> None:
    """Starts the timer for the subcommand that a group is about to run."""
    if (waiting := context.find_object(LoadingNotice)) is not None:
        waiting.begin(f"{context.command_path} {context.invoked_subcommand}: loading")
        context.call_on_close(waiting.end)


def set_loading_notice(what: str) -> None:
    """Sets the text of the command's first message."""
    if (waiting := _waiting()) is not None:
        waiting.words = what


def next_notice(what: str) -> None:
    """Starts the timer again for what the command does next, which `say` cancels as it does the first message."""
    if (waiting := _waiting()) is not None:
        waiting.begin(what)


def cancel_loading_notice() -> None:
    """Cancels the command's first message, as the command has printed something or was asked to be quiet."""
    if (waiting := _waiting()) is not None:
        waiting.end()


def _waiting() -> LoadingNotice | None:
    context = click.get_current_context(silent=True)
    return None if context is None else context.find_object(LoadingNotice)
