"""Changes several files of a dataset folder together: all of them or none, however the writer ends.

New versions are written to a draft folder, which is renamed to `.crowdsweep-changed` in one step. From then on they are
the current files of the dataset folder (`current_path`), and are moved to their places one by one. If a writer is
killed before that step, the old files stay current. If it is killed after that step, the new files are current, and the
next writer moves the remaining ones to their places.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from crowdsweep.errors import DataError, error_words
from crowdsweep.files.drafts import Draft, alone_in
from crowdsweep.files.inside import digest_in, folder_below, is_link, names_below, opened_folder
from crowdsweep.paths import is_file

CHANGED = ".crowdsweep-changed"
_MAY_CHANGE = {f"{stem}.{kind}" for stem in ("annotations", "items", "classes") for kind in ("csv", "csv.gz")}
_MAY_CHANGE.add("shown.jsonl")


def current_path(folder: Path, name: str) -> Path:
    """Returns the current path of a file of a dataset folder: a changed file may not be in its place yet."""
    changed = folder / CHANGED / name
    return changed if is_file(changed) else folder / name


@contextmanager
def update_together(folder: Path) -> Generator[Path]:
    """Yields a folder to write new versions of files to; no other process can change the files meanwhile.

    In the end all new versions replace the old ones; if anything fails, none does.

    Raises:
        DataError: the folder cannot be written, another process is writing there, or one of the files is a link.
    """
    try:
        with opened_folder(folder) as descriptor, alone_in(descriptor):
            _put_in_place(descriptor, folder)
            draft = Draft(folder, descriptor)
            try:
                yield draft.path
                _publish(draft, descriptor, folder)
            finally:
                draft.close()
    except OSError as error:
        raise DataError(
            f"{folder}: expected a folder that can be written: {error_words(error)}; nothing there was changed"
        ) from error


def _publish(draft: Draft, folder: int, where: Path) -> None:
    names = names_below(draft.content)
    if links := [name for name in names if is_link(folder, name)]:
        raise DataError(
            f"{where / links[0]}: expected a file, which a new one may take the place of, got a link; name the folder "
            f"that it leads to, or put the file there"
        )
    if not names:
        return
    for name in names:
        digest_in(draft.content, name, durable=True)
    # Contents first, then their names, then the rename that makes them count: after a crash of the machine the folder
    # has either no new version or all of them, and the next writer puts them in place.
    os.fsync(draft.content)
    os.rename(draft.path, CHANGED, dst_dir_fd=folder)
    os.fsync(folder)
    _put_in_place(folder, where)


def _put_in_place(folder: int, where: Path) -> None:
    """Moves changed files to their places, if the writer has not done so yet."""
    try:
        changed = folder_below(folder, CHANGED)
    except FileNotFoundError:
        return
    try:
        names = sorted(names_below(changed))
        if not _MAY_CHANGE.issuperset(names):
            raise DataError(
                f"{where / CHANGED}: expected files that `crowdsweep add` changes, got {', '.join(names[:5])}; look "
                f"at it, and remove it"
            )
        for name in names:
            os.rename(name, name, src_dir_fd=changed, dst_dir_fd=folder)
        os.fsync(folder)
    finally:
        os.close(changed)
    os.rmdir(CHANGED, dir_fd=folder)
