"""`crowdsweep init`: makes a dataset folder from a file of labels, and a sweep file that can be run."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crowdsweep.cli.data import FEATURES_HELP, MISSING_HELP, SCALE_HELP, SCALES, columns_options
from crowdsweep.cli.loading_notice import set_loading_notice
from crowdsweep.cli.output import say
from crowdsweep.cli.paths import PATH
from crowdsweep.errors import BadInput, plain
from crowdsweep.paths import is_file
from crowdsweep.units import counted

if TYPE_CHECKING:
    from crowdsweep.data.dataset import Scale
    from crowdsweep.importing.guess import Guess
    from crowdsweep.sweep.starter.begin import StarterSweep

_NOTHING = "-"
"""Input that means no column."""


@click.command()
@click.argument("source", metavar="LABELS", type=PATH)
@click.argument("folder", type=PATH, required=False)
@columns_options
@click.option("--features", metavar="COLUMN", multiple=True, help=FEATURES_HELP)
@click.option("--scale", type=click.Choice(SCALES), help=SCALE_HELP)
@click.option("--missing", metavar="WORD", multiple=True, help=MISSING_HELP)
@click.option(
    "--normalise", is_flag=True, help="Merge names that differ only in case, spaces or 1.0 for 1; prints which."
)
def init(
    source: Path,
    folder: Path | None,
    form: str | None,
    normalise: bool,
    missing: tuple[str, ...],
    features: tuple[str, ...],
    scale: "Scale | None",
    **columns: str | None,
) -> None:
    """Make a dataset FOLDER of a file of LABELS, and a sweep file that runs as it is.

    LABELS is a CSV or an export of another tool, of which the columns are guessed, and asked on a terminal. It may also
    be a dataset's folder, which then gets the sweep file.
    """
    set_loading_notice(f"{source}: reading it")
    from crowdsweep.data.missing import MissingValues
    from crowdsweep.data.on_disk.folder import is_dataset_folder
    from crowdsweep.data.on_disk.new_folder import check_new
    from crowdsweep.importing.guess import guess_file, settled
    from crowdsweep.importing.rows import FileOptions
    from crowdsweep.sweep.starter.begin import begin_with_file, begin_with_folder

    options = FileOptions(missing=MissingValues.of(missing or None), features=features or None, scale=scale, **columns)
    if is_dataset_folder(source):
        if folder is not None or form is not None or normalise or options != FileOptions():
            raise BadInput(f"{source}: is a dataset's folder already; it takes no FOLDER and no options")
        _tell(source, begin_with_folder(source))
        return
    place = folder or Path(source.name.partition(".")[0] or "labels")
    guess = guess_file(source, options, form)
    check_new(place)  # before the user is asked anything
    if guess.first and _on_terminal():
        guess = _confirmed(guess)
    else:
        guess = settled(source, guess)
        say(plain(f"{source}: {guess.what}"))
    _tell(place, begin_with_file(source, guess, place, normalise=normalise))


def _on_terminal() -> bool:
    """Whether input and messages are on a terminal, so that a user can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _confirmed(guess: "Guess") -> "Guess":
    """Shows the guess about a table, and asks the user to confirm or correct it."""
    from crowdsweep.importing.guess import shown_columns

    for line in shown_columns(guess):
        click.echo(plain(line), err=True)
    if guess.doubts:
        say(plain(f"not sure: {'; '.join(guess.doubts)}"), err=True)
    elif click.confirm(plain(f"{guess.what}: is that right?"), default=True, err=True):
        return guess
    answer = click.prompt(
        "Is a row one answer, or an item with a column for each annotator?",
        type=click.Choice(["answer", "item"]),
        default="answer" if guess.form == "csv" else "item",
        err=True,
    )
    if answer == "answer":
        needed, others = ("item", "annotator", "label"), ("gold", "weight")
    else:
        needed, others = (), ("item", "gold")
    given = {role: _asked_column(guess, role, needed=role in needed) for role in (*needed, *others)}
    return replace(
        guess,
        form="csv" if answer == "answer" else "cleanlab",
        asked=replace(guess.asked, **{"annotator": None, "label": None, "weight": None, **given}),
        what=", ".join(f"{role} is {column!r}" for role, column in given.items() if column is not None),
        doubts=(),
    )


def _asked_column(guess: "Guess", role: str, *, needed: bool) -> str | None:
    """Asks the user for the column of a role until the answer is valid; returns None where there is no such column."""
    before = getattr(guess.asked, role) or (None if needed else _NOTHING)
    hint = "" if needed else f", or {_NOTHING} for none"
    while True:
        said = click.prompt(f"The column of {role if role == 'gold' else f'{role}s'}{hint}", default=before, err=True)
        if said in guess.header:
            return said
        if not needed and said == _NOTHING:
            return None
        if role == "gold" and is_file(Path(said)):
            return said
        say(plain(f"there is no column {said!r}, but {', '.join(guess.header)}"), err=True)


def _tell(folder: Path, begun: "StarterSweep") -> None:
    """Prints what was written, and the commands to run next."""
    from crowdsweep.data.on_disk.description import read_description
    from crowdsweep.sweep.starter.sweep_text import next_commands

    data, rows = begun.dataset, begun.dataset.annotations
    for note in begun.notes:
        say(plain(f"note: {note}"))
    crowd = "anonymous votes" if rows.anonymous else counted(rows.n_active_annotators, "annotator")
    counts = (counted(data.items.n_items, "item"), crowd, counted(len(rows), "label"), counted(data.n_classes, "class"))
    models = [one.candidate.name for one in begun.chosen if not one.left_out]
    say(f"{folder}: {', '.join(counts)}")
    say(f"{folder / next(iter(begun.texts))}: {counted(len(models), 'model')} that fit: {', '.join(models)}")
    say("next:")
    for line in next_commands(folder):
        click.echo(f"  {line}")
    form = read_description(folder).form
    if form not in ("", "csv"):
        say(plain(f"labels go back to where they came from ({form}) by `crowdsweep label … --export same`"))
