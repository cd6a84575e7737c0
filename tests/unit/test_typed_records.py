"""What stands in a file becomes a record of the declared types, or is refused by its place."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Len

from crowdsweep.files.typed import Expected, Finite, Many, Matrix, Number, Text, Truth, Whole, WrongValue, read_as


@dataclass(frozen=True, kw_only=True)
class Part:
    size: Whole = 1


@dataclass(frozen=True, kw_only=True)
class Record:
    name: Text
    part: Part = Part()
    numbers: Many[Number] = ()
    shares: Mapping[str, Finite] | None = None
    matrix: Matrix | None = None
    kind: Literal["a", "b"] = "a"
    setting: Text | Whole | Truth | None = None
    two: Annotated[Many[Text], Len(2, 2), Expected("two names")] = ()


def test_lists_become_tuples_and_mappings_records() -> None:
    given = {"name": "x", "part": {"size": 3}, "numbers": [1, 2.5], "matrix": [[1.0], [2.0]], "more": "is no matter"}
    read = read_as(Record, given)
    assert read == Record(name="x", part=Part(size=3), numbers=(1.0, 2.5), matrix=((1.0,), (2.0,)))
    assert isinstance(read.numbers, tuple)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "field 'name': expected a value; got None"),
        ({"name": b"x"}, "field 'name': expected text; got b'x'"),
        ({"name": "x", "part": [1]}, r"field 'part': expected a mapping; got \[1\]"),
        ({"name": "x", "part": {"size": True}}, r"field 'part\.size': expected a whole number; got True"),
        ({"name": "x", "part": {"size": 2.0}}, r"field 'part\.size': expected a whole number; got 2\.0"),
        ({"name": "x", "part": {"size": 2**63}}, r"field 'part\.size': expected a whole number of 64 bits; got 922"),
        ({"name": "x", "numbers": [1, "2"]}, r"field 'numbers\.1': expected a number; got '2'"),
        ({"name": "x", "numbers": {1.0}}, "field 'numbers': expected a list; got"),
        (
            {"name": "x", "numbers": [10**400]},
            r"field 'numbers\.0': expected a number that decimals hold exactly; got 1000",
        ),
        ({"name": "x", "shares": {"a": float("nan")}}, r"field 'shares\.a': expected a finite number; got nan"),
        (
            {"name": "x", "matrix": [[1.0], []]},
            r"field 'matrix': expected a matrix of rows of one length, got .*\[1, 0\]",
        ),
        ({"name": "x", "kind": "c"}, "field 'kind': expected 'a' or 'b'; got 'c'"),
        (
            {"name": "x", "setting": [1]},
            r"field 'setting': expected text or a whole number or true or false; got \[1\]",
        ),
        ({"name": "x", "two": ["a"]}, r"field 'two': expected two names; got \['a'\]"),
    ],
)
def test_what_is_wrong_is_told_by_its_place(given: dict[str, Any], told: str) -> None:
    with pytest.raises(WrongValue, match=told):
        read_as(Record, given)
