"""`python -m crowdsweep` and the `crowdsweep` command."""

import os
import sys

# One thread for the numeric libraries of this process: the arrays of a trial are so small that a second thread was
# measured to cost more than it gives, and the inline engine runs one batch at a time. To be set before any of them is
# loaded. Slots on Ray set their own, by the CPUs that they were given.
for _library in ("OMP", "MKL", "OPENBLAS"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")


def main() -> None:
    """Runs the command line; a `CrowdsweepError` is printed as one message, without a traceback, and exits with 2."""
    from crowdsweep.cli import run_command_line

    sys.exit(run_command_line(sys.argv[1:]))


if __name__ == "__main__":
    main()
