"""CIFAR-10 as its authors publish it for programs that read bytes (Krizhevsky 2009), the binary version:

    data_batch_1.bin … data_batch_5.bin   training images, 10,000 records each
    test_batch.bin                        test images, 10,000 records
    batches.meta.txt                      the names of the ten classes, a line each

A record is one byte of class, 0 to 9, and 3,072 of pixels: 32 rows of 32 in red, then in green, then in blue.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int32, UInt8

from crowdsweep.data.on_disk.doors import bytes_of
from crowdsweep.errors import DataError
from crowdsweep.paths import is_file, is_folder

FILES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
CLASSES_FILE = "batches.meta.txt"
NAMES = ("cifar-10", "cifar-10-batches-bin")
"""What a folder of them is called: by `crowdsweep fetch`, and by the archive that they come in."""
RECORDS = 10_000  # of a file
SIDE = 32
_PIXELS = 3 * SIDE * SIDE
_PYTHON = "data_batch_1"  # what the first file is called in the version for Python
_HINT = "`crowdsweep fetch cifar-10` gets the binary version (cifar-10-binary.tar.gz)"


class Cifar(NamedTuple):
    """What the files hold, the training images first.

    Attributes:
        pixels: uint8 [images, 3072], as in the records.
        gold: int32 [images].
        n_train: how many of them train.
        class_names: in the order of their codes.
        digest: of all of it.
    """

    pixels: UInt8[np.ndarray, "images pixels"]
    gold: Int32[np.ndarray, " images"]
    n_train: int
    class_names: tuple[str, ...]
    digest: str


def find_cifar(places: Iterable[Path]) -> Path:
    """Returns the first folder of these places that holds the binary version.

    Raises:
        DataError: there is no such folder; where there is the version for Python, the message says why it is not read.
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
    told = ", ".join(str(folder) for folder in looked if is_folder(folder.parent)) or "no folder, as there is no place"
    raise DataError(f"dataset cifar-10: expected {FILES[0]}, … in one of {told}, found none; {_HINT}")


def read_cifar(folder: Path) -> Cifar:
    """Reads the six files and the names of the classes.

    Raises:
        DataError: a file is missing, has another size than it should, or a record a class that there is not.
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
