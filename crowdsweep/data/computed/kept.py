"""Computed features that took long, kept on this machine: in `XDG_CACHE_HOME`, else `~/.cache`, each under a name that
all that decides them makes."""

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
    """Returns where the features lie that these texts decide."""
    found = blake2b(digest_size=16)
    for text in decides:
        found.update(text.encode())
        found.update(b"\0")
    given = os.environ.get("XDG_CACHE_HOME", "")
    cache = Path(given) if given.startswith("/") else expand_home("~/.cache")
    return cache / "crowdsweep" / "features" / f"{found.hexdigest()}.npz"


def kept(place: Path, n_items: int) -> ItemFeatures | None:
    """Returns the features of so many items; None where there are none, or damaged ones."""
    if not is_file(place):
        return None
    try:
        features = read_npz(place, {"features": "numbers"})[0]
    except DataError:
        return None  # made anew, and written in its place
    return features if features.dtype == np.float32 and features.ndim == 2 and len(features) == n_items else None


def keep(place: Path, features: ItemFeatures) -> None:
    """Keeps features; where nothing can be written, they are computed again the next time."""
    try:
        with draft_in(place.parent, make=True) as (draft, folder):
            np.savez(draft.path / place.name, features=features)
            os.rename(place.name, place.name, src_dir_fd=draft.content, dst_dir_fd=folder)
    except OSError:
        return


def identity_of(model: str) -> str:
    """Returns a digest of the files of a model in a folder, which may change under its name; empty of others."""
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
    """Whether a model is named by the path of a folder, and not as one of huggingface.co."""
    return model.startswith(("/", "~"))
