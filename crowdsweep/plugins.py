"""Models and study templates by name: what there is, what it takes, and checked instances of it.

Names and titles are listed without importing anything; the file of one model is imported when that model is asked for.
Where things are found: `discovery`.
"""

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

import annotated_types as at
from pydantic import TypeAdapter, ValidationError

from crowdsweep import discovery
from crowdsweep.errors import BadInput, UnknownName
from crowdsweep.models.contract import Model, ModelInfo


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameter:
    """One hyper-parameter, for display.

    Attributes:
        name: of the field.
        allowed: in words: `integer, at least 1`.
        default: JSON-able; None also where the field has no default (`required`).
        required: whether it has no default.
    """

    name: str
    allowed: str
    default: Any
    required: bool


def model_names() -> list[str]:
    """Returns the names of all models, sorted, without importing any."""
    return list(discovery.find("model"))


def model_titles() -> dict[str, str]:
    """Returns the first docstring line of each model's file, by name, without importing any."""
    return {name: discovery.title(place) for name, place in discovery.find("model").items()}


def model_info(name: str) -> ModelInfo:
    """Imports one model's file and returns what it says of itself.

    Raises:
        UnknownName: there is no such model.
        BadInput: the file's `MODEL` is not a `ModelInfo` of that name.
    """
    return _info_at(discovery.locate("model", name))


def build_model(name: str, params: Mapping[str, Any]) -> Model:
    """Returns the model with these hyper-parameters, all others at their defaults.

    Integers are taken for floats and lists for tuples; nothing else is converted.

    Raises:
        UnknownName: there is no such model, or it has no such parameter.
        BadInput: a value has the wrong type or lies outside its range, or a parameter without a default is missing.
    """
    owner = model_info(name).model
    known = [field.name for field in dataclasses.fields(owner)]
    for key in params:
        if key not in known:
            raise UnknownName("parameter", key, known, where=f"model {name!r}")
    _refuse_non_finite(name, params)
    try:
        text = json.dumps(dict(params), default=_plain_scalar)
        return _adapter(owner).validate_json(text, strict=True)
    except ValidationError as error:
        raise BadInput(_first_complaint(name, owner, params, error)) from None


def full_params(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns all hyper-parameters, defaults filled in, as JSON-able values in the order of the model's fields.

    Raises:
        UnknownName, BadInput: as `build_model`.
    """
    model: Any = build_model(name, params)
    return {field.name: _jsonable(getattr(model, field.name)) for field in dataclasses.fields(model)}


def parameters(name: str) -> list[Parameter]:
    """Returns the hyper-parameters of a model in the order of its fields.

    Raises:
        UnknownName: there is no such model.
    """
    owner = model_info(name).model
    hints = get_type_hints(owner, include_extras=True)
    return [
        Parameter(
            name=field.name,
            allowed=describe_type(hints[field.name]),
            default=None if _required(field) else _jsonable(_default(field)),
            required=_required(field),
        )
        for field in dataclasses.fields(owner)
    ]


def template_names() -> list[str]:
    """Returns the names of all study templates, sorted, without importing any."""
    return list(discovery.find("template"))


def template(name: str) -> Any:
    """Imports one study template (`studies/contract.py` says what it is).

    Raises:
        UnknownName: there is no such template.
    """
    return discovery.load(discovery.locate("template", name))


def describe_type(hint: Any) -> str:
    """Says in words what a field's annotation allows: `number, at least 0, or none`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hasattr(hint, "__metadata__"):
        return ", ".join([describe_type(hint.__origin__), *_limits(hint.__metadata__)])
    if origin is Literal:
        return "one of " + ", ".join(map(json.dumps, arguments))
    if origin is tuple:
        inner = [argument for argument in arguments if argument is not Ellipsis]
        return "list of (" + "; ".join(describe_type(argument) for argument in inner) + ")"
    if arguments:  # a union
        return ", or ".join(describe_type(argument) for argument in arguments)
    return {int: "integer", float: "number", bool: "true or false", str: "text", type(None): "null"}.get(
        hint, str(hint)
    )


@cache
def _info_at(place: discovery.Place) -> ModelInfo:
    info = discovery.load(place)
    if not isinstance(info, ModelInfo):
        raise BadInput(f"{place}: expected MODEL to be a ModelInfo, got {type(info).__name__}")
    if info.name != place.name:
        raise BadInput(f"{place}: expected MODEL.name to be {place.name!r}, as its place says, got {info.name!r}")
    return info


@cache
def _adapter(owner: type[Any]) -> Any:  # beartype refuses the hint TypeAdapter[Any]
    return TypeAdapter(owner)


def _first_complaint(name: str, owner: type[Any], params: Mapping[str, Any], error: ValidationError) -> str:
    complaint = error.errors(include_url=False)[0]
    if not complaint["loc"]:  # the model's own check of how its parameters go together
        return f"model {name!r}: {complaint['msg'].removeprefix('Value error, ')}"
    key = str(complaint["loc"][0])
    allowed = describe_type(get_type_hints(owner, include_extras=True)[key])
    got = json.dumps(params[key], default=repr) if key in params else "nothing"
    return f"model {name!r}, parameter {key!r}: expected {allowed}; got {got}"


def _refuse_non_finite(name: str, params: Mapping[str, Any]) -> None:
    for key, value in params.items():
        parts = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(part, float) and not math.isfinite(part) for part in parts):
            raise BadInput(f"model {name!r}, parameter {key!r}: expected a finite number; got {value}")


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
    return value.item() if hasattr(value, "item") else repr(value)  # numpy's scalars; anything else is refused as text


def _jsonable(value: Any) -> Any:
    return [_jsonable(part) for part in value] if isinstance(value, tuple | list) else value


def _required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default
