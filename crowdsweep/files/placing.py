"""Files of a draft take their places one by one, and those that stood there come back where one of them cannot."""

import os
from contextlib import suppress
from types import TracebackType

from crowdsweep.files.drafts import Draft
from crowdsweep.files.inside import above, digest_in, folder_below

_BEFORE = "before"  # of this name a draft has a folder beside what it holds


class Placing:
    """Moves files of a draft into a folder; takes all of it back when it is left by an exception.

    What stood in a place is kept by a second name meanwhile; on a file system that has none, it is not taken back.

    Args:
        draft: what is moved, whole.
        folder: descriptor of where to.
    """

    def __init__(self, draft: Draft, folder: int) -> None:
        self._draft, self._folder = draft, folder
        self._done: list[tuple[str, str]] = []  # place, and the name of what stood there; empty for nothing

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
        """Moves a file to its place.

        Raises:
            OSError: the file cannot be moved.
        """
        self._remember(name)
        with above(self._draft.content, name) as (source, own), above(self._folder, name, make=True) as (into, _):
            os.rename(own, own, src_dir_fd=source, dst_dir_fd=into)

    def remove(self, name: str, digests: frozenset[str]) -> None:
        """Removes a file where it is one of ours.

        Raises:
            OSError: the file cannot be removed.
        """
        if digest_in(self._folder, name) in digests and self._remember(name):
            remove_ours(self._folder, name, digests)

    def _remember(self, name: str) -> bool:
        """Keeps what stands in a place by a second name; returns whether it could."""
        before = f"{len(self._done)}"
        try:
            with above(self._folder, name) as (inner, own):
                os.link(own, before, src_dir_fd=inner, dst_dir_fd=self._before, follow_symlinks=False)
        except FileNotFoundError:
            self._done.append((name, ""))
            return False
        except OSError:
            return False
        self._done.append((name, before))
        return True

    def _undo(self, name: str, before: str) -> None:
        with above(self._folder, name) as (inner, own):
            if before:
                os.rename(before, own, src_dir_fd=self._before, dst_dir_fd=inner)
            else:
                os.unlink(own, dir_fd=inner)


def remove_ours(folder: int, name: str, digests: frozenset[str]) -> None:
    """Removes a file in an opened folder that is as it was written, and the folder below it that it alone was in.

    Args:
        folder: the opened folder's descriptor.
        name: of the file, as for `above`.
        digests: that its content may have; one with another stays.

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
        with suppress(OSError):  # it holds something else
            os.rmdir(name.rpartition("/")[0], dir_fd=folder)
