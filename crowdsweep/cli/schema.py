"""`crowdsweep schema`: what editors check and complete sweep files by."""

import json

import click


@click.command()
def schema() -> None:
    """Print the JSON Schema of sweep files, by which editors complete and check them, for what is installed here."""
    from crowdsweep.sweep.schema import whole_schema

    click.echo(json.dumps(whole_schema(), ensure_ascii=False))
