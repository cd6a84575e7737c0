"""One thread for the numeric libraries, while something is fitted or predicted.

The command line sets this for its whole process, before any of them is loaded; in other people's processes it holds for
a while only. On one thread sums are taken in one order, so that the numbers are the command line's; and the arrays of
a fit are so small that a second thread costs more than it gives.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def one_thread() -> Generator[None]:
    """Limits numpy, scipy and torch, where they are loaded, to one thread inside the block."""
    torch = sys.modules.get("torch")  # not imported for this: a vote needs none of it
    before = None if torch is None else torch.get_num_threads()
    with threadpool_limits(1):
        if torch is not None:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch is not None:
                torch.set_num_threads(before)
