"""Comparison of two or more sweeps, on a terminal and as JSON."""

import json
from collections.abc import Sequence
from typing import Any

from crowdsweep.analysis.sweep import AnalysedSweep
from crowdsweep.analysis.two_sweeps import Pair, letter_of
from crowdsweep.errors import shortened
from crowdsweep.metrics.shown import number_words
from crowdsweep.metrics.wording import is_share, words
from crowdsweep.views.terminal.grid import Column, Grid

Changes = Sequence[tuple[str, Sequence[Any]]]
"""Key paths, and their values in each sweep file."""


def changes_grid(changes: Changes) -> Grid:
    """Returns the differences between sweep files."""
    letters = [letter_of(number) for number in range(max(len(values) for _, values in changes))]
    columns = [Column(title="sweep file", wraps=True), *(Column(title=letter, wraps=True) for letter in letters)]
    return Grid(columns=columns, groups={"": [[key, *map(_value, values)] for key, values in changes]})


def pairs_grid(pairs: Sequence[Sequence[Pair]]) -> Grid:
    """Returns the models of each further sweep, in order, beside those of the first, in groups by dataset."""
    several = len(pairs) > 1
    groups: dict[str, list[list[str]]] = {}
    for number, own in enumerate(pairs, start=1):
        for pair in own:
            model, *rest = _row(pair)
            row = [model, *([letter_of(number)] if several else []), *rest]
            heading = f"{pair.dataset} · {words(pair.metric)}" if pair.metric else pair.dataset
            groups.setdefault(heading, []).append(row)
    for rows in groups.values():
        order = list(dict.fromkeys(row[0] for row in rows))
        rows.sort(key=lambda row, order=order: order.index(row[0]))
    score, difference, verdict = ("its score", "less A", "it is") if several else ("B", "B − A", "B is")
    columns = (
        Column(title="model"),
        *([Column(title="sweep")] if several else []),
        Column(title="A", right=True),
        Column(title=score, right=True),
        Column(title=difference, right=True),
        Column(title="95 % interval", right=True, drop=1, below=verdict),
        Column(title=verdict, wraps=True),
        Column(title="seeds", right=True, drop=2),
    )
    return Grid(columns=columns, groups=groups, group="dataset")


def as_mapping(sweeps: Sequence[AnalysedSweep], changes: Changes, pairs: Sequence[Sequence[Pair]]) -> dict[str, Any]:
    """Returns the whole comparison for programs. Two sweeps are `first` and `second`; of more sweeps, each has its
    letter."""
    if len(pairs) == 1:
        changed_keys = [{"key": key, "first": before, "second": after} for key, (before, after) in changes]
        return {"differences": changed_keys, "scores": [_mapping(pair) for pair in pairs[0]]}
    letters = {letter_of(number): sweep for number, sweep in enumerate(sweeps)}
    return {
        "sweeps": [{"sweep": at, "name": one.state.name, "store": str(one.store)} for at, one in letters.items()],
        "differences": [{"key": key, "values": dict(zip(letters, values, strict=True))} for key, values in changes],
        "scores": [
            {"sweep": letter_of(number), **_mapping(pair)} for number, own in enumerate(pairs, start=1) for pair in own
        ],
    }


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
        return "there"  # a whole entry, which only JSON shows
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        return f"{len(value)} of them"
    return shortened(value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False, default=str))
