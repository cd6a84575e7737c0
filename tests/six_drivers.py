"""Drivers that begin at once on one record."""

import threading
from collections.abc import Callable
from typing import TypeVar

from crowdsweep.errors import JournalLocked

_T = TypeVar("_T")


def six_at_once(begin: Callable[[int], _T]) -> tuple[list[_T], list[JournalLocked]]:
    """Has six threads begin to write at the same moment; returns what those got who may, and why the others may not.

    Args:
        begin: opens the record and writes into it, given which of the six it is.
    """
    start, wrote, refused = threading.Barrier(6), list[_T](), list[JournalLocked]()

    def drive(number: int) -> None:
        start.wait()
        try:
            wrote.append(begin(number))
        except JournalLocked as error:
            refused.append(error)

    threads = [threading.Thread(target=drive, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrote, refused
