"""How a range of another tool, or one that is written carelessly, is written in a sweep file; for messages.

Known are Optuna's `suggest_float(…)` and `{low: , high: , log: true}`, Ray Tune's `tune.loguniform(…)`, words of W&B
and Hydra, lists and single values. Calls are parsed, never run.
"""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from crowdsweep.errors import shortened

_LONGEST = 200
_KEYS = {
    **dict.fromkeys(("low", "lower", "start", "from"), "min"),
    **dict.fromkeys(("high", "upper", "end", "to", "stop"), "max"),
    **dict.fromkeys(("choices", "options", "categories", "grid_search", "choice", "list"), "values"),
    **dict.fromkeys(("step", "step_size"), "q"),
    **dict.fromkeys(("mean", "loc"), "mu"),
    **dict.fromkeys(("std", "sd", "scale"), "sigma"),
    **dict.fromkeys(("if", "condition", "depends_on"), "when"),
    **dict.fromkeys(("type", "dist", "prior", "kind"), "distribution"),
}
_KINDS = {
    **dict.fromkeys(("float", "real", "range", "double", "interval", "suggestuniform", "floatdistribution"), "uniform"),
    **dict.fromkeys(("uniform", "suggestfloat", "quniform", "suggestdiscreteuniform"), "uniform"),
    **dict.fromkeys(("int", "integer", "randint", "lograndint", "suggestint", "intdistribution", "intuniform"), "int"),
    **dict.fromkeys(("qrandint",), "int"),
    **dict.fromkeys(("log", "loguniform", "reciprocal", "suggestloguniform", "loguniformvalues", "qloguniform"), "log"),
    **dict.fromkeys(("choice", "categorical", "gridsearch", "suggestcategorical", "samplefrom", "choices"), "values"),
    **dict.fromkeys(("categoricaldistribution", "discrete", "ordinal"), "values"),
    **dict.fromkeys(("randn", "gaussian", "normal"), "normal"),
}


def written_here(shape: Any) -> str:
    """Returns `; write {min: 0.1, max: 1.0}` for a shape of another form; empty where none comes to mind."""
    match shape:
        case str() if len(shape) > _LONGEST:
            return ""
        case str() if (call := _call(shape)) is not None:
            meant = _of_call(*call)
        case str() if limits := re.fullmatch(
            r"\(?\[?\s*([-+.\deE]+?)\s*(?:\.\.+|,|\bto\b|-|–)\s*([-+.\deE]+)\s*\)?\]?", shape
        ):
            return f"; write {{min: {limits[1]}, max: {limits[2]}}}"
        case list():
            return _of_list(shape)  # pyright: ignore[reportUnknownArgumentType]: it comes from YAML
        case bool() | int() | float() | str() | None:
            return f"; write it in `params`, or {shortened(_shown({'value': shape}))}"
        case Mapping():
            meant = _of_mapping(shape)  # pyright: ignore[reportUnknownArgumentType]: it comes from YAML
        case _:
            return ""
    return f"; write {shortened(_shown(meant))}" if meant else ""


def is_other_key(key: object) -> bool:
    """Whether a key of a shape is another tool's word, and not a spelling mistake."""
    return key in _KEYS or key in ("q", "log")


def kind_here(name: Any) -> str:
    """Returns the distribution of a sweep file that is meant by another tool's word for it; empty for none."""
    kind = _KINDS.get(re.sub(r"[\W_]+", "", str(name)[:_LONGEST]).lower(), "")
    return {"int": "int_uniform", "log": "log_uniform_values", "values": "categorical"}.get(kind, kind)


def _of_list(shape: Sequence[Any]) -> str:
    as_range = ""
    if len(shape) == 2 and all(isinstance(part, int | float) and not isinstance(part, bool) for part in shape):
        as_range = f" to try both, or {_shown({'min': shape[0], 'max': shape[1]})} for all between them"
    return f"; write {shortened(_shown({'values': list(shape)}))}{as_range}"


def _call(text: str) -> tuple[str, list[Any], dict[str, Any]] | None:
    """Returns the last part of a called name, and the arguments, of text such as `tune.loguniform(1e-4, 1)`."""
    if not re.match(r"[A-Za-z_][\w.]*\(", text):
        return None
    try:
        tree = ast.parse(text, mode="eval").body
        if not isinstance(tree, ast.Call):
            return None
        name = tree.func.attr if isinstance(tree.func, ast.Attribute) else getattr(tree.func, "id", "")
        named = {part.arg: ast.literal_eval(part.value) for part in tree.keywords if part.arg}
        return name, [ast.literal_eval(part) for part in tree.args], named
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None


def _of_call(name: str, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the shape that a call means; empty for an unknown one."""
    values = [part for part in given if not isinstance(part, str)] if name.startswith("suggest_") else list(given)
    word = re.sub("_", "", name).lower()
    kind = _KINDS.get(word, "")
    if kind == "values":
        found = values[0] if len(values) == 1 and isinstance(values[0], list | tuple) else values
        return {"values": list(found)} if found else {}
    places = ("mu", "sigma") if kind == "normal" else ("min", "max", "q")
    shape = {**dict(zip(places, values, strict=False)), **{_KEYS.get(key, key): part for key, part in named.items()}}
    if word in ("randint", "lograndint", "range") and isinstance(shape.get("max"), int):
        shape["max"] -= 1  # both tools leave the upper end out
        kind = "int"
    return _of_mapping({**shape, "distribution": kind}) if kind else {}


def _of_mapping(shape: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the shape that a mapping with other tools' keys means; empty where it is none."""
    known = {_KEYS.get(str(key), str(key)): value for key, value in shape.items()}
    kind = _KINDS.get(re.sub(r"[\W_]+", "", str(known.get("distribution", ""))).lower(), "")
    when = {"when": known["when"]} if "when" in known else {}
    if "values" in known:
        return {"values": known["values"], **when}
    if {"mu", "sigma"} <= known.keys():
        return {"distribution": "normal", "mu": known["mu"], "sigma": known["sigma"], **when}
    if not {"min", "max"} <= known.keys():
        return {}
    low, high = known["min"], known["max"]
    log = kind == "log" or known.get("log") is True
    if log and kind != "int":
        return {"distribution": "log_uniform_values", "min": low, "max": high, **when}
    if "q" in known or log:
        word = "q_log_uniform_values" if log else "q_uniform"
        return {"distribution": word, "min": low, "max": high, "q": known.get("q", 1), **when}
    if kind == "uniform":
        low, high = (float(end) if type(end) is int else end for end in (low, high))
    return {"min": low, "max": high, **when}


def _shown(shape: Mapping[str, Any]) -> str:
    """Returns a shape as YAML in one line."""
    return f"{{{', '.join(f'{key}: {_value(value)}' for key, value in shape.items())}}}"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return _shown({str(key): part for key, part in value.items()})  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]: it comes from YAML
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"  # pyright: ignore[reportUnknownArgumentType]: as above
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w-]*", value)
    return str(value) if plain else json.dumps(value, default=str)[:_LONGEST]
