"""Features of texts by a pretrained encoder of sentences (`pip install 'crowdsweep[text]'`), computed once and kept.

What was computed lies in a cache (`XDG_CACHE_HOME`, else `~/.cache`), under a name that the model's name, of a model in
a folder its files too, and the texts decide.
"""

import os
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from crowdsweep.arrays import ItemFeatures
from crowdsweep.data.on_disk.arrays_on_disk import read_npz
from crowdsweep.errors import DataError, error_words
from crowdsweep.files.drafts import draft_in
from crowdsweep.paths import at_home, is_file, is_folder

VERSION = 1
BATCH = 64
_PIECE = 1 << 20


def embedded(model: str, texts: Sequence[str], where: str) -> tuple[ItemFeatures, str]:
    """Returns an embedding of each text, of length one, and what says which model made them.

    Args:
        model: as `sentence_transformers.SentenceTransformer` takes it: a name, or the path of a folder.
        texts: of all items.
        where: for messages.

    Raises:
        DataError: the package is not installed, there is no such model, or it gives no embeddings.
    """
    made_by = f"{VERSION} {_identity(model)}".strip()
    place = _cache() / f"{_digest(model, made_by, texts)}.npz"
    if is_file(place):
        try:
            features = read_npz(place, {"features": "numbers"})[0]
            if features.dtype == np.float32 and features.ndim == 2 and len(features) == len(texts):
                return features, made_by
        except DataError:
            pass  # damaged: made anew, and written in its place
    features = _computed(model, texts, where)
    _keep(place, features)
    return features, made_by


def _computed(model: str, texts: Sequence[str], where: str) -> ItemFeatures:
    try:
        import sentence_transformers  # noqa: PLC0415 - heavy  # pyright: ignore[reportMissingImports] - optional
    except ImportError as error:
        raise DataError(
            f"{where}: expected the package sentence-transformers, which is not installed; "
            f"pip install 'crowdsweep[text]'"
        ) from error
    try:
        encoder: Any = sentence_transformers.SentenceTransformer(str(at_home(model)), device="cpu")
        found: Any = encoder.encode(
            list(texts), batch_size=BATCH, show_progress_bar=False, convert_to_numpy=True, normalize_embeddings=True
        )
    except Exception as error:
        raise DataError(
            f"{where}: the model {model!r} cannot be used ({error_words(error)}); is it a name on huggingface.co or a "
            f"folder, and is there a network?"
        ) from error
    features = np.ascontiguousarray(found, dtype=np.float32)
    if features.ndim != 2 or len(features) != len(texts) or not np.isfinite(features).all():
        raise DataError(
            f"{where}: expected a finite embedding of each of {len(texts):,} texts from {model!r}, got shape "
            f"{list(features.shape)}"
        )
    return features


def _identity(model: str) -> str:
    """Returns a digest of the files of a model in a folder, which may change under its name; empty of others."""
    folder = at_home(model)
    if not (model.startswith(("/", "~")) and is_folder(folder)):
        return ""
    found = blake2b(digest_size=16)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        found.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                found.update(piece)
    return found.hexdigest()


def _digest(model: str, made_by: str, texts: Sequence[str]) -> str:
    found = blake2b(digest_size=16)
    for text in (model, made_by, *texts):
        found.update(text.encode())
        found.update(b"\0")
    return found.hexdigest()


def _cache() -> Path:
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if given.startswith("/") else at_home("~/.cache")) / "crowdsweep" / "features"


def _keep(place: Path, features: ItemFeatures) -> None:
    """Keeps features; where nothing can be written, they are computed again the next time."""
    try:
        with draft_in(place.parent, make=True) as (draft, folder):
            np.savez(draft.path / place.name, features=features)
            os.rename(place.name, place.name, src_dir_fd=draft.content, dst_dir_fd=folder)
    except OSError:
        return
