"""Reads the binary version of CIFAR-10, which its authors publish for programs that read bytes (Krizhevsky 2009):

    data_batch_1.bin … data_batch_5.bin   training images, 10,000 records each
    test_batch.bin                        test images, 10,000 records
    batches.meta.txt                      the names of the ten classes, one per line

A record is one byte for the class, 0 to 9, and 3,072 bytes for the pixels: 32 rows of 32 in red, then in green, then in
blue.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int32, UInt8

from crowdsweep.data.on_disk.text_files import bytes_of
from crowdsweep.errors import DataError
from crowdsweep.paths import is_file, is_folder

FILES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
CLASSES_FILE = "batches.meta.txt"
NAMES = ("cifar-10", "cifar-10-batches-bin")
"""Names of a folder with these files: as `crowdsweep fetch` makes it, and as their archive holds it."""
RECORDS = 10_000  # per file
SIDE = 32
_PIXELS = 3 * SIDE * SIDE
_PYTHON = "data_batch_1"  # name of the first file in the version for Python
_HINT = "`crowdsweep fetch cifar-10` gets the binary version (cifar-10-binary.tar.gz)"


class Cifar(NamedTuple):
    """Content of the files, with the training images first.

    Attributes:
        pixels: uint8 [images, 3072], as in the records.
        class_names: in the order of their codes.
        digest: digest of the class names and all records.
    """

    pixels: UInt8[np.ndarray, "images pixels"]
    gold: Int32[np.ndarray, " images"]
    n_train: int
    class_names: tuple[str, ...]
    digest: str


def find_cifar(places: Iterable[Path]) -> Path:
    """Returns the first folder in these places that holds the binary version.

    Raises:
        DataError: there is no such folder; if the version for Python is there, the message says why it is not read.
    """
    looked = [place / name for place in places for name in NAMES]
    for folder in looked:
        if is_file(folder / FILES[0]):
            return folder
    pickled = [
        folder for place in places for folder in (*(place / name for name in NAMES), place / "cifar-10-batches-py")
    ]
    for folder in pickled:
        if is_file(folder / _PYTHON):
            raise DataError(
                f"{folder}: expected the binary version of CIFAR-10, got that for Python, whose files are pickles: "
                f"these are programs and are not read; {_HINT}"
            )
    folders = (
        ", ".join(str(folder) for folder in looked if is_folder(folder.parent)) or "no folder, as there is no place"
    )
    raise DataError(f"dataset cifar-10: expected {FILES[0]}, … in one of {folders}, found none; {_HINT}")


def read_cifar(folder: Path) -> Cifar:
    """Reads the six files and the names of the classes.

    Raises:
        DataError: a file is missing or has a wrong size, or a record has an unknown class.
    """
    names = (
        bytes_of(folder / CLASSES_FILE, 1 << 12, "the names of CIFAR-10's classes").decode("ascii", "replace").split()
    )
    if len(names) != 10:
        raise DataError(f"{folder / CLASSES_FILE}: expected the names of 10 classes, got {len(names)}; {_HINT}")
    digest = hashlib.sha256(" ".join(names).encode())
    records = np.empty((len(FILES), RECORDS, 1 + _PIXELS), dtype=np.uint8)
    for number, name in enumerate(FILES):
        records[number] = _records(folder / name)
        digest.update(records[number].data)
    records = records.reshape(-1, 1 + _PIXELS)
    wrong = np.flatnonzero(records[:, 0] >= len(names))
    if len(wrong):
        file, record = divmod(int(wrong[0]), RECORDS)
        raise DataError(
            f"{folder / FILES[file]}, record {record + 1}: expected a class from 0 to 9, got {records[wrong[0], 0]}; "
            f"{_HINT}"
        )
    return Cifar(
        pixels=records[:, 1:],
        gold=records[:, 0].astype(np.int32),
        n_train=RECORDS * (len(FILES) - 1),
        class_names=tuple(names),
        digest=digest.hexdigest(),
    )


def _records(path: Path) -> UInt8[np.ndarray, "records bytes"]:
    size = RECORDS * (1 + _PIXELS)
    content = bytes_of(path, size, f"{RECORDS:,} records of CIFAR-10's binary version")
    if len(content) != size:
        raise DataError(
            f"{path}: expected {size:,} bytes, {RECORDS:,} records of {1 + _PIXELS:,}, got {len(content):,}; {_HINT}"
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(RECORDS, 1 + _PIXELS)
