"""A report that is written again and again while its sweep runs, as a page that loads itself again.

Beside a driver a process of its own writes it, which hears from the driver what the record does not hold. Whatever
becomes of it, no trial waits, and the sweep goes on.
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
from crowdsweep.analysis.underway.now import Now, Watch, now_of
from crowdsweep.errors import CrowdsweepError, plain
from crowdsweep.record.events import Event, SweepStarted
from crowdsweep.record.state import JournalState
from crowdsweep.record.store_uri import Store, store_named
from crowdsweep.views.report_files import write_files

EVERY = 10
"""Seconds between two looks at the record, and after which the page loads itself again."""
_SHARE = 4.0  # of the time that a large page takes to write, no less is left to the sweep
_ROOT = str(Path(__file__).parents[2])
_PROGRAM = "import sys; sys.path.append({root!r}); from crowdsweep.views.live import follow; follow(sys.argv[1])"
_EVERY_S = 3.0  # from one word to the process to the next
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
    latest: Callable[[], Now | None] = lambda: None,
) -> Store:
    """Writes the report of a sweep whenever there is news of it, until the sweep's run ends, well or not, or its driver
    is gone without a word. The last page does not load itself again.

    Args:
        store: of the sweep.
        announce: is told the page's path once the first has been written.
        every: seconds between two looks at the record; of a page that takes long to write four times the seconds that a
            processor is at it, where they are more.
        sleep: waits so many seconds.
        latest: what the driver tells of this moment; None where it tells nothing, and the record alone has news.

    Returns:
        The page's path.

    Raises:
        JournalError, NotWritten: as `write_report`.
    """
    page, seen = store / "report.html", None
    while True:
        began = time.process_time()
        found, now = analysed(store), latest()
        if (found.state.rows, now) != seen or not found.is_at_work:
            first, seen = seen is None, (found.state.rows, now)
            page = write_files(found, refresh=every if found.is_at_work else 0, now=now)
            if first:
                announce(page)
        if not found.is_at_work:
            return page
        sleep(max(float(every), _SHARE * (time.process_time() - began)))


class LivePage:
    """Writes a sweep's page from a process of its own while the sweep runs; a `Mirror`. It ends before the report is
    written for good.

    Args:
        store: of the sweep.
        look: tells what the journal says now.
        slots: how many batches can run at once.
        tell: takes the page's address in words, once there is one, from another thread.
        clock: seconds, monotonic.
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
        self._watch = Watch(look, clock)
        self._slots = slots
        self._tell = tell
        self._clock = clock
        self._told_at = clock()
        self._left = b""  # of what was to be told, where the process did not listen
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
        # `-P`: nothing is imported from where a person stands. A Ctrl-C is the driver's.
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
        """Passes the page's address on, and why the process ended before it was told to."""
        said: deque[str] = deque(maxlen=_LINES_KEPT)
        with lines:
            for line in lines:
                text = line.decode(errors="replace").rstrip()
                if text.startswith(_WRITTEN):
                    self._tell(f"live page: {text.removeprefix(_WRITTEN)}")
                else:
                    said.append(text)
        if not self._is_ending:
            _log.warning("the live page is not kept up to date any more, the sweep goes on: %s", plain("\n".join(said)))

    def _send(self, process: "subprocess.Popen[bytes]", line: str) -> None:
        """Tells the process a line, unless it has not read the one before: nobody waits for it."""
        if process.stdin is None:
            return
        if line == _END or not self._left:
            self._left += f"{line}\n".encode()
        with suppress(OSError):  # it is busy, or gone
            self._left = self._left[os.write(process.stdin.fileno(), self._left) :]


def follow(store: str) -> None:
    """Writes the page of a sweep until its driver says that it ends, or is gone; in a process of its own.

    Args:
        store: of the sweep, as a person would write it.
    """
    os.nice(_NICE)
    latest: list[Now | None] = [None]

    def listen() -> None:
        for line in sys.stdin:
            if line.rstrip() == _END:
                os._exit(0)  # a page that is half written is cleared away by the next writer
            latest[0] = now_of(line)
        latest[0] = None  # the driver is gone, which the record tells too

    def announce(page: Store) -> None:
        address = page.absolute().as_uri() if isinstance(page, Path) else str(page)
        sys.stdout.write(f"{_WRITTEN}{address}\n")
        sys.stdout.flush()

    threading.Thread(target=listen, daemon=True).start()
    try:
        live_report(store_named(store), announce, latest=lambda: latest[0])
    except CrowdsweepError as error:
        sys.exit(str(error))
