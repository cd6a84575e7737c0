"""Typed reading of values with their places in files: keys must be known, values of the right type; none is converted.

A wrong value raises SweepFileError, whose message says where the value is, what was expected and what was given.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import ValidationError

from crowdsweep.errors import Mistakes, SweepFileError, Where, shortened, suggestion
from crowdsweep.registry.parameters import adapter, describe_type, meant
from crowdsweep.sweepfile.other_words import EXAMPLES, right_place

_BULLETS = re.compile(r"\s[-–—•*]\s*")
_OF_MODELS = {"params", "search", "label", "datasets", "resources"}


def typed(hint: Any, given: Any, where: Where) -> Any:
    """Returns a value checked against a type. Records and lists of records are read key by key, so that a message names
    the innermost place; pydantic checks all other types."""
    if is_dataclass(hint):
        return _record(hint, given, where)
    if get_origin(hint) is tuple and is_dataclass(part := get_args(hint)[0]):
        found: list[Any] = []
        with Mistakes() as mistakes:
            for index, entry in enumerate(list_of(given, where)):
                with mistakes.apart():
                    found.append(_record(part, entry, where.at(index)))
        return tuple(found)
    try:
        return adapter(hint).validate_python(given, strict=True)
    except ValidationError:
        written = meant(given, lambda other: adapter(hint).validate_python(other, strict=True), hint, _section(where))
        raise SweepFileError(where.says(f"expected {describe_type(hint)}; got {_shown(given)}{written}")) from None


def text(given: Any, where: Where) -> str:
    """Returns the given text, after a check that it is text."""
    return typed(str, given, where)


def list_of(given: Any, where: Where, what: str = "") -> list[Any]:
    """Returns the given list, after a check that it is a list, and is not empty where `what` names its entries."""
    if not isinstance(given, list) or (what and not given):
        raise SweepFileError(
            where.says(f"expected a list{what and f' with at least one {what}'}, got {_shown(given)}{_as_list(given)}")
        )
    return given


def mapping_of(
    given: Any, where: Where, known: Sequence[str] | None = None, mistakes: Mistakes | None = None
) -> Mapping[str, Any]:
    """Returns the given mapping, after a check that it is a mapping and that its keys are known.

    Args:
        mistakes: keeps unknown keys, which are then not in the result; without it they are raised.
    """
    section = _section(where)
    if not isinstance(given, Mapping):
        wanted = f" of {', '.join(known)}" if known is not None else ""
        example = f"; write {EXAMPLES[section]}" if section in EXAMPLES else ""
        raise SweepFileError(where.says(f"expected a mapping{wanted}; got {_shown(given)}{example}"))
    if known is None or not (unknown := [key for key in given if key not in known]):
        return given
    with Mistakes() if mistakes is None else nullcontext(mistakes) as kept:
        for key in unknown:
            told = right_place(key, section) or suggestion(key, known)
            kept.keep(SweepFileError(where.at(key).says(f"unknown key {shortened(key)!r}; {told}")))
    return {key: value for key, value in given.items() if key in known}


def named_entries(given: Any, where: Where, kind: str, mistakes: Mistakes) -> Iterator[tuple[Where, Mapping[str, Any]]]:
    """Yields the place of each entry of a list, and the entry as a mapping with a name; plain text becomes the name.

    Args:
        mistakes: keeps entries that are neither, and are not yielded.
    """
    for index, entry in enumerate(list_of(given, where, kind)):
        place = where.at(index)
        if isinstance(entry, str):
            yield place, {"name": entry}
        elif isinstance(entry, Mapping) and "name" in entry:
            yield place, entry
        else:
            told = f"expected a {kind}'s name, or a mapping with `name`; got {_shown(entry)}{_with_name(entry, kind)}"
            mistakes.keep(SweepFileError(place.says(told)))


def _as_list(given: Any) -> str:
    """Returns how to write what is given as a list."""
    match given:
        case str():
            entries = [entry.strip() for entry in _BULLETS.split(f" {given}") if entry.strip()]
            return f"; write [{shortened(', '.join(entries))}]"
        case Mapping() if given:  # pyright: ignore[reportUnknownVariableType]: it comes from YAML
            return f"; write a list of entries, the first `- name: {shortened(str(next(iter(given))))}`"  # pyright: ignore[reportUnknownArgumentType]: as above
        case _:
            return ""


def _with_name(entry: Any, kind: str) -> str:
    """Returns how to write an entry that has its name elsewhere: `- cmm: {…}`, `- {model: cmm}`, a list in a list."""
    if isinstance(entry, list):
        return "; write each as an entry of its own"
    if not isinstance(entry, Mapping):
        return ""
    keys = list(map(str, entry))
    if named := next((key for key in keys if key in ("model", "dataset", "path", "folder", "id", "type")), ""):
        return f"; write `name` for `{named}`"
    if len(keys) > 1 or keys[0] in _OF_MODELS or not isinstance(inside := entry[keys[0]], Mapping):
        return ""
    own = kind == "dataset" or inside.keys() & _OF_MODELS
    beside = [f"{key}: …" for key in inside] if own else ["params: {…}"]
    return f"; write {{{shortened(', '.join([f'name: {keys[0]}', *beside]))}}}"


def _section(where: Where) -> str:
    """Returns the last key above a value that is no position of a list; empty for the top of the file."""
    return next((key for key in reversed(where.path) if isinstance(key, str)), "")


@cache
def field_types(record: type[Any]) -> dict[str, Any]:
    """Returns the type of each field of a record, with its limits."""
    return get_type_hints(record, include_extras=True)


def _record(kind: Any, given: Any, where: Where) -> Any:
    members = [member.name for member in fields(kind)]
    read: dict[str, Any] = {}
    with Mistakes() as mistakes:
        values = mapping_of(given, where, members, mistakes)
        for member in fields(kind):
            if member.name not in values and member.default is MISSING and member.default_factory is MISSING:
                mistakes.keep(SweepFileError(where.says(f"{member.name} is missing; expected {', '.join(members)}")))
        for key, value in values.items():
            with mistakes.apart():
                read[key] = typed(field_types(kind)[key], value, where.at(key))
    return kind(**read)


def _shown(given: Any) -> str:
    return "nothing" if given is None else shortened(repr(given))
