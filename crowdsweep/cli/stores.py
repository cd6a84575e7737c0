"""Commands on the records of sweeps: listing them, the status of one, comparing several, and stopping one that runs in
another terminal."""

import shlex
from datetime import UTC, datetime

import click

from crowdsweep.cli.completion import stores_named
from crowdsweep.cli.jobs import has_begun, job_of, job_words, stop_job
from crowdsweep.cli.output import as_json, json_text, say
from crowdsweep.cli.paths import STORE
from crowdsweep.errors import BadInput, plain
from crowdsweep.record.store_uri import Store
from crowdsweep.record.stores import DEFAULT_STORES, asked_store, stores_below

store_argument = click.argument("store", metavar="[DIR]", required=False, type=STORE, shell_complete=stores_named)
"""Argument for a sweep's store, or its name below crowdsweep-runs/; where it is left out, the latest sweep there."""


def named_store(given: Store | None) -> Store:
    """Returns the store that an argument names; where it is None, the latest one, whose path is then printed.

    Raises:
        BadInput: there is no such store.
    """
    store = asked_store(given)
    if given is None:
        say(f"{store}: the latest sweep here", err=True)
    return store


@click.command("list")
@click.argument("folder", type=STORE, default=DEFAULT_STORES)
@as_json
def list_stores(folder: Store, as_json: bool) -> None:
    """List the sweeps here, the latest first: state, size, best model and when.

    FOLDER, or the prefix of an object store, holds a folder for each sweep; crowdsweep-runs by default.
    """
    from crowdsweep.views.terminal.grid import Grid, render, terminal_width
    from crowdsweep.views.terminal.stores import LIST_COLUMNS, list_rows, listed

    found = [listed(store) for store in stores_below(folder)]
    if as_json:
        click.echo(json_text(found))
    elif found:
        rows = list_rows(found, datetime.now(UTC))
        click.echo(render(Grid(columns=LIST_COLUMNS, groups={"": rows}), terminal_width()))
    else:
        say(f"no sweep has run here: {folder} holds none; `crowdsweep run SWEEP` runs one", err=True)


@click.command()
@store_argument
@as_json
def status(store: Store | None, as_json: bool) -> None:
    """Say how far a sweep is: done, failed, best so far. Works while it runs."""
    from crowdsweep.analysis.status import sweep_status
    from crowdsweep.record.journal import read_journal
    from crowdsweep.views.terminal.grid import terminal_width
    from crowdsweep.views.terminal.stores import describe_status

    place = named_store(store)
    job = job_of(place)
    if job is not None and not has_begun(place):
        click.echo(json_text({"status": "submitted", "job": job})) if as_json else say(job_words(job))
        return
    state = read_journal(place)
    found = sweep_status(state, place)
    if as_json:
        click.echo(json_text(found if job is None else {**found, "job": job}))
        return
    click.echo(describe_status(found, found["status"].replace("_", " "), terminal_width()))
    if job is not None:
        say(job_words(job))


@click.command()
@store_argument
def stop(store: Store | None) -> None:
    """End a running sweep as Ctrl-C does: what runs is finished first. A second `stop` meanwhile ends it at once.

    Without DIR it is the one sweep that runs here.
    """
    from crowdsweep.analysis.status import state_words
    from crowdsweep.record.events import SweepStatus
    from crowdsweep.record.journal import read_journal
    from crowdsweep.sweep.stopping import ask_to_stop, only_running_store, wait_for_end

    place = only_running_store() if store is None else asked_store(store)
    if stop_job(place):
        return
    driver = ask_to_stop(place)
    say(
        f"{place}: asked process {driver.pid} to stop; it finishes what runs first (`crowdsweep stop` once more ends "
        f"it at once, Ctrl-C here only stops waiting)"
    )
    wait_for_end(place, driver)
    state = read_journal(place)
    more = "it was finished" if state.status is SweepStatus.DONE else "the sweep continues when it is run again"
    say(
        f"{state.name}: {state_words(state.status, None)}; {more}; "
        f"`crowdsweep status {shlex.quote(str(place))}` shows its progress"
    )


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
