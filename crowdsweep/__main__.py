"""`python -m crowdsweep` and the `crowdsweep` command."""

import gc
import logging
import os
import sys
from contextlib import suppress

# One thread for the numeric libraries of this process: the arrays of a trial are so small that a second thread was
# measured to cost more than it gives, and the inline engine runs one batch at a time. To be set before any of them is
# loaded. Slots on Ray set their own, by the CPUs that they were given.
for _library in ("OMP", "MKL", "OPENBLAS"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")


# A command makes many records and little garbage: by Python's own settings looking for it took 7 % of a large report.
gc.set_threshold(100_000, 50, 100)


def main() -> None:
    """Runs the command line; a `CrowdsweepError` is printed as one message, without a traceback, and exits with 2.

    All is closed and written when it returns. Libraries' threads are not waited for: one that looks for a cluster that
    is gone, or still reads, may crash the process at its end and take the exit code with it.
    """
    from crowdsweep.cli.interrupts import Attention
    from crowdsweep.cli.outcome import EXIT_BAD_INPUT, EXIT_INTERRUPTED
    from crowdsweep.views.terminal.messages import Warnings

    logging.getLogger("crowdsweep").addHandler(Warnings(logging.WARNING))
    attention = Attention()
    code = 1
    try:
        from crowdsweep.cli.commands import run_command_line
        from crowdsweep.cli.first_word import Waiting

        code = run_command_line(sys.argv[1:], waiting=Waiting())
    except BaseException as error:
        if not attention.presses:
            raise
        code = _interrupted(error)
    if attention.presses and code == EXIT_BAD_INPUT:  # an error that the interrupt led to
        code = EXIT_INTERRUPTED
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _interrupted(error: BaseException) -> int:
    """Says that a command was broken off; what else that led to is said too, on the same line."""
    from crowdsweep.cli.outcome import EXIT_INTERRUPTED
    from crowdsweep.errors import Interrupted, error_words, plain

    more = "" if isinstance(error, Interrupted) else f" ({type(error).__name__}: {plain(error_words(error))})"
    with suppress(OSError):
        sys.stderr.write(f"interrupted{more}\n")
    return EXIT_INTERRUPTED


if __name__ == "__main__":
    main()
