"""Hyper-parameters: the flat names that people write, and the checked record that they make.

A record is a frozen dataclass whose annotations say what each field takes (`Annotated[float, Ge(0)]`) and whose
docstring has a line for each field (`Attributes:`). A record may hold others: their fields are written flat, as if
they were its own, so that a sweep file says `hidden: [64]` and not `classifier: {network: {hidden: [64]}}`.

A field that holds one of several records is marked by `Variants`: its own name, in the flat parameters, says which.
"""

import dataclasses
import inspect
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

import annotated_types as at
from pydantic import ConfigDict, TypeAdapter, ValidationError

from crowdsweep.errors import BadInput, UnknownName


@dataclasses.dataclass(frozen=True)
class Variants:
    """Marks a field that holds one of several records: `network: Annotated[Any, Variants(known_networks)]`.

    Attributes:
        records: returns the record of each name that may be chosen. A record with a field of the marked field's name
            keeps the chosen name in it; of others the type says which was chosen.
    """

    records: Callable[[], Mapping[str, type[Any]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameter:
    """One hyper-parameter, for display and for checks.

    Attributes:
        name: as it is written.
        about: its line of the docstring; empty where there is none.
        allowed: in words: `integer, at least 1`.
        hint: the annotation that says so.
        default: JSON-able; None also where the field has no default (`required`).
        required: whether it has no default.
    """

    name: str
    about: str
    allowed: str
    hint: Any
    default: Any
    required: bool


def parameters_of(owner: type[Any], given: Mapping[str, Any] | None = None) -> dict[str, Parameter]:
    """Returns the hyper-parameters of a record by name, in the order of its fields, those of held records in place.

    Args:
        owner: the record.
        given: flat parameters; which of several records is held may depend on them.

    Raises:
        TypeError: two of the records that it holds have a field of the same name, so that it cannot be written flat.
    """
    found: dict[str, Parameter] = {}
    for parameter in _walk(owner, None, given or {}):
        if parameter.name in found:
            raise TypeError(f"{owner.__name__} holds two fields that are called {parameter.name!r}; rename one")
        found[parameter.name] = parameter
    return found


def every_parameter_of(owner: type[Any]) -> list[tuple[Parameter, Mapping[str, list[str]]]]:
    """Returns the hyper-parameters of a record whatever is chosen, each with the choices that bring it: by the name of
    what chooses, and empty where all of its choices do."""
    found = parameters_of(owner)
    brought_by: dict[str, dict[str, list[str]]] = {}
    for choosing in list(found.values()):
        choices = get_args(choosing.hint) if get_origin(choosing.hint) is Literal else ()
        brought = {choice: parameters_of(owner, {choosing.name: choice}) for choice in choices}
        for parameters in brought.values():
            found = {**found, **{key: known for key, known in parameters.items() if key not in found}}
        found = {
            key: dataclasses.replace(known, about=_about_each(key, known.about, brought))
            for key, known in found.items()
        }
        for key in found:
            having = [choice for choice, parameters in brought.items() if key in parameters]
            if 0 < len(having) < len(brought):
                brought_by.setdefault(key, {})[choosing.name] = having
    return [(parameter, brought_by.get(key, {})) for key, parameter in found.items()]


def build(owner: type[Any], params: Mapping[str, Any], subject: str) -> Any:
    """Returns the record with these flat parameters, all others at their defaults.

    Integers are taken for floats and lists for tuples; nothing else is converted.

    Args:
        owner: the record.
        params: by name.
        subject: what messages call it (`model 'cmm'`).

    Raises:
        UnknownName: it has no such parameter.
        BadInput: a value has the wrong type or lies outside its range, a parameter without a default is missing, or one
            belongs to a record that is not the one that was chosen.
    """
    known = parameters_of(owner, params)
    for name in params:
        if name in known:
            continue
        if homes := list(_homes(owner, name, params)):
            raise BadInput(f"{subject}, parameter {name!r}: expected beside {' or '.join(homes)}, which was not chosen")
        raise UnknownName("parameter", name, known, where=subject)
    checked: dict[str, Any] = {}
    for name, parameter in known.items():
        if name in params:
            checked[name] = _checked(parameter, params[name], subject)
        elif parameter.required:
            raise BadInput(f"{subject}, parameter {name!r}: expected {parameter.allowed}; got nothing")
    try:
        return _assembled(owner, None, checked)
    except ValueError as error:  # the record's own check of how its parameters go together
        raise BadInput(f"{subject}: {error}") from None


def flat(record: Any) -> dict[str, Any]:
    """Returns the parameters of a record by name, JSON-able, in the order of its fields."""
    values: dict[str, Any] = {}
    for field, variants in _fields(type(record)):
        value = getattr(record, field.name)
        if variants is not None:
            own = flat(value)
            if field.name not in own:
                names = (name for name, record_type in variants.items() if record_type is type(value))
                values[field.name] = next(names)
            values.update(own)
        elif dataclasses.is_dataclass(value):
            values.update(flat(value))
        else:
            values[field.name] = _jsonable(value)
    return values


def describe_type(hint: Any) -> str:
    """Says in words what a field's annotation allows: `number, at least 0, or null`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hasattr(hint, "__metadata__"):
        return ", ".join([describe_type(hint.__origin__), *_limits(hint.__metadata__)])
    if origin is Literal:
        return "one of " + ", ".join(map(json.dumps, arguments))
    if origin in (tuple, Sequence):
        inner = [argument for argument in arguments if argument is not Ellipsis]
        return "list of (" + "; ".join(describe_type(argument) for argument in inner) + ")"
    if origin is Mapping:
        return f"mapping from {describe_type(arguments[0])} to ({describe_type(arguments[1])})"
    if arguments:  # a union
        return ", or ".join(describe_type(argument) for argument in arguments)
    return {int: "integer", float: "number", bool: "true or false", str: "text", type(None): "null"}.get(
        hint, str(hint)
    )


def _walk(owner: type[Any], default: Any, given: Mapping[str, Any]) -> Iterator[Parameter]:
    """Yields the parameters of a record whose defaults are those of the instance `default`, where there is one."""
    hints, about = _hints(owner), lines_of(owner)
    for field, variants in _fields(owner):
        held = _default(field) if default is None else getattr(default, field.name)
        if variants is not None:
            chosen, instance = _chosen(field.name, variants, held, given)
            inner = list(_walk(chosen, instance, given))
            names = Literal[tuple(variants)]  # pyright: ignore[reportInvalidTypeForm]: made of what may be named
            yield Parameter(
                name=field.name,
                about=about.get(field.name, ""),
                allowed=describe_type(names),
                hint=names,
                default=None if held is dataclasses.MISSING else _name_in(field.name, variants, held),
                required=held is dataclasses.MISSING,
            )
            yield from (parameter for parameter in inner if parameter.name != field.name)
        elif _is_record(hints[field.name]):
            yield from _walk(hints[field.name], None if held is dataclasses.MISSING else held, given)
        else:
            yield Parameter(
                name=field.name,
                about=about.get(field.name, ""),
                allowed=describe_type(hints[field.name]),
                hint=hints[field.name],
                default=None if held is dataclasses.MISSING else _jsonable(held),
                required=held is dataclasses.MISSING,
            )


def _about_each(key: str, about: str, brought: Mapping[str, Mapping[str, Parameter]]) -> str:
    """Returns what a parameter means; where that depends on a choice, for each choice."""
    meanings: dict[str, list[str]] = {}
    for choice, parameters in brought.items():
        if key in parameters and parameters[key].about:
            meanings.setdefault(parameters[key].about.rstrip("."), []).append(choice)
    if len(meanings) < 2:
        return about
    return "; ".join(f"with {', '.join(choices)}: {meaning}" for meaning, choices in meanings.items())


def _homes(owner: type[Any], name: str, given: Mapping[str, Any]) -> Iterator[str]:
    """Yields what would have to be chosen for a parameter to be known: `network: text_cnn`."""
    for field, variants in _fields(owner):
        if variants is not None:
            yield from (f"{field.name}: {key}" for key, held in variants.items() if name in parameters_of(held, given))
        elif _is_record(hint := _hints(owner)[field.name]):
            yield from _homes(hint, name, given)


def _assembled(owner: type[Any], default: Any, values: Mapping[str, Any]) -> Any:
    hints = _hints(owner)
    made: dict[str, Any] = {}
    for field, variants in _fields(owner):
        held = _default(field) if default is None else getattr(default, field.name)
        if variants is not None:
            chosen, instance = _chosen(field.name, variants, held, values)
            made[field.name] = _assembled(chosen, instance, values)
        elif _is_record(hints[field.name]):
            made[field.name] = _assembled(hints[field.name], None if held is dataclasses.MISSING else held, values)
        elif field.name in values:
            made[field.name] = values[field.name]
        else:
            made[field.name] = held
    return owner(**made)


def _chosen(name: str, variants: Mapping[str, type[Any]], held: Any, given: Mapping[str, Any]) -> tuple[type[Any], Any]:
    """Returns the record that is held, and the instance whose values are its defaults, if there is one."""
    default = None if held is dataclasses.MISSING else held
    choice = given.get(name)
    wanted = variants[choice] if isinstance(choice, str) and choice in variants else type(default)
    if default is None and wanted is type(None):
        wanted = next(iter(variants.values()))
    return wanted, default if isinstance(default, wanted) else None


def _name_in(name: str, variants: Mapping[str, type[Any]], held: Any) -> str:
    own = getattr(held, name, None)
    return own if isinstance(own, str) else next(key for key, record in variants.items() if record is type(held))


def _checked(parameter: Parameter, value: Any, subject: str) -> Any:
    parts = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(part, float) and not math.isfinite(part) for part in parts):
        raise BadInput(f"{subject}, parameter {parameter.name!r}: expected a finite number; got {value}")
    try:
        text = json.dumps(value, default=_plain_scalar)
        return adapter(parameter.hint).validate_json(text, strict=True)
    except ValidationError:
        got = json.dumps(value, default=repr)
        raise BadInput(f"{subject}, parameter {parameter.name!r}: expected {parameter.allowed}; got {got}") from None


@cache
def adapter(hint: Any) -> Any:  # beartype refuses the hint TypeAdapter[Any]
    """Returns pydantic's judge of a type that is no record; no number is NaN or infinite to it."""
    return TypeAdapter(hint, config=ConfigDict(allow_inf_nan=False))


@cache
def _hints(owner: type[Any]) -> dict[str, Any]:
    return get_type_hints(owner, include_extras=True)


def _fields(owner: type[Any]) -> "Iterator[tuple[dataclasses.Field[Any], Mapping[str, type[Any]] | None]]":
    """Yields the fields of a record, with the records that may be held there where several may."""
    for field in dataclasses.fields(owner):
        marks = getattr(_hints(owner)[field.name], "__metadata__", ())
        mark = next((mark for mark in marks if isinstance(mark, Variants)), None)
        yield field, None if mark is None else mark.records()


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and dataclasses.is_dataclass(hint)


@cache
def lines_of(owner: type[Any]) -> dict[str, str]:
    """Returns the line of each field in the `Attributes:` of a record's docstring; `a, b: text` is a line for both."""
    _, found, section = inspect.cleandoc(owner.__doc__ or "").partition("Attributes:\n")
    lines: dict[str, str] = {}
    if not found:
        return lines
    names: list[str] = []
    for line in section.splitlines():
        entry = re.match(r" {4}(\w+(?:, \w+)*): (.+)$", line)
        if entry:
            names = entry.group(1).split(", ")
            lines.update(dict.fromkeys(names, entry.group(2)))
        elif line.startswith(" " * 8):
            lines.update({name: f"{lines[name]} {line.strip()}" for name in names})
        elif line.strip():
            break
    return lines


def _limits(metadata: tuple[Any, ...]) -> Iterator[str]:
    for limit in metadata:
        for part in limit if isinstance(limit, at.GroupedMetadata) else (limit,):
            match part:
                case at.Ge(ge=bound):
                    yield f"at least {bound}"
                case at.Gt(gt=bound):
                    yield f"above {bound}"
                case at.Le(le=bound):
                    yield f"at most {bound}"
                case at.Lt(lt=bound):
                    yield f"below {bound}"
                case at.MinLen(min_length=bound):
                    yield f"of length at least {bound}"
                case at.MaxLen(max_length=bound):
                    yield f"of length at most {bound}"
                case _:
                    continue


def _plain_scalar(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else repr(value)  # numpy's; anything else is refused as text


def _jsonable(value: Any) -> Any:
    return [_jsonable(part) for part in value] if isinstance(value, tuple | list) else value


def _default(field: "dataclasses.Field[Any]") -> Any:
    """Returns a field's default, `MISSING` where it has none."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default
