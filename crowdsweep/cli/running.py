"""`crowdsweep run` and `crowdsweep plan`, and the functions that other commands use to run a sweep."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from crowdsweep.cli.completion import sweeps_or_files_named
from crowdsweep.cli.loading_notice import cancel_loading_notice, set_loading_notice
from crowdsweep.cli.outcome import EXIT_FAILED_TRIALS, EXIT_OVER_BUDGET, exit_code, next_commands
from crowdsweep.cli.output import as_json, json_text, say
from crowdsweep.cli.paths import PATH, STORE
from crowdsweep.errors import plain
from crowdsweep.record.store_uri import Store
from crowdsweep.record.stores import DEFAULT_STORES

if TYPE_CHECKING:
    from crowdsweep.analysis.sweep import AnalysedSweep
    from crowdsweep.app import How, NextSteps
    from crowdsweep.sweep.driver import SweepOutcome
    from crowdsweep.sweepfile.records import Engine, SweepConfig


overrides_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change one key, with a value in YAML: `seeds.report=3`, `models.cmm.params.groups=4`. May be repeated.",
)
sweep_argument = click.argument("sweep", metavar="SWEEP", type=PATH, shell_complete=sweeps_or_files_named)


def asked_sweep(sweep: Path, overrides: tuple[str, ...]) -> "SweepConfig":
    """Returns the configuration of a sweep, and prints notes on it to standard error.

    Raises:
        BadInput: the sweep cannot be used.
    """
    from crowdsweep.sweep.starter import begin

    return begin.asked_sweep(sweep, overrides, lambda note: say(plain(note), err=True))


def run_to_the_end(
    config: "SweepConfig",
    place: Store,
    then: "NextSteps",
    *,
    notify_command: str | None = None,
    **how: "Unpack[How]",
) -> int:
    """Runs a sweep as `app.run_to_the_end` does, prints results and next commands, and returns the exit code."""
    from crowdsweep import app

    def show(found: "AnalysedSweep") -> None:
        from crowdsweep.views.terminal.grid import terminal_width
        from crowdsweep.views.terminal.results import label_line, shown_results

        click.echo(f"{shown_results(found, terminal_width())}\n")
        click.echo(f"report:  {place / 'report.html'}")
        click.echo(f"results: {place / 'results.parquet'}")
        if config.tracking.enabled:
            click.echo(f"MLflow:  crowdsweep ui {shlex.quote(str(place))}")
        if line := label_line(found):
            click.echo(f"labels:  {line}")

    def show_end(outcome: "SweepOutcome") -> None:
        for line in app.closing_words(outcome, config, then):
            say(line, err=exit_code(outcome) in (EXIT_FAILED_TRIALS, EXIT_OVER_BUDGET))

    return exit_code(
        app.run_to_the_end(config, place, tell=say, show=show, show_end=show_end, command=notify_command, **how)
    )


@click.command()
@sweep_argument
@click.option(
    "--store",
    type=STORE,
    help="Where the record goes: a folder, or s3://…, gs://…, az://…; crowdsweep-runs/NAME by default.",
)
@click.option("--engine", type=click.Choice(["inline", "ray"]), help="Run in one process, or on Ray actors.")
@click.option("--address", help="A running Ray cluster to join: `host:6379`, or `auto` for this machine's.")
@click.option("--quiet", is_flag=True, help="No progress, only the result.")
@click.option("--retry-failed", is_flag=True, help="Run the trials again that failed in earlier runs.")
@click.option("--live", is_flag=True, help="Keep report.html up to date while it runs, and print its address.")
@click.option(
    "--notify-command",
    metavar="COMMAND",
    help="Run it when the sweep has ended, with what became of it as JSON on standard input. No shell reads it: "
    "for pipes, `sh -c '…'`. CROWDSWEEP_NOTIFY in the environment does the same.",
)
@overrides_option
def run(
    sweep: Path,
    store: Store | None,
    engine: "Engine | None",
    address: str | None,
    quiet: bool,
    retry_failed: bool,
    live: bool,
    notify_command: str | None,
    overrides: tuple[str, ...],
) -> int:
    """Run a sweep file, or go on with it: what the record already holds is not done again.

    SWEEP may also be one that comes along (`sweeps` lists them), or a dataset's folder: its sweep.yaml is run, or,
    where it has none, the one that `init` would write.
    """
    cancel_loading_notice() if quiet else set_loading_notice(f"{sweep}: reading it")
    config = asked_sweep(sweep, overrides)
    place = store if store is not None else DEFAULT_STORES / config.name
    words = ["crowdsweep", "run", str(sweep), *(["--store", str(store)] if store is not None else [])]
    words += ["--engine", engine] if engine else []
    words += ["--address", address] if address else []
    words += [*(["--live"] if live else []), *(["--notify-command", notify_command] if notify_command else [])]
    then = next_commands(words, overrides, str(place))
    return run_to_the_end(
        config,
        place,
        then,
        engine=engine,
        address=address,
        quiet=quiet,
        retry_failed=retry_failed,
        live=live,
        notify_command=notify_command,
    )


@click.command()
@sweep_argument
@overrides_option
@as_json
def plan(sweep: Path, overrides: tuple[str, ...], as_json: bool) -> None:
    """Say what a sweep (or that of a dataset's folder) would run and about how long it would take; runs none of it."""
    set_loading_notice(f"{sweep}: reading it")
    from crowdsweep.sweep.plan import make_plan
    from crowdsweep.sweep.plan_summary import plan_summary
    from crowdsweep.sweep.warm_start import recorded_of
    from crowdsweep.views.terminal.grid import terminal_width
    from crowdsweep.views.terminal.plan import describe_plan

    config = asked_sweep(sweep, overrides)
    made = make_plan(config, recorded_of(config, DEFAULT_STORES / config.name))
    click.echo(json_text(plan_summary(made)) if as_json else describe_plan(made, terminal_width()))
