"""The job that a sweep was submitted as, noted beside its record: by it another machine finds the job again."""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from crowdsweep.errors import JournalError, NotOurs, error_words
from crowdsweep.files.drafts import write_below
from crowdsweep.record.store_files import JOB_FILE

_MOST = 4096  # bytes
_ADDRESS = re.compile(r"https?://[^\s/@]+(/[^\s@]*)?")
_WORD = re.compile(r"[\w.:+-]{1,300}")


@dataclass(frozen=True, kw_only=True)
class JobNote:
    """A job of a Ray cluster.

    Attributes:
        job: its submission id.
        address: of the cluster's dashboard; holds no secret.
        submitted: when, ISO 8601.
        elsewhere: the folder of the record, where only the cluster sees it; empty where it is the note's.

    Raises:
        ValueError: one of these is none.
    """

    job: str
    address: str
    submitted: str
    elsewhere: str = ""

    def __post_init__(self) -> None:
        if not _ADDRESS.fullmatch(self.address):
            raise ValueError("address: expected that of a dashboard")
        for name, text in {"job": self.job, "submitted": self.submitted}.items():
            if not _WORD.fullmatch(text):
                raise ValueError(f"{name}: expected letters, digits, `.`, `-`, `_`")


def read_job(store: Path) -> JobNote | None:
    """Returns the job that a sweep was last submitted as; None where it was not, or the note is none of ours."""
    from crowdsweep.files.typed import read_as  # noqa: PLC0415 - pydantic, which few commands need

    try:
        with (store / JOB_FILE).open("rb") as file:
            return read_as(JobNote, json.loads(file.read(_MOST)))
    except (OSError, ValueError):
        return None


def write_job(store: Path, note: JobNote) -> None:
    """Notes a job in the folder of a record, which is made where it is missing.

    Raises:
        NotOurs: another file of that name stands there.
        JournalError: the note cannot be written.
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
