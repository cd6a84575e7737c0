"""What `run` says at its end, and the exit code: each way to end has its words and says how to go on."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crowdsweep.sweep.driver import SweepOutcome
    from crowdsweep.sweepfile.records import SweepConfig

EXIT_OK, EXIT_BAD_INPUT, EXIT_FAILED_TRIALS, EXIT_OVER_BUDGET, EXIT_INTERRUPTED = 0, 2, 3, 4, 130


@dataclass(frozen=True, kw_only=True)
class Again:
    """The command line that goes on with a sweep.

    Attributes:
        words: of the command, with store, engine and address, without the changes.
        overrides: `--set` of this run.
    """

    words: Sequence[str]
    overrides: Sequence[str]

    def line(self, *more: str, instead: str = "", sets: str = "") -> str:
        """Returns the line as a person types it.

        Args:
            more: further options.
            instead: key of an override that is left out, `sets` being given in its place.
            sets: a further override.
        """
        kept = [change for change in self.overrides if not instead or change.partition("=")[0].strip() != instead]
        changes = [word for change in [*kept, *([sets] if sets else [])] for word in ("--set", change)]
        return f"`{shlex.join([*self.words, *more, *changes])}`"


def closing_words(outcome: "SweepOutcome", config: "SweepConfig", again: Again, store: str) -> list[str]:
    """Returns what a person should know of how a run ended, a line each; nothing where all is well."""
    words: list[str] = []
    if outcome.status == "interrupted":
        words.append(f"interrupted: nothing that finished is lost; go on with {again.line()}")
        if outcome.dropped:
            words.append(f"no report was written; `crowdsweep report {shlex.quote(store)}` writes it")
    if outcome.status == "over_budget":
        more = min(1.0, max(0.5, 2 * config.budget.failed_trials))
        raised = again.line(instead="budget.failed_trials", sets=f"budget.failed_trials={more:g}")
        words.append(
            f"stopped: {outcome.failed} of {outcome.finished} trials failed, more than budget.failed_trials "
            f"({config.budget.failed_trials:g}) allows: {outcome.allowed}. `crowdsweep status {shlex.quote(store)}` "
            f"says why; try the failed trials again with {again.line('--retry-failed')}, or go on in spite of them "
            f"with {raised}"
        )
    if outcome.status == "out_of_time":
        more = again.line(instead="budget.hours", sets=f"budget.hours={2 * (config.budget.hours or 1):g}")
        words.append(
            f"out of time: budget.hours ({config.budget.hours:g}) is used up, counting every run of this sweep; "
            f"{outcome.finished} of {outcome.planned} trials known so far are done. Go on with {more}"
        )
    if outcome.failed and outcome.status not in ("over_budget", "interrupted"):
        words.append(
            f"{_trials(outcome.failed)} failed; the report lists them with their errors. Try them again with "
            f"{again.line('--retry-failed')}"
        )
    if outcome.lost:
        words.append(
            f"{_trials(outcome.lost)} lost with their slots, which says nothing of their models; try them again with "
            f"{again.line()}"
        )
    words += [f"{broken}; the record is kept, try again with {again.line()}" for broken in outcome.broken]
    if outcome.refused:
        searches = "1 search" if outcome.refused == 1 else f"{outcome.refused} searches"
        words.append(f"{searches} could not be made; the report says why")
    return words


def exit_code(outcome: "SweepOutcome") -> int:
    """Returns 130, 4, 3 or 0, as design and README say."""
    if outcome.status == "interrupted":
        return EXIT_INTERRUPTED
    if outcome.status == "over_budget":
        return EXIT_OVER_BUDGET
    return EXIT_FAILED_TRIALS if outcome.failed or outcome.lost or outcome.broken or outcome.refused else EXIT_OK


def _trials(number: int) -> str:
    return "1 trial" if number == 1 else f"{number} trials"
