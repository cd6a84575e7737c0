"""Output of the command line: messages, wrapped between words to the width of the terminal, and JSON."""

import json
import sys
from typing import Any

import click

from crowdsweep.cli.loading_notice import cancel_loading_notice
from crowdsweep.views.terminal.messages import columns_of, wrapped

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def json_text(value: Any) -> str:
    """Returns a value as JSON, in the format of all commands with the option `as_json`."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def say(text: object, *, err: bool = False) -> None:
    """Prints a message, wrapped on a terminal and unchanged elsewhere.

    Args:
        text: the message.
        err: whether to print to standard error.
    """
    cancel_loading_notice()
    click.echo(wrapped(str(text), columns_of(sys.stderr if err else sys.stdout)), err=err)
