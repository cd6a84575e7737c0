"""Image files of a dataset: their paths, digests and pixels, with sizes checked before pixels are decoded.

A name must lead to a file inside the folder of images, also through links. Formats are those of photos and drawings;
of an animation or a document of several pages, the first image is read. Pixels are as people see them: RGB, rotated as
the camera's metadata says.
"""

import hashlib
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from PIL import Image, ImageOps

from crowdsweep.data.dataset import Images
from crowdsweep.data.on_disk.text_files import found_at
from crowdsweep.errors import DataError, error_words, shown
from crowdsweep.paths import is_file, is_folder, leads_out

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
MOST_PIXELS = 1 << 26
"""Most pixels of one image: 67 million, which take 200 MB in computations."""
MOST_BYTES = 1 << 28
"""Most bytes of one file."""
_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
_EXPECTED = f"an image ({', '.join(FORMATS)})"


@runtime_checkable
class Picture(Protocol):
    """Image of one item, in a file or in memory."""

    @property
    def digest(self) -> str:
        """Digest of the image's content."""
        ...

    def check(self) -> None:
        """Raises a DataError if the header of the file shows that the image cannot be used."""

    def rgb(self) -> Any:
        """Returns the pixels as an RGB image of Pillow, or raises a DataError."""


class ImageFile(NamedTuple):
    """Image of one item in a file.

    Attributes:
        where: place for messages: the row of the items file, and the item.
    """

    path: Path
    digest: str
    where: str

    def check(self) -> None:
        """Checks the header of the file.

        Raises:
            DataError: the file is no image, or the image has too many pixels or more than eight bits per colour.
        """
        with _reading(self), _opened(self):
            pass

    def rgb(self) -> Any:
        """Returns the pixels as an RGB image of Pillow.

        Raises:
            DataError: the image is damaged, or one that `check` refuses.
        """
        with _reading(self), _opened(self) as image:
            return ImageOps.exif_transpose(image).convert("RGB")


class Pixels(NamedTuple):
    """Image of one item in memory.

    Attributes:
        held: pixels, uint8 [height, width, 3].
    """

    held: np.ndarray
    digest: str

    def check(self) -> None:
        """Accepts every image."""

    def rgb(self) -> Any:
        """Returns the pixels as an RGB image of Pillow."""
        return Image.fromarray(self.held)


def image_files(images: Images, item_names: Sequence[str], asked: str) -> list[ImageFile]:
    """Returns the file of each item's image; reads all files to compute their digests.

    Args:
        asked: the features that need the images, for messages.

    Raises:
        DataError: an item has no image, or its name leads out of the folder, to no file, or to a file that is too
            large.
    """
    lacking = [item for item, name in enumerate(images.names) if not name.strip()]
    if lacking:
        where = _where(images, item_names, lacking[0])
        raise DataError(
            f"{where}: expected an image of every item, as {asked} needs, {len(lacking):,} have none; fill in the "
            f"column, or leave `features` out"
        )
    if not is_folder(images.folder):
        raise DataError(
            f"{images.listed_in}: expected its images in {images.folder}, found no such folder; put it there, or say "
            f"in dataset.yaml where it is (`images: FOLDER`)"
        )
    inside = images.folder.resolve()
    return [
        _found(images.folder, inside, name, _where(images, item_names, item)) for item, name in enumerate(images.names)
    ]


@contextmanager
def warned_of_size_alone() -> Generator[None]:
    """Turns Pillow's warnings about image size into errors, in all threads, and ignores its other warnings."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\b")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _where(images: Images, item_names: Sequence[str], item: int) -> str:
    row = f", row {images.rows[item]}" if images.rows[item] else ""
    return f"{images.listed_in}{row}, column image, item {shown(item_names[item])}"


def _found(folder: Path, inside: Path, name: str, where: str) -> ImageFile:
    if "://" in name:
        raise DataError(
            f"{where}: expected the name of a file, got an address, {shown(name)}; download the images first"
        )
    path = folder / name
    if leads_out(name) or (is_file(path) and not path.resolve().is_relative_to(inside)):
        raise DataError(
            f"{where}: expected a file in {folder}, got {shown(name)}, which leads out of it; put the images there, or "
            f"say in dataset.yaml which folder they begin in (`images: FOLDER`)"
        )
    if not is_file(path):
        raise DataError(
            f"{where}: expected {shown(name)} in {folder}, found {found_at(path)}; put it there, correct the name, or "
            f"say in dataset.yaml which folder it begins in (`images: FOLDER`)"
        )
    with _reading(ImageFile(path, "", where)), path.open("rb") as file:
        if (size := path.stat().st_size) > MOST_BYTES:
            raise DataError(f"{where}: expected at most {MOST_BYTES:,} bytes in {path}, got {size:,}; make it smaller")
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return ImageFile(path, digest, where)


@contextmanager
def _opened(file: ImageFile) -> Generator[Image.Image]:
    """Yields an image of which only the header was read, and whose size and mode are accepted."""
    with Image.open(file.path, formats=FORMATS) as image:
        if image.width * image.height > MOST_PIXELS:
            raise _too_large(file, f"{image.width:,} × {image.height:,}")
        if image.mode not in _MODES:
            raise DataError(
                f"{file.where}: expected eight bits for each colour in {file.path}, got the mode {image.mode!r}, whose "
                f"range is not known; convert it"
            )
        yield image


@contextmanager
def _reading(file: ImageFile) -> Generator[None]:
    """Turns any exception while an image is read into a DataError that names the image."""
    try:
        yield
    except DataError:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise _too_large(file, "more") from error
    except Exception as error:
        raise DataError(
            f"{file.where}: expected {_EXPECTED} in {file.path}, cannot read it as that ({error_words(error)}); make "
            f"it again, or leave the item out"
        ) from error


def _too_large(file: ImageFile, got: str) -> DataError:
    return DataError(
        f"{file.where}: expected at most {MOST_PIXELS:,} pixels in {file.path}, got {got}; make it smaller"
    )
