"""A report that is rewritten while its sweep runs, as a page that reloads itself.

A process of its own, started by the driver, writes it; the driver sends it what the record does not hold. Whatever
happens to it, no trial waits and the sweep goes on.
"""

import logging
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from crowdsweep.analysis.sweep import analysed
from crowdsweep.analysis.underway.snapshot import SweepFollower, SweepSnapshot, snapshot_of
from crowdsweep.errors import CrowdsweepError, plain
from crowdsweep.record.events import Event, SweepStarted
from crowdsweep.record.state import JournalState
from crowdsweep.record.store_uri import Store, store_named
from crowdsweep.views.page.underway import underway
from crowdsweep.views.report_files import write_files

EVERY = 10
"""Seconds between two looks at the record, and between reloads of the page."""
_SHARE = 4.0  # least ratio of the pause to the time that writing the page took
_ROOT = str(Path(__file__).parents[2])
_PROGRAM = "import sys; sys.path.append({root!r}); from crowdsweep.views.live import follow; follow(sys.argv[1])"
_EVERY_S = 3.0  # least seconds between two messages to the process
_GRACE_S = 2.0
_NICE = 5
_WRITTEN, _END = "written: ", "end"
_LINES_KEPT = 20
_log = logging.getLogger(__name__)


def live_report(
    store: Store,
    announce: Callable[[Store], None],
    *,
    every: int = EVERY,
    sleep: Callable[[float], None] = time.sleep,
    latest: Callable[[], SweepSnapshot | None] = lambda: None,
) -> Store:
    """Writes the report of a sweep whenever there is news, until the sweep's run has ended or its driver is gone
    without a word. The last page does not reload itself.

    Args:
        announce: called with the page's path once the first page has been written.
        every: least seconds between two looks at the record. The pause is also at least four times the processor time
            of the last look and its page.
        latest: returns what the driver says of this moment; None where it says nothing, and only the record has news.

    Returns:
        The page's path.

    Raises:
        JournalError, WriteFailed: as `write_report`.
    """
    page, seen = store / "report.html", None
    while True:
        began = time.process_time()
        found, now = analysed(store), latest()
        if (found.state.rows, now) != seen or not found.is_at_work:
            first, seen = seen is None, (found.state.rows, now)
            page = write_files(found, underway(found, every, now))
            if first:
                announce(page)
        if not found.is_at_work:
            return page
        sleep(max(float(every), _SHARE * (time.process_time() - began)))


class LivePage:
    """Writes a sweep's page from a process of its own while the sweep runs; a `Mirror`. The process ends before the
    final report is written.

    Args:
        look: returns the current state of the journal.
        slots: returns how many batches can run at once.
        tell: receives a message with the page's address, once there is one, in another thread.
    """

    def __init__(
        self,
        store: Store,
        *,
        look: Callable[[], JournalState],
        slots: Callable[[], int],
        tell: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._watch = SweepFollower(look, clock)
        self._slots = slots
        self._tell = tell
        self._clock = clock
        self._told_at = clock()
        self._left = b""  # rest of a message that the process has not read
        self._process: subprocess.Popen[bytes] | None = None
        self._listener: threading.Thread | None = None
        self._is_ending = False

    def handle(self, event: Event) -> None:
        """Takes one event."""
        self._watch.take(event)
        if isinstance(event, SweepStarted):
            self._process = self._started()
        elif self._process is not None and self._clock() - self._told_at >= _EVERY_S:
            self._told_at = self._clock()
            self._send(self._process, self._watch.now(self._slots()).to_json())

    def close(self) -> None:
        """Ends the process; may be called twice."""
        process, self._process, self._is_ending = self._process, None, True
        if process is None:
            return
        self._send(process, _END)
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._listener is not None:
            self._listener.join(_GRACE_S)

    def _started(self) -> "subprocess.Popen[bytes]":
        # `-P`: nothing is imported from the current folder. Ctrl-C only reaches the driver.
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and fixed words
            [sys.executable, "-P", "-c", _PROGRAM.format(root=_ROOT), str(self._store)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
        )
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
        if process.stdout is not None:
            self._listener = threading.Thread(target=self._listen, args=(process.stdout,), daemon=True)
            self._listener.start()
        return process

    def _listen(self, lines: IO[bytes]) -> None:
        """Passes on the page's address, and warns why the process ended before it was told to."""
        said: deque[str] = deque(maxlen=_LINES_KEPT)
        with lines:
            for line in lines:
                text = line.decode(errors="replace").rstrip()
                if text.startswith(_WRITTEN):
                    self._tell(f"live page: {text.removeprefix(_WRITTEN)}")
                else:
                    said.append(text)
        if not self._is_ending:
            _log.warning("the live page is no longer kept up to date; the sweep continues: %s", plain("\n".join(said)))

    def _send(self, process: "subprocess.Popen[bytes]", line: str) -> None:
        """Sends a line to the process without waiting; skips it if the process has not read the line before."""
        if process.stdin is None:
            return
        if line == _END or not self._left:
            self._left += f"{line}\n".encode()
        with suppress(OSError):  # the process is busy or gone
            self._left = self._left[os.write(process.stdin.fileno(), self._left) :]


def follow(store: str) -> None:
    """Writes the page of a sweep, in a process of its own, until the sweep's driver says that it ends or is gone."""
    os.nice(_NICE)
    latest: list[SweepSnapshot | None] = [None]

    def listen() -> None:
        for line in sys.stdin:
            if line.rstrip() == _END:
                os._exit(0)  # the next writer removes a page that is half written
            latest[0] = snapshot_of(line)
        latest[0] = None  # the driver is gone, as the record says too

    def announce(page: Store) -> None:
        address = page.absolute().as_uri() if isinstance(page, Path) else str(page)
        sys.stdout.write(f"{_WRITTEN}{address}\n")
        sys.stdout.flush()

    threading.Thread(target=listen, daemon=True).start()
    try:
        live_report(store_named(store), announce, latest=lambda: latest[0])
    except CrowdsweepError as error:
        sys.exit(str(error))
