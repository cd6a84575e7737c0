"""Reads NumPy's files, header first: the size of an array is compared with the file before the array is made."""

import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from crowdsweep.data import bounds
from crowdsweep.data.on_disk.text_files import found_at, reading
from crowdsweep.errors import DataError
from crowdsweep.paths import is_file

_NUMBERS_AND_TEXTS = "fiubUS"
_CHARACTER = {"U": 4, "S": 1}  # bytes per character


def read_npy(path: Path) -> np.ndarray:
    """Returns the array in a .npy file.

    Raises:
        DataError: the file is no .npy file, is truncated, or holds objects.
    """
    if not is_file(path):
        raise DataError(f"{path}: expected a file, found {found_at(path)}")
    with reading(path, "an .npy array of numbers or texts"), path.open("rb") as file:
        bounds.check_unpacked(path.stat().st_size, bounds.size_on_disk(path), str(path), "save it without holes")
        return _array(file, path, path.stat().st_size, path.name)


def read_npz(path: Path, arrays: Mapping[str, str]) -> list[np.ndarray]:
    """Returns arrays of an .npz archive.

    Args:
        arrays: maps the name of each array to a word for its content.

    Raises:
        DataError: the file is no .npz archive, is damaged, or lacks one of the arrays.
    """
    expected = f".npz arrays {' and '.join(f'{name} ({what})' for name, what in arrays.items())}"
    with reading(path, expected), zipfile.ZipFile(path) as archive:
        held = archive.namelist()
        found: list[np.ndarray] = []
        for name in arrays:
            if f"{name}.npy" not in held:
                there = ", ".join(part.removesuffix(".npy") for part in held[:5]) or "none"
                raise DataError(f"{path}: expected {expected}, found {there}; add {name}")
            info = archive.getinfo(f"{name}.npy")
            remedy = "save it with np.savez, unpacked"
            bounds.check_unpacked(info.file_size, info.compress_size, f"{path}, {name}", remedy)
            with archive.open(info) as file:
                found.append(_array(file, path, info.file_size, name))
        return found


def _array(file: Any, path: Path, size: int, name: str) -> np.ndarray:
    version = np.lib.format.read_magic(file)
    read_header: Any = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read_header is None:
        raise DataError(f"{path}, {name}: expected version 1 or 2 of the .npy format, got {version}; save it again")
    shape, in_columns, dtype = read_header(file)
    if dtype.kind == "O":
        raise DataError(
            f"{path}, {name}: expected numbers or texts, got objects (allow_pickle is off); save plain arrays"
        )
    if dtype.kind not in _NUMBERS_AND_TEXTS or dtype.itemsize == 0:
        raise DataError(f"{path}, {name}: expected numbers or texts, got {dtype}; convert it")
    if dtype.kind in "US" and dtype.itemsize > _CHARACTER[dtype.kind] * bounds.LONGEST_NAME:
        raise DataError(
            f"{path}, {name}: expected texts of at most {bounds.LONGEST_NAME:,} characters, got {dtype}; shorten them"
        )
    needed = math.prod(shape) * dtype.itemsize
    if needed < 0 or needed > size:
        raise DataError(f"{path}, {name}: expected {needed} bytes for shape {shape} of {dtype}, the file has {size}")
    data = file.read(needed)
    if len(data) < needed:
        raise DataError(f"{path}, {name}: expected {needed} bytes, the file ends after {len(data)}; save it again")
    array: Any = np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if in_columns else "C")
    return np.char.decode(array, "utf-8") if dtype.kind == "S" else array
