"""CIFAR-10 with a simulated crowd of four kinds of annotators (Crowd Mixture Model, Setup 2).

The images are not part of crowdsweep: `crowdsweep fetch cifar-10` downloads their binary version, or the user puts it
into a folder `cifar-10` on the search path of datasets. The split is the official one, 50,000 images to train on and
10,000 to test on; the crowd answers the training images. The shares of the groups, and how often each group is right
for each class, are those of the authors' code. That code does not print the wrong answers of a group; here they are
spread evenly over the other classes.

Pixels are embedded, since the networks here read vectors: by the principal components of the training images (`pca`, of
values from 0 to 1), or by a network of timm (`{image: timm/NAME}`). The authors trained a convolutional network on the
pixels, so their numbers are not comparable.
"""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import UInt8
from scipy.sparse.linalg import eigsh

from crowdsweep.arrays import ItemFeatures
from crowdsweep.data.catalogue import Source, whole_param
from crowdsweep.data.computed.kept import keep, kept, place_of
from crowdsweep.data.computed.kinds import computed, is_computed
from crowdsweep.data.dataset import SPLITS, CrowdDataset, Scalar
from crowdsweep.data.on_disk.cifar_binary import SIDE, Cifar, find_cifar, read_cifar
from crowdsweep.data.search_path import search_path
from crowdsweep.data.simulate import answered, unanswered
from crowdsweep.errors import DataError, shown
from crowdsweep.seeds import SeedStream

_GROUP_PROBS = np.array([0.20, 0.45, 0.15, 0.20])
_RIGHT = np.array(
    [
        [0.82, 0.89, 0.51, 0.47, 0.76, 0.65, 0.89, 0.80, 0.84, 0.82],
        [0.30, 0.48, 0.23, 0.28, 0.25, 0.38, 0.42, 0.37, 0.51, 0.39],
        [0.24, 0.33, 0.29, 0.24, 0.18, 0.30, 0.72, 0.30, 0.24, 0.41],
        [0.00, 0.03, 0.12, 0.02, 0.33, 0.20, 0.31, 0.23, 0.02, 0.39],
    ]
)  # [groups, classes]
_PCA = "pca"
_VERSION = 1  # of the principal components
_ROWS = 5_000  # images that are converted to four-byte numbers at once
_log = logging.getLogger(__name__)


def _base(params: Mapping[str, Scalar]) -> CrowdDataset:
    cifar = read_cifar(find_cifar(search_path()))
    split = np.full(len(cifar.gold), SPLITS.index("test"), dtype=np.int8)
    split[: cifar.n_train] = SPLITS.index("train")
    features, made_by = _features(cifar, params)
    dataset = unanswered(
        name=SOURCE.name,
        title=SOURCE.title,
        features=features,
        gold=cifar.gold,
        split=split,
        item_name="image",
        class_names=cifar.class_names,
        params=params,
    )
    return replace(dataset, features_from=f"{params['features']} {made_by}")


def _features(cifar: Cifar, params: Mapping[str, Scalar]) -> tuple[ItemFeatures, str]:
    """Returns the features that `params` ask for, and a text that identifies how and from what they were made."""
    asked = str(params["features"])
    if asked == _PCA:
        n_components = whole_param(params, "components", at_least=1)
        most = min(cifar.pixels.shape[1], cifar.n_train) - 1
        if n_components > most:
            raise DataError(f"dataset cifar-10, parameter components: expected at most {most:,}, got {n_components:,}")
        made_by = f"{_VERSION} {cifar.digest}"
        place = place_of("cifar-10", asked, str(n_components), made_by)
        features = kept(place, len(cifar.gold))
        if features is None:
            _log.warning("dataset cifar-10: finding the principal components of its images, which are kept")
            features = principal_components(cifar.pixels, cifar.n_train, n_components)
            keep(place, features)
        return features, made_by
    if not is_computed(asked) or (how := computed(asked, "dataset cifar-10, ")).of != "image":
        raise DataError(
            f"dataset cifar-10, parameter features: expected {_PCA} or {{image: timm/NAME}}, got {shown(asked)}"
        )
    from crowdsweep.data.computed.image_files import Pixels  # noqa: PLC0415 - brings Pillow
    from crowdsweep.data.computed.images import embedded  # noqa: PLC0415 - brings torch

    images = cifar.pixels.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
    pictures = [Pixels(image, hashlib.sha256(image.tobytes()).hexdigest()) for image in images]
    return embedded(how.model, pictures, f"dataset cifar-10, features {asked}")


def principal_components(pixels: UInt8[np.ndarray, "images pixels"], n_train: int, n_components: int) -> ItemFeatures:
    """Returns the coordinates of images along the principal components of the training images.

    The components are in order of descending variance; the largest weight of each is positive. Takes
    O(images × pixels²), a few thousand images at a time.

    Args:
        pixels: pixels of all images, the training images first.
        n_train: number of training images.
        n_components: number of components, fewer than there are pixels and fewer than training images.
    """
    width = pixels.shape[1]
    mean = pixels[:n_train].mean(axis=0, dtype=np.float64) / 255
    scatter = np.zeros((width, width))
    for start in range(0, n_train, _ROWS):
        rows = _centred(pixels[start : min(start + _ROWS, n_train)], mean)
        scatter += rows.T @ rows
    # A given start vector: ARPACK would draw one, and the components would differ in their last bits from run to run.
    found: Any = eigsh(scatter / n_train, n_components, which="LA", v0=np.ones(width))
    directions = found[1][:, ::-1]
    largest = directions[np.abs(directions).argmax(axis=0), np.arange(n_components)]
    directions = (directions * np.sign(largest)).astype(np.float32)
    features = np.empty((len(pixels), n_components), dtype=np.float32)
    for start in range(0, len(pixels), _ROWS):
        features[start : start + _ROWS] = _centred(pixels[start : start + _ROWS], mean) @ directions
    return features


def _centred(pixels: UInt8[np.ndarray, "images pixels"], mean: np.ndarray) -> np.ndarray:
    return pixels.astype(np.float32) / np.float32(255) - mean.astype(np.float32)


def _draw(base: CrowdDataset, seeds: SeedStream) -> CrowdDataset:
    one = np.eye(base.n_classes)
    confusion = _RIGHT[:, :, None] * one + (1 - _RIGHT)[:, :, None] * (1 - one) / (base.n_classes - 1)
    return answered(base, base.items_of("train"), group_probs=_GROUP_PROBS, confusion=confusion, seeds=seeds)


SOURCE = Source(
    name="cifar-10",
    title="CIFAR-10 (from its official files), a simulated crowd of four groups (Crowd Mixture Model, Setup 2)",
    defaults={"annotators": 100, "labels_per_item": 5.0, "features": _PCA, "components": 256},
    base=_base,
    draw=_draw,
)
