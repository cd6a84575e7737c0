"""Values read from YAML that still know where they stood: file, line and key path.

A message about a value can then say `labelme.yaml:12: models.2.search.groups`. The key path is written as `--set`
takes it.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from crowdsweep.errors import KeyPath, SweepFileError, Where, suggestion

_PLAIN_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
MAX_NODES = 20_000  # aliases can make a few lines of YAML stand for millions of values


class _Loader(yaml.SafeLoader):
    """PyYAML's safe reading, except that `1e-3` is a number: PyYAML takes it for text, as it has no decimal point."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def read_yaml(path: Path) -> tuple[Any, Where]:
    """Reads a YAML file; an empty one gives None.

    Raises:
        SweepFileError: the file is missing, not UTF-8, not YAML, has a key twice, or unfolds to too many values.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        beside = [known.name for known in path.parent.glob("*.y*ml")]
        hint = f"; {suggestion(path.name, beside)}" if beside else ""
        raise SweepFileError(f"there is no file {str(path)!r}{hint}") from None
    except IsADirectoryError:
        raise SweepFileError(f"expected a YAML file, got a folder: {str(path)!r}") from None
    except UnicodeDecodeError as error:
        raise SweepFileError(
            f"{path}: expected text in UTF-8, got byte {error.start} that is not; save the file as UTF-8"
        ) from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, source: str) -> tuple[Any, Where]:
    """Reads YAML text; `source` is what messages call it.

    Raises:
        SweepFileError: it is not YAML, has a key twice, or unfolds to too many values.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        unfolding = _Unfolding(loader, source)
        value = None if node is None else unfolding.value(node, ())
    except yaml.YAMLError as error:
        mark: yaml.Mark | None = getattr(error, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 1}"
        problem = getattr(error, "problem", None) or str(error)
        raise SweepFileError(
            f"{source}{line}: this is not YAML: {problem}; look at the indentation and quotes"
        ) from None
    finally:
        loader.dispose()
    return value, Where(unfolding.origins)


class _Unfolding:
    """Turns nodes into values and notes the line of each."""

    def __init__(self, loader: _Loader, source: str) -> None:
        self._loader = loader
        self._source = source
        self._open: set[int] = set()
        self._n_nodes = 0
        self.origins: dict[KeyPath, str] = {(): source}

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        """Returns the value of a node; notes where it stands unless its key has been noted."""
        self.origins.setdefault(path, self._line(node))
        self._n_nodes += 1
        if self._n_nodes > MAX_NODES:
            raise SweepFileError(f"{self._line(node)}: this file unfolds to more than {MAX_NODES} values")
        if id(node) in self._open:
            raise SweepFileError(f"{self._line(node)}: this alias stands inside what it stands for")
        if node.tag.startswith("!") or (not isinstance(node, yaml.ScalarNode) and node.tag not in _PLAIN_TAGS):
            raise SweepFileError(f"{self._line(node)}: expected plain YAML, got the tag {node.tag!r}; leave it out")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self.value(child, (*path, index)) for index, child in enumerate(node.value)]
            return self._loader.construct_object(node)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        seen: dict[str, str] = {}
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self._loader.construct_object(key_node)
            if not isinstance(key, str):
                raise SweepFileError(f"{self._line(key_node)}: expected text as a key, got {key!r}; put it in quotes")
            if key in seen:
                raise SweepFileError(
                    f"{self._line(key_node)}: the key {key!r} stands here and at {seen[key]}; keep one"
                )
            seen[key] = self._line(key_node)
        self._loader.flatten_mapping(node)  # merges what `<<` names; the node's own keys come last and win
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(self._loader.construct_object(key_node))
            self.origins[(*path, key)] = self._line(key_node)
            values[key] = self.value(value_node, (*path, key))
        return values

    def _line(self, node: yaml.Node) -> str:
        return f"{self._source}:{node.start_mark.line + 1}"


def with_overrides(value: Any, where: Where, overrides: Sequence[str]) -> tuple[Any, Where]:
    """Returns the value with each `a.b.0.c=YAML` put in its place; mappings on the way are made where they lack.

    A plain name in a list (`models: [cmm]`) becomes `{name: cmm}` where something is set inside it.

    Raises:
        SweepFileError: an override is not of that form, or leads into something that holds nothing.
    """
    origins = dict(where.origins)
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key.strip():
            raise SweepFileError(f"--set {override}: expected key=value, for example --set seeds.report=10")
        origin = f"--set {override}"
        path: KeyPath = tuple(int(part) if part.isdigit() else part for part in key.strip().split("."))
        value = _replaced(value, path, parse_yaml(text, origin)[0], Where({(): origin}))
        for known in [known for known in origins if known[: len(path)] == path]:
            del origins[known]
        origins[path] = origin
    return value, Where(origins)


def _replaced(value: Any, path: KeyPath, new: Any, where: Where) -> Any:
    if not path:
        return new
    head, rest = path[0], path[1:]
    if isinstance(value, list):
        if not isinstance(head, int) or head >= len(value):
            raise SweepFileError(where.says(f"expected a position 0 … {len(value) - 1} of this list, got {head!r}"))
        return [_replaced(part, rest, new, where.at(head)) if i == head else part for i, part in enumerate(value)]
    if isinstance(value, str) and where.path:
        value = {"name": value}
    if value is None:
        value = {}
    if not isinstance(value, Mapping):
        raise SweepFileError(where.says(f"expected a mapping or a list to set {head!r} in, got {value!r}"))
    return {**value, str(head): _replaced(value.get(str(head)), rest, new, where.at(str(head)))}
