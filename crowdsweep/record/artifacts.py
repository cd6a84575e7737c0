"""Arrays that a trial brings beside its numbers: what is kept of them, and what its record says.

They go into files of their own, named by a digest of their content (`record.kept_arrays`): equal arrays are kept once.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from crowdsweep.errors import FitFailed
from crowdsweep.files.names import check_digest
from crowdsweep.files.typed import Whole

_KINDS = "biufcSUV"  # of dtypes: numbers, truth values, text, and columns of these
MOST_BYTES = 16 * 2**20
"""Of all arrays of one trial together: what does not fit is left out, the largest first, and the record says so."""


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """What the record of a trial says of one of its arrays.

    Attributes:
        digest: names the file that holds it; empty where it was too large to keep.
        dtype, shape: as numpy has them.

    Raises:
        NoName: the digest is none.
        ValueError: no array that is kept has that dtype or that shape.
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
    """Returns the arrays that are kept, and the records of those that are left out.

    Raises:
        FitFailed: something is not an array of numbers, truth values or text.
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
    """Returns the record of an array."""
    return Artifact(digest=digest, dtype=array.dtype.str, shape=array.shape)
