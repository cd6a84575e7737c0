"""Adds computed features to a dataset, once for all of its trials."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from jaxtyping import Bool

from crowdsweep.arrays import ItemFeatures
from crowdsweep.data.computed.kinds import Computed, computed
from crowdsweep.data.dataset import SPLITS, CrowdDataset
from crowdsweep.errors import DataError

PAIR = " [SEP] "
"""Separator between the texts of a pair, for encoders that read both as one text."""
FITTED = ("tfidf",)
"""Methods that are fitted to the training texts, which decide what the features are."""


def with_computed(dataset: CrowdDataset, kind: str) -> CrowdDataset:
    """Returns the dataset with the features that a text such as `text:tfidf` asks for.

    Raises:
        DataError: the method is unknown, an item has no text or image, or a package that the method needs is not
            installed.
    """
    where = f"dataset {dataset.name}, "
    how = computed(kind, where)
    features, version = _METHODS[how.method](how, dataset, f"{where}features {kind}")
    return replace(dataset, items=replace(dataset.items, features=features), features_from=f"{kind} {version}".strip())


def training_items(dataset: CrowdDataset) -> Bool[np.ndarray, " items"]:
    """Returns a mask of the items that are trained on whatever the seed.

    They are the items of the split train; if there are none, the items with an annotation, in whole units.
    """
    train = dataset.split == SPLITS.index("train")
    return train if train.any() else dataset.items.whole_units(dataset.annotations.labels_per_item > 0)


def _texts_of(dataset: CrowdDataset, how: Computed) -> list[str]:
    """Returns one text per item; for a pair, both texts joined by `PAIR`."""
    items, asked = dataset.items, how.asked
    if items.text is None:
        raise DataError(
            f"dataset {dataset.name}: features {asked} need texts, and it has none; put a column text into its items "
            f"file (`crowdsweep init FILE --text COLUMN` does), or leave `features` out"
        )
    lacking = [place for place, text in enumerate(items.text) if not text.strip()]
    if lacking:
        raise DataError(
            f"dataset {dataset.name}: features {asked} need a text of every item, {len(lacking):,} have none, such as "
            f"{dataset.item_names[lacking[0]]!r}; fill in the column text of its items file, or leave `features` out"
        )
    if items.text_b is None:
        return list(items.text)
    return [f"{text}{PAIR}{other}" for text, other in zip(items.text, items.text_b, strict=True)]


def _tfidf(how: Computed, dataset: CrowdDataset, where: str) -> tuple[ItemFeatures, str]:
    from crowdsweep.data.computed import tfidf  # noqa: PLC0415 - scikit-learn takes a second to import

    return tfidf.tfidf(_texts_of(dataset, how), training_items(dataset), where), str(tfidf.VERSION)


def _sentences(how: Computed, dataset: CrowdDataset, where: str) -> tuple[ItemFeatures, str]:
    from crowdsweep.data.computed.sentences import embedded  # noqa: PLC0415 - brings torch

    return embedded(how.model, _texts_of(dataset, how), where)


def _images(how: Computed, dataset: CrowdDataset, where: str) -> tuple[ItemFeatures, str]:
    from crowdsweep.data.computed.image_files import image_files  # noqa: PLC0415 - brings Pillow
    from crowdsweep.data.computed.images import embedded  # noqa: PLC0415 - brings torch

    if dataset.images is None:
        raise DataError(
            f"dataset {dataset.name}: features {how.asked} need images, and it has none; put a column image, with the "
            f"names of their files, into its items file (`crowdsweep init FILE --image COLUMN` does), or leave "
            f"`features` out"
        )
    return embedded(how.model, image_files(dataset.images, dataset.item_names, how.asked), where)


_METHODS: Mapping[str, Callable[[Computed, CrowdDataset, str], tuple[ItemFeatures, str]]] = {
    "tfidf": _tfidf,
    "sentence-transformers": _sentences,
    "timm": _images,
}
