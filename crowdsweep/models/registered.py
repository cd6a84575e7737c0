"""Models by name: their `ModelInfo`, and instances with checked hyper-parameters.

Names and titles are listed without importing anything; the file of one model is imported when that model is asked for.
Where they are found: `registry.discovery`.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from crowdsweep.errors import BadInput
from crowdsweep.models.contract import Model, ModelInfo
from crowdsweep.registry import discovery
from crowdsweep.registry.parameters import Parameter, build, every_parameter_of, flat, parameters_of

_LENGTHS = frozenset({"epochs", "iterations"})


def model_names() -> list[str]:
    """Returns the names of all models, sorted, without importing any."""
    return list(discovery.find("model"))


def model_info(name: str) -> ModelInfo:
    """Imports one model's file and returns its `ModelInfo`.

    Raises:
        UnknownName: there is no such model.
        BadInput: the file's `MODEL` is not a `ModelInfo` of that name.
    """
    return _info_at(discovery.locate("model", name))


def build_model(name: str, params: Mapping[str, Any]) -> Model:
    """Returns the model with these hyper-parameters, all others at their defaults; see `registry.parameters.build`.

    A given number of `epochs` or `iterations` is meant literally, whatever the size of the data: `steps`, the least
    number of gradient steps, is then zero unless it is given too.

    Raises:
        UnknownName: there is no such model, or it has no such parameter.
        BadInput: a value has the wrong type or lies outside its range, or a parameter without a default is missing.
    """
    return build(model_info(name).model, with_steps(name, params), f"model {name!r}")


def with_steps(name: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns hyper-parameters with the `steps` that they imply: none where a length is given and they are not."""
    if _LENGTHS & params.keys() and "steps" not in params and _counts_steps(model_info(name).model):
        return {**params, "steps": 0}
    return params


@cache
def _counts_steps(owner: type[Any]) -> bool:
    return "steps" in parameters_of(owner)


def full_params(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns all hyper-parameters, defaults filled in, as JSON-able values.

    Raises:
        UnknownName, BadInput: as `build_model`.
    """
    return flat(build_model(name, params))


def parameters(name: str, params: Mapping[str, Any] | None = None) -> dict[str, Parameter]:
    """Returns the hyper-parameters of a model by name; which there are may depend on some of them (`params`).

    Raises:
        UnknownName: there is no such model.
    """
    return parameters_of(model_info(name).model, params)


def every_parameter(name: str) -> list[tuple[Parameter, Mapping[str, list[str]]]]:
    """Returns the hyper-parameters of a model whatever is chosen; see `registry.parameters.every_parameter_of`.

    Raises:
        UnknownName: there is no such model.
    """
    return every_parameter_of(model_info(name).model)


@cache
def _info_at(place: discovery.Place) -> ModelInfo:
    info = discovery.load(place)
    if not isinstance(info, ModelInfo):
        raise BadInput(f"{place}: expected MODEL to be a ModelInfo, got {type(info).__name__}")
    if info.name != place.name:
        raise BadInput(f"{place}: expected MODEL.name to be {place.name!r}, as its place says, got {info.name!r}")
    return info
