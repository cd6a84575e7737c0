"""Commands about an installation: its models and datasets, the meaning of a name, the schema of sweep files for
editors, and whether a sweep would run here."""

import json
from dataclasses import asdict

import click

from crowdsweep.cli.completion import datasets_named, models_named
from crowdsweep.cli.loading_notice import set_loading_notice
from crowdsweep.cli.outcome import EXIT_BAD_INPUT, EXIT_OK
from crowdsweep.cli.output import as_json, json_text, say
from crowdsweep.errors import BadInput, plain


@click.command()
@click.argument("name", required=False, shell_complete=models_named)
@click.option("--space", is_flag=True, help="Print the default search space of NAME, as a file to change and search.")
@as_json
def models(name: str | None, space: bool, as_json: bool) -> None:
    """List the models, or describe one: source, needs, hyper-parameters, search space."""
    from crowdsweep.registry.discovery import titles
    from crowdsweep.sweepfile.look_up import describe_model, model_in_words, space_file

    if name is None and space:
        raise BadInput("--space: expected a model's name before it; `crowdsweep models` lists them")
    if name is None:
        _print_titles(titles("model"), as_json)
    elif as_json:
        click.echo(json_text(describe_model(name)))
    else:
        click.echo(space_file(name) if space else model_in_words(name))


@click.command()
@click.argument("name", required=False, shell_complete=datasets_named)
@as_json
def datasets(name: str | None, as_json: bool) -> None:
    """List the datasets that can be named (built in, and folders on CROWDSWEEP_DATA), or describe one."""
    from crowdsweep.data.public import PUBLIC_DATASETS
    from crowdsweep.sweepfile.look_up import dataset_titles

    if name is None:
        known = dataset_titles()
        _print_titles(known, as_json)
        if not as_json and (others := sorted(PUBLIC_DATASETS.keys() - known.keys())):
            say(f"and `crowdsweep fetch NAME` gets {', '.join(others)}")
        return
    from crowdsweep.data.catalogue import load
    from crowdsweep.data.describe import describe, describe_text

    described = describe(load(name, {}))
    click.echo(json_text(described) if as_json else describe_text(described))


def _print_titles(titles: dict[str, str], as_json: bool) -> None:
    if as_json:
        click.echo(json_text([{"name": name, "title": title} for name, title in titles.items()]))
        return
    from crowdsweep.views.terminal.grid import Column, Grid, render, terminal_width

    columns = (Column(title="name"), Column(title="what it is", wraps=True))
    click.echo(render(Grid(columns=columns, groups={"": list(titles.items())}), terminal_width()))


@click.command()
@click.argument("name", metavar="KEY|METRIC|MODEL", shell_complete=models_named)
def explain(name: str) -> None:
    """Say what a key of sweep files (`budget.points`), a metric (`test_kl`) or a model (`mace`) is."""
    from crowdsweep.sweep.explain import explain as explained

    click.echo(plain(explained(name)))


@click.command()
def schema() -> None:
    """Print the JSON Schema of sweep files, by which editors complete and check them, for what is installed here."""
    from crowdsweep.sweep.explain import whole_schema

    click.echo(json.dumps(whole_schema(), ensure_ascii=False))


@click.command()
@as_json
def doctor(as_json: bool) -> int:
    """Say whether a sweep would run here, and what is missing for what. Exit code 0 where a default one would."""
    set_loading_notice("looking at what is here, torch's GPUs too")
    from crowdsweep.health.examination import examination, would_run

    found = examination()
    runs = would_run(found)
    if as_json:
        click.echo(json_text({"would_run": runs, "findings": [asdict(finding) for finding in found]}))
    else:
        for finding in found:
            say(f"{finding.verdict:<8} {finding.what}: {plain(str(finding))}")
        say(
            "A default sweep runs here; `crowdsweep demo` shows one."
            if runs
            else "No sweep can run here yet: fix each problem."
        )
    return EXIT_OK if runs else EXIT_BAD_INPUT
