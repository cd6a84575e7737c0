"""A row's JSON says the same whichever reader reads it, the fast one or Python's, damaged or not."""

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from mutations import flipped, pieced, renumbered, retyped, scarred

from crowdsweep.errors import JournalError
from crowdsweep.record.codec import Decoder, _decode_slowly, _loaded, decode
from crowdsweep.record.events import TrialPlanned
from crowdsweep.record.rows import parse_row

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


ROWS = [
    row.text
    for journal in sorted((Path(__file__).parents[1] / "assets/journals").glob("*/*/journal.jsonl"))
    for line in journal.read_bytes().splitlines(keepends=True)
    if (row := parse_row(line)) is not None
]
PLANNED = [row for row in ROWS if b'"trial_planned"' in row]
WAYS = (retyped, retyped, retyped, renumbered, scarred, flipped, pieced)
ODD_SEEDS = (
    *(b"7", b"0", b"12345678901234567890", b"-1", b"007", b"1.0", b"1e2", b"true", b"null", b'"1"', b" 3", b"3 ", b""),
    *(b'3,"seed":4', b'3,"s\\u0065ed":4', b'3,"model":"x"', b'3}},"x":{"a":{"b":1'),
)


def read_by(reader: Callable[[bytes], Any], text: bytes) -> str:
    try:
        event = reader(text)
        return repr(event) + (event.spec.key + event.spec.cell_key if isinstance(event, TrialPlanned) else "")
    except JournalError as error:
        return f"{type(error).__name__}: {error}"


def test_a_row_is_read_in_one_pass_as_it_is_in_two() -> None:
    """Whatever was done to it: the same record, or refused in the same words."""
    ends: Counter[bool] = Counter()
    for number in range(1_500):
        draw = random.Random(number)
        text = draw.choice(ROWS) if number % 50 else ROWS[number // 50]
        if number % 50:
            with suppress(ValueError, RecursionError):  # another change than this may have left no JSON
                text = draw.choice(WAYS)(json.dumps(json.loads(text), separators=(",", ":")).encode(), draw)
                text = json.dumps(json.loads(text), separators=(",", ":")).encode()  # as `encode` writes it
        once, twice = read_by(decode, text), read_by(_decode_slowly, text)
        assert once == twice, f"seed {number}: {text[:2_000]!r}"
        ends[once.startswith("Journal")] += 1
    assert min(ends[True], ends[False]) > 200, ends


def test_trials_of_a_cell_are_read_as_each_alone() -> None:
    """Rows that differ in what stands after `"seed":`, in any order, also where that is no seed."""
    together = Decoder()
    for number in range(2_000):
        draw = random.Random(number)
        row = PLANNED[number // 40]
        if draw.random() < 0.2:
            row = row.replace(b'"params":{', draw.choice([b'"params":{"seed":5,', b'"params":{"a":"seed",']), 1)
        seed = draw.choice(ODD_SEEDS) if draw.random() < 0.5 else str(draw.randrange(100)).encode()
        text = re.sub(rb'("seed":)\d+', lambda found: found[1] + seed, row, count=draw.choice([0, 1]))  # noqa: B023
        assert read_by(together.event, text) == read_by(_decode_slowly, text), text
