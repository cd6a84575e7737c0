"""The sweep that a command is given, and how it is run: from its first trial to the words at its end."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from crowdsweep.cli.completion import sweeps_or_files_named
from crowdsweep.cli.outcome import EXIT_FAILED_TRIALS, EXIT_OVER_BUDGET, exit_code
from crowdsweep.cli.paths import PATH
from crowdsweep.cli.telling import say
from crowdsweep.errors import plain
from crowdsweep.record.store_uri import Store

if TYPE_CHECKING:
    from crowdsweep.analysis.sweep import AnalysedSweep
    from crowdsweep.app import How, NextSteps
    from crowdsweep.sweep.driver import SweepOutcome
    from crowdsweep.sweepfile.records import SweepConfig


overrides_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change one key: `seeds.report=3`, `models.cmm.params.groups=4`.",
)
sweep_argument = click.argument("sweep", metavar="SWEEP", type=PATH, shell_complete=sweeps_or_files_named)


def asked_sweep(sweep: Path, overrides: tuple[str, ...]) -> "SweepConfig":
    """Returns the sweep, and says what a person should know of it.

    Raises:
        BadInput: it cannot be used.
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
    """Runs a sweep as `app.run_to_the_end` does, prints what it found and how to go on; returns the exit code."""
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
