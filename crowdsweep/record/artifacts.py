"""Artifacts: the arrays that a trial returns beside its numbers, the limit on their size, and their records.

Each array is kept in a file named by the digest of its content (`record.kept_arrays`), so that equal arrays are kept
once.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from crowdsweep.errors import FitFailed
from crowdsweep.files.names import check_digest
from crowdsweep.files.typed import Whole

_KINDS = "biufcSUV"  # dtype kinds of numbers, booleans, text, and structured arrays of these
MOST_BYTES = 16 * 2**20
"""Limit on all arrays of one trial together; the largest arrays are left out first, and the record says so."""


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """The record of one array of a trial.

    Attributes:
        digest: names the array's file; empty if the array was too large to keep.
        dtype, shape: as in NumPy.

    Raises:
        NoName: the digest is invalid.
        ValueError: a kept array cannot have that dtype or that shape.
    """

    digest: str = ""
    dtype: str
    shape: tuple[Whole, ...]

    def __post_init__(self) -> None:
        if self.digest:
            check_digest(self.digest)
        if any(length < 0 for length in self.shape):
            raise ValueError(f"expected the lengths of an array's axes, got {self.shape}")
        try:
            dtype = np.dtype(self.dtype)
        except TypeError:
            dtype = np.dtype(object)
        if dtype.kind not in _KINDS:
            raise ValueError(f"expected the dtype of numbers, truth values or text, got {self.dtype!r}")
        if self.digest and math.prod(self.shape) * dtype.itemsize > MOST_BYTES:
            raise ValueError(f"expected an array of at most {MOST_BYTES} bytes, got the shape {self.shape}")


def within_limit(arrays: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, Artifact]]:
    """Returns the arrays to keep, and the records of those that are left out because of `MOST_BYTES`.

    Raises:
        FitFailed: a value is not an array of numbers, booleans or text.
    """
    kept: dict[str, np.ndarray] = {}
    left_out: dict[str, Artifact] = {}
    room = MOST_BYTES
    for name, array in sorted(arrays.items(), key=lambda pair: np.asarray(pair[1]).nbytes):
        array = np.asarray(array)
        if array.dtype.hasobject or array.dtype.kind not in _KINDS:
            raise FitFailed(f"extra {name!r}: expected an array of numbers, truth values or text, got {array.dtype}")
        if array.nbytes <= room:
            kept[name] = array
            room -= array.nbytes
        else:
            left_out[name] = record_of(array)
    return kept, left_out


def record_of(array: np.ndarray, digest: str = "") -> Artifact:
    """Returns the record of an array; without a digest, of one that is not kept."""
    return Artifact(digest=digest, dtype=array.dtype.str, shape=array.shape)
