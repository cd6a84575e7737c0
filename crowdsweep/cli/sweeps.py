"""`crowdsweep sweeps` and `crowdsweep demo`: lists, prints and runs the built-in sweeps."""

from typing import TYPE_CHECKING

import click

from crowdsweep.cli.completion import sweeps_named
from crowdsweep.cli.loading_notice import cancel_loading_notice, set_loading_notice
from crowdsweep.cli.outcome import next_commands
from crowdsweep.cli.output import as_json, json_text
from crowdsweep.cli.paths import STORE
from crowdsweep.cli.running import overrides_option, run_to_the_end
from crowdsweep.errors import BadInput
from crowdsweep.record.store_uri import Store
from crowdsweep.record.stores import DEFAULT_STORES

if TYPE_CHECKING:
    from crowdsweep.sweepfile.records import Engine

_TOUR = "quickstart"


@click.command()
@click.argument("name", required=False, shell_complete=sweeps_named)
@as_json
def sweeps(name: str | None, as_json: bool) -> None:
    """List the sweeps that come along, which `run NAME` runs; of NAME print the file: `sweeps NAME > mine.yaml`."""
    from crowdsweep.sweepfile.named import named_sweeps, sweep_text

    if name is not None:
        if as_json:
            raise BadInput(f"--json: expected without a name, for the list; `crowdsweep sweeps {name}` prints YAML")
        click.echo(sweep_text(name), nl=False)
        return
    found = named_sweeps()
    if as_json:
        click.echo(json_text([{"name": one.name, "title": one.title, "needs": one.needs} for one in found]))
        return
    from crowdsweep.views.terminal.grid import Column, Grid, render, terminal_width

    columns = (
        Column(title="name"),
        Column(title="what it is", wraps=True),
        Column(title="needs on CROWDSWEEP_DATA", wraps=True),
    )
    rows = [(one.name, one.title, ", ".join(one.needs) or "nothing") for one in found]
    click.echo(render(Grid(columns=columns, groups={"": rows}), terminal_width()))


@click.command()
@click.option("--store", type=STORE, help=f"Where the record goes; {DEFAULT_STORES}/{_TOUR} by default.")
@click.option("--engine", type=click.Choice(["inline", "ray"]), help="Run in one process, or on Ray actors.")
@click.option("--quiet", is_flag=True, help="No progress, only the result.")
@overrides_option
def demo(store: Store | None, engine: "Engine | None", quiet: bool, overrides: tuple[str, ...]) -> int:
    """Run the tour: six models on three datasets that need no download, two searches, a report. Takes a few minutes."""
    cancel_loading_notice() if quiet else set_loading_notice("the tour: reading it")
    from crowdsweep.sweepfile.named import asked_file, sweep_folder
    from crowdsweep.sweepfile.read import load_sweep

    file = sweep_folder() / f"{_TOUR}.yaml"
    config = load_sweep(file, overrides)
    place = store if store is not None else DEFAULT_STORES / config.name
    called = _TOUR if asked_file(_TOUR).comes_along else str(file)
    words = ["crowdsweep", "run", called, *(["--store", str(store)] if store is not None else [])]
    words += ["--engine", engine] if engine else []
    then = next_commands(words, overrides, str(place))
    return run_to_the_end(config, place, then, engine=engine, quiet=quiet)
