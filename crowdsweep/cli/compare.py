"""`crowdsweep compare A B`: what two sweeps were asked differently, and what came of it."""

import click

from crowdsweep.cli.completion import stores_named
from crowdsweep.cli.paths import STORE
from crowdsweep.cli.telling import as_json, json_text, say
from crowdsweep.errors import plain
from crowdsweep.record.store_uri import Store
from crowdsweep.record.stores import asked_store


@click.command()
@click.argument("first", metavar="A", type=STORE, shell_complete=stores_named)
@click.argument("second", metavar="B", type=STORE, shell_complete=stores_named)
@as_json
def compare(first: Store, second: Store, as_json: bool) -> None:
    """Compare two sweeps: what their sweep files say differently, and their scores, paired where the trials match."""
    from crowdsweep.analysis.sweep import analysed
    from crowdsweep.analysis.two_sweeps import differences, pairs_of
    from crowdsweep.views.terminal.grid import render, terminal_width
    from crowdsweep.views.terminal.two_sweeps import as_mapping, changes_grid, pairs_grid

    one, other = (analysed(asked_store(store)) for store in (first, second))
    changes, pairs = differences(one.state.config, other.state.config), pairs_of(one, other)
    if as_json:
        click.echo(json_text(as_mapping(changes, pairs)))
        return
    width = terminal_width()
    say(plain(f"A: {one.state.name} ({one.store})\nB: {other.state.name} ({other.store})\n"))
    if changes:
        click.echo(render(changes_grid(changes), width) + "\n")
    else:
        say("their sweep files do not differ\n")
    click.echo(render(pairs_grid(pairs), width) if pairs else "neither sweep has finished a trial of its report")
