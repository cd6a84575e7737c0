"""Names of the files in a store, and the check that crowdsweep owns the files that it would overwrite."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from crowdsweep.errors import ForeignFile, JournalError, place_words, plain, shortened
from crowdsweep.files.drafts import is_draft
from crowdsweep.files.inside import beginning_of, content_of, is_link, names_below, opened_folder
from crowdsweep.files.owned import Kind, check_owned
from crowdsweep.record.fetched import check_place
from crowdsweep.record.rows import parse_row
from crowdsweep.record.store_uri import Store

JOURNAL_FILE, LOCK_FILE, JOB_FILE = "journal.jsonl", "journal.lock", "job.json"
ARTIFACTS = "artifacts"
CHECKPOINTS = "checkpoints"
REPORT_FILES = ("report.html", "table.md", "table.csv", "table.tex", "results.parquet")
STUDY_FILE = "study.csv"
"""Additional file of sweeps that have a study."""
_PICTURE = re.compile(r"(annotators|items|clusters)-[0-9]{1,6}\.png")
_LOOKED_AT = 1 << 16  # bytes read from the beginning of a journal
_LARGEST_NOTE = 4096  # bytes of the lock file, and of the note of a job


def read_note(store: Path, name: str) -> Any:
    """Returns the value of a small JSON file of a store; None if it is missing, a link, a pipe, too large or no
    JSON.
    """
    try:
        with opened_folder(store) as folder:
            return json.loads(content_of(folder, name, _LARGEST_NOTE) or b"null")
    except (OSError, ValueError, RecursionError):
        return None


def check_store(store: Store) -> None:
    """Checks, before long work, that reports can be written into a store, and that a local store contains no links.

    Raises:
        ForeignFile: files that crowdsweep does not own are in the way.
        JournalError: a subfolder of a local store is a link, or the store cannot be read.
    """
    if not isinstance(store, Path):
        check_place(store, STORE)
        return
    try:
        check_journal_goes_here(store)
        check_owned(store, (), STORE)
    except FileNotFoundError:
        return
    except JournalError:
        raise
    except OSError as error:
        raise JournalError(f"{store}: cannot be used as a store: {place_words(error)}; correct that first") from error


def check_journal_goes_here(store: Path) -> None:
    """Checks that a record may be kept in a folder: it has one already, or no file there would be overwritten.

    Raises:
        ForeignFile: the folder has no record, and has files that reports would overwrite; or its path is a link to a
            folder that is neither a store nor empty.
        JournalError: a subfolder of the store is a link.
        OSError: the folder cannot be read.
    """
    with opened_folder(store) as folder:
        for own in (ARTIFACTS, CHECKPOINTS):
            if is_link(folder, own):
                raise JournalError(
                    f"{store / own}: expected a folder, got a link; crowdsweep does not write through links. Put a "
                    f"folder in its place (the store itself may be a link)"
                )
        is_new = not has_record(folder)
        if is_new and not _is_lock(beginning_of(folder, LOCK_FILE, _LOOKED_AT) or b""):
            raise ForeignFile(
                f"{store / LOCK_FILE}: expected a lock file of crowdsweep, got something else, and there is no record "
                f"beside it. Nothing was touched: move it away, or give another folder"
            )
        if is_new and store.is_symlink():
            _check_behind_link(store, folder)
    if is_new:
        check_owned(store, (), replace(STORE, links_go=False))


def _check_behind_link(store: Path, folder: int) -> None:
    """Checks a folder without a record whose path is a link: it may contain only the files of a store just begun."""
    begun = {LOCK_FILE, JOB_FILE} | ({JOURNAL_FILE} if content_of(folder, JOURNAL_FILE, 0) == b"" else set())
    if others := [name for name in sorted(names_below(folder)) if name not in begun and not is_draft(name)]:
        more = ", …" if len(others) > 1 else ""
        raise ForeignFile(
            f"{store}: expected a store or an empty folder behind this link, got {store.resolve()} with "
            f"{plain(shortened(others[0]))}{more}. Nothing was touched: give the folder itself if the sweep is to be "
            f"kept in it, or another one"
        )


def _is_lock(content: bytes) -> bool:
    return content.startswith(b'{"pid":') or not content.strip(b"\0")


def has_record(folder: int) -> bool:
    """Whether an opened folder contains a journal with rows, even damaged ones."""
    content = beginning_of(folder, JOURNAL_FILE, _LOOKED_AT) or b""
    return any(
        parse_row(line) is not None or line.startswith(b'{"crc":"') for line in content.splitlines(keepends=True)
    )


def _may_write(name: str) -> bool:
    return name in REPORT_FILES or name == STUDY_FILE or _PICTURE.fullmatch(name) is not None


STORE = Kind(name="store", may_write=_may_write, links_go=True)
