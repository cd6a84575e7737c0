"""The sweep that a command is given: a sweep file, a dataset's folder or a name, and the keys that are changed."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from crowdsweep.cli.completion import sweeps_or_files_named
from crowdsweep.cli.paths import PATH
from crowdsweep.cli.telling import say
from crowdsweep.errors import plain

if TYPE_CHECKING:
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

    asked = begin.asked_sweep(sweep, overrides)
    if asked.note:
        say(plain(asked.note), err=True)
    return asked.config
