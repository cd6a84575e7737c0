"""YAML reader that records the position of each value: file, line and key path.

A message about a value can then say `labelme.yaml:12: models.2.search.groups`. The key path has the form that `--set`
accepts.
"""

import re
import stat
from pathlib import Path
from typing import Any

import yaml

from crowdsweep.errors import BadInput, KeyPath, SweepFileError, Where, error_words, shortened, suggestion

_PLAIN_TAGS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_MERGE = "tag:yaml.org,2002:merge"
_READ_OTHERWISE = re.compile(r"[-+]?([0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|0[0-7_]*[1-9_][0-7_]*)")
_INDENTATION = "what belongs to an entry stands below its first key, as far in; and a text with `: ` takes quotes"
_QUOTES = "a text that begins with such a character takes quotes"
_BRACKETS = "look at the brackets, and at the commas and quotes between them"
_REMEDIES = {
    "'\\t'": "indent with spaces, not with tabs",
    "another document": "one file is one sweep: remove `---`",
    "undefined alias": "*name needs &name before it, and a text that begins with * takes quotes",
    "mapping values are not allowed": _INDENTATION,
    "expected <block end>": _INDENTATION,
    "could not find expected ':'": "the line before has no `key: value`; a colon needs a space after it",
    "that cannot start any token": _QUOTES,
    "alphabetic or numeric character": "list entries begin with `- `, and a text that begins with * or & takes quotes",
    "unknown escape character": "between double quotes \\ begins an escape: write single quotes",
    "expected ',' or": _BRACKETS,
    "end of stream": "a quote or bracket is not closed",
}
"""What PyYAML says → what to do."""
MAX_BYTES = 1 << 20
MAX_DEPTH = 50
MOST_BITS = 1023  # a longer integer is no float, and Python may make no text of it
MAX_NODES = 20_000  # a few lines of YAML with aliases can expand to millions of values


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with two changes: `1e-3` is a number, and nesting is limited.

    PyYAML reads `1e-3` as text, because it has no decimal point. The limit protects PyYAML's recursive composer.
    """

    def __init__(self, text: str, source: str) -> None:
        super().__init__(text)
        self._source = source
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        if self._depth > MAX_DEPTH and self.check_event(yaml.CollectionStartEvent):
            line = self.peek_event().start_mark.line + 1
            raise SweepFileError(f"{self._source}:{line}: expected YAML that nests at most {MAX_DEPTH} deep")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def read_yaml(path: Path, *, cite: bool = True) -> tuple[Any, Where]:
    """Reads a YAML file and returns its value, None for an empty file, with the value's position.

    Args:
        path: of the file.
        cite: whether error messages may quote the content of a file that is not valid YAML.

    Raises:
        SweepFileError: the file is missing, cannot be read, is too large, not UTF-8 or not YAML, has a key twice, nests
            too deeply, or expands to too many values.
    """
    try:
        text = _text_of(path)
    except FileNotFoundError:
        beside = [known.name for known in path.parent.glob("*.y*ml")]
        hint = f"; {suggestion(path.name, beside)}" if beside else ""
        raise SweepFileError(f"there is no file {str(path)!r}{hint}") from None
    except UnicodeDecodeError as error:
        raise SweepFileError(
            f"{path}: expected text in UTF-8, got byte {error.start} that is not; save the file as UTF-8"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: NUL in the file name
        raise SweepFileError(f"{shortened(str(path))}: cannot be read: {error_words(error)}") from None
    value, where = parse_yaml(text, str(path), cite=cite)
    return value, Where(where.origins, files={(): str(path)})


def _text_of(path: Path) -> str:
    """Returns the text of a regular file; raises `SweepFileError` for a folder, pipe or device without reading it."""
    kind = path.stat().st_mode
    if stat.S_ISDIR(kind):
        raise SweepFileError(f"expected a YAML file, got a folder: {str(path)!r}")
    if not stat.S_ISREG(kind):
        raise SweepFileError(f"expected a YAML file, got a pipe or a device: {str(path)!r}; save it as a file")
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise SweepFileError(f"{path}: expected at most {MAX_BYTES >> 20} MiB of YAML; is this the right file?")
    return content.decode("utf-8-sig")


def parse_yaml(text: str, source: str, *, cite: bool = True) -> tuple[Any, Where]:
    """Reads YAML text and returns its value with the value's position.

    Args:
        text: the YAML.
        source: name of the text in messages.
        cite: as for `read_yaml`.

    Raises:
        SweepFileError: the text is not YAML, has a key twice, nests too deeply, or expands to too many values.
    """
    if text.lstrip()[:1] in ("{", "["):  # JSON may be indented with tabs, which PyYAML refuses
        text = re.sub(r"(?m)^[ \t]+", lambda found: found[0].replace("\t", "  "), text)
    # PyYAML does not document which exceptions it raises, so all of them are caught.
    try:
        loader = _Loader(text, source)
        try:
            node = loader.get_single_node()
            unfolding = _Unfolding(loader, source)
            value = None if node is None else unfolding.value(node, ())
        finally:
            loader.dispose()
    except SweepFileError as error:
        if cite:
            raise
        place = str(error).partition(": ")[0]
        raise SweepFileError(f"{place}: expected plain YAML: no tags, no repeated keys, no deep nesting") from None
    except Exception as error:  # noqa: BLE001 - as said
        mark: yaml.Mark | None = getattr(error, "problem_mark", None)
        line = "" if mark is None else f":{mark.line + 1}"
        said = getattr(error, "problem", None) or error_words(error)
        problem = f": {shortened(said)}" if cite else ""
        remedy = next(
            (told for words, told in _REMEDIES.items() if words in said), "look at the indentation and quotes"
        )
        raise SweepFileError(f"{source}{line}: this is not YAML{problem}; {remedy}") from None
    return value, Where(unfolding.origins)


def parse_setting(text: str, expected: str) -> tuple[str, Any]:
    """Parses a `NAME=VALUE` argument of `--set` and returns the name and the value, which is YAML.

    Args:
        text: the argument as given.
        expected: description of the expected form, for the message.

    Raises:
        BadInput: the text does not have that form, or its value is not YAML.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise BadInput(f"--set {text}: expected {expected}")
    return name, parse_yaml(value, f"--set {name}")[0]


class _Unfolding:
    """Converts YAML nodes to values and records the line of each."""

    def __init__(self, loader: _Loader, source: str) -> None:
        self._loader = loader
        self._source = source
        self._open: set[int] = set()
        self._n_nodes = 0
        self.origins: dict[KeyPath, str] = {(): source}

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        """Returns the value of a node; records the node's line unless the line of its key is recorded already."""
        self.origins.setdefault(path, self._line(node))
        self._n_nodes += 1
        if self._n_nodes > MAX_NODES:
            raise SweepFileError(f"{self._line(node)}: this file expands to more than {MAX_NODES} values")
        if id(node) in self._open:
            raise SweepFileError(f"{self._line(node)}: this alias is inside the value that it refers to")
        if node.tag.startswith("!") or (not isinstance(node, yaml.ScalarNode) and node.tag not in _PLAIN_TAGS):
            raise SweepFileError(f"{self._line(node)}: expected plain YAML, got the tag {node.tag!r}; leave it out")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self.value(child, (*path, index)) for index, child in enumerate(node.value)]
            value = self._loader.construct_object(node)
            if isinstance(node, yaml.ScalarNode) and node.style is None and _READ_OTHERWISE.fullmatch(node.value):
                raise SweepFileError(
                    f"{self._line(node)}: YAML reads {node.value} as {value}, in base 60 or 8; write the number "
                    f"in decimal, or quote it if it is a text"
                )
            if isinstance(value, int) and value.bit_length() > MOST_BITS:
                raise SweepFileError(f"{self._line(node)}: expected a number below 2^{MOST_BITS}, got a longer one")
            return value
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        seen: dict[str, str] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self._loader.construct_object(key_node) if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str):
                split = node.flow_style and not isinstance(key, bool) and value_node.start_mark == value_node.end_mark
                told = "a comma begins another entry: write 1000, and 0.5 with a point" if split else "put it in quotes"
                raise SweepFileError(
                    f"{self._line(key_node)}: expected text as a key, got {shortened(repr(key))}; {told}"
                )
            if key in seen:
                raise SweepFileError(
                    f"{self._line(key_node)}: the key {key!r} appears here and at {seen[key]}; keep one"
                )
            seen[key] = self._line(key_node)
        self._check_merges(node)
        self._loader.flatten_mapping(node)  # merges the mappings of `<<`; the node's own keys come last and win
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(self._loader.construct_object(key_node))
            self.origins[(*path, key)] = self._line(key_node)
            values[key] = self.value(value_node, (*path, key))
        return values

    def _check_merges(self, node: yaml.MappingNode) -> None:
        """Raises `SweepFileError` if `<<` would merge too many keys; each level of merges can double their number."""
        known: dict[int, int] = {}

        def brought(part: yaml.Node) -> int:
            if id(part) not in known:
                known[id(part)] = MAX_NODES + 1  # the result for a node that contains itself
                if isinstance(part, yaml.MappingNode):
                    known[id(part)] = sum(brought(value) if key.tag == _MERGE else 1 for key, value in part.value)
                else:
                    known[id(part)] = sum(map(brought, part.value)) if isinstance(part, yaml.SequenceNode) else 0
            return known[id(part)]

        if brought(node) > MAX_NODES:
            raise SweepFileError(f"{self._line(node)}: this file expands to more than {MAX_NODES} values")

    def _line(self, node: yaml.Node) -> str:
        return f"{self._source}:{node.start_mark.line + 1}"
