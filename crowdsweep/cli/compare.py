"""`crowdsweep compare A B …`: what sweeps were asked differently, and what came of it."""

import click

from crowdsweep.cli.completion import stores_named
from crowdsweep.cli.paths import STORE
from crowdsweep.cli.telling import as_json, json_text, say
from crowdsweep.errors import BadInput, plain
from crowdsweep.record.store_uri import Store
from crowdsweep.record.stores import asked_store


@click.command()
@click.argument("stores", metavar="A B …", nargs=-1, type=STORE, shell_complete=stores_named)
@as_json
def compare(stores: tuple[Store, ...], as_json: bool) -> None:
    """Compare sweeps: what their sweep files say differently, and their scores, paired where the trials match.

    Of more than two, each is set beside the first.
    """
    if len(stores) < 2:
        raise BadInput(f"compare: expected two sweeps or more, got {len(stores)}")
    from crowdsweep.analysis.sweep import analysed
    from crowdsweep.analysis.two_sweeps import differences, letter_of, pairs_of
    from crowdsweep.views.terminal.grid import render, terminal_width
    from crowdsweep.views.terminal.two_sweeps import as_mapping, changes_grid, pairs_grid

    sweeps = [analysed(asked_store(store)) for store in stores]
    changes, pairs = differences(*(sweep.state.config for sweep in sweeps)), pairs_of(*sweeps)
    if as_json:
        click.echo(json_text(as_mapping(sweeps, changes, pairs)))
        return
    heads = [f"{letter_of(n)}: {one.state.name} ({one.store})" for n, one in enumerate(sweeps)]
    say(plain("\n".join(heads) + "\n"))
    width = terminal_width()
    click.echo(render(changes_grid(changes), width) + "\n") if changes else say("their sweep files do not differ\n")
    if any(pairs):
        click.echo(render(pairs_grid(pairs), width))
    else:
        click.echo(f"{'neither' if len(sweeps) == 2 else 'no'} sweep has finished a trial of its report")
