"""Validation of records read from files, which somebody may have changed: a typed record or an error naming the fault.

A record declares its fields with the types of this module. Pydantic checks the values strictly: it never converts text
to numbers, for example. Records that code constructs are not validated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, get_args

from annotated_types import Ge, Lt
from pydantic import (
    AfterValidator,
    AllowInfNan,
    BeforeValidator,
    ConfigDict,
    FailFast,
    GetCoreSchemaHandler,
    GetPydanticSchema,
    Strict,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import CoreSchema, core_schema

from crowdsweep.errors import shortened

T = TypeVar("T")
_LARGEST, _LARGEST_EXACT = 2**63, 2**53
_QUICK, _ALL = "(quick)", "(all)"
"""Names of the two ways to check a number, in the places of pydantic's errors."""


class WrongValue(ValueError):
    """A value does not have the type of its field.

    Attributes:
        field: path of the field, such as `network.widths`.
        expected: the expected value, in words.
        got: the value; None if it is missing.
    """

    def __init__(self, field: str, expected: str, got: object) -> None:
        super().__init__(f"field {field!r}: expected {expected}; got {shortened(repr(got))}")
        self.field, self.expected, self.got = field, expected, got


@dataclass(frozen=True)
class Expected:
    """Annotation after a type and its limits: the words with which an error describes the expected value."""

    words: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.custom_error_schema(
            handler(source), "expected", custom_error_message="{words}", custom_error_context={"words": self.words}
        )


def _as_tuple(source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    of_lists = handler(Annotated[list[get_args(source)[0]], Strict(), FailFast()])  # strict: a set has no order
    return core_schema.no_info_after_validator_function(tuple, of_lists)


def _quick(source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    """Has numbers whose decimals are exact checked without a call of Python, and only others as the type says."""
    exact = core_schema.float_schema(strict=True, ge=-_LARGEST_EXACT, le=_LARGEST_EXACT)
    return core_schema.union_schema([(exact, _QUICK), (handler(source), _ALL)], mode="left_to_right")


def _exact(value: Any) -> Any:
    if isinstance(value, int) and abs(value) > _LARGEST_EXACT:
        raise ValueError("a number that decimals hold exactly")
    return value


def _of_one_length(rows: Sequence[Sequence[float]]) -> Sequence[Sequence[float]]:
    lengths = [len(row) for row in rows]
    if not rows or min(lengths) < max(lengths) or not lengths[0]:
        raise ValueError(f"expected a matrix of rows of one length, got rows of {lengths[:20]}")
    return rows


Text = Annotated[str, Strict()]
Whole = Annotated[int, Strict(), Ge(-_LARGEST), Lt(_LARGEST)]
"""A whole number of 64 bits, so that tables can store it."""
Number = Annotated[float, Strict(), BeforeValidator(_exact), GetPydanticSchema(_quick)]
"""A number; NaN and infinity are allowed."""
Finite = Annotated[float, Strict(), AllowInfNan(False), BeforeValidator(_exact), GetPydanticSchema(_quick)]
Truth = Annotated[bool, Strict()]
Many = Annotated[Sequence[T], GetPydanticSchema(_as_tuple)]
"""A sequence; a list that is read becomes a tuple."""
Matrix = Annotated[Many[Many[Number]], AfterValidator(_of_one_length)]
WHOLE_RECORD = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
"""Pydantic configuration of a record that rejects unknown fields, in itself and in the records nested in it."""

_EXPECTED = {
    "missing": "a value",
    "unexpected_keyword_argument": "no field of this name",
    "string_type": "text",
    "int_type": "a whole number",
    "less_than": "a whole number of 64 bits",
    "greater_than_equal": "a whole number of 64 bits",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "dataclass_type": "a mapping",
}
"""Pydantic's error type → the expected value, worded as in the project's other messages."""


def read_as(record: type[T], given: Any, *above: str) -> T:
    """Returns a record, validated from content of a file.

    Args:
        record: the dataclass to return.
        given: its fields, as a JSON or YAML parser returns them.
        above: names of the enclosing fields, for error messages.

    Raises:
        WrongValue: a value does not have the type of its field.
    """
    try:
        return _validator(record).validate_python(given)
    except ValidationError as error:
        wrong = [one for one in error.errors(include_url=False) if _QUICK not in one["loc"]]
    for one in wrong:
        one["loc"] = tuple(part for part in one["loc"] if part != _ALL)
    first, place, got = wrong[0], wrong[0]["loc"], wrong[0]["input"]
    ways = [one for one in wrong if one["loc"][:-1] == place[:-1] and one["input"] is got]
    if len(ways) > 1 and first["type"] != "missing":  # a union: each of its types reports an error
        place = place[:-1]
    words = dict.fromkeys(_EXPECTED.get(one["type"]) or _plain(one["msg"]) for one in ways)
    if first["type"] == "missing":
        got, words = None, [_EXPECTED["missing"]]
    raise WrongValue(".".join(map(str, [*above, *place])), " or ".join(words), got)


def _plain(message: str) -> str:
    return message.removeprefix("Value error, ").removeprefix("expected ").removeprefix("Input should be ")


def read_json_as(record: type[T], text: bytes) -> T:
    """Returns the record that `read_as` makes of the value of JSON text, in one pass.

    Raises:
        ValueError: the text is no JSON, or a value does not have the type of its field; `read_as` says which. Some
            values that Python's JSON has are refused, such as lone surrogates.
    """
    return _validator(record).validate_json(text)


@cache
def _validator(record: Any) -> Any:
    return TypeAdapter(record).validator
