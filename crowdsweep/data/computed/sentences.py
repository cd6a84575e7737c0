"""Features of texts from a pretrained sentence encoder (`pip install 'crowdsweep[text]'`), computed once and cached."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from crowdsweep.arrays import ItemFeatures
from crowdsweep.data.computed.kept import identity_of, keep, kept, place_of
from crowdsweep.errors import DataError, error_words
from crowdsweep.paths import expand_home

VERSION = 1
BATCH = 64


def embedded(model: str, texts: Sequence[str], where: str) -> tuple[ItemFeatures, str]:
    """Returns an embedding of each text, of length one, and a text that identifies the model.

    Args:
        model: as `sentence_transformers.SentenceTransformer` takes it: a name, or the path of a folder.

    Raises:
        DataError: the package is not installed, there is no such model, or it gives no embeddings.
    """
    made_by = f"{VERSION} {identity_of(model)}".strip()
    place = place_of(model, made_by, *texts)
    features = kept(place, len(texts))
    if features is None:
        features = _computed(model, texts, where)
        keep(place, features)
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
        encoder: Any = sentence_transformers.SentenceTransformer(str(expand_home(model)), device="cpu")
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
