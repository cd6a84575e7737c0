"""Numbers of numpy are numbers, whichever part of the library they are given to."""

from typing import Any

import numpy as np
import pytest

import crowdsweep as cs


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
@pytest.mark.unchecked  # users need not write int() around them
def test_parameters_of_a_dataset(kind: Any) -> None:
    given = cs.load("gaussians", items=kind(60), annotators=kind(5))
    assert given.dataset.fingerprint == cs.load("gaussians", items=60, annotators=5).dataset.fingerprint
    assert dict(given.params) == {"items": 60, "annotators": 5}
    assert {type(value) for value in given.params.values()} == {int}


def test_parameters_of_a_table() -> None:
    table = {"item": [1, 1, 2, 2], "annotator": ["a", "b", "a", "b"], "label": ["x", "y", "x", "x"]}
    assert cs.load(table, scenario="global").params == {"scenario": "global"}
