"""`python -m crowdsweep` and the `crowdsweep` command."""

import sys


def main() -> None:
    """Runs the command line; a `CrowdsweepError` is printed as one message, without a traceback, and exits with 2."""
    from crowdsweep.cli import run_command_line

    sys.exit(run_command_line(sys.argv[1:]))


if __name__ == "__main__":
    main()
