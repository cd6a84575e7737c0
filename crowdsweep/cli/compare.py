"""`crowdsweep compare A B`: what two sweeps were asked differently, and what came of it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crowdsweep.cli.completion import stores_named
from crowdsweep.cli.paths import PATH
from crowdsweep.cli.stores import as_json
from crowdsweep.cli.telling import say
from crowdsweep.errors import plain, shortened
from crowdsweep.journal.stores import asked_store

if TYPE_CHECKING:
    from crowdsweep.report.two_sweeps import Pair


@click.command()
@click.argument("first", metavar="A", type=PATH, shell_complete=stores_named)
@click.argument("second", metavar="B", type=PATH, shell_complete=stores_named)
@as_json
def compare(first: Path, second: Path, as_json: bool) -> None:
    """Compare two sweeps: what their sweep files say differently, and their scores, paired where the trials match."""
    from crowdsweep.console.tables import Column, Grid, render, terminal_width
    from crowdsweep.report.of_sweep import compared_sweep
    from crowdsweep.report.two_sweeps import differences, pairs_of

    one, other = (compared_sweep(asked_store(store)) for store in (first, second))
    changed = differences(one.state.config, other.state.config)
    pairs = pairs_of(one, other)
    if as_json:
        told = [{"key": key, "first": before, "second": after} for key, before, after in changed]
        scores = [_mapping(pair) for pair in pairs]
        click.echo(json.dumps({"differences": told, "scores": scores}, indent=2, ensure_ascii=False, default=str))
        return
    width = terminal_width()
    say(plain(f"A: {one.state.name} ({one.store})\nB: {other.state.name} ({other.store})\n"))
    if changed:
        columns = (Column(title="sweep file", wraps=True), Column(title="A", wraps=True), Column(title="B", wraps=True))
        rows = [[key, _value(before), _value(after)] for key, before, after in changed]
        click.echo(render(Grid(columns=columns, groups={"": rows}), width) + "\n")
    else:
        say("their sweep files ask for the same\n")
    click.echo(render(_grid(pairs), width) if pairs else "no trial of a report has ended in either")


def _grid(pairs: "list[Pair]") -> Any:
    from crowdsweep.console.tables import Column, Grid
    from crowdsweep.metrics.wording import words

    columns = (
        Column(title="model"),
        Column(title="A", right=True),
        Column(title="B", right=True),
        Column(title="B − A", right=True),
        Column(title="95 % interval", right=True, drop=1, below="B is"),
        Column(title="B is", wraps=True),
        Column(title="seeds", right=True, drop=2),
    )
    groups: dict[str, list[list[str]]] = {}
    for pair in pairs:
        heading = f"{pair.dataset} · {words(pair.metric)}" if pair.metric else pair.dataset
        groups.setdefault(heading, []).append(_row(pair))
    return Grid(columns=columns, groups=groups, group="dataset")


def _row(pair: "Pair") -> list[str]:
    from crowdsweep.console.wording import number_words
    from crowdsweep.metrics.wording import is_share

    def shown(value: float | None) -> str:
        return "–" if value is None else number_words(value, pair.metric)

    def step(value: float) -> str:
        return f"{100 * value:+.1f}" if is_share(pair.metric) else f"{value:+.3f}"

    found = pair.test.difference if pair.test is not None else None
    interval = ""
    if found is not None and found.low is not None and found.high is not None:
        interval = f"{step(found.low)} … {step(found.high)}"
    return [
        pair.model,
        shown(pair.first),
        shown(pair.second),
        step(found.mean) if found is not None else "",
        interval,
        pair.told_apart or pair.why,
        str(found.n) if found is not None else "",
    ]


def _mapping(pair: "Pair") -> dict[str, Any]:
    found = pair.test.difference if pair.test is not None else None
    return {
        "dataset": pair.dataset,
        "model": pair.model,
        "metric": pair.metric,
        "first": pair.first,
        "second": pair.second,
        "difference": found.mean if found is not None else None,
        "low": found.low if found is not None else None,
        "high": found.high if found is not None else None,
        "seeds": found.n if found is not None else 0,
        "p_holm": pair.test.p_holm if pair.test is not None else None,
        "second_is": pair.told_apart or pair.why,
    }


def _value(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, dict):
        return "there"  # a whole entry; JSON has it all
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        return f"{len(value)} of them"
    return shortened(value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False, default=str))
