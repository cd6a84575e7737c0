"""`crowdsweep doctor`: whether a sweep would run here, and what is missing for what."""

from dataclasses import asdict

import click

from crowdsweep.cli.first_word import say_first
from crowdsweep.cli.outcome import EXIT_BAD_INPUT, EXIT_OK
from crowdsweep.cli.telling import as_json, json_text, say
from crowdsweep.errors import plain


@click.command()
@as_json
def doctor(as_json: bool) -> int:
    """Say whether a sweep would run here, and what is missing for what. Exit code 0 where a default one would."""
    say_first("looking at what is here, torch's GPUs too")
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
            else "No sweep runs here as it is: see to each problem."
        )
    return EXIT_OK if runs else EXIT_BAD_INPUT
