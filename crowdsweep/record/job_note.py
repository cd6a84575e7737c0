"""A note, beside a sweep's record, of the Ray job that runs the sweep, so that other machines can find the job."""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from crowdsweep.errors import ForeignFile, JournalError, error_words
from crowdsweep.files.drafts import write_below
from crowdsweep.record.store_files import JOB_FILE, read_note

_ADDRESS = re.compile(r"https?://[^\s/@]+(/[^\s@]*)?")
_WORD = re.compile(r"[\w.:+-]{1,300}")


@dataclass(frozen=True, kw_only=True)
class JobNote:
    """A note of a job on a Ray cluster.

    Attributes:
        job: submission id of the job.
        address: of the cluster's dashboard; contains no secret.
        submitted: time of submission, ISO 8601.
        elsewhere: the record's folder if only the cluster can access it; empty if the record is beside the note.
        seal: what only somebody with the cluster's token can make of job and address; empty without a token.

    Raises:
        ValueError: a value is invalid.
    """

    job: str
    address: str
    submitted: str
    elsewhere: str = ""
    seal: str = ""

    def __post_init__(self) -> None:
        if not _ADDRESS.fullmatch(self.address):
            raise ValueError("address: expected that of a dashboard")
        for name, text in {"job": self.job, "submitted": self.submitted}.items():
            if not _WORD.fullmatch(text):
                raise ValueError(f"{name}: expected letters, digits, `.`, `-`, `_`")


def read_job(store: Path) -> JobNote | None:
    """Returns the job that a sweep was last submitted as; None without a valid note."""
    from crowdsweep.files.typed import read_as  # noqa: PLC0415 - pydantic, which few commands need

    try:
        return read_as(JobNote, read_note(store, JOB_FILE))
    except ValueError:
        return None


def write_job(store: Path, note: JobNote) -> None:
    """Writes the note of a job into the folder of a record, which is created if it is missing.

    Raises:
        ForeignFile: a file or link of that name exists that is no note.
        JournalError: the note cannot be written.
    """
    place = store / JOB_FILE
    try:
        if place.is_symlink() or (place.exists() and read_job(store) is None):
            raise ForeignFile(
                f"{place}: expected the note of a job, got something else. Nothing was touched: move it away, or give "
                f"another folder with --store"
            )
        store.mkdir(parents=True, exist_ok=True)
        write_below(store, (JOB_FILE,), json.dumps(asdict(note)).encode())
    except ForeignFile:
        raise
    except OSError as error:
        raise JournalError(
            f"{place}: cannot be written ({error_words(error)}); give a folder with --store that this machine and the "
            f"cluster both write"
        ) from error
