"""Limit of one thread for the numeric libraries during a fit or a prediction.

The command line sets this limit for its whole process, before it loads these libraries. As a library in the process of
a user, crowdsweep sets it only for the duration of a call. On one thread the order of summation is fixed, so results
equal those of the command line. The arrays of a fit are so small that a second thread costs more than it gains.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def one_thread() -> Generator[None]:
    """Limits numpy, scipy and torch, where they are loaded, to one thread inside the block."""
    torch = sys.modules.get("torch")  # not imported here, as a model such as majority vote does not need it
    before = None if torch is None else torch.get_num_threads()
    with threadpool_limits(1):
        if torch is not None:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch is not None:
                torch.set_num_threads(before)
