"""Reading of a saved classifier's folder: its description, and weights that agree with it.

Anybody who has the folder may have changed it. So each value of `classifier.json` is checked before it serves as a
shape, a file name or a promise. Weights are checked for their digest, types, shapes, and for finite numbers.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Le, Len
from pydantic import AfterValidator, Strict, StringConstraints
from safetensors.numpy import load

from crowdsweep.data.bounds import LONGEST_NAME, MOST_CLASSES, MOST_NUMBERS
from crowdsweep.data.on_disk.text_files import bytes_of, reading
from crowdsweep.errors import BadInput, shortened
from crowdsweep.files.typed import Expected, Many, Text, Whole, WrongValue, read_as

DESCRIPTION = "classifier.json"
FORMAT = 3
"""Version of the description. Classifiers of format 1 read features as they come; descriptions of format 2 have no
digests."""
_WHAT = "a folder `classifier` that `crowdsweep label` wrote"
_MOST_BYTES = 1 << 25  # of the description: enough for ten thousand class names
_MOST_LAYERS, _MOST_FITS = 1000, 10_000
_LONGEST_FILE = 255  # bytes of a file name
_HEADER_BYTES = 1 << 20  # that a file of weights may have besides the numbers
_SCALE = ("mean", "factor")


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("one of them twice")
    return names


_Names = Many[Annotated[Text, StringConstraints(max_length=LONGEST_NAME)]]
_EXPECTED_NAMES = f"distinct names of at most {LONGEST_NAME:,} characters"
_Width = Annotated[Whole, Ge(1), Le(MOST_NUMBERS)]


@dataclass(frozen=True, kw_only=True)
class _Network:
    kind: Annotated[Literal["dense"], Expected("'dense'")]
    # Earlier formats may leave these two out.
    activation: Annotated[Text, StringConstraints(pattern="^relu$"), Expected("'relu'")] = ""
    output: Annotated[Text, StringConstraints(pattern="^softmax$"), Expected("'softmax'")] = ""
    widths: Annotated[Many[_Width], Len(2, _MOST_LAYERS), Expected(f"2 to {_MOST_LAYERS} whole numbers above zero")]


@dataclass(frozen=True, kw_only=True)
class ClassifierDescription:
    """The checked content of a description.

    Attributes:
        format: version of the description.
        network: the network's layers: features, hidden ones, classes.
        classes: names of the classes, in the order of the outputs.
        fits: names of the files of weights.
        digests: SHA-256 of each of these files; None where the format has none.
    """

    format: Annotated[int, Strict(), Ge(1), Le(FORMAT), Expected(f"format {FORMAT} or an earlier one")]
    network: _Network
    classes: Annotated[
        _Names, Len(1, MOST_CLASSES), AfterValidator(_distinct), Expected(f"1 to {MOST_CLASSES:,} {_EXPECTED_NAMES}")
    ]
    fits: Annotated[
        _Names, Len(1, _MOST_FITS), AfterValidator(_distinct), Expected(f"1 to {_MOST_FITS:,} {_EXPECTED_NAMES}")
    ]
    digests: Annotated[
        Mapping[str, Annotated[Text, StringConstraints(pattern="^[0-9a-f]{64}$")]] | None,
        Expected("the SHA-256 of each file of weights"),
    ] = None


def digests_of(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Returns the SHA-256 of files, in hexadecimal digits, by name."""
    return {name: sha256((folder / name).read_bytes()).hexdigest() for name in names}


def read_classifier_description(folder: Path) -> ClassifierDescription:
    """Reads `classifier.json`.

    Raises:
        BadInput: it is missing, is damaged, or describes something that a classifier cannot be.
    """
    path = folder / DESCRIPTION
    content = bytes_of(path, _MOST_BYTES, _WHAT).decode("utf-8", "backslashreplace")  # such an escape is no valid JSON
    with reading(path, _WHAT):
        try:
            description = read_as(ClassifierDescription, json.loads(content))
            if description.format < FORMAT:
                description = replace(description, digests=None)
            _check_together(description)
        except WrongValue as error:
            raise _wrong(path, error.field, error.expected, error.got) from error
    return description


def _check_together(description: ClassifierDescription) -> None:
    """Checks conditions that involve several fields.

    Raises:
        WrongValue: the fields contradict each other.
    """
    widths = description.network.widths
    if len(description.fits) * sum(inner * outer for inner, outer in pairwise(widths)) > MOST_NUMBERS:
        raise WrongValue("network.widths", f"at most {MOST_NUMBERS:,} weights in all fits", widths)
    for name in description.fits:
        if (
            name in (".", "..", DESCRIPTION)
            or len(name.encode()) > _LONGEST_FILE
            or Path(name).name != name
            or "\0" in name
        ):
            raise WrongValue("fits", "names of files in this folder", name)
    if len(description.classes) != widths[-1]:
        raise WrongValue("classes", f"{widths[-1]} names, one for each output of the network", len(description.classes))
    for key, known in (("activation", "relu"), ("output", "softmax")):
        if description.format == FORMAT and not getattr(description.network, key):
            raise WrongValue(f"network.{key}", repr(known), None)
    if description.format == FORMAT and set(description.digests or ()) != set(description.fits):
        raise WrongValue("digests", "the SHA-256 of each file of weights", description.digests)


def read_weights(
    path: Path, shapes: Mapping[str, tuple[int, ...]], n_features: int, digest: str | None
) -> dict[str, np.ndarray]:
    """Reads the weights of one fit, and the scale of its features where it has one.

    Args:
        shapes: shapes of the float32 weights, by name.
        n_features: length of `mean` and `factor`, which are float64.
        digest: expected SHA-256 of the file; None where it is not known.

    Raises:
        BadInput: the file holds something else, or was changed.
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
