"""What a sweep shows on the terminal: a live view, or plain lines where nobody looks at a terminal."""

import logging
import threading
import time
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from crowdsweep.console.best import Best
from crowdsweep.console.progress import Progress
from crowdsweep.errors import plain
from crowdsweep.journal.state import JournalState
from crowdsweep.trial.events import BatchLost, Event, SweepFinished, SweepStarted, SweepStatus, TrialFinished
from crowdsweep.trial.result import Status

_log = logging.getLogger(__name__)

_LINES_OF_FAILURES = 20
_LINES_OF_FLAGS = 5
_BESTS_SHOWN = 12
_RUNNING_SHOWN = 8


class Terminal(Console):
    """Rich's console, which ends the whole program when nobody reads any more; this one falls silent."""

    def on_broken_pipe(self) -> None:
        """Called by rich."""
        self.quiet = True


class ConsoleMirror:
    """Tells a person how a sweep goes; a `Mirror`. Whatever goes wrong here, the sweep does not notice.

    Args:
        quiet: write nothing.
        console: where to; standard error by default, so that standard output stays clean for results.
        look: tells what the journal says now, so that a sweep that goes on counts on.
        every_s: least seconds between two plain lines of progress.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
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
        self._failure_lines = 0
        self._flag_lines = 0
        self._off = quiet
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
        """Leaves the last view standing; may be called twice."""
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
            case BatchLost() if self._live is None:
                self._line(f"lost {event.slot} ({event.reason}); {len(event.keys)} trials will run again")
            case SweepFinished():
                self.close()
                self._line(self._closing_words())
            case _:
                if self._live is None and self._clock() - self._told_at >= self._every_s:
                    self._told_at = self._clock()
                    self._line(self._progress_words())

    def _start(self) -> None:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(
                get_renderable=self._view, console=self._console, refresh_per_second=2, redirect_stdout=False
            )
            self._live.start()
            return
        progress = self._progress
        before = progress.finished
        self._line(f"{progress.total} trials known" + (f", {before} of them finished earlier" if before else ""))

    def _line(self, words: str) -> None:
        self._console.print(Text(plain(f"{self._progress.name}: {words}")))

    def _tell_failure(self) -> None:
        self._failure_lines += 1
        if self._failure_lines <= _LINES_OF_FAILURES:
            self._line(f"failed: {self._progress.failures[-1]}")
        elif self._failure_lines == _LINES_OF_FAILURES + 1:
            self._line("more trials fail; `crowdsweep status` lists them all")

    def _tell_flags(self) -> None:
        self._flag_lines += 1
        if self._flag_lines <= _LINES_OF_FLAGS:
            self._line(f"flagged: {self._progress.flagged[-1]}")
        elif self._flag_lines == _LINES_OF_FLAGS + 1:
            self._line("more trials are flagged; `crowdsweep results` has a column of flags")

    def _progress_words(self) -> str:
        return "; ".join(
            [
                self._counts(),
                self._times(),
                *(
                    f"best on {dataset}: {best.model}, {best.metric} {best.value:.4f} ({_seeds(best)})"
                    for dataset, best in list(self._progress.best().items())[:_BESTS_SHOWN]
                ),
            ]
        )

    def _closing_words(self) -> str:
        progress = self._progress
        words = {
            SweepStatus.DONE: "finished",
            SweepStatus.INTERRUPTED: "interrupted; run it again and it goes on",
            SweepStatus.OUT_OF_TIME: "out of time; give it more budget.hours and it goes on",
            SweepStatus.OVER_BUDGET: "stopped: more trials failed than budget.failed_trials allows",
            SweepStatus.INCOMPLETE: "incomplete; run it again and what is missing is tried again",
        }[progress.status]
        return f"{words}; {self._counts()}; {_duration(progress.elapsed_s)}"

    def _counts(self) -> str:
        progress = self._progress
        stopped = progress.counts[Status.STOPPED]
        told = f", {stopped} stopped early" if stopped else ""
        lost = f", {progress.lost} actors lost" if progress.lost else ""
        return (
            f"{progress.finished} of {progress.total} trials, {progress.counts[Status.FAILED]} failed{told}, "
            f"{len(progress.running)} running{lost}"
        )

    def _times(self) -> str:
        left = self._progress.left_s
        told = "" if left is None else f", about {_duration(left)} left"
        return f"{_duration(self._progress.elapsed_s)} gone{told}"

    def _view(self) -> RenderableType:
        """Called from the live view's own thread as well."""
        with self._guard:
            progress = self._progress
            head = Table.grid(padding=(0, 2))
            head.add_row(
                Text(progress.name, style="bold"),
                ProgressBar(total=max(progress.total, 1), completed=progress.finished, width=20),
                Text(self._counts(), style="red" if progress.counts[Status.FAILED] else ""),
                Text(self._times(), style="dim"),
            )
            parts: list[RenderableType] = [head]
            bests = progress.best()
            if bests:
                table = Table(box=None, padding=(0, 2), header_style="dim")
                for column in ("dataset", "best so far", "metric", "mean", "of"):
                    table.add_column(column, justify="right" if column == "mean" else "left")
                for dataset, best in list(bests.items())[:_BESTS_SHOWN]:
                    cells = (plain(dataset), plain(best.model), best.metric, f"{best.value:.4f}", _seeds(best))
                    table.add_row(*map(Text, cells))
                parts.append(table)
            parts += [Text(words, style="dim", overflow="ellipsis") for words in progress.scores()[-_RUNNING_SHOWN:]]
            parts += [Text(f"flagged: {words}", style="yellow", overflow="ellipsis") for words in progress.flagged]
            parts += [Text(f"failed: {failure}", style="red", overflow="ellipsis") for failure in progress.failures]
            return Group(*parts)


def _seeds(best: Best) -> str:
    number = "1 seed" if best.seeds == 1 else f"{best.seeds} seeds"
    return number if best.phase == "report" else f"{number} of a search"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
