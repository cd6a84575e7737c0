"""Files of a dataset's folder that change together: all of them or none, whatever ends their writer.

New versions lie whole in a draft, which becomes the folder `.crowdsweep-changed` in one step. From then on they are
what the dataset's folder holds (`standing`), and take their places one by one. A writer that is killed before that step
leaves the old files, after it the new ones, and the next writer puts those that are left into place.
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


def standing(folder: Path, name: str) -> Path:
    """Returns where a file of a dataset's folder stands: one that was changed may not be in its place yet."""
    changed = folder / CHANGED / name
    return changed if is_file(changed) else folder / name


@contextmanager
def changed_together(folder: Path) -> Generator[Path]:
    """Yields a place to write new versions of files to, which nobody else changes meanwhile. In the end all of them
    take the place of the old ones; where anything fails, none does.

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
    os.fsync(draft.content)
    os.rename(draft.path, CHANGED, dst_dir_fd=folder)
    os.fsync(folder)
    _put_in_place(folder, where)


def _put_in_place(folder: int, where: Path) -> None:
    """Moves what was changed to its place, where a writer has not done so."""
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
