"""`crowdsweep data …`: imports, checks, describes and simulates crowd annotations."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crowdsweep.cli.completion import datasets_named
from crowdsweep.cli.help import Commands
from crowdsweep.cli.loading_notice import set_loading_notice
from crowdsweep.cli.output import as_json, json_text, say
from crowdsweep.cli.paths import PATH

if TYPE_CHECKING:
    from crowdsweep.data.dataset import Scale

MISSING_HELP = (
    'A word that means a missing value, besides an empty cell; repeat the option for each word. `--missing ""`: '
    "nothing else does. "
    "By default NA, NaN, NULL, None, …"
)
IMAGE_HELP = "The column of the items' image files, whose names begin in the folder of the table."
FEATURES_HELP = "A column of numbers that are features of the items; once for each."
SCALES = ("nominal", "ordinal", "multilabel")
SCALE_HELP = (
    "Of the labels: ordinal where classes are steps in an order, such as ratings; multilabel where an answer may name "
    "several, as in `cat|dog`."
)
FORM_NAMES = (
    "csv",
    "crowd-kit",
    "matrix",
    "cleanlab",
    "snorkel",
    "peerannot",
    "lewidi",
    "label-studio",
    "argilla",
    "doccano",
    "potato",
    "prodigy",
    "mturk",
)
EXPORT_NAMES = ("same", *(name for name in FORM_NAMES if name != "csv"))


def columns_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds to a command the options for a file of answers: its form, and the column of each role."""
    for option in reversed(
        (
            click.option(
                "--form", type=click.Choice(FORM_NAMES), help="Of the file, as in `data import`; guessed by default."
            ),
            click.option("--item", metavar="COLUMN", help="The column of item ids."),
            click.option("--annotator", metavar="COLUMN", help="The column of annotator ids."),
            click.option("--label", metavar="COLUMN", help="The column of labels."),
            click.option("--gold", metavar="COLUMN|FILE", help="The column of gold, or a table of items and gold."),
            click.option("--weight", metavar="COLUMN", help="The column of weights."),
            click.option("--text", metavar="COLUMN", help="The column of the items' text."),
            click.option("--image", metavar="COLUMN", help=IMAGE_HELP),
            click.option("--question", help="Which question, where an export has several."),
        )
    ):
        command = option(command)
    return command


@click.group(cls=Commands)
def data() -> None:
    """Import, check, describe and simulate crowd annotations."""


@data.command("import")
@click.argument("form", type=click.Choice(FORM_NAMES))
@click.argument("source", type=PATH)
@click.argument("folder", type=PATH, required=False)
@click.option("--question", help="Which question, where a file has several.")
@click.option("--item", metavar="COLUMN", help="csv, matrices: the column of item ids.")
@click.option("--annotator", metavar="COLUMN", help="csv: the column of annotator ids.")
@click.option("--label", metavar="COLUMN", help="csv: the column of labels.")
@click.option("--gold", metavar="COLUMN|FILE", help="csv, matrices: the column of gold, or a table of items and gold.")
@click.option("--weight", metavar="COLUMN", help="csv: the column of weights.")
@click.option("--text", metavar="COLUMN", help="csv: the column of the items' text.")
@click.option("--image", metavar="COLUMN", help=f"csv: {IMAGE_HELP[0].lower()}{IMAGE_HELP[1:]}")
@click.option("--features", metavar="COLUMN", multiple=True, help=FEATURES_HELP)
@click.option("--scale", type=click.Choice(SCALES), help=SCALE_HELP)
@click.option("--missing", metavar="WORD", multiple=True, help=MISSING_HELP)
@click.option(
    "--normalise", is_flag=True, help="Merge names that differ only in case, spaces or 1.0 for 1; prints which."
)
@click.option("--title", default="", help="What the dataset is, in one line.")
def import_(
    form: str,
    source: Path,
    folder: Path | None,
    normalise: bool,
    title: str,
    missing: tuple[str, ...],
    features: tuple[str, ...],
    scale: "Scale | None",
    **columns: str | None,
) -> None:
    """Read SOURCE, written by another tool in FORM, and write a dataset FOLDER (by default: called as SOURCE)."""
    set_loading_notice(f"{source}: reading it")
    from crowdsweep.data.missing import MissingValues
    from crowdsweep.importing.file_to_folder import import_file
    from crowdsweep.importing.rows import FileOptions

    place = Path(source.name.partition(".")[0] or "imported") if folder is None else folder
    asked = FileOptions(missing=MissingValues.of(missing or None), features=features or None, scale=scale, **columns)
    imported = import_file(form, source, asked, place, normalise=normalise, title=title)
    dataset = imported.dataset
    for note in imported.rows.notes:
        say(f"{source}: {note}")
    say(
        f"{place}: {dataset.items.n_items} items, {dataset.annotations.n_active_annotators} annotators, "
        f"{len(dataset.annotations)} labels, {dataset.n_classes} classes; "
        f"look at it with `crowdsweep data check {place}`"
    )


@data.command()
@click.argument("dataset", shell_complete=datasets_named)
@as_json
def check(dataset: str, as_json: bool) -> None:
    """Report everything that is odd about DATASET (a folder or a name), and refuse what cannot be used."""
    set_loading_notice(f"{dataset}: reading it")
    from crowdsweep.data.catalogue import load
    from crowdsweep.data.oddities import find_oddities, oddities_as_mappings

    found = find_oddities(load(dataset, {}))
    if as_json:
        click.echo(json_text(oddities_as_mappings(found)))
        return
    for oddity in found:
        say(f"{oddity.count:>8}  {oddity}")
    say(f"{dataset}: usable" + ("" if found else ", nothing odd"))


@data.command()
@click.argument("dataset", shell_complete=datasets_named)
@as_json
def describe(dataset: str, as_json: bool) -> None:
    """Print counts, labels per item and annotator, agreement and accuracy of DATASET (a folder or a name)."""
    from crowdsweep.data.catalogue import load
    from crowdsweep.data.describe import describe as look
    from crowdsweep.data.describe import describe_text

    found = look(load(dataset, {}))
    click.echo(json_text(found) if as_json else describe_text(found))


@data.command()
@click.argument("folder", type=PATH)
@click.option("--source", default="gaussians", show_default=True, help="A built-in dataset with a simulated crowd.")
@click.option("--seed", default=0, show_default=True, help="Of the crowd.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A dataset parameter, `annotators=1000`.")
def simulate(folder: Path, source: str, seed: int, settings: tuple[str, ...]) -> None:
    """Draw a simulated crowd and write it as a dataset FOLDER."""
    from crowdsweep.data.catalogue import load
    from crowdsweep.data.catalogue import source as find_source
    from crowdsweep.data.on_disk.folder import write_folder
    from crowdsweep.data.on_disk.new_folder import check_new
    from crowdsweep.errors import BadInput
    from crowdsweep.files.located import parse_setting
    from crowdsweep.seeds import SeedStream

    params = dict(parse_setting(one, "KEY=VALUE") for one in settings)
    found = find_source(source)
    if found is None or found.draw is None:
        raise BadInput(f"--source {source}: expected a built-in dataset with a simulated crowd, such as gaussians")
    check_new(folder)
    write_folder(found.draw(load(source, params), SeedStream(seed).child("crowd")), folder)
    say(f"{folder}: written; look at it with `crowdsweep data describe {folder}`")
