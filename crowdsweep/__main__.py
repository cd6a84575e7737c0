"""Entry point of `python -m crowdsweep` and the `crowdsweep` command."""

import gc
import logging
import os
import sys
from contextlib import suppress

# The numeric libraries of this process use one thread: a trial's arrays are so small that a second thread was measured
# to cost more than it saves, and the inline engine runs one batch at a time. The variables must be set before any of
# these libraries is loaded. Slots on Ray set their own number, from their CPUs.
for _library in ("OMP", "MKL", "OPENBLAS"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")


# A command creates many records and little garbage: with Python's default thresholds, garbage collection took 7 % of
# the time of a large report.
gc.set_threshold(100_000, 50, 100)


def _open_missing_streams() -> None:
    """Opens the standard streams that whoever started this process had closed, for nothing.

    The next file that is opened would otherwise get the number of a stream, and what a library or a child process
    prints would be written into it: into a record, for example.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, which is this one
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115 - a descriptor


def main() -> None:
    """Runs the command line and exits; a `CrowdsweepError` is printed as one message without a traceback, with code 2.

    When the command line has returned, everything is closed and written. The process then exits without waiting for
    threads of libraries: one that still reads, or looks for a lost cluster, could crash it and change its exit code.
    """
    _open_missing_streams()
    from crowdsweep.cli.interrupts import InterruptHandler
    from crowdsweep.cli.outcome import EXIT_BAD_INPUT, EXIT_INTERRUPTED
    from crowdsweep.views.terminal.messages import Warnings

    logging.getLogger("crowdsweep").addHandler(Warnings(logging.WARNING))
    attention = InterruptHandler()
    code = 1
    try:
        from crowdsweep.cli.commands import run_command_line
        from crowdsweep.cli.loading_notice import LoadingNotice

        code = run_command_line(sys.argv[1:], waiting=LoadingNotice())
    except BaseException as error:
        if not attention.presses:
            raise
        code = _interrupted(error)
    if attention.presses and code == EXIT_BAD_INPUT:  # the interrupt caused the error
        code = EXIT_INTERRUPTED
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _interrupted(error: BaseException) -> int:
    """Prints that a command was interrupted, with the resulting error on the same line, and returns the exit code."""
    from crowdsweep.cli.outcome import EXIT_INTERRUPTED
    from crowdsweep.errors import Interrupted, error_words, plain

    more = "" if isinstance(error, Interrupted) else f" ({type(error).__name__}: {plain(error_words(error))})"
    with suppress(OSError):
        sys.stderr.write(f"interrupted{more}\n")
    return EXIT_INTERRUPTED


if __name__ == "__main__":
    main()
