"""The JSON Schema of sweep files with `extends`: only a name is required, `null` removes a key of the extended file, a
mapping in place of the list of datasets or models changes its entries by their names."""

from collections.abc import Mapping
from typing import Any

from crowdsweep.sweepfile.extends import ABOUT, EXTENDS

_ENTRIES = ("datasets", "models")
_OWN = "name"


def extensible(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the schema of a sweep file that may extend another; for a file that does not, it is as strict as `whole`.

    Args:
        whole: the schema of a file that stands alone.
    """
    keys: Mapping[str, dict[str, Any]] = whole["properties"]
    loose = {key: takes if key == _OWN else _or_null(takes) for key, takes in keys.items()}
    for key in _ENTRIES:
        loose[key] = {**keys[key], "type": ["array", "object"], "additionalProperties": {"type": ["object", "null"]}}
    strict = {key: takes for key, takes in keys.items() if key not in _ENTRIES and key != _OWN}
    alone = {"properties": {**strict, **{key: {"type": "array"} for key in _ENTRIES}}, "required": whole["required"]}
    extends = {EXTENDS: {"description": ABOUT, "type": "string", "minLength": 1}}
    conditions = {"if": {"required": [EXTENDS]}, "else": alone}
    return {**whole, "properties": {**loose, **extends}, "required": [_OWN], **conditions}


def _or_null(takes: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a key that also allows null, here and for the keys inside, none of which is required."""
    out = {name: part for name, part in takes.items() if name != "required"}
    if "properties" in out:
        out["properties"] = {key: _or_null(inner) for key, inner in out["properties"].items()}
    if "anyOf" in out:
        out["anyOf"] = [*out["anyOf"], {"type": "null"}]
    if "enum" in out:
        out["enum"] = [*out["enum"], None]
    if "type" in out:
        kinds: list[str] = out["type"] if isinstance(out["type"], list) else [out["type"]]
        out["type"] = [*dict.fromkeys([*kinds, "null"])]
    return out
