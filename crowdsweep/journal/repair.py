"""Drops what cannot be read from a damaged journal, and keeps a copy of it as it was."""

import os
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from crowdsweep.errors import JournalError
from crowdsweep.journal.local import JOURNAL_FILE, LocalRows
from crowdsweep.journal.rows import unseal


@dataclass(frozen=True, kw_only=True)
class Repaired:
    """What was done: numbers of rows, and where the journal stands as it was (None where nothing was dropped)."""

    kept: int
    dropped: int
    copy: Path | None


def repair_journal(store: str | Path) -> Repaired:
    """Rewrites a local journal without the rows that cannot be read; what they held is run again.

    Either the old file or the new one stands there, whatever happens meanwhile.

    Raises:
        JournalLocked: a driver is writing it.
        JournalError: there is no journal, or it lives in an object store: there, delete the object that the message of
            `JournalDamaged` names.
    """
    file = Path(store, JOURNAL_FILE)
    if not file.is_file():
        raise JournalError(f"{file}: no journal to repair; expected a local folder that `crowdsweep run` made")
    rows = LocalRows(file.parent, write=True)
    try:
        with file.open("rb") as lines:
            whole = [line for line in lines if unseal(line) is not None]
            lines.seek(0)
            dropped = sum(1 for _ in lines) - len(whole)
        if not dropped:
            return Repaired(kept=len(whole), dropped=0, copy=None)
        copy = next(
            path for n in count(1) if not (path := file.with_name(f"{JOURNAL_FILE}.damaged-{n}")).exists()
        )  # fmt: skip
        fresh = file.with_name(f"{JOURNAL_FILE}.repaired")
        with fresh.open("wb") as out:
            out.writelines(whole)
            out.flush()
            os.fsync(out.fileno())
        os.link(file, copy)
        fresh.replace(file)
    except OSError as error:
        raise JournalError(f"{file}: could not be repaired, and stands as it was: {error}") from error
    finally:
        rows.close()
    return Repaired(kept=len(whole), dropped=dropped, copy=copy)
