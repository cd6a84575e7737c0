"""Sentences of the command line, which break between words where a terminal is too narrow for them."""

import sys

import click

from crowdsweep.cli.first_word import say_nothing_first
from crowdsweep.views.terminal.messages import columns_of, wrapped


def say(text: object, *, err: bool = False) -> None:
    """Prints a message: whole lines, as they are, where nobody looks at a terminal.

    Args:
        text: of the message.
        err: to standard error.
    """
    say_nothing_first()
    click.echo(wrapped(str(text), columns_of(sys.stderr if err else sys.stdout)), err=err)
