"""The job that a sweep was submitted as, noted beside its record: by it another machine finds the job again."""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from crowdsweep.errors import JournalError, NotOurs, error_words
from crowdsweep.files.drafts import write_below
from crowdsweep.files.typed import Text, read_as
from crowdsweep.record.store_files import JOB_FILE

_MOST = 4096  # bytes
_ADDRESS = re.compile(r"https?://[^\s/@]+(/[^\s@]*)?")
_WORD = re.compile(r"[\w.:+-]{1,300}")


def _an_address(text: str) -> str:
    if not _ADDRESS.fullmatch(text):
        raise ValueError("expected the address of a dashboard")
    return text


def _one_word(text: str) -> str:
    if not _WORD.fullmatch(text):
        raise ValueError("expected letters, digits, `.`, `-`, `_`")
    return text


@dataclass(frozen=True, kw_only=True)
class JobNote:
    """A job of a Ray cluster.

    Attributes:
        job: its submission id.
        address: of the cluster's dashboard; holds no secret.
        submitted: when, ISO 8601.
        elsewhere: the folder of the record, where only the cluster sees it; empty where it is the note's.
    """

    job: Annotated[Text, AfterValidator(_one_word)]
    address: Annotated[Text, AfterValidator(_an_address)]
    submitted: Annotated[Text, AfterValidator(_one_word)]
    elsewhere: Text = ""


def read_job(store: Path) -> JobNote | None:
    """Returns the job that a sweep was last submitted as; None where it was not, or the note is none of ours."""
    try:
        with (store / JOB_FILE).open("rb") as file:
            return read_as(JobNote, json.loads(file.read(_MOST)))
    except (OSError, ValueError):
        return None


def write_job(store: Path, note: JobNote) -> None:
    """Notes a job in the folder of a record, which is made where it is missing.

    Raises:
        NotOurs: another file of that name stands there.
        JournalError: it cannot be written.
    """
    place = store / JOB_FILE
    try:
        if place.is_symlink() or (place.exists() and read_job(store) is None):
            raise NotOurs(
                f"{place}: expected the note of a job, got something else. Nothing was touched: move it away, or give "
                f"another folder with --store"
            )
        store.mkdir(parents=True, exist_ok=True)
        write_below(store, (JOB_FILE,), json.dumps(asdict(note)).encode())
    except NotOurs:
        raise
    except OSError as error:
        raise JournalError(
            f"{place}: cannot be written ({error_words(error)}); give a folder with --store that this machine and the "
            f"cluster both write"
        ) from error
