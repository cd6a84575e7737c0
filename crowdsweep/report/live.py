"""A report that is written again and again while its sweep runs, as a page that loads itself again."""

import time
from collections.abc import Callable
from pathlib import Path

from crowdsweep.console.status import is_broken_off
from crowdsweep.journal.journal import read_journal
from crowdsweep.report.of_sweep import ComparedSweep, comparison_of
from crowdsweep.report.page import RUNS, write_pages

EVERY = 10
"""Seconds between two looks at the record, and after which the page loads itself again."""
_SHARE = 4.0  # of the time that a large page takes to write, no less is left to the sweep


def live_report(
    store: Path, announce: Callable[[Path], None], *, every: int = EVERY, sleep: Callable[[float], None] = time.sleep
) -> Path:
    """Writes the report of a sweep whenever its record has grown, until the sweep's run ends, well or not, or its
    driver is gone without a word. The last page does not load itself again.

    Args:
        store: of the sweep.
        announce: is told the page's path once the first has been written.
        every: seconds between two looks at the record; of a page that takes long to write four times that, where it is
            more.
        sleep: waits so many seconds.

    Returns:
        The page's path.

    Raises:
        JournalError, NotWritten: as `write_report`.
    """
    page, seen = store / "report.html", -1
    while True:
        state, began = read_journal(store), time.monotonic()
        ended = state.status not in RUNS or is_broken_off(state, store)
        if state.rows != seen or ended:
            first, seen = seen < 0, state.rows
            compared = ComparedSweep(store=store, state=state, comparison=comparison_of(state, store))
            page = write_pages(compared, refresh=0 if ended else every)
            if first:
                announce(page)
        if ended:
            return page
        sleep(max(float(every), _SHARE * (time.monotonic() - began)))
