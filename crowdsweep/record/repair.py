"""Repair of a damaged journal: keeps the rows that can be read, and a copy of the damaged journal.

Rules for rows:

1. Every row with a matching checksum is kept. An editor or a transfer may have changed its line end, joined several
   rows into one line, or put a byte order mark before the first row.
2. The rows are sorted by their numbers; of duplicates one is kept.
3. The end of a trial whose arrays are missing or damaged (`kept_arrays`) is dropped: the trial runs again and keeps its
   arrays anew.
4. The rows are numbered and chained anew. If no row is left, nothing is changed.

The readers of the journal make up for the lost rows:

- A driver's start or end: the sweep is shown as its last known driver left it, until the next driver starts.
- The points of earlier sweeps that a search was told: read from those sweeps again.
- A proposal: requested again, with the same number and, in the same version of crowdsweep, the same point. Later
  proposals remain. Until then the proposal's score and selection have no effect.
- A score or a selection: computed again from the trials.
- A trial's plan: written again; until then the trial's result is not shown.
- A trial's end: the trial is run again.
- A lost batch: forgotten.
- MLflow's runs: found again by their tags, or created anew.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from crowdsweep.errors import JournalDamaged, JournalError
from crowdsweep.files.drafts import write_new, write_whole
from crowdsweep.files.inside import digest_in, opened_folder
from crowdsweep.paths import is_file, lexists
from crowdsweep.record.artifacts import Artifact
from crowdsweep.record.codec import decode
from crowdsweep.record.events import TrialFinished
from crowdsweep.record.kept_arrays import lost_arrays, place_of
from crowdsweep.record.local_writer import LocalWriter
from crowdsweep.record.numbered import JOURNAL
from crowdsweep.record.object_rows import last_head
from crowdsweep.record.object_writer import ObjectWriter
from crowdsweep.record.objects import Objects
from crowdsweep.record.rows import BYTE_ORDER_MARK, START, WAY_ON, ParsedRow, Rows, chain, lines_of, parse_row
from crowdsweep.record.store_files import ARTIFACTS, JOURNAL_FILE
from crowdsweep.record.store_uri import Store, StoreUri

_KEEPS_ARRAYS = re.compile(rb'"digest":')
_BEGINNING = re.compile(rb'(?=\{"crc":")')


@dataclass(frozen=True, kw_only=True)
class Repaired:
    """The outcome of a repair.

    Attributes:
        kept: number of rows in the journal now.
        dropped: number of lines, or parts of lines, that cannot be read or are duplicates.
        missing: number of rows that were missing altogether.
        without_arrays: number of trial ends that were dropped because arrays of the trial cannot be read.
        copy: the journal before the repair: a file, or the objects that a pack replaces now; None if nothing had to be
            changed.
    """

    kept: int
    dropped: int
    missing: int
    without_arrays: int
    copy: Store | None


def repair_journal(store: Store) -> Repaired:
    """Rewrites a damaged journal with the rows that can be read; the next driver runs again what the others contained.

    The rewrite is atomic: a crash leaves the old or the new journal.

    Raises:
        JournalLocked: a driver is writing the journal.
        JournalError: there is no journal, none of its rows can be read, or it cannot be written.
    """
    return _repaired_file(store) if isinstance(store, Path) else _repaired_objects(store)


def _repaired_file(store: Path) -> Repaired:
    file = store / JOURNAL_FILE
    if not is_file(file):
        raise JournalError(f"{file}: no journal to repair; expected a store that `crowdsweep run` made")
    rows = LocalWriter(file.parent)
    try:
        with file.open("rb") as lines:
            sifted = _salvaged(lines_of(lines), rows, str(file))
        if sifted.is_sound:
            return sifted.done(None)
        copy = _replaced(file, sifted.whole)
        _remove_damaged(file.parent, sifted.damaged)
        return sifted.done(copy)
    except JournalError:
        raise
    except OSError as error:
        raise JournalError(f"{file}: could not be repaired, and is unchanged: {error}") from error
    finally:
        rows.close()


def _repaired_objects(store: StoreUri) -> Repaired:
    """Repairs a journal in an object store: its objects remain, and a pack of the readable rows replaces them."""
    objects = Objects(store)
    if not last_head(objects)[0]:
        raise JournalError(f"{store}: no journal to repair; expected a store that `crowdsweep run` made")
    rows = ObjectWriter(objects)
    try:
        sifted = _salvaged(rows.lines(), rows, str(store))
        if sifted.is_sound and _is_read(rows):
            return sifted.done(None)
        rows.rewrite(sifted.whole.splitlines(keepends=True))
        rows.remove([place_of(array) for array in sifted.damaged])
        return sifted.done(store / JOURNAL)
    finally:
        rows.close()


def _is_read(rows: Rows) -> bool:
    try:
        for _ in rows.read_rows():
            pass
    except JournalDamaged:
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class _Salvaged:
    """The readable part of a journal.

    Attributes:
        rows: in order, with their original numbers and chain.
        dropped, missing, without_arrays: as in `Repaired`.
        damaged: missing or damaged arrays of the trials whose ends were dropped.
        is_sound: whether the journal needs no change.
    """

    rows: list[ParsedRow]
    dropped: int
    missing: int
    without_arrays: int
    damaged: set[Artifact]
    is_sound: bool

    @property
    def whole(self) -> bytes:
        """The rows as lines, numbered and chained anew."""
        return chain((row.text.decode("utf-8", "surrogatepass") for row in self.rows), START)[0]

    def done(self, copy: Store | None) -> Repaired:
        """Returns the outcome of the repair."""
        kept = len(self.rows)
        if copy is None:
            return Repaired(kept=kept, dropped=0, missing=0, without_arrays=0, copy=None)
        return Repaired(
            kept=kept, dropped=self.dropped, missing=self.missing, without_arrays=self.without_arrays, copy=copy
        )


def _salvaged(lines: Iterable[bytes], rows: Rows, place: str) -> _Salvaged:
    """Returns the readable part of a journal."""
    found: list[ParsedRow] = []
    dropped = last = 0
    seen: set[tuple[int, bytes]] = set()
    is_sound, link = True, START
    for line in lines:
        parts = [row or parse_row(part.strip(b"\0\r\n") + b"\n") for part, row in _parts(line)]
        is_sound = is_sound and len(parts) == 1 and parse_row(line) is not None
        for row in parts:
            if row is None:
                dropped += 1
                continue
            number = row.after.number + 1
            last = max(last, number)
            if (number, row.crc) in seen:
                dropped += 1
                is_sound = False
                continue
            seen.add((number, row.crc))
            is_sound = is_sound and row.after == link
            link = link._replace(number=link.number + 1, crc=row.crc)
            found.append(row)
    lost = {row: arrays for row in found if (arrays := _lost_arrays(row, rows, place))}
    kept = [row for row in found if row not in lost]
    is_sound = is_sound and not lost
    if not kept and not is_sound:
        raise JournalError(
            f"{place}: not one row of it can be read; it is unchanged. Put a copy of the journal in its place, or "
            f"move it away and start again"
        )
    return _Salvaged(
        rows=sorted(kept, key=lambda row: row.after.number),
        dropped=dropped,
        missing=max(0, last - len(found) - dropped),
        without_arrays=len(found) - len(kept),
        damaged={array for arrays in lost.values() for array in arrays},
        is_sound=is_sound,
    )


def _remove_damaged(store: Path, arrays: Iterable[Artifact]) -> None:
    """Removes array files whose content does not match their digest, because they would block the correct files."""
    try:
        with opened_folder(store, ARTIFACTS) as folder:
            for array in arrays:
                name = place_of(array).removeprefix(f"{ARTIFACTS}/")
                if digest_in(folder, name) not in ("", array.digest):
                    os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return


def _lost_arrays(row: ParsedRow, rows: Rows, place: str) -> list[Artifact]:
    """Returns the missing or damaged arrays of a trial, if the row is the end of one."""
    if not _KEEPS_ARRAYS.search(row.text):
        return []
    try:
        event = decode(row.text)
    except JournalDamaged as error:
        raise JournalDamaged(f"{place}, row {row.after.number + 1}: {error}. {WAY_ON}") from error
    except JournalError:  # a row of another version, which readers report
        return []
    return lost_arrays(rows, event.result) if isinstance(event, TrialFinished) else []


def _parts(line: bytes) -> Iterator[tuple[bytes, ParsedRow | None]]:
    """Yields (text, parsed row): the line itself if it is valid, else each part that may be a row, with None."""
    row = parse_row(line)
    if row is not None:
        yield line, row
        return
    for part in _BEGINNING.split(line.removeprefix(BYTE_ORDER_MARK)):
        if part.strip():
            yield part, None


def _replaced(file: Path, whole: bytes) -> Path:
    """Replaces the journal's file by new content; returns the path under which the old file is kept."""
    copy = next(path for n in count(1) if not lexists(path := file.with_name(f"{JOURNAL_FILE}.damaged-{n}")))
    try:
        os.link(file, copy, follow_symlinks=False)
    except OSError:  # the file system has no hard links
        write_new(file.parent, {copy.name: file.read_bytes()})
    write_whole(file, whole, durable=True)
    return copy
