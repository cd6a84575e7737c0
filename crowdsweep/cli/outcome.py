"""The end of `run`: its exit code, and the command lines that resume the sweep."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crowdsweep.app import NextSteps
    from crowdsweep.sweep.driver import SweepOutcome

EXIT_OK, EXIT_BAD_INPUT, EXIT_FAILED_TRIALS, EXIT_OVER_BUDGET, EXIT_INTERRUPTED = 0, 2, 3, 4, 130


def next_commands(words: Sequence[str], overrides: Sequence[str], store: str) -> "NextSteps":
    """Returns the command lines that resume a sweep, retry its failures, or show its status and report.

    Args:
        words: words of this command line, with store, engine and address, but without `--set`.
        overrides: values of `--set` in this run.
        store: store of the sweep.
    """
    from crowdsweep.app import NextSteps

    def line(*more: str, changes: Sequence[str] = overrides) -> str:
        sets = (word for change in changes for word in ("--set", change))
        return f"`{shlex.join([*words, *more, *sets])}`"

    def with_key(key: str, value: float) -> str:
        kept = [change for change in overrides if change.partition("=")[0].strip() != key]
        return line(changes=[*kept, f"{key}={value:g}"])

    return NextSteps(
        go_on=line(),
        retry=line("--retry-failed"),
        with_key=with_key,
        status=f"`crowdsweep status {shlex.quote(store)}`",
        report=f"`crowdsweep report {shlex.quote(store)}`",
    )


def exit_code(outcome: "SweepOutcome") -> int:
    """Returns 130 (interrupted), 4 (over budget), 3 (trials failed or were lost, or a search failed or was refused, or
    the cluster was lost) or 0."""
    if outcome.status == "interrupted":
        return EXIT_INTERRUPTED
    if outcome.status == "over_budget":
        return EXIT_OVER_BUDGET
    return EXIT_FAILED_TRIALS if outcome.failed or outcome.lost or outcome.broken or outcome.refused else EXIT_OK
