"""Typed reading of located values: every key known, every value of its type, nothing converted.

A wrong one raises SweepFileError, whose message says where it stands, what was expected and what came.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, TypeVar, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from crowdsweep.errors import SweepFileError, Where, suggestion
from crowdsweep.registry.parameters import describe_type

Record = TypeVar("Record")


def named_entries(given: Any, where: Where, kind: str) -> Iterator[tuple[Where, Mapping[str, Any]]]:
    """Yields each entry of a list as a mapping with a name, and its place."""
    if not isinstance(given, list) or not given:
        raise SweepFileError(where.says(f"expected a list with at least one {kind}, got {given!r}"))
    for index, entry in enumerate(given):
        place = where.at(index)
        entry = {"name": entry} if isinstance(entry, str) else mapping_of(entry, place)
        if "name" not in entry:
            raise SweepFileError(place.says(f"expected a {kind}'s name, or a mapping with `name`; got {entry!r}"))
        yield place, entry


def record(cls: type[Record], given: Any, where: Where) -> Record:
    """Returns a record from a mapping: every key known, every value of its field's type, no conversions."""
    members = {member.name: member for member in fields(cls)}  # pyright: ignore[reportArgumentType]: all are records
    values = mapping_of(given, where, tuple(members))
    for name, member in members.items():
        if name not in values and member.default is MISSING and member.default_factory is MISSING:
            raise SweepFileError(where.says(f"{name} is missing; expected {', '.join(members)}"))
    return cls(**{key: typed(field_types(cls)[key], value, where.at(key)) for key, value in values.items()})


def mapping_of(given: Any, where: Where, known: Sequence[str] | None = None) -> Mapping[str, Any]:
    """Returns the mapping that was given, having checked that it is one and that its keys are known."""
    if not isinstance(given, Mapping):
        wanted = f" of {', '.join(known)}" if known is not None else ""
        got = "nothing" if given is None else repr(given)
        raise SweepFileError(where.says(f"expected a mapping{wanted}; got {got}"))
    for key in given:
        if known is not None and key not in known:
            raise SweepFileError(where.at(key).says(f"unknown key {key!r}; {suggestion(str(key), known)}"))
    return given


def text(given: Any, where: Where) -> str:
    return typed(str, given, where)


def typed(hint: Any, given: Any, where: Where) -> Any:
    try:
        return _adapter(hint).validate_python(given, strict=True)
    except ValidationError:
        got = "nothing" if given is None else repr(given)
        raise SweepFileError(where.says(f"expected {describe_type(hint)}; got {got}")) from None


@cache
def _adapter(hint: Any) -> Any:  # beartype refuses the hint TypeAdapter[Any]
    return TypeAdapter(hint, config=ConfigDict(allow_inf_nan=False))


@cache
def field_types(cls: type[Any]) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def jsonable(value: Any) -> Any:
    """Returns mappings as dicts and sequences as lists: what JSON has."""
    if isinstance(value, Mapping):
        return {key: jsonable(part) for key, part in value.items()}
    return [jsonable(part) for part in value] if isinstance(value, list | tuple) else value
