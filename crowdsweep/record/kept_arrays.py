"""Arrays of trials, kept as files beside the rows: `artifacts/<digest>.npy`.

A file is named by a digest of its content and written before the row that names it. One that no row names, because its
driver died in between, does no harm: the next driver that has the same array finds it there. Nobody waits for the disk
(an array a trial would cost milliseconds): what a machine loses with its power is told by the digest, and is gone.
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

FOLDER = ARTIFACTS


def keep(put: Callable[[str, Mapping[str, bytes]], object], arrays: Mapping[str, np.ndarray]) -> dict[str, Artifact]:
    """Writes arrays beside the rows and returns their records, by name.

    Args:
        put: `Rows.put` of the store.
        arrays: by name.

    Raises:
        JournalError: one could not be written.
    """
    contents = {name: to_npy(array) for name, array in arrays.items()}
    digests = {name: digest_of(content) for name, content in contents.items()}
    put(FOLDER, {f"{digests[name]}.npy": content for name, content in contents.items()})
    return {name: record_of(array, digest=digests[name]) for name, array in arrays.items()}


def content_of(rows: Rows, artifact: Artifact) -> bytes | None:
    """Returns the `.npy` file of an array; None where it was too large to keep, or is gone or damaged.

    Raises:
        JournalError: the file cannot be read.
    """
    return _sound(artifact, rows.get(place_of(artifact)) if artifact.digest else None)


def arrays_of(rows: Rows, artifacts: Iterable[Artifact]) -> dict[str, np.ndarray]:
    """Returns the arrays that `array_of` has, by digest.

    Raises:
        JournalError: one cannot be read.
    """
    kept = {one.digest: one for one in artifacts if one.digest}
    contents = rows.get_all([place_of(one) for one in kept.values()])
    sound = ((one, _sound(one, content)) for one, content in zip(kept.values(), contents, strict=True))
    return {one.digest: _array(content) for one, content in sound if content is not None}


def array_of(rows: Rows, artifact: Artifact) -> np.ndarray | None:
    """Returns an array that was kept; None as for `content_of`.

    Raises:
        JournalError: the file cannot be read.
    """
    content = content_of(rows, artifact)
    return None if content is None else _array(content)


def _sound(artifact: Artifact, content: bytes | None) -> bytes | None:
    return content if content is not None and digest_of(content) == artifact.digest else None


def _array(content: bytes) -> np.ndarray:
    return np.load(io.BytesIO(content), allow_pickle=False)


def lost_arrays(rows: Rows, result: TrialResult) -> list[Artifact]:
    """Returns those of the arrays that a trial kept which are gone or damaged.

    Raises:
        JournalError: one cannot be read.
    """
    return [one for one in result.kept.values() if one.digest and content_of(rows, one) is None]


def without_files(results: Iterable[TrialResult], rows: Rows) -> int:
    """Returns how many of these trials kept an array whose file is not in the store any more; reads none of them.

    Raises:
        JournalError: the files cannot be listed.
    """
    there = {name.removesuffix(".npy") for name in rows.names(FOLDER)}
    return sum(any(one.digest and one.digest not in there for one in result.kept.values()) for result in results)


def digest_of(content: bytes) -> str:
    """Returns the name of a content: 32 hex digits."""
    return blake2b(content, digest_size=16).hexdigest()


def place_of(artifact: Artifact) -> str:
    """Returns the name of an array's file, below the store.

    Raises:
        NoName: its digest is none.
    """
    return digest_file(FOLDER, artifact.digest, ".npy")


def to_npy(array: np.ndarray) -> bytes:
    """Returns an array in numpy's file format."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
