"""Local copies of files in an object store, such as reports: fetched into a private folder, and sent back if changed.

Code that reads or writes a folder thus works for both kinds of stores, with the same guarantees: a user's files are
never overwritten, files that a new report lacks are removed, and the file list says which files crowdsweep owns.
"""

import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path

from crowdsweep.errors import BadInput, WriteFailed
from crowdsweep.files.manifest import LIST_FILE, Manifest, parsed_manifest
from crowdsweep.files.owned import Kind, check_owned
from crowdsweep.paths import exists
from crowdsweep.record.objects import ObjectInfo, Objects
from crowdsweep.record.store_uri import Store, StoreUri


@contextmanager
def as_folder(place: Store, kind: Kind, *, write: bool = False) -> Generator[Path]:
    """Yields the folder of a place: the place itself if it is local, else a private copy of its files.

    Args:
        write: whether to send changed files back when the `with` block ends without an exception.

    Raises:
        BadInput, ForeignFile, WriteFailed: the `with` block raised it; in the message the place replaces the
            private folder.
        JournalError: the store cannot be read or written.
    """
    if isinstance(place, Path):
        yield place
        return
    objects = Objects(place)
    with _private(place) as folder:
        before = _fetched(objects, folder, [one.name for one in _there(objects, kind)], last=kind.last)
        yield folder
        if write:
            _sent_back(objects, folder, kind, before)


@contextmanager
def files_of(place: Store, names: Sequence[str]) -> Generator[Path]:
    """Yields a folder with some files of a place: the place itself if it is local, else a private copy.

    Files that do not exist are left out.

    Raises:
        BadInput, WriteFailed: the `with` block raised it; in the message the place replaces the
            private folder.
        JournalError: the store cannot be read.
    """
    if isinstance(place, Path):
        yield place
        return
    objects = Objects(place)
    with _private(place) as folder:
        _fetched(objects, folder, names)
        yield folder


def check_place(place: StoreUri, kind: Kind) -> None:
    """Checks, before long work, that files may be written into an object store, as `check_owned` does for a folder.

    Files that are in the file list and not newer than it count as unchanged and are not fetched. The later write
    compares the contents of all files.

    Raises:
        ForeignFile: a file that crowdsweep does not own is in the way.
        JournalError: the store cannot be read.
    """
    objects = Objects(place)
    there = {one.name: one for one in _there(objects, kind)}
    listing = there.pop(LIST_FILE, None)
    content = b"" if listing is None else objects.get(LIST_FILE) or b""
    ours = _named_in(content, kind)
    unsure = [
        one.name for one in there.values() if one.name not in ours or listing is None or one.written > listing.written
    ]
    with _private(place) as folder:
        _fetched(objects, folder, unsure, last=kind.last)
        if listing is not None:
            (folder / LIST_FILE).write_bytes(content)
        check_owned(folder, (), kind)


def exists_in(place: Store, name: str) -> bool:
    """Whether a file or folder of this name exists in a place; nothing is fetched.

    Raises:
        JournalError: the store cannot be read.
    """
    if isinstance(place, Path):
        return exists(place / name)
    return any(one.name == name or one.name.startswith(f"{name}/") for one in Objects(place).names(""))


@contextmanager
def _private(place: StoreUri) -> Generator[Path]:
    """Yields the path of a temporary folder, not created yet, with the last name of a place.

    In a `BadInput` or `WriteFailed`, the place replaces this path in the message.
    """
    with tempfile.TemporaryDirectory(prefix="crowdsweep-fetched-", ignore_cleanup_errors=True) as above:
        folder = Path(above, place.name)
        try:
            yield folder
        except (BadInput, WriteFailed) as error:
            if str(folder) not in str(error):
                raise
            raise type(error)(str(error).replace(str(folder), str(place))) from error


def _there(objects: Objects, kind: Kind) -> list[ObjectInfo]:
    """Returns the files of this kind of folder in an object store, and the file list."""
    found = [one for inner in ("", *kind.folders) for one in objects.names_in(inner)]
    return [one for one in found if one.name == LIST_FILE or kind.may_write(one.name)]


def _named_in(content: bytes | None, kind: Kind) -> frozenset[str]:
    """Returns the names in a file list; empty if it is invalid, which `check_owned` reports."""
    try:
        return frozenset(parsed_manifest(content, kind.name, kind.may_write).files)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return frozenset()


def _fetched(objects: Objects, folder: Path, names: Iterable[str], last: Sequence[str] = ()) -> dict[str, bytes]:
    """Downloads files into a new folder and returns their contents; missing files are left out."""
    wanted = [*names]
    contents = zip(wanted, objects.get_all(wanted), strict=True)
    found = {name: content for name, content in contents if content is not None}
    folder.mkdir()
    for name in sorted(found, key=lambda name: name not in last):  # those of `last` become the oldest
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(found[name])
    return found


def _sent_back(objects: Objects, folder: Path, kind: Kind, before: dict[str, bytes]) -> None:
    """Uploads the files of a folder that changed, and removes the objects of those that are gone.

    A file list with both old and new files is written first, so that a killed writer leaves no unlisted file. The files
    that describe the others (`Kind.last`) are written last.

    Args:
        folder: the private copy.
        before: contents of the files as they were fetched.
    """
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    after = {name: path.read_bytes() for name, path in paths.items() if name == LIST_FILE or kind.may_write(name)}
    changed = [name for name, content in after.items() if before.get(name) != content]
    if not changed and before.keys() == after.keys():
        return
    lists = [parsed_manifest(one[LIST_FILE], kind.name, kind.may_write) for one in (before, after) if LIST_FILE in one]
    names = {name for one in lists for name in one.files}
    both = {name: frozenset[str]().union(*(one.files.get(name, ()) for one in lists)) for name in names}
    objects.put(LIST_FILE, Manifest(kind=kind.name, files=both).content())
    objects.remove([name for name in kind.last if name in before])
    for name in sorted(changed, key=lambda name: (name in kind.last, name)):
        if name != LIST_FILE:
            objects.put(name, after[name])
    for name in kind.last:
        if name in after and name not in changed:
            objects.put(name, after[name])
    objects.remove([name for name in before if name not in after and name not in kind.last])
    if LIST_FILE in after:
        objects.put(LIST_FILE, after[LIST_FILE])
