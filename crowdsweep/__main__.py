"""`python -m crowdsweep` and the `crowdsweep` command."""

import os
import sys
from contextlib import suppress

# One thread for the numeric libraries of this process: the arrays of a trial are so small that a second thread was
# measured to cost more than it gives, and the inline engine runs one batch at a time. To be set before any of them is
# loaded. Slots on Ray set their own, by the CPUs that they were given.
for _library in ("OMP", "MKL", "OPENBLAS"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")


def main() -> None:
    """Runs the command line; a `CrowdsweepError` is printed as one message, without a traceback, and exits with 2.

    All is closed and written when it returns. Libraries' threads are not waited for: one that looks for a cluster that
    is gone, or still reads, may crash the process at its end and take the exit code with it.
    """
    from crowdsweep.cli import run_command_line

    code = run_command_line(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
