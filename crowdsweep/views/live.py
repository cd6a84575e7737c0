"""A report that is written again and again while its sweep runs, as a page that loads itself again."""

import time
from collections.abc import Callable

from crowdsweep.analysis.sweep import analysed
from crowdsweep.analysis.underway.now import Now
from crowdsweep.record.store_uri import Store
from crowdsweep.views.report_files import write_files

EVERY = 10
"""Seconds between two looks at the record, and after which the page loads itself again."""
_SHARE = 4.0  # of the time that a large page takes to write, no less is left to the sweep


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
