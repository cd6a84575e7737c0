"""Arrays of trials, kept as files beside the journal's rows: `artifacts/<digest>.npy`.

A file is named by the digest of its content and written before the row that refers to it. If the driver dies in
between, the extra file does no harm: the next driver with the same array reuses it. Files are not fsynced, which would
cost milliseconds per trial: an array that a power failure destroys is detected by its digest, and is lost.

What reads or writes files raises `JournalError` where the store cannot be read or written.
"""

import io
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b

import numpy as np

from crowdsweep.files.names import digest_file
from crowdsweep.record.artifacts import Artifact, record_of
from crowdsweep.record.result import TrialResult
from crowdsweep.record.rows import Rows
from crowdsweep.record.store_files import ARTIFACTS


def keep(put: Callable[[str, Mapping[str, bytes]], object], arrays: Mapping[str, np.ndarray]) -> dict[str, Artifact]:
    """Writes arrays as files of the store and returns their records, by name."""
    contents = {name: to_npy(array) for name, array in arrays.items()}
    digests = {name: digest_of(content) for name, content in contents.items()}
    put(ARTIFACTS, {f"{digests[name]}.npy": content for name, content in contents.items()})
    return {name: record_of(array, digest=digests[name]) for name, array in arrays.items()}


def content_of(rows: Rows, artifact: Artifact) -> bytes | None:
    """Returns the content of an array's `.npy` file; None if it was too large to keep, or is missing or damaged."""
    return _sound(artifact, rows.get(place_of(artifact)) if artifact.digest else None)


def arrays_of(rows: Rows, artifacts: Iterable[Artifact]) -> dict[str, np.ndarray]:
    """Returns digest → array, without the arrays for which `array_of` returns None."""
    kept = {one.digest: one for one in artifacts if one.digest}
    contents = rows.get_all([place_of(one) for one in kept.values()])
    sound = ((one, _sound(one, content)) for one, content in zip(kept.values(), contents, strict=True))
    return {one.digest: _array(content) for one, content in sound if content is not None}


def array_of(rows: Rows, artifact: Artifact) -> np.ndarray | None:
    """Returns a kept array; None as for `content_of`."""
    content = content_of(rows, artifact)
    return None if content is None else _array(content)


def _sound(artifact: Artifact, content: bytes | None) -> bytes | None:
    return content if content is not None and digest_of(content) == artifact.digest else None


def _array(content: bytes) -> np.ndarray:
    return np.load(io.BytesIO(content), allow_pickle=False)


def lost_arrays(rows: Rows, result: TrialResult) -> list[Artifact]:
    """Returns the kept arrays of a trial whose files are missing or damaged."""
    return [one for one in result.kept.values() if one.digest and content_of(rows, one) is None]


def without_files(results: Iterable[TrialResult], rows: Rows) -> int:
    """Returns the number of trials with a kept array whose file is missing from the store; only lists the files."""
    there = {name.removesuffix(".npy") for name in rows.names(ARTIFACTS)}
    return sum(any(one.digest and one.digest not in there for one in result.kept.values()) for result in results)


def digest_of(content: bytes) -> str:
    """Returns the digest that names a file with this content: 32 hex digits."""
    return blake2b(content, digest_size=16).hexdigest()


def place_of(artifact: Artifact) -> str:
    """Returns the path of an array's file, relative to the store.

    Raises:
        NoName: the record has no valid digest.
    """
    return digest_file(ARTIFACTS, artifact.digest, ".npy")


def to_npy(array: np.ndarray) -> bytes:
    """Returns an array in numpy's file format."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
