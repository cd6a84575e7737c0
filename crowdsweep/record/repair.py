"""Goes by what can be read of a damaged journal, and keeps a copy of it as it was.

What is kept:

1. Every row whose checksum agrees; also where an editor or a transfer changed the ends of its line, put a mark before
   the first one, or ran several into one line.
2. In the order of their numbers; a row that stands there twice once.
3. Not the end of a trial whose arrays are gone or damaged (`kept_arrays`), so that it is run again and keeps them anew.
4. They are numbered and chained anew. Where no row is left, nothing is changed.

What the lost rows held is made up for by whoever reads the journal, by these rules:

- A driver's start or end: the sweep is shown as its last known driver left it, until the next one starts.
- What a search was told first of earlier sweeps: read from them again.
- A proposal: asked for again, with the same number and, from the same crowdsweep, the same point; proposals behind it
  stand. Until then its score and its selection count for nothing.
- A score, a selection: worked out again from the trials.
- A trial's plan: written again; until then its result is not shown.
- A trial's end: the trial is run again.
- A lost batch: forgotten. MLflow's runs: found again by their tags, or made anew.
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
from crowdsweep.paths import is_file, stands
from crowdsweep.record.artifacts import Artifact
from crowdsweep.record.codec import decode
from crowdsweep.record.events import TrialFinished
from crowdsweep.record.kept_arrays import FOLDER, lost_arrays, place_of
from crowdsweep.record.local import LocalRows
from crowdsweep.record.numbered import JOURNAL
from crowdsweep.record.object_rows import ObjectRows, last_head
from crowdsweep.record.objects import Objects
from crowdsweep.record.rows import BYTE_ORDER_MARK, START, WAY_ON, Rows, Sealed, chain, lines_of, unseal
from crowdsweep.record.store_files import JOURNAL_FILE
from crowdsweep.record.store_uri import Store, StoreUri, store_named

_KEEPS_ARRAYS = re.compile(rb'"digest":')
_BEGINNING = re.compile(rb'(?=\{"crc":")')


@dataclass(frozen=True, kw_only=True)
class Repaired:
    """What was done.

    Attributes:
        kept: rows that stand in the journal now.
        dropped: lines, or parts of lines, that cannot be read or stood there twice.
        missing: rows that were missing altogether.
        without_arrays: ends of trials that were dropped since arrays of theirs cannot be read.
        copy: the journal as it was: a file, or the objects that another stands for now; None where nothing had to be
            changed.
    """

    kept: int
    dropped: int
    missing: int
    without_arrays: int
    copy: Store | None


def repair_journal(store: str | Store) -> Repaired:
    """Rewrites a journal with the rows that can be read, where it is damaged; what the others held is run again.

    Either the old one or the new one stands there, whatever happens meanwhile.

    Raises:
        JournalLocked: a driver is writing it.
        JournalError: there is no journal, none of its rows can be read, or it cannot be written.
    """
    place = store_named(store)
    return _repaired_file(place) if isinstance(place, Path) else _repaired_objects(place)


def _repaired_file(store: Path) -> Repaired:
    file = store / JOURNAL_FILE
    if not is_file(file):
        raise JournalError(f"{file}: no journal to repair; expected a store that `crowdsweep run` made")
    rows = LocalRows(file.parent, write=True)
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
        raise JournalError(f"{file}: could not be repaired, and stands as it was: {error}") from error
    finally:
        rows.close()


def _repaired_objects(store: StoreUri) -> Repaired:
    """The same in an object store: its objects stay as they are, and a pack of the rows that can be read stands for
    them."""
    objects = Objects(store)
    if not last_head(objects)[0]:
        raise JournalError(f"{store}: no journal to repair; expected a store that `crowdsweep run` made")
    rows = ObjectRows(objects, write=True)
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
    """What can be read of a journal.

    Attributes:
        rows: in their order, numbered and chained as they were.
        dropped, missing, without_arrays: as in `Repaired`.
        damaged: arrays of trials whose ends were dropped.
        is_sound: whether nothing has to be changed.
    """

    rows: list[Sealed]
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
        """Returns what was done, given where the journal lies as it was; None where nothing was."""
        kept = len(self.rows)
        if copy is None:
            return Repaired(kept=kept, dropped=0, missing=0, without_arrays=0, copy=None)
        return Repaired(
            kept=kept, dropped=self.dropped, missing=self.missing, without_arrays=self.without_arrays, copy=copy
        )


def _salvaged(lines: Iterable[bytes], rows: Rows, place: str) -> _Salvaged:
    """Takes what can be read out of the lines of a journal.

    Raises:
        JournalError: that is nothing.
    """
    found: list[Sealed] = []
    dropped = last = 0
    seen: set[tuple[int, bytes]] = set()
    is_sound, link = True, START
    for line in lines:
        parts = [row or unseal(part.strip(b"\0\r\n") + b"\n") for part, row in _parts(line)]
        is_sound = is_sound and len(parts) == 1 and unseal(line) is not None
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
            f"{place}: not one row of it can be read; it stands as it was. Put a copy of the journal in its place, or "
            f"move it away and begin anew"
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
    """Removes the files of arrays that are not what their names say: they would keep the sound ones out."""
    try:
        with opened_folder(store, FOLDER) as folder:
            for array in arrays:
                name = place_of(array).removeprefix(f"{FOLDER}/")
                if digest_in(folder, name) not in ("", array.digest):
                    os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return


def _lost_arrays(row: Sealed, rows: Rows, place: str) -> list[Artifact]:
    """Returns the arrays that cannot be read any more of the trial whose end a row tells.

    Raises:
        JournalDamaged: the row says what no trial can end with.
    """
    if not _KEEPS_ARRAYS.search(row.text):
        return []
    try:
        event = decode(row.text)
    except JournalDamaged as error:
        raise JournalDamaged(f"{place}, row {row.after.number + 1}: {error}. {WAY_ON}") from error
    except JournalError:  # of another version: whoever reads it says so
        return []
    return lost_arrays(rows, event.result) if isinstance(event, TrialFinished) else []


def _parts(line: bytes) -> Iterator[tuple[bytes, Sealed | None]]:
    """Yields the line as it is where it is whole, else what can be rows in it, each without what is not theirs."""
    row = unseal(line)
    if row is not None:
        yield line, row
        return
    for part in _BEGINNING.split(line.removeprefix(BYTE_ORDER_MARK)):
        if part.strip():
            yield part, None


def _replaced(file: Path, whole: bytes) -> Path:
    """Puts a new journal in the place of the old one, which is kept under the name that is returned."""
    copy = next(path for n in count(1) if not stands(path := file.with_name(f"{JOURNAL_FILE}.damaged-{n}")))
    try:
        os.link(file, copy, follow_symlinks=False)
    except OSError:  # the file system has no second names
        write_new(file.parent, {copy.name: file.read_bytes()})
    write_whole(file, whole, durable=True)
    return copy
