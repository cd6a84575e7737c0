"""`crowdsweep fetch`: downloads a public dataset into a folder where sweeps find it by its name."""

import shlex
from pathlib import Path

import click

from crowdsweep.cli.completion import public_datasets_named
from crowdsweep.cli.loading_notice import set_loading_notice
from crowdsweep.cli.output import as_json, json_text, say
from crowdsweep.cli.paths import PATH
from crowdsweep.errors import BadInput, UnknownName, plain


@click.command()
@click.argument("name", required=False, shell_complete=public_datasets_named)
@click.option(
    "--to",
    "place",
    type=PATH,
    metavar="DIR",
    help="The folder of datasets that it goes into; the first of CROWDSWEEP_DATA, else crowdsweep-data, by default.",
)
@as_json
def fetch(name: str | None, place: Path | None, as_json: bool) -> None:
    """Get a public dataset from its own place, checked, with its licence and citation; without a NAME, list them.

    A download that was cut is gone on with by the same command; a dataset that is there is left alone.
    """
    from crowdsweep.data.public import PUBLIC_DATASETS

    if name is None:
        _list(as_json)
        return
    if as_json:
        raise BadInput("--json: expected without a name, for the list")
    if name not in PUBLIC_DATASETS:
        raise UnknownName("public dataset", name, PUBLIC_DATASETS)
    set_loading_notice(f"{name}: looking whether it is here")
    from crowdsweep.data.search_path import SEARCH_PATH, search_path
    from crowdsweep.fetching.fetch import fetch as fetch_it
    from crowdsweep.fetching.fetch import lies_in

    places, public = search_path(), PUBLIC_DATASETS[name]
    if place is None and any(lies_in(known, public) for known in places):
        say(f"{name}: is here already; `crowdsweep datasets {name}` describes it")
        return
    if place is None and not places:
        raise BadInput(f"--to: expected a folder, as {SEARCH_PATH} is set and names none")
    into = place if place is not None else places[0]
    say(f"{name}: {public.title}")
    for what, words in (("licence", public.licence), ("cite", public.citation), ("about it", public.home)):
        say(f"  {what}: {words}")
    done = fetch_it(public, into, lambda words: say(plain(words), err=True))
    held = public.counts
    crowd = f"{held.annotators:,} annotators, {held.annotations:,} annotations"
    said = f"{held.items:,} items, {crowd if public.converter else 'for crowds that are simulated'}"
    say(f"{done.folder}: {'is here already' if done.was_there else said}")
    by_name = f"{SEARCH_PATH}={shlex.quote(str(into.resolve()))}"
    is_found = any(into.resolve() == known.resolve() for known in places)
    say(f"sweep files call it {name}" + ("" if is_found else f", where {by_name} is set"))
    say(
        f"next: crowdsweep run {shlex.quote(str(done.folder))}"
        if public.converter
        else f"next: crowdsweep datasets {name}"
    )


def _list(as_json: bool) -> None:
    from crowdsweep.data.public import PUBLIC_DATASETS
    from crowdsweep.data.search_path import search_path
    from crowdsweep.fetching.fetch import lies_in

    here = {name for name, public in PUBLIC_DATASETS.items() if any(lies_in(place, public) for place in search_path())}
    if as_json:
        found = [
            {
                "name": public.name,
                "title": public.title,
                "licence": public.licence,
                "citation": public.citation,
                "is_here": public.name in here,
            }
            for public in PUBLIC_DATASETS.values()
        ]
        click.echo(json_text(found))
        return
    from crowdsweep.views.terminal.grid import Column, Grid, render, terminal_width

    columns = (
        Column(title="name"),
        Column(title="what it is", wraps=True),
        Column(title="licence", wraps=True),
        Column(title="here"),
    )
    rows = [
        (public.name, public.title, public.licence, "yes" if public.name in here else "no")
        for public in PUBLIC_DATASETS.values()
    ]
    click.echo(render(Grid(columns=columns, groups={"": rows}), terminal_width()))
