"""A report that is written again and again while its sweep runs, as a page that loads itself again."""

import time
from collections.abc import Callable

from crowdsweep.analysis.sweep import analysed
from crowdsweep.record.store_uri import Store
from crowdsweep.views.report_files import write_files

EVERY = 10
"""Seconds between two looks at the record, and after which the page loads itself again."""
_SHARE = 4.0  # of the time that a large page takes to write, no less is left to the sweep


def live_report(
    store: Store, announce: Callable[[Store], None], *, every: int = EVERY, sleep: Callable[[float], None] = time.sleep
) -> Store:
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
        found, began = analysed(store), time.monotonic()
        if found.state.rows != seen or not found.is_at_work:
            first, seen = seen < 0, found.state.rows
            page = write_files(found, refresh=every if found.is_at_work else 0)
            if first:
                announce(page)
        if not found.is_at_work:
            return page
        sleep(max(float(every), _SHARE * (time.monotonic() - began)))
