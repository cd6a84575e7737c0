"""Typed reading of values with their places in files: keys must be known, values of the right type; none is converted.

A wrong value raises SweepFileError, whose message says where the value is, what was expected and what was given.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import ValidationError

from crowdsweep.errors import SweepFileError, Where, shortened, suggestion
from crowdsweep.registry.parameters import adapter, describe_type


def typed(hint: Any, given: Any, where: Where) -> Any:
    """Returns a value checked against a type. Records and lists of records are read key by key, so that a message names
    the innermost place; pydantic checks all other types."""
    if is_dataclass(hint):
        return _record(hint, given, where)
    if get_origin(hint) is tuple and is_dataclass(part := get_args(hint)[0]):
        return tuple(_record(part, entry, where.at(index)) for index, entry in enumerate(list_of(given, where)))
    try:
        return adapter(hint).validate_python(given, strict=True)
    except ValidationError:
        raise SweepFileError(where.says(f"expected {describe_type(hint)}; got {_shown(given)}")) from None


def text(given: Any, where: Where) -> str:
    """Returns the given text, after a check that it is text."""
    return typed(str, given, where)


def list_of(given: Any, where: Where, what: str = "") -> list[Any]:
    """Returns the given list, after a check that it is a list, and is not empty where `what` names its entries."""
    if not isinstance(given, list) or (what and not given):
        raise SweepFileError(where.says(f"expected a list{what and f' with at least one {what}'}, got {_shown(given)}"))
    return given


def mapping_of(given: Any, where: Where, known: Sequence[str] | None = None) -> Mapping[str, Any]:
    """Returns the given mapping, after a check that it is a mapping and that its keys are known."""
    if not isinstance(given, Mapping):
        wanted = f" of {', '.join(known)}" if known is not None else ""
        raise SweepFileError(where.says(f"expected a mapping{wanted}; got {_shown(given)}"))
    for key in given:
        if known is not None and key not in known:
            raise SweepFileError(where.at(key).says(f"unknown key {shortened(key)!r}; {suggestion(str(key), known)}"))
    return given


def named_entries(given: Any, where: Where, kind: str) -> Iterator[tuple[Where, Mapping[str, Any]]]:
    """Yields the place of each entry of a list, and the entry as a mapping with a name; plain text becomes the name."""
    for index, entry in enumerate(list_of(given, where, kind)):
        place = where.at(index)
        entry = {"name": entry} if isinstance(entry, str) else mapping_of(entry, place)
        if "name" not in entry:
            raise SweepFileError(place.says(f"expected a {kind}'s name, or a mapping with `name`; got {_shown(entry)}"))
        yield place, entry


@cache
def field_types(record: type[Any]) -> dict[str, Any]:
    """Returns the type of each field of a record, with its limits."""
    return get_type_hints(record, include_extras=True)


def _record(kind: Any, given: Any, where: Where) -> Any:
    members = [member.name for member in fields(kind)]
    values = mapping_of(given, where, members)
    for member in fields(kind):
        if member.name not in values and member.default is MISSING and member.default_factory is MISSING:
            raise SweepFileError(where.says(f"{member.name} is missing; expected {', '.join(members)}"))
    return kind(**{key: typed(field_types(kind)[key], value, where.at(key)) for key, value in values.items()})


def _shown(given: Any) -> str:
    return "nothing" if given is None else shortened(repr(given))
