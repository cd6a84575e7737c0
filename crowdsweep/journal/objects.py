"""The journal on an object store: one small object a flush, and a lease that expires.

Object stores have no append, no exclusive create and no locks. So each flush writes a new object whose name sorts
behind all earlier ones, and a driver keeps others out by renewing an object that says until when it is there. A lease
is weaker than a lock: two drivers that begin within the settling time of each other are told apart by who wrote last,
and clocks of hosts must agree to well under the lease's length.
"""

import json
import logging
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from io import BytesIO
from uuid import uuid4

from pyarrow import ArrowException
from pyarrow.fs import FileSelector, FileSystem, FileType

from crowdsweep.errors import JournalDamaged, JournalError, JournalLocked
from crowdsweep.journal.rows import START, Link, Row, chain, whole_rows

FOLDER = "journal"
LEASE = "journal.lease"
LEASE_S = 60.0
SETTLE_S = 2.0

_NAME = re.compile(r"(\d+)-\w+\.jsonl")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Lease:
    """Who is writing, and until when (seconds since the epoch)."""

    owner: str
    pid: int
    host: str
    since: str
    expires: float


class ObjectRows:
    """Rows as objects `journal/00000012-1a2b3c4d.jsonl` below a folder of an object store.

    Args:
        files: the object store, or whatever pyarrow makes look like one.
        folder: in it, without a trailing slash.
        write: take the lease; a thread renews it until `close`.
        lease_s: how long a lease holds; a driver that died keeps others out for so long.
        settle_s: how long to wait before looking who won the lease.
        clock: seconds since the epoch.

    Raises:
        JournalLocked: another driver holds the lease.
        JournalError: the store cannot be read or written.
    """

    def __init__(
        self,
        files: FileSystem,
        folder: str,
        *,
        write: bool,
        lease_s: float = LEASE_S,
        settle_s: float = SETTLE_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._files = files
        self._folder = folder
        self._lease_s = lease_s
        self._clock = clock
        self._owner = uuid4().hex[:8]
        self._next = 0
        self._link: Link | None = None  # where the chain has come to; None before it was read
        self._since = datetime.now(UTC).isoformat(timespec="seconds")
        self._held: Lease | None = None
        self._closing = threading.Event()
        self._guard = threading.Lock()
        self._renewer = threading.Thread(target=self._keep_renewing, name="journal-lease", daemon=True)
        if write:
            self._take_lease(settle_s)
            self._renewer.start()

    @classmethod
    def from_uri(cls, uri: str, *, write: bool) -> "ObjectRows":
        """Opens the rows below a URI that `pyarrow.fs` understands; credentials come from the environment.

        Raises:
            JournalError: the URI cannot be used.
        """
        try:
            files, folder = FileSystem.from_uri(uri)
        except (ArrowException, OSError, ValueError) as error:
            raise JournalError(f"{uri}: not a store: {error}; expected a folder, s3://bucket/path or gs://…") from error
        return cls(files, folder.rstrip("/"), write=write)

    def read_rows(self) -> Iterator[Row]:
        """See `Rows.read_rows`; a folder that does not exist has no rows."""
        names, link = self._names(), START
        for name in names:
            place = f"{self._folder}/{FOLDER}/{name}"
            data, good = self._read(f"{FOLDER}/{name}") or b"", 0
            for whole in whole_rows(BytesIO(data), place, link):
                good, link = whole.end, whole.link
                yield Row(text=whole.text, place=f"{place}, row {link.number}")
            if good < len(data) or (data and not data.endswith(b"\n")):
                self._torn(name, data, good, last=name == names[-1])
        self._next = 1 + max(map(_number, names), default=-1)
        self._link = link

    def append_rows(self, texts: Sequence[str]) -> None:
        """See `Rows.append_rows`: one object for all of them."""
        with self._guard:
            if self._link is None:
                for _ in self.read_rows():  # to know behind which row these stand
                    pass
            self._be_holder()
            lines, link = chain(texts, self._link or START)
            self._write(f"{FOLDER}/{self._next:08d}-{self._owner}.jsonl", lines)
            self._link = link
            self._next += 1

    def put(self, folder: str, files: Mapping[str, bytes]) -> None:
        """See `Rows.put`: an object appears when it is whole."""
        with self._guard:
            self._be_holder()
            for name, content in files.items():
                if self._read(f"{folder}/{name}") is None:
                    self._make_folder(folder)
                    self._write(f"{folder}/{name}", content)

    def get(self, name: str) -> bytes | None:
        """See `Rows.get`."""
        return self._read(name)

    def close(self) -> None:
        """See `Rows.close`: gives the lease back."""
        self._closing.set()
        with self._guard:
            held, self._held = self._held, None
            if held is not None and self._lease_of_another() is None:
                try:
                    self._files.delete_file(f"{self._folder}/{LEASE}")
                except (ArrowException, OSError) as error:
                    _log.warning("%s: the lease was not given back and expires by itself: %s", self._folder, error)
        if self._renewer.is_alive():
            self._renewer.join()

    def _be_holder(self) -> None:
        if self._held is None:
            raise JournalError(f"{self._folder}: not open for writing")
        if self._held.expires <= self._clock():  # this process was held up for longer than its lease
            self._renew()
        else:
            self._refuse_if_taken()  # somebody deleted the lease, and another driver found none

    def _names(self) -> list[str]:
        try:
            found = self._files.get_file_info(FileSelector(f"{self._folder}/{FOLDER}", allow_not_found=True))
        except (ArrowException, OSError) as error:
            raise JournalError(f"{self._folder}: cannot be listed: {error}") from error
        names = sorted(info.base_name for info in found if info.type == FileType.File)
        for name in names:
            if not _NAME.fullmatch(name):
                raise JournalDamaged(
                    f"{self._folder}/{FOLDER}/{name}: is not an object of a journal; nothing was changed. Move it away"
                )
        return names

    def _torn(self, name: str, data: bytes, good: int, *, last: bool) -> None:
        """An object whose end is not whole: harmless as the last one, where its writer died before it said so."""
        place = f"{self._folder}/{FOLDER}/{name}"
        if not last:
            raise JournalDamaged(
                f"{place}: cannot be read from byte {good} on, though later objects can: it was changed after it was "
                f"written; nothing was changed. Copy the objects of this folder into one file journal.jsonl, in the "
                f"order of their names, repair that by `crowdsweep repair`, and go on there"
            )
        if self._held is not None and good < len(data):
            _log.warning("%s: dropped a torn tail: %d bytes from byte %d on", place, len(data) - good, good)
        if self._held is not None:
            whole = data[:good]
            self._write(f"{FOLDER}/{name}", whole + b"\n" if whole and not whole.endswith(b"\n") else whole)

    def _take_lease(self, settle_s: float) -> None:
        self._refuse_if_taken()
        self._make_folder(FOLDER)
        self._write_lease()
        time.sleep(settle_s)
        self._refuse_if_taken()

    def _make_folder(self, name: str) -> None:
        try:
            self._files.create_dir(f"{self._folder}/{name}")
        except (ArrowException, OSError) as error:
            raise JournalError(f"{self._folder}: cannot keep a journal here: {error}") from error

    def _renew(self) -> None:
        self._refuse_if_taken()
        self._write_lease()

    def _keep_renewing(self) -> None:
        while not self._closing.wait(self._lease_s / 3):
            with self._guard:
                if self._held is None:
                    return
                try:
                    self._renew()
                except JournalLocked:
                    self._held = None  # the next append says so
                    return
                except JournalError as error:  # a later turn, or the append itself, tries again
                    _log.warning("%s: the lease could not be renewed: %s", self._folder, error)

    def _refuse_if_taken(self) -> None:
        other = self._lease_of_another()
        if other is not None and other.expires > self._clock():
            raise JournalLocked(
                f"{self._folder}: another driver is writing this sweep: pid {other.pid} on {other.host} since "
                f"{other.since}. Wait for it or stop it; had it died, its lease would end within "
                f"{other.expires - self._clock():.0f} s. Or give another folder with --store"
            )

    def _lease_of_another(self) -> Lease | None:
        data = self._read(LEASE)
        try:
            lease = Lease(**json.loads(data)) if data else None
        except (ValueError, TypeError):  # half written by a file system that is no object store
            lease = None
        return lease if lease and lease.owner != self._owner else None

    def _write_lease(self) -> None:
        lease = Lease(
            owner=self._owner,
            pid=os.getpid(),
            host=socket.gethostname(),
            since=self._since,
            expires=self._clock() + self._lease_s,
        )
        self._write(LEASE, json.dumps(asdict(lease)).encode())
        self._held = lease

    def _read(self, name: str) -> bytes | None:
        try:
            with self._files.open_input_stream(f"{self._folder}/{name}") as stream:
                return stream.read()
        except FileNotFoundError:
            return None
        except (ArrowException, OSError) as error:
            raise JournalError(f"{self._folder}/{name}: cannot be read: {error}") from error

    def _write(self, name: str, data: bytes) -> None:
        try:
            with self._files.open_output_stream(f"{self._folder}/{name}") as stream:
                stream.write(data)
        except (ArrowException, OSError) as error:
            raise JournalError(
                f"{self._folder}/{name}: could not be written ({error}). What stands in the store is safe: see to it, "
                f"then run the same sweep again and it goes on"
            ) from error


def _number(name: str) -> int:
    return int(name.split("-", maxsplit=1)[0])
