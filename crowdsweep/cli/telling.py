"""Output of the command line: sentences, which break between words where a terminal is too narrow, and JSON."""

import json
import sys
from typing import Any

import click

from crowdsweep.cli.first_word import say_nothing_first
from crowdsweep.views.terminal.messages import columns_of, wrapped

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def json_text(value: Any) -> str:
    """Returns JSON as every command prints it, for `as_json`."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def say(text: object, *, err: bool = False) -> None:
    """Prints a message: whole lines, as they are, where nobody looks at a terminal.

    Args:
        text: of the message.
        err: to standard error.
    """
    say_nothing_first()
    click.echo(wrapped(str(text), columns_of(sys.stderr if err else sys.stdout)), err=err)
