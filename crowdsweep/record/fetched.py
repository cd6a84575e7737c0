"""Files that are made of a record, where they lie in an object store: fetched into a private folder, and sent back.

So whatever writes or reads a folder does the same for both, with what it promises: what a person put there is never
overwritten, what a report does not have any more goes, and the list of our files says which are ours.
"""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from crowdsweep.errors import NotOurs, NotWritten
from crowdsweep.files.listed import LIST_FILE, Listed, parsed_list
from crowdsweep.files.owned import Kind
from crowdsweep.paths import exists
from crowdsweep.record.objects import Objects
from crowdsweep.record.store_uri import Store


@contextmanager
def as_folder(place: Store, kind: Kind, *, write: bool = False) -> Generator[Path]:
    """Yields the folder of some files: itself, or a private copy of what lies in an object store.

    Args:
        place: where they are.
        kind: of the folder, which says which files are fetched.
        write: send back what was changed, once all is well.

    Raises:
        NotOurs, NotWritten: as who uses it, with the place's own name.
        JournalError: the store cannot be read or written.
    """
    if isinstance(place, Path):
        yield place
        return
    objects = Objects(place)
    with tempfile.TemporaryDirectory(prefix="crowdsweep-", ignore_cleanup_errors=True) as above:
        folder = Path(above, place.name)
        before = _fetched(objects, folder, kind)
        try:
            yield folder
        except (NotOurs, NotWritten) as error:
            raise type(error)(str(error).replace(str(folder), str(place))) from error
        if write:
            _sent_back(objects, folder, kind, before)


def stands_in(place: Store, name: str) -> bool:
    """Whether a file or a folder stands in a place; nothing is fetched.

    Raises:
        JournalError: the store cannot be read.
    """
    if isinstance(place, Path):
        return exists(place / name)
    return any(one.name == name or one.name.startswith(f"{name}/") for one in Objects(place).names(""))


def _fetched(objects: Objects, folder: Path, kind: Kind) -> dict[str, bytes]:
    """Writes the files of a kind into a folder, which is made where there are any; returns them."""
    there = [one.name for inner in ("", *kind.folders) for one in objects.names_in(inner)]
    names = [name for name in there if name == LIST_FILE or kind.may_write(name)]
    contents = zip(names, objects.get_all(names), strict=True)
    found = {name: content for name, content in contents if content is not None}
    folder.mkdir()
    for name in sorted(found, key=lambda name: name not in kind.last):  # what says what the others are is the oldest
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
