"""The types of what a trial's records hold: pydantic takes nothing else for one, and makes no value into another.

A record that is made in a program is not looked at; one that is read from a row is, by these (`journal.typed`).
"""

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar, get_args

from annotated_types import Ge, Lt
from pydantic import (
    AfterValidator,
    AllowInfNan,
    ConfigDict,
    GetCoreSchemaHandler,
    GetPydanticSchema,
    Strict,
    StringConstraints,
)
from pydantic_core import CoreSchema

from crowdsweep.data.dataset import Scalar

_LARGEST = 2**63
T = TypeVar("T")


def _as_tuple(source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    return handler(tuple[get_args(source)[0], ...])


def _in_64_bits(value: Scalar) -> Scalar:
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        raise ValueError("expected a whole number of 64 bits")
    return value


def _of_one_length(rows: Sequence[Sequence[float]]) -> Sequence[Sequence[float]]:
    lengths = [len(row) for row in rows]
    if not rows or min(lengths) < max(lengths) or not lengths[0]:
        raise ValueError(f"expected a matrix of rows of one length, got rows of {lengths[:20]}")
    return rows


Whole = Annotated[int, Strict(), Ge(-_LARGEST), Lt(_LARGEST)]
"""A whole number; tables hold it in 64 bits."""
Number = Annotated[float, Strict()]
"""A number, NaN and infinity among them."""
Finite = Annotated[float, Strict(), AllowInfNan(False)]
Truth = Annotated[bool, Strict()]
Key = Annotated[str, StringConstraints(pattern="^[0-9a-f]{16}$")]
"""The hash that a trial is known by."""
Many = Annotated[Sequence[T], GetPydanticSchema(_as_tuple)]
"""A sequence; what is read becomes a tuple."""
Matrix = Annotated[Many[Many[Number]], AfterValidator(_of_one_length)]
Setting = Annotated[Scalar, AfterValidator(_in_64_bits)]
ROW = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
"""What a record that rows of the journal are read as is declared with; those in it follow."""
