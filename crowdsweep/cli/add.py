"""`crowdsweep add`: adds new answers to a dataset's folder."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crowdsweep.cli.completion import datasets_named
from crowdsweep.cli.data import MISSING_HELP, columns_options
from crowdsweep.cli.loading_notice import set_loading_notice
from crowdsweep.cli.output import say
from crowdsweep.cli.paths import PATH
from crowdsweep.errors import plain

if TYPE_CHECKING:
    from crowdsweep.importing.additions import Contradictions


@click.command()
@click.argument("folder", shell_complete=datasets_named)
@click.argument("source", metavar="FILE", type=PATH)
@columns_options
@click.option("--missing", metavar="WORD", multiple=True, help=f"{MISSING_HELP}, or what the folder says.")
@click.option(
    "--contradictions",
    type=click.Choice(["refuse", "keep", "replace"]),
    default="refuse",
    show_default=True,
    help="Of answers that give an item another label than the same annotator gave it: add nothing, count both, or keep "
    "the last one.",
)
@click.option("--new-class", metavar="LABEL", multiple=True, help="A class that the dataset does not have yet.")
def add(
    folder: str,
    source: Path,
    form: str | None,
    missing: tuple[str, ...],
    contradictions: "Contradictions",
    new_class: tuple[str, ...],
    **columns: str | None,
) -> None:
    """Add the answers in FILE, and the gold that comes with them, to the dataset FOLDER.

    FILE is what `init` takes, and its columns are guessed in the same way. An answer that stands in FOLDER already, by
    the same annotator, is left out, so that a file may be added again. Either all that is new is added, or nothing.
    """
    set_loading_notice(f"{source}: reading it")
    from crowdsweep.importing.add_answers import add_answers, folder_named, read_answers

    place = folder_named(folder)
    read = read_answers(source, place, missing or None, form, columns, lambda what: say(plain(what)))
    added = add_answers(read, place, contradictions=contradictions, new_classes=new_class)
    for note in added.notes:
        say(plain(f"note: {note}"))
    for oddity in added.told:
        say(plain(f"{oddity.count:>8}  {oddity}"))
    say(plain(f"{place}: {added}"))
    say(f"next: crowdsweep label {shlex.quote(folder)}")
