"""The files of a dataset's images: where each lies, what is in it, and its pixels, bounded before they are made.

A name leads to a file in the folder of images and nowhere else, through links too. Formats are those that photos and
drawings come in; of an animation or a document of several pages the first is read. Pixels stand as people see them:
turned as the camera says, in red, green and blue.
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
from crowdsweep.data.on_disk.doors import found_at
from crowdsweep.errors import DataError, error_words, shown
from crowdsweep.paths import is_file, is_folder, leads_out

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
MOST_PIXELS = 1 << 26
"""Of one image: 67 million, 200 MB as they are computed with."""
MOST_BYTES = 1 << 28
"""Of one file."""
_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
_EXPECTED = f"an image ({', '.join(FORMATS)})"


@runtime_checkable
class Picture(Protocol):
    """The image of one item, wherever it is held."""

    @property
    def digest(self) -> str:
        """Of what it shows."""
        ...

    def check(self) -> None:
        """Raises a DataError where the head of the file shows that the image cannot be used."""

    def rgb(self) -> Any:
        """Returns its pixels as an RGB image of Pillow, or raises a DataError."""


class ImageFile(NamedTuple):
    """The image of one item, in a file.

    Attributes:
        path: where it lies.
        digest: of what is in it.
        where: for messages: the row of the items file, and the item.
    """

    path: Path
    digest: str
    where: str

    def check(self) -> None:
        """Looks at the head of the file.

        Raises:
            DataError: it is no image, has too many pixels, or more than eight bits for each colour.
        """
        with _reading(self), _opened(self):
            pass

    def rgb(self) -> Any:
        """Returns its pixels as an RGB image of Pillow.

        Raises:
            DataError: the image is damaged, or one that `check` refuses.
        """
        with _reading(self), _opened(self) as image:
            return ImageOps.exif_transpose(image).convert("RGB")


class Pixels(NamedTuple):
    """The image of one item, in memory.

    Attributes:
        held: uint8 [height, width, 3].
        digest: of them.
    """

    held: np.ndarray
    digest: str

    def check(self) -> None:
        """Accepts every image."""

    def rgb(self) -> Any:
        """Returns them as an RGB image of Pillow."""
        return Image.fromarray(self.held)


def image_files(images: Images, item_names: Sequence[str], asked: str) -> list[ImageFile]:
    """Returns the file of each item's image; reads all of them, as a digest has to.

    Args:
        images: as the dataset's folder has them.
        item_names: what the items are called.
        asked: what needs them, for messages.

    Raises:
        DataError: an item has no image, or its name leads out of the folder, to no file, or to one that is too large.
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
    """Makes errors of Pillow's warnings of size, in all threads, and nothing of those of tags and palettes."""
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
    """Yields an image of which the head alone was read, and which is small enough to be read whole."""
    with Image.open(file.path, formats=FORMATS) as image:
        if image.width * image.height > MOST_PIXELS:
            raise _too_large(file, f"{image.width:,} × {image.height:,}")
        if image.mode not in _MODES:
            raise DataError(
                f"{file.where}: expected eight bits for each colour in {file.path}, got the mode {image.mode!r}, whose "
                f"range nobody knows; convert it"
            )
        yield image


@contextmanager
def _reading(file: ImageFile) -> Generator[None]:
    """Turns whatever goes wrong while an image is read into a DataError that says which."""
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
