"""Sends the driver's plug-in folders to the workers of a cluster, whose machines need not have them.

A worker uses the folder at the same path where its Python files are the same, so that a plug-in finds its data files
beside it. Otherwise the worker writes the driver's files into a folder of its own.
"""

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from crowdsweep.errors import BadInput
from crowdsweep.paths import is_file
from crowdsweep.registry import discovery

MOST_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True)
class PluginFolder:
    """One folder of the plug-in search path, with its Python files.

    Attributes:
        path: its absolute path on the driver's machine.
        files: content of its Python files, by name.
    """

    path: str
    files: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """Digest of the files' names and contents."""
        hasher = blake2b(digest_size=16)
        for name, content in sorted(self.files.items()):
            for part in (name.encode(), content):
                hasher.update(len(part).to_bytes(8, "big") + part)
        return hasher.hexdigest()


def plugin_folders() -> tuple[PluginFolder, ...]:
    """Returns the folders of this process's plug-in search path.

    Raises:
        BadInput: their Python files have more than `MOST_BYTES` in all.
    """
    folders = tuple(_read(folder) for folder in discovery.search_path())
    size = sum(len(content) for folder in folders for content in folder.files.values())
    if size > MOST_BYTES:
        raise BadInput(
            f"{discovery.SEARCH_PATH}: expected at most {MOST_BYTES >> 20} MiB of Python files to carry to the "
            f"workers, got {size >> 20} MiB; name folders that hold plug-ins alone"
        )
    return folders


def use_plugin_folders(folders: Sequence[PluginFolder], place: Path) -> None:
    """Makes the driver's plug-in folders the plug-in search path of this process.

    Args:
        folders: the driver's folders.
        place: folder in which to write those that this machine lacks or has with other files; only this user may have
            write access to it.
    """
    os.environ[discovery.SEARCH_PATH] = os.pathsep.join(str(path) for path in _placed(folders, place))


def _placed(folders: Sequence[PluginFolder], place: Path) -> Iterable[Path]:
    for folder in folders:
        here = Path(folder.path)
        if _read(here).digest != folder.digest:
            here = Path(tempfile.mkdtemp(prefix=f"{folder.digest[:8]}-", dir=place))
            for name, content in folder.files.items():
                (here / name).write_bytes(content)
        yield here


def _read(folder: Path) -> PluginFolder:
    files: dict[str, bytes] = {}
    for path in sorted(folder.glob("*.py")):
        if is_file(path) and sum(map(len, files.values())) <= MOST_BYTES:
            files[path.name] = path.read_bytes()
    return PluginFolder(path=str(folder), files=files)
