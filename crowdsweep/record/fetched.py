"""Files that are made of a record, where they lie in an object store: fetched into a private folder, and sent back.

So whatever writes or reads a folder does the same for both, with what it promises: what a person put there is never
overwritten, what a report does not have any more goes, and the list of our files says which are ours.
"""

import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path

from crowdsweep.errors import BadInput, NotWritten
from crowdsweep.files.listed import LIST_FILE, Listed, parsed_list
from crowdsweep.files.owned import Kind, check_owned
from crowdsweep.paths import exists
from crowdsweep.record.objects import Found, Objects
from crowdsweep.record.store_uri import Store, StoreUri


@contextmanager
def as_folder(place: Store, kind: Kind, *, write: bool = False) -> Generator[Path]:
    """Yields the folder of some files: itself, or a private copy of what lies in an object store.

    Args:
        place: where they are.
        kind: of the folder, which says which files are fetched.
        write: send back what was changed, once all is well.

    Raises:
        BadInput, NotOurs, NotWritten: as who uses it, with the place's own name.
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
    """Yields a folder that has some files of a place, those that are there: itself, or a private copy of them alone.

    Raises:
        BadInput, NotWritten: as who uses it, with the place's own name.
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
    """Checks before long work that files may be written into a place of an object store, as `check_owned` does of a
    folder. What the list of our files names, and is no younger than the list, was not changed since it was written: it
    is not fetched. Writing compares all contents.

    Raises:
        NotOurs: something else is in the way.
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
    """Whether a file or a folder stands in a place; nothing is fetched.

    Raises:
        JournalError: the store cannot be read.
    """
    if isinstance(place, Path):
        return exists(place / name)
    return any(one.name == name or one.name.startswith(f"{name}/") for one in Objects(place).names(""))


@contextmanager
def _private(place: StoreUri) -> Generator[Path]:
    """Yields a folder of this process that is called as a place and does not exist yet; errors that name it name the
    place."""
    with tempfile.TemporaryDirectory(prefix="crowdsweep-", ignore_cleanup_errors=True) as above:
        folder = Path(above, place.name)
        try:
            yield folder
        except (BadInput, NotWritten) as error:
            if str(folder) not in str(error):
                raise
            raise type(error)(str(error).replace(str(folder), str(place))) from error


def _there(objects: Objects, kind: Kind) -> list[Found]:
    """Returns the files of a kind, and their list."""
    found = [one for inner in ("", *kind.folders) for one in objects.names_in(inner)]
    return [one for one in found if one.name == LIST_FILE or kind.may_write(one.name)]


def _named_in(content: bytes | None, kind: Kind) -> frozenset[str]:
    """Returns what a list names; nothing where it is none, which `check_owned` tells in words."""
    try:
        return frozenset(parsed_list(content, kind.name, kind.may_write).files)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return frozenset()


def _fetched(objects: Objects, folder: Path, names: Iterable[str], last: Sequence[str] = ()) -> dict[str, bytes]:
    """Makes a folder of some files, those that are there; returns them."""
    wanted = [*names]
    contents = zip(wanted, objects.get_all(wanted), strict=True)
    found = {name: content for name, content in contents if content is not None}
    folder.mkdir()
    for name in sorted(found, key=lambda name: name not in last):  # what says what the others are is the oldest
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(found[name])
    return found


def _sent_back(objects: Objects, folder: Path, kind: Kind, before: dict[str, bytes]) -> None:
    """Has the objects be what the files are. First comes a list of ours that knows both, and last what says what the
    others are, so that a writer that is killed leaves nothing that is not known."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    after = {name: path.read_bytes() for name, path in paths.items() if name == LIST_FILE or kind.may_write(name)}
    changed = [name for name, content in after.items() if before.get(name) != content]
    if not changed and before.keys() == after.keys():
        return
    lists = [parsed_list(one[LIST_FILE], kind.name, kind.may_write) for one in (before, after) if LIST_FILE in one]
    names = {name for one in lists for name in one.files}
    both = {name: frozenset[str]().union(*(one.files.get(name, ()) for one in lists)) for name in names}
    objects.put(LIST_FILE, Listed(kind=kind.name, files=both).content())
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
