"""A row's JSON says the same whichever reader reads it, the fast one or Python's, damaged or not."""

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from crowdsweep.record.codec import _loaded

ROW = '{"kind":"trial_finished","v":2,"data":{"result":{"metrics":{"a":0.78764,"é":-1e-300},"objective":[1]}}}'
PIECES = (
    *("", '"', "\\", "{", "}", "[", ",", ":", "0", "-", "1e999", "NaN", "-Infinity"),
    *("\ud800", "\\ud800", "\x01", "nul", "é", " "),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


def by_python(text: bytes) -> str:
    try:
        return repr(json.loads(text.decode("utf-8", "surrogatepass")))
    except (ValueError, RecursionError) as error:
        return type(error).__name__


def by_us(text: bytes) -> str:
    try:
        found: Any = _loaded(text)
        return repr(found)
    except (ValueError, RecursionError) as error:
        return type(error).__name__


@given(VALUES, st.booleans())
def test_every_value_comes_back_alike(value: Any, ascii_alone: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_alone).encode("utf-8", "surrogatepass")
    if b'"$float"' not in text:
        assert by_us(text) == by_python(text)


@settings(max_examples=300)
@given(st.integers(0, len(ROW)), st.integers(0, 3), st.sampled_from(PIECES))
@example(0, 0, "[" * 5_000)
@example(0, 0, '{"a":' * 500)
@example(0, len(ROW), "9" * 5_000)
@example(0, len(ROW), "-0")
def test_every_damage_is_the_same_damage(place: int, gone: int, put: str) -> None:
    text = (ROW[:place] + put + ROW[place + gone :]).encode("utf-8", "surrogatepass")
    assert by_us(text) == by_python(text)
