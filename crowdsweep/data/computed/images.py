"""Features of images from a pretrained network of timm (`pip install 'crowdsweep[images]'`), computed once and cached.

The network without its head gives each image one vector: its pooled last layer. Images are scaled, cropped and
normalised as the network's own data configuration says. Weights are read only as safetensors, which hold numbers and no
program. They come from a model on huggingface.co (`resnet18.a1_in1k` is timm's, `somebody/model` somebody's), or from a
folder as timm's `save_for_hf` writes one. Features are cached one block of images at a time, so that an interrupted run
continues where it stopped.
"""

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crowdsweep.arrays import ItemFeatures
from crowdsweep.data import bounds
from crowdsweep.data.computed.image_files import Picture, warned_of_size_alone
from crowdsweep.data.computed.kept import identity_of, in_a_folder, keep, kept, place_of
from crowdsweep.errors import DataError, error_words
from crowdsweep.machine import usable_cores
from crowdsweep.paths import expand_home, is_file
from crowdsweep.units import about_words

VERSION = 1
BATCH = 32
BLOCK = 1024  # images whose features are cached in one file
_FILES = ("config.json", "model.safetensors")
_READERS = 4  # images decoded at the same time: each takes up to 400 MB meanwhile
_PATIENCE_S = 10.0
_log = logging.getLogger(__name__)


class _Network(NamedTuple):
    """A network that makes features, the transform from images to its input, and its device."""

    model: Any
    transform: Any
    device: str


def embedded(model: str, pictures: Sequence[Picture], where: str) -> tuple[ItemFeatures, str]:
    """Returns the features of each image, and a text that identifies the network and the images.

    Args:
        model: a name on huggingface.co, or the path of a folder.

    Raises:
        DataError: timm is not installed, there is no such model, or an image cannot be used.
    """
    made_by = f"{VERSION} {identity_of(model)}".strip()
    blocks = [pictures[start : start + BLOCK] for start in range(0, len(pictures), BLOCK)]
    places = [place_of("image", model, made_by, *(picture.digest for picture in block)) for block in blocks]
    found = {
        number: features
        for number, (place, block) in enumerate(zip(places, blocks, strict=True))
        if (features := kept(place, len(block))) is not None
    }
    if missing := [number for number in range(len(blocks)) if number not in found]:
        todo = [picture for number in missing for picture in blocks[number]]
        with warned_of_size_alone():
            for picture in todo:  # so that an unusable image is reported before any is processed
                picture.check()
            network = _network(model, where)
            progress = _Progress(len(todo), where)
            for number in missing:
                features = _features(network, blocks[number], progress, f"{where}: the model {model!r}")
                bounds.check_numbers((len(pictures), features.shape[1]), where, "take a network of fewer features")
                keep(places[number], features)
                found[number] = features
    of_images = blake2b("".join(picture.digest for picture in pictures).encode(), digest_size=16).hexdigest()
    return np.concatenate([found[number] for number in range(len(blocks))]), f"{made_by} {of_images}"


def _network(model: str, where: str) -> _Network:
    try:
        import timm  # noqa: PLC0415 - heavy  # pyright: ignore[reportMissingImports] - optional
        import torch  # noqa: PLC0415 - heavy
    except ImportError as error:
        raise DataError(
            f"{where}: expected the package timm, which is not installed; pip install 'crowdsweep[images]'"
        ) from error
    except (RuntimeError, OSError) as error:  # such as a torchvision, which timm needs, that does not fit torch
        raise DataError(
            f"{where}: the package timm cannot be loaded ({error_words(error)}); are torch and torchvision of releases "
            f"that belong together, and both for CPU or both for CUDA?"
        ) from error
    loaded: Any = timm
    try:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        network = loaded.create_model(f"local-dir:{_folder_of(model)}", pretrained=True, num_classes=0)
        transform = loaded.data.create_transform(**loaded.data.resolve_model_data_config(network), is_training=False)
        return _Network(network.eval().to(device), transform, device)
    except Exception as error:
        raise DataError(
            f"{where}: the model {model!r} cannot be used ({error_words(error)}); is it a timm model on huggingface.co "
            f"or a folder with {' and '.join(_FILES)}, and is there a network?"
        ) from error


def _folder_of(model: str) -> Path:
    """Returns the folder of the model's files; downloads them if they are not on this machine."""
    if in_a_folder(model):
        folder = expand_home(model)
    else:
        import huggingface_hub  # noqa: PLC0415 - timm needs it

        hub: Any = huggingface_hub
        name = model if "/" in model else f"timm/{model}"
        folder = Path([hub.hf_hub_download(name, file) for file in _FILES][-1]).parent
    lacking = [name for name in _FILES if not is_file(folder / name)]
    if lacking:
        raise DataError(f"expected {' and '.join(_FILES)} in {folder}, found no {' and no '.join(lacking)}")
    return folder


def _features(network: _Network, pictures: Sequence[Picture], progress: "_Progress", what: str) -> ItemFeatures:
    import torch  # noqa: PLC0415 - heavy

    rows: list[np.ndarray] = []
    threads = torch.get_num_threads()
    torch.set_num_threads(usable_cores())  # one item is worth millions of operations here, unlike in a fit
    try:
        with ThreadPoolExecutor(_READERS) as readers, torch.inference_mode():
            for start in range(0, len(pictures), BATCH):
                batch = pictures[start : start + BATCH]
                pixels = list(readers.map(partial(_input, network.transform), batch))
                rows.append(network.model(torch.stack(pixels).to(network.device)).float().cpu().numpy())
                progress.add(len(batch))
    except (RuntimeError, TypeError, AttributeError) as error:
        raise DataError(f"{what} gives no features ({error_words(error)}); take another") from error
    finally:
        torch.set_num_threads(threads)
    features = np.ascontiguousarray(np.concatenate(rows), dtype=np.float32)
    if features.ndim != 2 or not np.isfinite(features).all():
        raise DataError(f"{what} gives no finite vector of each image, but shape {list(features.shape)}; take another")
    return features


def _input(transform: Any, picture: Picture) -> Any:
    return transform(picture.rgb())


class _Progress:
    """Logs from time to time how many images are done, and the time left."""

    def __init__(self, n_images: int, where: str) -> None:
        self._n_images, self._where = n_images, where
        self._done, self._began = 0, time.monotonic()
        self._said = self._began

    def add(self, n_images: int) -> None:
        """Counts further images as done."""
        self._done += n_images
        now = time.monotonic()
        if now - self._said < _PATIENCE_S or self._done == self._n_images:
            return
        self._said = now
        left = (now - self._began) * (self._n_images - self._done) / self._done
        _log.warning(
            "%s: %s of %s images, about %s left",
            self._where,
            f"{self._done:,}",
            f"{self._n_images:,}",
            about_words(left),
        )
