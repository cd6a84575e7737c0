"""Files of a person around a store, which no command may touch: bytes, times, permissions, links."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

Seen = tuple[int, int, bytes]
FOLDER = "figures"
_FILES = {
    "thesis.tex": b"\\documentclass{book} % five years\n",
    "notes.txt": b"labels of the second batch are doubtful\n",
    "report-2025.html": b"<h1>by hand</h1>\n",
    f"{FOLDER}/plot.png": b"\x89PNG\r\n\x1a\n by a person",
    f"{FOLDER}/report.html": b"<h1>the same name, elsewhere</h1>\n",
    f"{FOLDER}/results.parquet": b"PAR1 of another program PAR1",
    f"{FOLDER}/journal.jsonl": b'{"a": "diary"}\n',
    "data/0123456789abcdef0123456789abcdef.npy": b"\x93NUMPY of a person",
    "data/labels.csv": b"item,label\n1,cat\n",
}


def write_files(folder: Path) -> None:
    """Puts a person's files into a folder: beside the sweep file, in folders beside it, and links to both."""
    for name, content in _FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (1_600_000_000, 1_600_000_000))
    (folder / "old-data").symlink_to("data", target_is_directory=True)
    (folder / "latest.tex").symlink_to("thesis.tex")


def seen(folder: Path) -> Mapping[str, Seen]:
    """Returns what is a person's there now, by name: permissions, time of the last change, and content."""
    tops = {Path(name).parts[0] for name in _FILES} | {"old-data", "latest.tex"}
    paths = [path for top in tops for path in (folder / top, *(folder / top).rglob("*"))]
    return {str(path.relative_to(folder)): _seen(path) for path in paths if os.path.lexists(path)}


def touched(before: Mapping[str, Seen], folder: Path) -> Iterator[str]:
    """Yields in words what of a person's files is not as it was."""
    after = seen(folder)
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield f"a person's file was touched: {name}: {before.get(name)} is now {after.get(name)}"


def _seen(path: Path) -> Seen:
    found = path.lstat()
    if path.is_symlink():
        return found.st_mode, found.st_mtime_ns, os.fsencode(path.readlink())
    return found.st_mode, 0 if path.is_dir() else found.st_mtime_ns, b"" if path.is_dir() else path.read_bytes()
