"""`crowdsweep explain`: what a key, a metric or a model is."""

import click

from crowdsweep.cli.completion import models_named
from crowdsweep.errors import plain


@click.command()
@click.argument("name", metavar="KEY|METRIC|MODEL", shell_complete=models_named)
def explain(name: str) -> None:
    """Say what a key of sweep files (`budget.points`), a metric (`test_kl`) or a model (`mace`) is."""
    from crowdsweep.sweep.explain import explain as explained

    click.echo(plain(explained(name)))
