"""Files of ours in a folder that may hold a person's too: replaced all at once, and never one that is not ours.

A file is ours where the folder's list (`listed`) names it with the digest that it has. So one that a person put there,
or changed, is neither overwritten nor moved nor removed, whatever happened to the list: where it is in the way, nothing
is written, and an error says which file it is.

New files lie whole in a draft before the first of them takes its place. A writer that is killed while they do leaves a
list that knows both the old and the new ones, and the next writer goes on from there.
"""

import os
import stat
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from crowdsweep.errors import NotOurs
from crowdsweep.files.drafts import Draft, alone_in, is_draft, write_file
from crowdsweep.files.inside import (
    UnexpectedLink,
    above,
    digest_in,
    folder_below,
    is_link,
    mode_of,
    names_below,
    opened_folder,
)
from crowdsweep.files.listed import LIST_FILE, Listed, read_list
from crowdsweep.files.placing import Placing, remove_ours

_MOST_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What is written into one kind of folder.

    Attributes:
        name: of the kind, in a list.
        may_write: whether files of this name (`classifier/fit-0.safetensors`) are among what is written there.
        adopted: of a folder without a list, which an earlier version wrote or nobody: takes its descriptor and path,
            returns the names of the files in it that are surely ours, and raises `NotOurs` where it is none of ours.
        folders: names of folders in it.
        last: files that say what the others are; they go first and come last, so that whoever finds them finds the
            others whole.
        links_go: whether a link in the place of a file is replaced; else it is in the way.
        keeps_list: whether the list stays once all is written; else nothing is ours from then on.
    """

    name: str
    may_write: Callable[[str], bool]
    adopted: Callable[[int, str], Iterable[str]]
    folders: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    links_go: bool = False
    keeps_list: bool = True


def check_owned(root: Path, parts: tuple[str, ...], kind: Kind) -> None:
    """Checks before long work that files may be written into a folder, or that there is none yet.

    Raises:
        NotOurs: something else is in the way.
        UnexpectedLink: a folder on the way, or in it, is a link.
        OSError: the folder cannot be read.
    """
    where = str(root.joinpath(*parts))
    try:
        with opened_folder(root, *parts) as folder:
            if link := next((name for name in kind.folders if is_link(folder, name)), None):
                raise UnexpectedLink(f"{where}/{link}")
            names = {name for name in (*_own_names(folder), *_files(folder)) if kind.may_write(name)}
            _check_ours(folder, _listed(folder, kind, where), dict.fromkeys(names, ""), kind, where)
    except FileNotFoundError:
        return


@contextmanager
def replaced(root: Path, parts: tuple[str, ...], kind: Kind, *, make: bool = True) -> Generator[Path]:
    """Yields a folder to write new files into. In the end they replace all files of ours in a folder; where anything
    fails, what was there stays.

    Args:
        root: may be a link.
        parts: names of folders from there, none of which may be one.
        kind: of the folder.
        make: the folder, where it is missing.

    Raises:
        NotOurs: something else is in the way.
        FolderBusy: another process is writing there.
        UnexpectedLink: a folder on the way is a link.
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
            with suppress(OSError):  # it holds something
                place.rmdir()
        raise


def replace_files(root: Path, kind: Kind, files: Mapping[str, bytes], *, make: bool = True) -> None:
    """Replaces all files of ours in a folder, as `replaced` does, by these."""
    with replaced(root, (), kind, make=make) as place, opened_folder(place) as folder:
        for name, content in files.items():
            write_file(folder, name, content)


def _publish(draft: Draft, folder: int, kind: Kind, where: str) -> None:
    """Replaces what was there by the content of a draft."""
    fresh = {name: digest_in(draft.content, name, durable=True) for name in _files(draft.content)}
    if strange := [name for name in fresh if not kind.may_write(name)]:
        raise ValueError(f"expected names that may be written into a folder of {kind.name}, got {strange}")
    listed = _listed(folder, kind, where)
    _check_ours(folder, listed, fresh, kind, where)
    both = {name: listed.files.get(name, frozenset()) | {digest} for name, digest in fresh.items()}
    _keep_list(draft, folder, Listed(kind=kind.name, files={**listed.files, **both}))
    with Placing(draft, folder) as placing:
        for name in kind.last:
            placing.remove(name, listed.files.get(name, frozenset()))
        for name in sorted(fresh, key=lambda name: (name in kind.last, name)):
            placing.place(name)
    for name in listed.files.keys() - fresh.keys():
        remove_ours(folder, name, listed.files[name])
    if kind.keeps_list:
        _keep_list(draft, folder, Listed(kind=kind.name, files={name: frozenset({one}) for name, one in fresh.items()}))
    else:
        os.unlink(LIST_FILE, dir_fd=folder)
        os.fsync(folder)


def _listed(folder: int, kind: Kind, where: str) -> Listed:
    """Returns what is ours in a folder; of one without a list, what surely is."""
    found = read_list(folder, kind.name, kind.may_write, where)
    if found is not None:
        return found
    surely = {name: frozenset({digest}) for name in kind.adopted(folder, where) if (digest := digest_in(folder, name))}
    return Listed(kind=kind.name, files=surely)


def _check_ours(folder: int, listed: Listed, fresh: Mapping[str, str], kind: Kind, where: str) -> None:
    """Refuses to write where something stands that is not ours.

    Args:
        fresh: what is to be written, with its digest; empty where it is not known yet.
    """
    in_the_way = [name for name, digest in sorted(fresh.items()) if not _is_free(folder, name, listed, digest, kind)]
    if not in_the_way:
        return
    names = ", ".join(in_the_way[:_MOST_NAMED]) + (", …" if len(in_the_way) > _MOST_NAMED else "")
    changed = all(name in listed.files for name in in_the_way)
    verb = "was" if len(in_the_way) == 1 else "were"
    what = f"{verb} changed since crowdsweep wrote it" if changed else f"{verb} not written by crowdsweep, or changed"
    raise NotOurs(
        f"{where}: {names} would be overwritten, and {what}. Nothing was touched: move it away (or delete it, if you "
        f"do not need it), or give another folder"
    )


def _is_free(folder: int, name: str, listed: Listed, digest: str, kind: Kind) -> bool:
    """Whether a file may be written: nothing stands there, or ours, or the same."""
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
    """Returns the names of what lies in a folder, and in the folders in it; drafts and the list left out."""
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


def _keep_list(draft: Draft, folder: int, listed: Listed) -> None:
    draft.put(LIST_FILE, listed.content(), folder, durable=True)
    os.fsync(folder)
