"""Hyper-parameters: makes checked records from the flat names and values that users write.

A record is a frozen dataclass whose annotations say which values each field takes (`Annotated[float, Ge(0)]`) and whose
docstring has an entry for each field (`Attributes:`). A record may contain others: their fields are written flat, as if
they were its own, so that a sweep file has `hidden: [64]` and not `classifier: {network: {hidden: [64]}}`.

A field that contains one of several records is marked by `Variants`; the flat parameter of the field's name selects the
record.
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
from crowdsweep.meant import instead


@dataclasses.dataclass(frozen=True)
class Variants:
    """Mark of a field that contains one of several records: `network: Annotated[Any, Variants(known_networks)]`.

    Attributes:
        records: returns the record type of each name that can be chosen. A record that has a field of the same name as
            the marked one keeps the chosen name there; for the others, the record's type identifies it.
    """

    records: Callable[[], Mapping[str, type[Any]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameter:
    """One hyper-parameter, for display and for checks.

    Attributes:
        name: its flat name.
        about: its entry in the docstring; empty where there is none.
        allowed: the allowed values in words: `integer, at least 1`.
        hint: the annotation, from which `allowed` is made.
        default: default value, JSON-able; None also where there is none (`required`).
        required: whether it has no default.
    """

    name: str
    about: str
    allowed: str
    hint: Any
    default: Any
    required: bool


def parameters_of(owner: type[Any], given: Mapping[str, Any] | None = None) -> dict[str, Parameter]:
    """Returns the hyper-parameters of a record by flat name, in the order of its fields and of its records' fields.

    Args:
        owner: the record's type.
        given: flat parameters, which may select a record of `Variants`.

    Raises:
        TypeError: two of the contained records have a field of the same name, so that they cannot be written flat.
    """
    found: dict[str, Parameter] = {}
    for parameter in _walk(owner, None, given or {}):
        if parameter.name in found:
            raise TypeError(f"{owner.__name__} holds two fields that are called {parameter.name!r}; rename one")
        found[parameter.name] = parameter
    return found


def every_parameter_of(owner: type[Any]) -> list[tuple[Parameter, Mapping[str, list[str]]]]:
    """Returns all hyper-parameters that a record has under any choice, each with the choices under which it exists.

    The choices are listed by the name of the choosing parameter; none are listed where it exists under all of them.
    """
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
    """Returns a record with these flat parameters, all others at their defaults.

    Integers are accepted for floats and lists for tuples; no other type is converted.

    Args:
        owner: the record's type.
        params: values by flat name.
        subject: what messages call the record (`model 'cmm'`).

    Raises:
        UnknownName: the record has no such parameter.
        BadInput: a value has the wrong type or lies outside its range, a parameter without a default is missing, a
            parameter belongs to a contained record that was not chosen, or the record rejects the combination.
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
    except ValueError as error:  # the record's own check of its parameters' combination
        raise BadInput(f"{subject}: {error}") from None


def flat(record: Any) -> dict[str, Any]:
    """Returns the parameters of a record by flat name, JSON-able, in the order of its fields."""
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
    """Returns the values that an annotation allows, in words: `number, at least 0, or null`."""
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
    """Yields the parameters of a record, with the values of the instance `default` as defaults where there is one."""
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
    """Returns the description of a parameter; where it differs between choices, that of each choice."""
    meanings: dict[str, list[str]] = {}
    for choice, parameters in brought.items():
        if key in parameters and parameters[key].about:
            meanings.setdefault(parameters[key].about.rstrip("."), []).append(choice)
    if len(meanings) < 2:
        return about
    return "; ".join(f"with {', '.join(choices)}: {meaning}" for meaning, choices in meanings.items())


def _homes(owner: type[Any], name: str, given: Mapping[str, Any]) -> Iterator[str]:
    """Yields the choices under which a parameter exists: `network: text_cnn`."""
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
    """Returns the chosen record's type, and the instance whose values are its defaults (None where there is none)."""
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

    def read(given: Any) -> Any:
        return adapter(parameter.hint).validate_json(json.dumps(given, default=_plain_scalar), strict=True)

    try:
        return read(value)
    except ValidationError:
        got = json.dumps(value, default=repr) + meant(value, read, parameter.hint, parameter.name)
        raise BadInput(f"{subject}, parameter {parameter.name!r}: expected {parameter.allowed}; got {got}") from None


def meant(value: Any, read: Callable[[Any], Any], hint: Any, name: str = "") -> str:
    """Returns `; write …`, what was probably meant by a value that `read` refuses; empty where nothing is likely."""

    def fits(other: Any) -> bool:
        try:
            read(other)
        except ValidationError:
            return False
        return True

    return instead(value, fits, key=name, names=[text for text in _choices(hint) if isinstance(text, str)])


def _choices(hint: Any) -> list[Any]:
    """Returns the values of a `Literal`, also of one in a union."""
    parts = get_args(hint)
    return list(parts) if get_origin(hint) is Literal else [choice for part in parts for choice in _choices(part)]


@cache
def adapter(hint: Any) -> Any:  # beartype refuses the hint TypeAdapter[Any]
    """Returns pydantic's validator of a type that is no record; it rejects NaN and infinite numbers."""
    return TypeAdapter(hint, config=ConfigDict(allow_inf_nan=False))


@cache
def _hints(owner: type[Any]) -> dict[str, Any]:
    return get_type_hints(owner, include_extras=True)


def _fields(owner: type[Any]) -> "Iterator[tuple[dataclasses.Field[Any], Mapping[str, type[Any]] | None]]":
    """Yields the fields of a record, each with its `Variants` by name (None for a field without)."""
    for field in dataclasses.fields(owner):
        marks = getattr(_hints(owner)[field.name], "__metadata__", ())
        mark = next((mark for mark in marks if isinstance(mark, Variants)), None)
        yield field, None if mark is None else mark.records()


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and dataclasses.is_dataclass(hint)


@cache
def lines_of(owner: type[Any]) -> dict[str, str]:
    """Returns each field's entry in the `Attributes:` of a record's docstring; `a, b: text` is an entry for both."""
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
    """Returns a field's default; `MISSING` where it has none."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default
