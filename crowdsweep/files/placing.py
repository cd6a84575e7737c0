"""Moves the files of a draft into place one by one, and restores the previous files if one move fails."""

import os
from contextlib import suppress
from types import TracebackType

from crowdsweep.files.drafts import Draft
from crowdsweep.files.inside import above, digest_in, folder_below

_BEFORE = "before"  # folder in the draft that keeps the previous files


class Placing:
    """A context manager that moves files of a draft into a folder and undoes all moves if an exception ends it.

    Meanwhile, a hard link keeps each previous file that is replaced, and a removed file is kept in the draft. On a
    file system without hard links, moves over a previous file are not undone.

    Args:
        draft: holds the complete files.
        folder: descriptor of the target folder.
    """

    def __init__(self, draft: Draft, folder: int) -> None:
        self._draft, self._folder = draft, folder
        self._done: list[tuple[str, str]] = []  # (name, where the previous file is kept; empty if there was none)

    def __enter__(self) -> "Placing":
        os.mkdir(_BEFORE, dir_fd=self._draft.content)
        self._before = folder_below(self._draft.content, _BEFORE)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            for name, before in reversed(self._done):
                with suppress(OSError):
                    self._undo(name, before)
        os.close(self._before)

    def place(self, name: str) -> None:
        """Moves a file of the draft into the target folder.

        Raises:
            OSError: the file cannot be moved.
        """
        self._remember(name)
        with above(self._draft.content, name) as (source, own), above(self._folder, name, make=True) as (into, _):
            os.rename(own, own, src_dir_fd=source, dst_dir_fd=into)

    def remove(self, name: str, digests: frozenset[str]) -> None:
        """Removes a file of the target folder if `digests` has its digest.

        Raises:
            OSError: the file cannot be removed.
        """
        if digest_in(self._folder, name) not in digests:
            return
        before = f"{len(self._done)}"
        with above(self._folder, name) as (inner, own):
            os.rename(own, before, src_dir_fd=inner, dst_dir_fd=self._before)
        self._done.append((name, before))

    def _remember(self, name: str) -> None:
        """Makes a hard link to the previous file of this name, if it exists and can be linked."""
        before = f"{len(self._done)}"
        try:
            with above(self._folder, name) as (inner, own):
                os.link(own, before, src_dir_fd=inner, dst_dir_fd=self._before, follow_symlinks=False)
        except FileNotFoundError:
            self._done.append((name, ""))
        except OSError:
            pass
        else:
            self._done.append((name, before))

    def _undo(self, name: str, before: str) -> None:
        with above(self._folder, name, make=True) as (inner, own):
            if before:
                os.rename(before, own, src_dir_fd=self._before, dst_dir_fd=inner)
            else:
                os.unlink(own, dir_fd=inner)


def remove_ours(folder: int, name: str, digests: frozenset[str]) -> None:
    """Removes an unchanged file from an opened folder, and the file's subfolder if that is empty then.

    Args:
        folder: the opened folder's descriptor.
        name: of the file, as for `above`.
        digests: accepted digests of its content; a file with another digest stays.

    Raises:
        OSError: the file cannot be removed.
    """
    found = digest_in(folder, name)
    if found and found not in digests:
        return
    if found:
        with above(folder, name) as (inner, own):
            os.unlink(own, dir_fd=inner)
    if "/" in name:
        with suppress(OSError):  # not empty
            os.rmdir(name.rpartition("/")[0], dir_fd=folder)
