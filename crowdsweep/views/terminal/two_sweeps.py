"""Two sweeps, or several, beside each other on a terminal, and as JSON."""

import json
from collections.abc import Sequence
from typing import Any

from crowdsweep.analysis.sweep import AnalysedSweep
from crowdsweep.analysis.two_sweeps import Pair, letter_of
from crowdsweep.errors import shortened
from crowdsweep.metrics.shown import number_words
from crowdsweep.metrics.wording import is_share, words
from crowdsweep.views.terminal.grid import Column, Grid

Change = tuple[str, Any, Any]
"""Key path, and what stands there in either sweep file."""
_PAIR_COLUMNS = (
    Column(title="model"),
    Column(title="A", right=True),
    Column(title="B", right=True),
    Column(title="B − A", right=True),
    Column(title="95 % interval", right=True, drop=1, below="B is"),
    Column(title="B is", wraps=True),
    Column(title="seeds", right=True, drop=2),
)


_SEVERAL_COLUMNS = (
    Column(title="model"),
    Column(title="sweep"),
    Column(title="A", right=True),
    Column(title="its score", right=True),
    Column(title="less A", right=True),
    Column(title="95 % interval", right=True, drop=1, below="it is"),
    Column(title="it is", wraps=True),
    Column(title="seeds", right=True, drop=2),
)


def several_changes_grid(changes: Sequence[tuple[str, Sequence[Any]]]) -> Grid:
    """Returns what several sweep files say differently."""
    letters = [letter_of(number) for number in range(max(len(values) for _, values in changes))]
    columns = [Column(title="sweep file", wraps=True), *(Column(title=letter, wraps=True) for letter in letters)]
    return Grid(columns=columns, groups={"": [[key, *map(_value, values)] for key, values in changes]})


def several_pairs_grid(pairs: Sequence[Sequence[Pair]]) -> Grid:
    """Returns the models of several sweeps, each beside the first, in groups by dataset.

    Args:
        pairs: of the second sweep with the first, of the third with the first, and so on.
    """
    groups: dict[str, list[tuple[str, list[str]]]] = {}
    for number, own in enumerate(pairs, start=1):
        for pair in own:
            model, *rest = _row(pair)
            groups.setdefault(_heading(pair), []).append((model, [model, letter_of(number), *rest]))
    shown: dict[str, list[list[str]]] = {}
    for heading, rows in groups.items():
        order = list(dict.fromkeys(model for model, _ in rows))
        shown[heading] = [row for _, row in sorted(rows, key=lambda one: order.index(one[0]))]
    return Grid(columns=_SEVERAL_COLUMNS, groups=shown, group="dataset")


def several_as_mapping(
    sweeps: Sequence[AnalysedSweep],
    changes: Sequence[tuple[str, Sequence[Any]]],
    pairs: Sequence[Sequence[Pair]],
) -> dict[str, Any]:
    """Returns all of it for programs."""
    told = {letter_of(number): sweep for number, sweep in enumerate(sweeps)}
    return {
        "sweeps": [{"sweep": letter, "name": one.state.name, "store": str(one.store)} for letter, one in told.items()],
        "differences": [{"key": key, "values": dict(zip(told, values, strict=True))} for key, values in changes],
        "scores": [
            {"sweep": letter_of(number), **_mapping(pair)} for number, own in enumerate(pairs, start=1) for pair in own
        ],
    }


def changes_grid(changes: list[Change]) -> Grid:
    """Returns what two sweep files say differently."""
    return several_changes_grid([(key, (before, after)) for key, before, after in changes])


def pairs_grid(pairs: list[Pair]) -> Grid:
    """Returns the models of both sweeps, in groups by dataset."""
    groups: dict[str, list[list[str]]] = {}
    for pair in pairs:
        groups.setdefault(_heading(pair), []).append(_row(pair))
    return Grid(columns=_PAIR_COLUMNS, groups=groups, group="dataset")


def as_mapping(changes: list[Change], pairs: list[Pair]) -> dict[str, Any]:
    """Returns both for programs."""
    told = [{"key": key, "first": before, "second": after} for key, before, after in changes]
    return {"differences": told, "scores": [_mapping(pair) for pair in pairs]}


def _heading(pair: Pair) -> str:
    return f"{pair.dataset} · {words(pair.metric)}" if pair.metric else pair.dataset


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
