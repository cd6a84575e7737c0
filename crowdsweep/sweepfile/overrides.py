"""Single keys of a sweep that are changed by `--set KEY=VALUE`, and messages that say so."""

from collections.abc import Mapping, Sequence
from typing import Any

from crowdsweep.errors import KeyPath, SweepFileError, Where, shortened
from crowdsweep.files.located import parse_yaml
from crowdsweep.sweepfile.entries import found_path


def with_overrides(value: Any, where: Where, overrides: Sequence[str]) -> tuple[Any, Where]:
    """Returns the value with each `a.b.c=YAML` put in its place; mappings on the way are made where they lack. Entries
    of a list are told by name or position (`entries`).

    A plain name in a list (`models: [cmm]`) becomes `{name: cmm}` where something is set inside it.

    Raises:
        SweepFileError: an override is not of that form, or leads into something that holds nothing.
    """
    origins, files = dict(where.origins), dict(where.files)
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key.strip():
            raise SweepFileError(f"--set {shortened(override)}: expected key=value, for example --set seeds.report=10")
        origin = f"--set {override}"
        path = found_path(value, key.strip().split("."), Where({(): origin}))
        value = _replaced(value, path, parse_yaml(text, origin)[0], Where({(): origin}))
        for places in (origins, files):
            for known in [known for known in places if known[: len(path)] == path]:
                del places[known]
        origins[path], files[path] = origin, ""
    return value, Where(origins, files=files)


def _replaced(value: Any, path: KeyPath, new: Any, where: Where) -> Any:
    if not path:
        return new
    head, rest = path[0], path[1:]
    if isinstance(value, list):
        if not isinstance(head, int):
            raise SweepFileError(where.says(f"this list is empty: there is nothing to set {head!r} in"))
        return [_replaced(part, rest, new, where.at(head)) if i == head else part for i, part in enumerate(value)]
    if isinstance(value, str) and where.path:
        value = {"name": value}
    if value is None:
        value = {}
    if not isinstance(value, Mapping):
        raise SweepFileError(where.says(f"expected a mapping or a list to set {head!r} in, got {value!r}"))
    return {**value, str(head): _replaced(value.get(str(head)), rest, new, where.at(str(head)))}
