"""The terminal's view of a running sweep: a live view, or plain lines where the output is no terminal."""

import logging
import threading
import time
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from crowdsweep.analysis.underway.best import Best
from crowdsweep.analysis.underway.progress import Progress
from crowdsweep.errors import plain
from crowdsweep.metrics.shown import number_words, score_words
from crowdsweep.metrics.wording import words
from crowdsweep.record.events import Event, SweepFinished, SweepStarted, SweepStatus, TrialFinished, TrialsNoted
from crowdsweep.record.result import Status
from crowdsweep.record.state import JournalState
from crowdsweep.units import clock_words
from crowdsweep.views.terminal.grid import Column, Grid, drawn
from crowdsweep.views.terminal.messages import wrapped

BEST_COLUMNS = (
    Column(title="dataset", wraps=True),
    Column(title="best so far"),
    Column(title="score", right=True),
    Column(title="metric", drop=2),
    Column(title="over", drop=1),
)

_log = logging.getLogger(__name__)

_LINES_OF_FAILURES = 20
_LINES_OF_FLAGS = 5
_BESTS_TOLD = 5  # datasets in plain lines, each time
_RUNNING_SHOWN = 8
_OTHER_LINES = 6  # of a live view, besides the best models and the running trials
_LONGEST_S = 60.0  # between two plain lines
_PART_OF_TIME = 20


class Terminal(Console):
    """Rich's console, which ends the whole program when its output is closed; this one falls silent instead."""

    def on_broken_pipe(self) -> None:
        """Called by rich."""
        self.quiet = True


class ConsoleMirror:
    """Shows a person how a sweep progresses; a `Mirror`. No error in it affects the sweep.

    Args:
        console: where it is shown; standard error by default, so that standard output stays clean for results.
        look: returns the current state of the journal, so that a resumed sweep counts on.
        every_s: least seconds between two plain lines of progress; the longer a sweep lasts, the rarer they are.
    """

    def __init__(
        self,
        *,
        console: Console | None = None,
        look: Callable[[], JournalState] | None = None,
        every_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console or Terminal(stderr=True, highlight=False, soft_wrap=True)
        self._progress = Progress(look, clock)
        self._guard = threading.Lock()
        self._every_s = every_s
        self._clock = clock
        self._told_at = clock()
        self._told_why = ""
        self._told_best: dict[str, str] = {}  # dataset → the model last shown as best
        self._failure_lines = 0
        self._told_flags: set[str] = set()
        self._off = False
        self._live: Live | None = None

    def handle(self, event: Event) -> None:
        """Takes one event, and shows it if it is time."""
        if self._off:
            return
        try:
            with self._guard:
                self._progress.take(event)
            self._show(event)
        except Exception:  # noqa: BLE001 - a terminal that went away must not end a sweep
            self._off = True
            _log.debug("the console view ended", exc_info=True)

    def close(self) -> None:
        """Ends the live view and leaves its last state on the terminal; may be called twice."""
        live, self._live = self._live, None
        if live is not None:
            try:
                live.stop()
            except Exception:  # noqa: BLE001 - as above
                _log.debug("the console view could not be ended", exc_info=True)

    def _show(self, event: Event) -> None:
        match event:
            case SweepStarted():
                self._start()
            case TrialFinished(result=result) if result.failure is not None and self._live is None:
                self._tell_failure()
            case TrialFinished(result=result) if result.flags and self._live is None:
                self._tell_flags()
            case TrialsNoted() if self._live is None:
                others = f" and {len(event.keys) - 1} more" if len(event.keys) > 1 else ""
                self._line(f"{self._progress.describe(event.keys[0])}{others}: {event.words}")
            case SweepFinished():
                self.close()
                self._line(self._closing_words())
            case _:
                if self._live is None and self._clock() - self._told_at >= self._pause_s():
                    self._told_at = self._clock()
                    self._tell_progress()

    def _start(self) -> None:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(
                get_renderable=self._view, console=self._console, refresh_per_second=2, redirect_stdout=False
            )
            self._live.start()
            return
        progress = self._progress
        before = f", {progress.finished} of them finished earlier" if progress.finished else ""
        self._line(f"{progress.name}: {progress.total} trials{before}")

    def _line(self, words: str) -> None:
        width = self._console.width if self._console.is_terminal else None
        self._console.print(Text(wrapped(plain(words), width)))

    def _pause_s(self) -> float:
        return max(self._every_s, min(_LONGEST_S, self._progress.elapsed_s / _PART_OF_TIME))

    def _tell_progress(self) -> None:
        times, why = self._times()
        self._line(f"{self._counts()}; {times}")
        if why and why != self._told_why:
            self._line(why)
        self._told_why = why
        bests = self._progress.best()
        fresh = [dataset for dataset, best in bests.items() if self._told_best.get(dataset) != best.model]
        for dataset in fresh[:_BESTS_TOLD]:
            best = bests[dataset]
            self._told_best[dataset] = best.model
            self._line(f"best on {dataset}: {best.model}, {score_words(best.value, best.metric)}")

    def _tell_failure(self) -> None:
        self._failure_lines += 1
        if self._failure_lines <= _LINES_OF_FAILURES:
            self._line(f"failed: {self._progress.failures[-1]}")
        elif self._failure_lines == _LINES_OF_FAILURES + 1:
            self._line("more trials fail; `crowdsweep status` lists them all")

    def _tell_flags(self) -> None:
        flagged = self._progress.flagged[-1]
        if flagged in self._told_flags or len(self._told_flags) > _LINES_OF_FLAGS:
            return
        self._told_flags.add(flagged)  # points of one search may be flagged alike
        if len(self._told_flags) <= _LINES_OF_FLAGS:
            self._line(f"flagged: {flagged}")
        else:
            self._line("more trials are flagged; `crowdsweep results` has a column of flags")

    def _closing_words(self) -> str:
        progress = self._progress
        words = {
            SweepStatus.DONE: "finished",
            SweepStatus.INTERRUPTED: "interrupted; run it again to continue",
            SweepStatus.OUT_OF_TIME: "out of time; give it more budget.hours to continue",
            SweepStatus.OVER_BUDGET: "stopped: more trials failed than budget.failed_trials allows",
            SweepStatus.INCOMPLETE: "incomplete; run it again to run what is missing",
        }[progress.status]
        return f"{progress.name}: {words}; {self._counts()}; {clock_words(progress.elapsed_s)}"

    def _counts(self) -> str:
        """Returns how many trials are done, and how many failed, were stopped early or are running, and how many actors
        were lost, where there are any."""
        progress = self._progress
        stopped, failed, running = progress.counts[Status.STOPPED], progress.counts[Status.FAILED], progress.running
        parts = [
            f"{progress.finished} of {progress.total} trials",
            *([f"{failed} failed"] if failed else []),
            *([f"{stopped} stopped early"] if stopped else []),
            *([f"{len(running)} running"] if running else []),
            *([f"{progress.lost} actors lost"] if progress.lost else []),
        ]
        return ", ".join(parts)

    def _times(self) -> tuple[str, str]:
        times, why = self._progress.times()
        return times, f"that is more than estimated before: {why}" if why else ""

    def _view(self) -> RenderableType:
        """Returns the live view; called from the live view's own thread as well."""
        with self._guard:
            progress = self._progress
            head = Table.grid(padding=(0, 2))
            counts = Text(self._counts(), style="red" if progress.counts[Status.FAILED] else "")
            bar = ProgressBar(total=max(progress.total, 1), completed=progress.finished, width=20)
            head.add_row(Text(plain(progress.name), style="bold", no_wrap=True, overflow="ellipsis"), bar)
            running = progress.scores()[-_RUNNING_SHOWN:]
            times, why = self._times()
            parts: list[RenderableType] = [head, counts, Text(times, style="dim")]
            parts += [Text(plain(why), style="dim")] if why else []
            parts += self._best_table(self._console.height - _OTHER_LINES - len(running))
            parts += [_cut(words, "dim") for words in running]
            parts += [_cut(f"flagged: {words}", "yellow") for words in progress.flagged]
            parts += [_cut(f"failed: {failure}", "red") for failure in progress.failures]
            return Group(*parts)

    def _best_table(self, most: int) -> list[RenderableType]:
        """Returns the best model of each dataset, for as many datasets as there is room for."""
        bests = list(self._progress.best().items())
        if not bests:
            return []
        shown = bests if len(bests) <= most else bests[: max(1, most - 1)]
        rows = [
            (dataset, best.model, number_words(best.value, best.metric), words(best.metric), _seeds(best))
            for dataset, best in shown
        ]
        more = len(bests) - len(shown)
        parts: list[RenderableType] = list(drawn(Grid(columns=BEST_COLUMNS, groups={"": rows}), self._console.width))
        return [*parts, Text(f"and {more} more datasets", style="dim")] if more else parts


def _cut(words: str, style: str) -> Text:
    return Text(words, style=style, no_wrap=True, overflow="ellipsis")


def _seeds(best: Best) -> str:
    number = "1 seed" if best.seeds == 1 else f"{best.seeds} seeds"
    return number if best.phase == "report" else f"{number} of a search"
