"""The folder of a saved classifier as it is read: what its description says, and weights that agree with it.

Whoever has the folder may have changed it. So each value of `classifier.json` is looked at before it becomes a shape, a
name of a file or a promise, and of the weights their digest, their types, their shapes and that they are finite.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load

from crowdsweep.data.bounds import LONGEST_NAME, MOST_CLASSES, MOST_NUMBERS
from crowdsweep.data.doors import bytes_of, reading
from crowdsweep.errors import BadInput, shortened

DESCRIPTION = "classifier.json"
FORMAT = 3
"""Of the first, classifiers read features as they come; of the second, the description has no digests."""
_WHAT = "a folder `classifier` that `crowdsweep label` wrote"
_MOST_BYTES = 1 << 25  # of the description: ten thousand names of classes
_MOST_LAYERS, _MOST_FITS = 1000, 10_000
_LONGEST_FILE = 255  # bytes of a file's name
_HEADER_BYTES = 1 << 20  # that a file of weights may have beside them
_DIGEST = re.compile("[0-9a-f]{64}")
_SCALE = ("mean", "factor")


@dataclass(frozen=True, kw_only=True)
class ClassifierDescription:
    """What a description says, checked.

    Attributes:
        widths: of the layers: features, hidden ones, classes.
        classes: their names, in the order of the outputs.
        fits: the names of the files of weights.
        digests: SHA-256 of each of these files; None where the format has none.
    """

    widths: tuple[int, ...]
    classes: tuple[str, ...]
    fits: tuple[str, ...]
    digests: Mapping[str, str] | None


def digests_of(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Returns the SHA-256 of files, in hexadecimal digits, by name."""
    return {name: sha256((folder / name).read_bytes()).hexdigest() for name in names}


def read_classifier_description(folder: Path) -> ClassifierDescription:
    """Reads `classifier.json`.

    Raises:
        BadInput: it is not there, is damaged, or says something that a classifier cannot be.
    """
    path = folder / DESCRIPTION
    content = bytes_of(path, _MOST_BYTES, _WHAT).decode("utf-8", "backslashreplace")  # which is then no JSON
    with reading(path, _WHAT):
        told: Any = json.loads(content)
        version = _part(path, told, "format", int, f"format {FORMAT} or an earlier one")
        if not 1 <= version <= FORMAT:
            raise _wrong(path, "format", f"format {FORMAT} or an earlier one", version)
        network = _part(path, told, "network", dict, "an object")
        for key, known in (("kind", "dense"), ("activation", "relu"), ("output", "softmax")):
            if network.get(key, known if version < FORMAT and key != "kind" else None) != known:
                raise _wrong(path, f"network.{key}", repr(known), network.get(key))
        fits = _names(path, "fits", told.get("fits"), _MOST_FITS)
        widths = _widths(path, network.get("widths"), len(fits))
        for name in fits:
            if (
                name in (".", "..", DESCRIPTION)
                or len(name.encode()) > _LONGEST_FILE
                or Path(name).name != name
                or "\0" in name
            ):
                raise _wrong(path, "fits", "names of files in this folder", name)
        classes = _names(path, "classes", told.get("classes"), MOST_CLASSES)
        if len(classes) != widths[-1]:
            raise _wrong(path, "classes", f"{widths[-1]} names, one for each output of the network", len(classes))
        digests = _digests(path, told.get("digests"), fits) if version == FORMAT else None
    return ClassifierDescription(widths=widths, classes=classes, fits=fits, digests=digests)


def read_weights(
    path: Path, shapes: Mapping[str, tuple[int, ...]], n_features: int, digest: str | None
) -> dict[str, np.ndarray]:
    """Reads the weights of one fit, and the scale of its features where it has one.

    Args:
        path: of the file.
        shapes: of the weights, float32, by name.
        n_features: that `mean` and `factor`, float64, are of.
        digest: SHA-256 that the file has to have; None where nobody knows.

    Raises:
        BadInput: it is something else, or was changed.
    """
    numbers = sum(map(prod, shapes.values()))
    content = bytes_of(path, 4 * numbers + 16 * n_features + _HEADER_BYTES, _WHAT)
    if digest is not None and sha256(content).hexdigest() != digest:
        raise BadInput(
            f"{path}: expected {_WHAT}, the file has changed since (its SHA-256 is not the one in {DESCRIPTION}); copy "
            f"the folder again, or label again"
        )
    with reading(path, _WHAT):
        arrays = load(content)
    kinds = {name: (np.dtype(np.float32), shape) for name, shape in shapes.items()}
    if any(name in arrays for name in _SCALE):
        kinds |= {name: (np.dtype(np.float64), (n_features,)) for name in _SCALE}
    for name in sorted(kinds.keys() | arrays.keys()):
        got = (arrays[name].dtype, arrays[name].shape) if name in arrays else None
        if got != kinds.get(name):
            raise _wrong(path, f"array {name}", _of_kind(kinds.get(name)), _of_kind(got))
        if not np.isfinite(arrays[name]).all():
            raise _wrong(path, f"array {name}", "finite numbers", "NaN or infinity")
    return arrays


def _of_kind(kind: tuple[np.dtype[Any], tuple[int, ...]] | None) -> str:
    return "none" if kind is None else f"{kind[0]} {kind[1]}"


def _wrong(path: Path, key: str, expected: str, got: object) -> BadInput:
    shown = got if isinstance(got, str) and not got.startswith(("'", '"')) else repr(got)
    return BadInput(
        f"{path}: expected {_WHAT}, which has as {key} {expected}, got {shortened(str(shown), 80)}; copy the folder "
        f"again, or label again"
    )


def _part(path: Path, told: Any, key: str, kind: type, expected: str) -> Any:
    value = told.get(key) if isinstance(told, dict) else None
    if type(value) is not kind:
        raise _wrong(path, key, expected, value)
    return value


def _widths(path: Path, given: Any, n_fits: int) -> tuple[int, ...]:
    expected = f"2 to {_MOST_LAYERS} whole numbers above zero"
    if not isinstance(given, list) or not 2 <= len(given) <= _MOST_LAYERS:
        raise _wrong(path, "network.widths", expected, f"a list of {len(given)}" if isinstance(given, list) else given)
    if not all(type(width) is int and 1 <= width <= MOST_NUMBERS for width in given):
        raise _wrong(path, "network.widths", expected, given)
    if n_fits * sum(inner * outer for inner, outer in pairwise(given)) > MOST_NUMBERS:
        raise _wrong(path, "network.widths", f"at most {MOST_NUMBERS:,} weights in all fits", given)
    return tuple(given)


def _names(path: Path, key: str, given: Any, most: int) -> tuple[str, ...]:
    expected = f"1 to {most:,} distinct names of at most {LONGEST_NAME:,} characters"
    if not isinstance(given, list) or not 1 <= len(given) <= most:
        raise _wrong(path, key, expected, given)
    for name in given:
        if not isinstance(name, str) or len(name) > LONGEST_NAME or name.encode(errors="replace").decode() != name:
            raise _wrong(path, key, expected, name)
    if len(set(given)) < len(given):
        raise _wrong(path, key, expected, "one of them twice")
    return tuple(given)


def _digests(path: Path, given: Any, fits: Sequence[str]) -> dict[str, str]:
    expected = "the SHA-256 of each file of weights"
    if not isinstance(given, dict) or set(given) != set(fits):
        raise _wrong(path, "digests", expected, given)
    for digest in given.values():
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise _wrong(path, "digests", expected, digest)
    return dict(given)
