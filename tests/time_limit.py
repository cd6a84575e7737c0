"""An end to what hangs, for tests that read files which nobody vouches for."""

import signal
from collections.abc import Generator
from contextlib import contextmanager


class TooSlow(BaseException):
    """Something took longer than it may; no reader of files takes it for an error of its own."""


@contextmanager
def at_most(seconds: int) -> Generator[None]:
    """Raises TooSlow in the main thread where the block takes longer; needs SIGALRM, which Windows lacks."""

    def give_up(signum: int, frame: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
