"""The plug-in folders of the driver, carried to the workers of a cluster: other machines need not have them.

A worker uses the folder at its own place where the same files lie there, so that a plug-in finds what it reads beside
itself; anywhere else it gets the driver's files.
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
class CarriedFolder:
    """One folder of the search path.

    Attributes:
        path: where the driver has it, absolute.
        files: content of its Python files, by name.
    """

    path: str
    files: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """Of names and contents."""
        told = blake2b(digest_size=16)
        for name, content in sorted(self.files.items()):
            for part in (name.encode(), content):
                told.update(len(part).to_bytes(8, "big") + part)
        return told.hexdigest()


def carried() -> tuple[CarriedFolder, ...]:
    """Returns the folders that the search path of this process names.

    Raises:
        BadInput: their Python files are too large to be plug-ins.
    """
    folders = tuple(_read(folder) for folder in discovery.search_path())
    size = sum(len(content) for folder in folders for content in folder.files.values())
    if size > MOST_BYTES:
        raise BadInput(
            f"{discovery.SEARCH_PATH}: expected at most {MOST_BYTES >> 20} MiB of Python files to carry to the "
            f"workers, got {size >> 20} MiB; name folders that hold plug-ins alone"
        )
    return folders


def search_here(folders: Sequence[CarriedFolder], place: Path) -> None:
    """Makes the carried folders the search path of this process.

    Args:
        folders: of the driver.
        place: where folders are made that this machine lacks, or has otherwise; nobody but this user may write there.
    """
    os.environ[discovery.SEARCH_PATH] = os.pathsep.join(str(path) for path in _placed(folders, place))


def _placed(folders: Sequence[CarriedFolder], place: Path) -> Iterable[Path]:
    for folder in folders:
        here = Path(folder.path)
        if _read(here).digest != folder.digest:
            here = Path(tempfile.mkdtemp(prefix=f"{folder.digest[:8]}-", dir=place))
            for name, content in folder.files.items():
                (here / name).write_bytes(content)
        yield here


def _read(folder: Path) -> CarriedFolder:
    files: dict[str, bytes] = {}
    for path in sorted(folder.glob("*.py")):
        if is_file(path) and sum(map(len, files.values())) <= MOST_BYTES:
            files[path.name] = path.read_bytes()
    return CarriedFolder(path=str(folder), files=files)
