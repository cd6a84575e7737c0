"""Waiting for a sweep to begin, for a command that shows its progress."""

import time
from collections.abc import Callable

from crowdsweep.errors import BadInput
from crowdsweep.record.journal import open_rows, read_journal
from crowdsweep.record.store_uri import Store
from crowdsweep.record.stores import asked_store, driver_of

PATIENCE = 60
"""Seconds to wait for a driver that has not started yet."""


def started_store(
    given: Store | None, tell: Callable[[str], object], *, sleep: Callable[[float], None] = time.sleep
) -> Store:
    """Returns a sweep's store, as `asked_store` finds it, once its driver has written the first row of the journal.

    Waits without limit for a driver that is at work, as it may be loading data; else for `PATIENCE` seconds.

    Args:
        given: as for `asked_store`.
        tell: receives a message on what the function waits for, or on which sweep is the latest.

    Raises:
        BadInput, JournalError: there is no such folder, or no sweep in it, and none has begun meanwhile.
    """
    waited = 0
    while True:
        try:
            store = asked_store(given)
            if next(open_rows(store).read_rows(), None) is not None:
                if given is None:
                    tell(f"{store}: the latest sweep here")
                return store
            if waited >= PATIENCE and driver_of(store) is None:
                read_journal(store)  # raises, as there is no sweep
        except BadInput:
            if waited >= PATIENCE:
                raise
        if waited == 0:
            whose = "no sweep has begun here" if given is None else f"{given}: no sweep has begun there"
            tell(f"{whose}; waiting for the first row that `crowdsweep run` writes (Ctrl-C ends this)")
        waited += 1
        sleep(1.0)
