"""`crowdsweep compare A B …`: what sweeps were asked differently, and what came of it."""

from typing import TYPE_CHECKING

import click

from crowdsweep.cli.completion import stores_named
from crowdsweep.cli.paths import STORE
from crowdsweep.cli.telling import as_json, json_text, say
from crowdsweep.errors import BadInput, plain
from crowdsweep.record.store_uri import Store
from crowdsweep.record.stores import asked_store

if TYPE_CHECKING:
    from crowdsweep.analysis.sweep import AnalysedSweep


@click.command()
@click.argument("stores", metavar="A B …", nargs=-1, type=STORE, shell_complete=stores_named)
@as_json
def compare(stores: tuple[Store, ...], as_json: bool) -> None:
    """Compare sweeps: what their sweep files say differently, and their scores, paired where the trials match.

    Of more than two, each is set beside the first.
    """
    from crowdsweep.analysis.sweep import analysed
    from crowdsweep.analysis.two_sweeps import letter_of

    if len(stores) < 2:
        raise BadInput(f"compare: expected two sweeps or more, got {len(stores)}")
    sweeps = [analysed(asked_store(store)) for store in stores]
    if not as_json:
        heads = [f"{letter_of(n)}: {one.state.name} ({one.store})" for n, one in enumerate(sweeps)]
        say(plain("\n".join(heads) + "\n"))
    _two(*sweeps, as_json=as_json) if len(sweeps) == 2 else _several(sweeps, as_json=as_json)


def _two(one: "AnalysedSweep", other: "AnalysedSweep", *, as_json: bool) -> None:
    from crowdsweep.analysis.two_sweeps import differences, pairs_of
    from crowdsweep.views.terminal.grid import render, terminal_width
    from crowdsweep.views.terminal.two_sweeps import as_mapping, changes_grid, pairs_grid

    changes, pairs = differences(one.state.config, other.state.config), pairs_of(one, other)
    if as_json:
        click.echo(json_text(as_mapping(changes, pairs)))
        return
    width = terminal_width()
    if changes:
        click.echo(render(changes_grid(changes), width) + "\n")
    else:
        say("their sweep files do not differ\n")
    click.echo(render(pairs_grid(pairs), width) if pairs else "neither sweep has finished a trial of its report")


def _several(sweeps: "list[AnalysedSweep]", *, as_json: bool) -> None:
    from crowdsweep.analysis.two_sweeps import differences_of_all, pairs_with_each
    from crowdsweep.views.terminal.grid import render, terminal_width
    from crowdsweep.views.terminal.two_sweeps import several_as_mapping, several_changes_grid, several_pairs_grid

    changes = differences_of_all([sweep.state.config for sweep in sweeps])
    pairs = pairs_with_each(sweeps[0], sweeps[1:])
    if as_json:
        click.echo(json_text(several_as_mapping(sweeps, changes, pairs)))
        return
    width = terminal_width()
    if changes:
        click.echo(render(several_changes_grid(changes), width) + "\n")
    else:
        say("their sweep files do not differ\n")
    click.echo(
        render(several_pairs_grid(pairs), width) if any(pairs) else "no sweep has finished a trial of its report"
    )
