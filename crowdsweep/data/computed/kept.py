"""Cache, on this machine, of computed features that took long: in `XDG_CACHE_HOME`, else `~/.cache`.

The name of each file is a digest of everything that decides its features.
"""

import os
from hashlib import blake2b
from pathlib import Path

import numpy as np

from crowdsweep.arrays import ItemFeatures
from crowdsweep.data.on_disk.arrays_on_disk import read_npz
from crowdsweep.errors import DataError
from crowdsweep.files.drafts import draft_in
from crowdsweep.paths import expand_home, is_file, is_folder

_PIECE = 1 << 20


def place_of(*decides: str) -> Path:
    """Returns the path of the features that are decided by these texts."""
    found = blake2b(digest_size=16)
    for text in decides:
        found.update(text.encode())
        found.update(b"\0")
    given = os.environ.get("XDG_CACHE_HOME", "")
    cache = Path(given) if given.startswith("/") else expand_home("~/.cache")
    return cache / "crowdsweep" / "features" / f"{found.hexdigest()}.npz"


def kept(place: Path, n_items: int) -> ItemFeatures | None:
    """Returns the cached features of `n_items` items; None if there are none, or if they are damaged."""
    if not is_file(place):
        return None
    try:
        features = read_npz(place, {"features": "numbers"})[0]
    except DataError:
        return None  # the caller computes them again and replaces the file
    return features if features.dtype == np.float32 and features.ndim == 2 and len(features) == n_items else None


def keep(place: Path, features: ItemFeatures) -> None:
    """Writes features to the cache; if that fails, they are computed again the next time."""
    try:
        with draft_in(place.parent, make=True) as (draft, folder):
            np.savez(draft.path / place.name, features=features)
            os.rename(place.name, place.name, src_dir_fd=draft.content, dst_dir_fd=folder)
    except OSError:
        return


def identity_of(model: str) -> str:
    """Returns a digest of the files of a model in a folder, which may change; empty for any other model."""
    folder = expand_home(model)
    if not (in_a_folder(model) and is_folder(folder)):
        return ""
    found = blake2b(digest_size=16)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        found.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                found.update(piece)
    return found.hexdigest()


def in_a_folder(model: str) -> bool:
    """Returns whether a model is given by the path of a folder, not by a name on huggingface.co."""
    return model.startswith(("/", "~"))
