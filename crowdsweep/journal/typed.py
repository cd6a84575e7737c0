"""Whether the values of a record are of the types that it declares: rows are text, and somebody may have changed one.

Each type becomes a function once; looking at a row then costs microseconds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, TypedDict, Union, get_args, get_origin, get_type_hints, is_typeddict

from crowdsweep.errors import shortened
from crowdsweep.trial.spec import TrialSpec, digest

Check = Callable[[Any], bool]
_KEYED = ("params", "dataset_params", "point")  # a hash of these is a trial's key
_LARGEST = 2**63  # of whole numbers: tables hold them in 64 bits
_LARGEST_EXACT = 2**53  # of those that stand for a number with decimals


class _Named(TypedDict):
    name: str
    label: NotRequired[str | None]
    params: NotRequired[Mapping[str, Any] | None]


class _Metric(TypedDict):
    name: str
    goal: Literal["maximize", "minimize"]


class _Study(TypedDict):
    template: str


class _Value(TypedDict):
    model: str
    dataset: str
    metric: str
    value: float


class _Published(TypedDict, total=False):
    table: str
    values: Sequence[_Value]


class _Config(TypedDict, total=False):
    # What is read of a sweep file that a journal keeps.
    metric: _Metric | None
    study: _Study | None
    published: _Published | None
    models: Sequence[_Named]
    budget: Mapping[str, float | None]
    tracking: Mapping[str, str | bool | None]


def check_config(config: Any) -> None:
    """Checks what is read of a sweep file that a journal keeps.

    Raises:
        TypeError: it has not the form that a sweep file has.
        ValueError: it holds what no sweep file can: a number that is not finite, half a character.
    """
    digest(dict(config))
    for name, hint in get_type_hints(_Config).items():
        if name in config and not _check(hint)(config[name]):
            raise TypeError(f"the sweep file's {name!r} is none: {shortened(repr(config[name]))}")


def check_types(record: Any) -> None:
    """Checks a record, and the records in it.

    Raises:
        TypeError: a value is not of the type that its field declares, or is of parameters of which no key can be made;
            the message names the field.
    """
    for name, hint, check in _fields(type(record)):
        value = getattr(record, name)
        if is_dataclass(value):
            check_types(value)
            if isinstance(value, TrialSpec):
                _ = value.key  # kept with it, and asked for next
        if not check(value):
            raise TypeError(f"field {name!r}: expected {hint}, got {shortened(repr(value))}")


@cache
def _fields(record: type[Any]) -> tuple[tuple[str, str, Check], ...]:
    hints = get_type_hints(record)
    return tuple(
        (
            field.name,
            field.type if isinstance(field.type, str) else _words(hints[field.name]),
            _keyable(_check(hints[field.name])) if field.name in _KEYED else _check(hints[field.name]),
        )
        for field in fields(record)
        if field.metadata.get("journalled", True)
    )


def _keyable(check: Check) -> Check:
    """Returns a check that also refuses what no key can be made of: a number that is not finite, half a character."""

    def is_keyable(value: Any) -> bool:
        try:
            return check(value) and bool(digest(dict(value)))
        except (TypeError, ValueError):
            return False

    return is_keyable


def _words(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "").replace("collections.abc.", "")


@cache
def _check(hint: Any) -> Check:
    """Returns what tells whether a value is of a type; of one that is not looked into, everything is."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if origin in (Union, UnionType):
        checks = [_check(argument) for argument in arguments]
        return lambda value: any(check(value) for check in checks)
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in arguments
    if is_typeddict(hint):
        inside = {name: _check(part) for name, part in get_type_hints(hint).items()}
        needed = hint.__required_keys__
        return lambda value: (
            isinstance(value, Mapping)
            and needed <= value.keys()
            and all(check(value[name]) for name, check in inside.items() if name in value)
        )
    if origin is Mapping:
        of_name, of_value = map(_check, arguments)
        return lambda value: (
            isinstance(value, Mapping) and all(map(of_name, value)) and all(map(of_value, value.values()))
        )
    if origin is tuple and arguments[-1] is not Ellipsis:
        checks = [_check(argument) for argument in arguments]
        return lambda value: (
            isinstance(value, tuple)
            and len(value) == len(checks)
            and all(check(part) for check, part in zip(checks, value, strict=True))
        )
    if origin in (Sequence, tuple):
        of_each = _check(arguments[0])
        return lambda value: isinstance(value, list | tuple) and all(map(of_each, value))
    if isinstance(hint, type) and is_dataclass(hint):
        return lambda value: (
            isinstance(value, hint) and all(check(getattr(value, name)) for name, _, check in _fields(hint))
        )
    if isinstance(hint, type) and issubclass(hint, Enum):
        return lambda value: isinstance(value, hint)
    raise TypeError(f"expected a type that the journal knows, got {hint}")


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (_is_whole(value) and abs(value) <= _LARGEST_EXACT)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -_LARGEST <= value < _LARGEST


_SIMPLE: Mapping[Any, Check] = {
    Any: lambda value: True,  # noqa: ARG005
    NoneType: lambda value: value is None,
    bool: lambda value: isinstance(value, bool),
    str: lambda value: isinstance(value, str),
    int: _is_whole,
    float: _is_number,
}
