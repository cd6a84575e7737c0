"""Arrays of trials, kept as files beside the rows: `artifacts/<digest>.npy`.

A file is named by a digest of its content and written before the row that names it. One that no row names, because its
driver died in between, does no harm: the next driver that has the same array finds it there.
"""

import io
from collections.abc import Callable, Mapping
from hashlib import blake2b

import numpy as np

from crowdsweep.journal.rows import Rows
from crowdsweep.trial.artifacts import Artifact, record_of

FOLDER = "artifacts"


def keep(put: Callable[[str, bytes], object], arrays: Mapping[str, np.ndarray]) -> dict[str, Artifact]:
    """Writes arrays beside the rows and returns their records, by name.

    Args:
        put: `Rows.put` of the store.
        arrays: by name.

    Raises:
        JournalError: one could not be written.
    """
    kept: dict[str, Artifact] = {}
    for name, array in arrays.items():
        content = to_npy(array)
        artifact = record_of(array, digest=blake2b(content, digest_size=16).hexdigest())
        put(place_of(artifact), content)
        kept[name] = artifact
    return kept


def content_of(rows: Rows, artifact: Artifact) -> bytes | None:
    """Returns the `.npy` file of an array; None where it was too large to keep, or is gone.

    Raises:
        JournalError: it cannot be read.
    """
    return rows.get(place_of(artifact)) if artifact.digest else None


def array_of(rows: Rows, artifact: Artifact) -> np.ndarray | None:
    """Returns an array that was kept; None as for `content_of`.

    Raises:
        JournalError: it cannot be read.
        ValueError: its file is not an array of numbers, truth values or text.
    """
    content = content_of(rows, artifact)
    return None if content is None else np.load(io.BytesIO(content), allow_pickle=False)


def place_of(artifact: Artifact) -> str:
    """Returns the name of an array's file, below the store."""
    return f"{FOLDER}/{artifact.digest}.npy"


def to_npy(array: np.ndarray) -> bytes:
    """Returns an array in numpy's file format."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
