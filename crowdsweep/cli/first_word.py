"""What a command says while it loads what it needs: that takes longer than people wait in silence."""

from contextlib import suppress
from threading import Timer

import click

from crowdsweep.errors import plain

_PATIENCE_S = 1.0


class Waiting:
    """In the context of a command, somebody started it as a process and waits for its first word."""


def say_first(what: str) -> None:
    """Says on stderr what a command begins with, unless it ends within a second."""
    if click.get_current_context().find_object(Waiting) is None:
        return
    timer = Timer(_PATIENCE_S, _say, [what])
    timer.daemon = True
    timer.start()


def _say(what: str) -> None:
    with suppress(OSError):  # a terminal that was closed costs nobody the rest
        click.echo(plain(f"{what}…"), err=True)
