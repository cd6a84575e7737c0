"""Extraction of single files from untrusted archives: member names never decide where a file is written."""

import gzip
import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path, PurePosixPath
from typing import IO, cast

from crowdsweep.data import bounds
from crowdsweep.data.on_disk.text_files import reading
from crowdsweep.errors import DataError, shown
from crowdsweep.units import show_file_size

_PIECE = 1 << 20
_IGNORED = "__MACOSX"  # a folder that macOS adds to archives


@dataclass(frozen=True, kw_only=True)
class _Member:
    """A member of an archive.

    Attributes:
        is_file: whether it is a regular file, and no link, device or folder.
        open: opens the member for reading.
    """

    is_file: bool
    open: Callable[[], BufferedIOBase]


def extract(path: Path, members: Mapping[str, str], into: Path) -> dict[str, Path]:
    """Writes files of an archive (zip, tar, tar.gz) into a folder.

    Args:
        path: path of the archive.
        members: name of each file to write → end of the member's path in the archive.
        into: the folder, which must exist.

    Returns:
        Paths of the written files, by their names.

    Raises:
        DataError: the file is not an archive, is damaged, has paths that lead out of it, lacks a member, has a member
            twice or as a link, or unpacks to far more than its own size.
    """
    taken: dict[str, Path] = {}
    with _opened(path) as held:
        _check_paths(path, held)
        for name, end in members.items():
            member = held[_the_one(path, held, end)]
            if not member.is_file:
                raise DataError(f"{path}: expected {end} as a file, got a link, a folder or a device")
            taken[name] = into / name
            with reading(path, f"an archive that holds {end}"), member.open() as source, taken[name].open("wb") as file:
                shutil.copyfileobj(source, file, _PIECE)
    return taken


@contextmanager
def _opened(path: Path) -> Generator[dict[str, _Member]]:
    """Yields the members of an archive by their paths in it."""
    with reading(path, "a zip or tar.gz archive"):
        with path.open("rb") as file:
            beginning = file.read(2)
        if beginning == b"PK":
            with zipfile.ZipFile(path) as archive:
                _check_unpacked(path, [info.file_size for info in archive.infolist()])
                yield {info.filename: _of_zip(archive, info) for info in archive.infolist()}
        else:
            with _plain_tar(path) as file, tarfile.open(fileobj=file, mode="r:") as archive:
                _check_unpacked(
                    path, [info.size for info in archive.getmembers()]
                )  # one with holes is larger than here
                yield {info.name: _of_tar(archive, info) for info in archive.getmembers()}


def _check_unpacked(path: Path, sizes: list[int]) -> None:
    bounds.check_unpacked(sum(sizes), path.stat().st_size, str(path), "unpack it by hand")


def _of_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    mode = stat.S_IFMT(info.external_attr >> 16)
    return _Member(
        is_file=not info.is_dir() and mode in (0, stat.S_IFREG),
        open=lambda: cast(BufferedIOBase, archive.open(info)),
    )


def _of_tar(archive: tarfile.TarFile, info: tarfile.TarInfo) -> _Member:
    return _Member(is_file=info.isreg(), open=lambda: cast(BufferedIOBase, archive.extractfile(info)))


@contextmanager
def _plain_tar(path: Path) -> Generator[IO[bytes]]:
    """Yields a decompressed tar archive in a temporary file; raises DataError when it exceeds the allowed size."""
    most = bounds.most_unpacked(path.stat().st_size)
    with tempfile.TemporaryFile(dir=path.parent) as plain, path.open("rb") as packed:
        is_packed = packed.peek(2)[:2] == b"\x1f\x8b"
        source = gzip.GzipFile(fileobj=packed) if is_packed else packed
        while piece := source.read(_PIECE):
            plain.write(piece)
            if plain.tell() > most:
                raise DataError(
                    f"{path}: expected at most {show_file_size(most)}, got more packed into "
                    f"{show_file_size(path.stat().st_size)}; unpack it by hand, if it is meant"
                )
        plain.seek(0)
        yield plain


def _check_paths(path: Path, names: Iterable[str]) -> None:
    for name in names:
        if name.startswith(("/", "\\")) or ".." in PurePosixPath(name.replace("\\", "/")).parts:
            raise DataError(
                f"{path}: expected an archive whose files lie below one place, got {shown(name)}, which leads out of "
                f"it; nothing of it was taken"
            )


def _the_one(path: Path, names: Iterable[str], end: str) -> str:
    """Returns the path of the only member whose path ends in `end`."""
    found = [name for name in names if f"/{name}".endswith(f"/{end}") and _IGNORED not in PurePosixPath(name).parts]
    if len(found) != 1:
        got = "none" if not found else " and ".join(map(shown, found[:3]))
        raise DataError(f"{path}: expected one file {end} in the archive, got {got}")
    return found[0]
