"""A sweep file that is edited between two runs: what is asked for afterwards is what a fresh sweep of it gives."""

from collections.abc import Callable
from random import Random
from typing import Any

from chaos.faults import Strike, fault, rows_in_words
from chaos.records import cut_record
from chaos.sandbox import SWEEP, Sandbox

Changes = dict[str, Any]


def _edited(change: Callable[[Random], Changes]) -> Strike:
    def strike(box: Sandbox, draw: Random) -> str:
        cut_record(box, draw)
        box.write(**change(draw))
        return rows_in_words(box)

    return strike


fault("edit: a model more", draws=2)(_edited(lambda draw: {"models": [*SWEEP["models"], "uniform"]}))
fault("edit: a model fewer", draws=1)(_edited(lambda draw: {"models": SWEEP["models"][1:]}))
fault("edit: seeds more", draws=2)(_edited(lambda draw: {"seeds": {**SWEEP["seeds"], "report": draw.choice([7, 9])}}))
fault("edit: a point fewer", draws=1)(_edited(lambda draw: {"budget": {**SWEEP["budget"], "points": 3}}))
