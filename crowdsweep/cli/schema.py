"""`crowdsweep schema`: what editors check and complete sweep files by."""

import json

import click


@click.command()
def schema() -> None:
    """Print the JSON Schema of sweep files, by which editors complete and check them, for what is installed here."""
    from crowdsweep.studies.contract import find_template, template_names
    from crowdsweep.sweepfile.schema import sweep_schema

    templates = {name: find_template(name).knobs for name in template_names()}
    click.echo(json.dumps(sweep_schema(templates), ensure_ascii=False))
