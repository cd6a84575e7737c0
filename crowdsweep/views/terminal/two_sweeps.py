"""Two sweeps beside each other on a terminal, and as JSON."""

import json
from typing import Any

from crowdsweep.analysis.two_sweeps import Pair
from crowdsweep.errors import shortened
from crowdsweep.metrics.shown import number_words
from crowdsweep.metrics.wording import is_share, words
from crowdsweep.views.terminal.grid import Column, Grid

Change = tuple[str, Any, Any]
"""Key path, and what stands there in either sweep file."""
_FILE_COLUMNS = (
    Column(title="sweep file", wraps=True),
    Column(title="A", wraps=True),
    Column(title="B", wraps=True),
)
_PAIR_COLUMNS = (
    Column(title="model"),
    Column(title="A", right=True),
    Column(title="B", right=True),
    Column(title="B − A", right=True),
    Column(title="95 % interval", right=True, drop=1, below="B is"),
    Column(title="B is", wraps=True),
    Column(title="seeds", right=True, drop=2),
)


def changes_grid(changes: list[Change]) -> Grid:
    """Returns what two sweep files say differently."""
    rows = [[key, _value(before), _value(after)] for key, before, after in changes]
    return Grid(columns=_FILE_COLUMNS, groups={"": rows})


def pairs_grid(pairs: list[Pair]) -> Grid:
    """Returns the models of both sweeps, in groups by dataset."""
    groups: dict[str, list[list[str]]] = {}
    for pair in pairs:
        heading = f"{pair.dataset} · {words(pair.metric)}" if pair.metric else pair.dataset
        groups.setdefault(heading, []).append(_row(pair))
    return Grid(columns=_PAIR_COLUMNS, groups=groups, group="dataset")


def as_mapping(changes: list[Change], pairs: list[Pair]) -> dict[str, Any]:
    """Returns both for programs."""
    told = [{"key": key, "first": before, "second": after} for key, before, after in changes]
    return {"differences": told, "scores": [_mapping(pair) for pair in pairs]}


def _row(pair: "Pair") -> list[str]:
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
        pair.second_is or pair.why,
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
        "second_is": pair.second_is or pair.why,
    }


def _value(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, dict):
        return "there"  # a whole entry; JSON has it all
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        return f"{len(value)} of them"
    return shortened(value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False, default=str))
