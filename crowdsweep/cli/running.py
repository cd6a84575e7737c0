"""The sweep that a command is given, and how it is run: from its first trial to the words at its end."""

import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crowdsweep.cli.completion import sweeps_or_files_named
from crowdsweep.cli.outcome import EXIT_FAILED_TRIALS, EXIT_OVER_BUDGET, exit_code
from crowdsweep.cli.paths import PATH
from crowdsweep.cli.telling import say
from crowdsweep.errors import plain
from crowdsweep.record.store_uri import Store

if TYPE_CHECKING:
    from crowdsweep.app import NextSteps
    from crowdsweep.sweep.driver import SweepOutcome
    from crowdsweep.sweepfile.records import Engine, SweepConfig


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
    engine: "Engine | None" = None,
    address: str | None = None,
    quiet: bool = False,
    retry_failed: bool = False,
    live: bool = False,
    notify_command: str | None = None,
) -> int:
    """Runs a sweep as `app.run` does, writes its report, says how it ended and how to go on, and tells others; returns
    the exit code."""
    from crowdsweep import app

    with app.notifying(config, place, notify_command) as ended:
        outcome = app.run(
            config, place, engine=engine, address=address, quiet=quiet, retry_failed=retry_failed, live=live
        )
        ended.append(outcome)
        return _finished(config, place, then, outcome, quiet=quiet)


def _finished(config: "SweepConfig", place: Store, then: "NextSteps", outcome: "SweepOutcome", *, quiet: bool) -> int:
    from crowdsweep import app

    try:
        if not (quiet or outcome.dropped):
            with suppress(OSError):  # a terminal that was closed costs nobody the report
                say(f"{config.name}: writing the report…", err=True)
        found = app.finish(config, place, outcome)
        if found is not None:
            from crowdsweep.views.terminal.grid import terminal_width
            from crowdsweep.views.terminal.results import label_line, shown_results

            click.echo(f"{shown_results(found, terminal_width())}\n")
            click.echo(f"report:  {place / 'report.html'}")
            click.echo(f"results: {place / 'results.parquet'}")
            if config.tracking.enabled:
                click.echo(f"MLflow:  crowdsweep ui {shlex.quote(str(place))}")
            if line := label_line(found):
                click.echo(f"labels:  {line}")
            app.register(found, config, outcome, say)
    finally:  # how to go on is said also where the report cannot be written
        code = exit_code(outcome)
        for line in app.closing_words(outcome, config, then):
            say(line, err=code in (EXIT_FAILED_TRIALS, EXIT_OVER_BUDGET))
    return code
