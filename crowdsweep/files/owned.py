"""Replaces crowdsweep's files in a folder all at once, and never touches the user's files there.

crowdsweep owns a file if the folder's file list (`listed`) contains its name and current digest. A file that a user
added or changed is never overwritten, moved or removed, whatever happened to the list. If such a file is in the way,
nothing is written and an error names the file.

All new files are complete in a draft before the first one is moved into place. A writer that is killed during the moves
leaves a list that contains both the old and the new files; the next writer continues from there.
"""

import os
import stat
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from crowdsweep.errors import ForeignFile
from crowdsweep.files.drafts import Draft, alone_in, is_draft, write_file
from crowdsweep.files.inside import (
    UnexpectedLink,
    above,
    check_can_write,
    digest_in,
    folder_below,
    is_link,
    mode_of,
    names_below,
    opened_folder,
)
from crowdsweep.files.manifest import LIST_FILE, Manifest, read_manifest
from crowdsweep.files.placing import Placing, remove_ours

_MOST_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of folder that crowdsweep writes, and the files it may contain.

    Attributes:
        name: of the kind, as the file list stores it.
        may_write: whether crowdsweep may write a file of this name (`classifier/fit-0.safetensors`) into the folder.
        adopted: finds crowdsweep's files in a folder without a file list, by default none: takes the folder's
            descriptor and path, returns the names of files that crowdsweep certainly wrote, and raises `ForeignFile` if
            the folder is not crowdsweep's.
        folders: names of its subfolders.
        last: files that describe the others. They are removed first and written last: if they exist, the others are
            complete.
        links_go: whether a link in the place of a file is replaced; otherwise it blocks the write.
        keeps_list: whether the file list remains after a write; otherwise crowdsweep owns nothing there afterwards.
    """

    name: str
    may_write: Callable[[str], bool]
    adopted: Callable[[int, str], Iterable[str]] = lambda folder, where: ()  # noqa: ARG005 - none
    folders: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    links_go: bool = False
    keeps_list: bool = True


def check_owned(root: Path, parts: tuple[str, ...], kind: Kind) -> None:
    """Checks, before long work, that files may and can be written into a folder, which need not exist yet.

    Raises:
        ForeignFile: a file that crowdsweep does not own is in the way.
        UnexpectedLink: a folder below `root`, or a subfolder of the kind, is a link.
        OSError: the folder cannot be read or written, or cannot be made.
    """
    where = str(root.joinpath(*parts))
    try:
        with opened_folder(root, *parts) as folder:
            if link := next((name for name in kind.folders if is_link(folder, name)), None):
                raise UnexpectedLink(f"{where}/{link}")
            names = {name for name in (*_own_names(folder), *_files(folder)) if kind.may_write(name)}
            _check_ours(folder, _listed(folder, kind, where), dict.fromkeys(names, ""), kind, where)
    except FileNotFoundError:
        pass
    check_can_write(Path(where))


@contextmanager
def replaced(root: Path, parts: tuple[str, ...], kind: Kind, *, make: bool = True) -> Generator[Path]:
    """Yields a draft folder for new files; on exit they replace all of crowdsweep's files in the target folder.

    If anything fails, the target folder keeps its previous files.

    Args:
        root: start of the path; may be a link.
        parts: names of nested folders from `root` to the target folder, none of which may be a link.
        kind: of the target folder.
        make: whether missing folders are created.

    Raises:
        ForeignFile: a file that crowdsweep does not own is in the way.
        FolderBusy: another process is writing there.
        UnexpectedLink: a folder below `root` is a link.
        OSError: the folder cannot be written.
    """
    place = root.joinpath(*parts)
    is_new = not os.path.lexists(place)
    try:
        with opened_folder(root, *parts, make=make) as folder, alone_in(folder):
            _listed(folder, kind, str(place))  # before anything is written
            draft = Draft(place, folder)
            try:
                yield draft.path
                _publish(draft, folder, kind, str(place))
            finally:
                draft.close()
    except BaseException:
        if is_new:
            with suppress(OSError):  # not empty
                place.rmdir()
        raise


def replace_files(root: Path, kind: Kind, files: Mapping[str, bytes], *, make: bool = True) -> None:
    """Replaces all of crowdsweep's files in a folder by these, as `replaced` does."""
    with replaced(root, (), kind, make=make) as place, opened_folder(place) as folder:
        for name, content in files.items():
            write_file(folder, name, content)


def _publish(draft: Draft, folder: int, kind: Kind, where: str) -> None:
    """Replaces crowdsweep's files in a folder by the files of a draft."""
    fresh = {name: digest_in(draft.content, name, durable=True) for name in _files(draft.content)}
    if strange := [name for name in fresh if not kind.may_write(name)]:
        raise ValueError(f"expected names that may be written into a folder of {kind.name}, got {strange}")
    listed = _listed(folder, kind, where)
    _check_ours(folder, listed, fresh, kind, where)
    # Old and new digests are listed before any file is placed: if this process dies in between, every file that is
    # found there is one of them, and so known to be crowdsweep's.
    both = {name: listed.files.get(name, frozenset()) | {digest} for name, digest in fresh.items()}
    _keep_list(draft, folder, Manifest(kind=kind.name, files={**listed.files, **both}))
    with Placing(draft, folder) as placing:
        for name in kind.last:
            placing.remove(name, listed.files.get(name, frozenset()))
        for name in sorted(fresh, key=lambda name: (name in kind.last, name)):
            placing.place(name)
    for name in listed.files.keys() - fresh.keys():
        remove_ours(folder, name, listed.files[name])
    if kind.keeps_list:
        _keep_list(
            draft, folder, Manifest(kind=kind.name, files={name: frozenset({one}) for name, one in fresh.items()})
        )
    else:
        os.unlink(LIST_FILE, dir_fd=folder)
        os.fsync(folder)


def _listed(folder: int, kind: Kind, where: str) -> Manifest:
    """Returns the files that crowdsweep owns in a folder; without a file list, those that `kind.adopted` finds."""
    found = read_manifest(folder, kind.name, kind.may_write, where)
    if found is not None:
        return found
    surely = {name: frozenset({digest}) for name in kind.adopted(folder, where) if (digest := digest_in(folder, name))}
    return Manifest(kind=kind.name, files=surely)


def _check_ours(folder: int, listed: Manifest, fresh: Mapping[str, str], kind: Kind, where: str) -> None:
    """Raises `ForeignFile` if a file that crowdsweep does not own has the name of a new file.

    Args:
        fresh: name → digest of the files to write; an empty digest if it is not known yet.
    """
    in_the_way = [name for name, digest in sorted(fresh.items()) if not _is_free(folder, name, listed, digest, kind)]
    if not in_the_way:
        return
    names = ", ".join(in_the_way[:_MOST_NAMED]) + (", …" if len(in_the_way) > _MOST_NAMED else "")
    changed = all(name in listed.files for name in in_the_way)
    verb = "was" if len(in_the_way) == 1 else "were"
    what = f"{verb} changed since crowdsweep wrote it" if changed else f"{verb} not written by crowdsweep, or changed"
    raise ForeignFile(
        f"{where}: {names} would be overwritten, and {what}. Nothing was touched: move it away (or delete it, if you "
        f"do not need it), or give another folder"
    )


def _is_free(folder: int, name: str, listed: Manifest, digest: str, kind: Kind) -> bool:
    """Whether a name may be written: it is unused, a replaceable link, crowdsweep's, or has the new content already."""
    try:
        with above(folder, name) as (inner, own):
            mode = mode_of(inner, own)
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        return False
    if mode is None or (kind.links_go and stat.S_ISLNK(mode)):
        return True
    found = digest_in(folder, name)
    return bool(found) and (found == digest or found in listed.files.get(name, ()))


def _files(folder: int) -> list[str]:
    """Returns the names of all files in a folder and in its direct subfolders, without drafts and the file list."""
    found: list[str] = []
    for name in _own_names(folder):
        mode = mode_of(folder, name)
        if mode is None:
            continue
        if not stat.S_ISDIR(mode):
            found.append(name)
            continue
        inner = folder_below(folder, name)
        try:
            found.extend(f"{name}/{own}" for own in names_below(inner))
        finally:
            os.close(inner)
    return found


def _own_names(folder: int) -> list[str]:
    return [name for name in names_below(folder) if name != LIST_FILE and not is_draft(name)]


def _keep_list(draft: Draft, folder: int, listed: Manifest) -> None:
    draft.put(LIST_FILE, listed.content(), folder, durable=True)
    os.fsync(folder)
