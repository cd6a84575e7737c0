"""MLflow as a mirror of the journal: experiment = sweep, parent run = cell, nested run = trial."""

import logging
import shlex
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from crowdsweep.errors import BadInput
from crowdsweep.journal.artifacts import content_of
from crowdsweep.journal.journal import open_rows
from crowdsweep.journal.shown import ShownTrial, datasets_of, one_each, shown_trials
from crowdsweep.journal.state import JournalState
from crowdsweep.tracking.background import Background, Rejected
from crowdsweep.tracking.mlflow_door import MlflowClient, MlflowDoor
from crowdsweep.tracking.mlflow_failures import words_of
from crowdsweep.tracking.run_book import DrawConfusion, ReadArtifact, RunBook
from crowdsweep.tracking.sweep_page import store_id
from crowdsweep.tracking.uri import tracking_uri, without_credentials
from crowdsweep.trial.events import Event, SweepStarted, TrialFinished, TrialPlanned
from crowdsweep.trial.result import TrialResult

__all__ = ["Mirrored", "MlflowClient", "MlflowMirror", "rebuild", "tracking_uri", "without_credentials"]

_log = logging.getLogger(__name__)

_TELL_FIRST_S, _TELL_EVERY_S = 2.0, 10.0
_SILENT_S, _LOOK_S = 8.0, 0.5
_PRESSES_TO_DROP = 2  # of Ctrl-C: then nothing is waited for
_AFTER_A_PRESS_S = 10.0  # that MLflow is waited for by somebody who has asked for an end


class MlflowMirror:
    """Mirrors a sweep into MLflow from a thread of its own; a `Mirror`.

    A failure is reported once and retried; what could not be written in the end stands in `lacks`, and `mirror` (or the
    next driver of the same sweep, through `look`) writes it. Runs of trials that the sweep does not
    ask for any more stay, with the tag `crowdsweep.asked` false, and no cell's numbers count them.

    Args:
        store: directory or URI of the sweep's store.
        experiment: name in MLflow; created once.
        uri: see `tracking_uri`.
        record: takes `RunsCreated`, from this mirror's thread; a failure of it is the journal's to tell.
        look: tells what the journal says now: trials of it that MLflow lacks are written.
        draw: of the mean confusion matrix of a cell's reported trials, which becomes an artifact of its run.
        background: how the thread retries, for tests.
        presses: tells how often Ctrl-C was pressed: once more, and `close` leaves what is left to `mirror`.
        tell: takes, while `close` waits, words for whoever waits too.

    Attributes:
        lacks: what could not be written, in words, once it is closed; empty where MLflow has all.
    """

    def __init__(
        self,
        store: str | Path,
        *,
        experiment: str,
        uri: str | None = None,
        record: Callable[[Event], None] | None = None,
        look: Callable[[], JournalState] | None = None,
        draw: DrawConfusion | None = None,
        background: Callable[[Callable[[], None]], Background] | None = None,
        presses: Callable[[], int] = lambda: 0,
        tell: Callable[[str], object] = _log.info,
    ) -> None:
        self._store = str(store)
        self._presses = presses
        self._tell = tell
        self._uri = tracking_uri(store, uri)
        door = MlflowDoor(self._uri, experiment)
        self._runs = RunBook(door, record=record, read=reader_of(store), draw=draw)
        self._look = look
        self._trials: dict[str, ShownTrial] = {}
        self._among: frozenset[str] = frozenset()
        self._waiting: dict[str, TrialResult] = {}
        self._thread = (background or self._background)(self._runs.write_cells)
        self.lacks = ""
        self._started = False
        self._finished = False
        self._closed = False

    def handle(self, event: Event) -> None:
        """Queues what is to be written; never waits and never raises for MLflow's sake."""
        match event:
            case SweepStarted():
                self._started = True
                self._among = datasets_of(event.plan)
                state = self._look() if self._look is not None else None
                first = state.started[0] if state is not None and state.started else event
                recorded = dict(state.runs) if state is not None else {}
                self._thread.submit(
                    lambda: self._runs.open(event.name, event.environment, store_id(first), recorded),
                    beyond_limit=True,
                )
                if state is not None:
                    self._trials.update(one_each(shown_trials(state, every=True)))
                    self._waiting.update((key, result) for key, result in state.results.items() if key in self._trials)
                for key, result in list(self._waiting.items()):
                    self._queue(key, result, beyond_limit=True)
            case TrialPlanned(spec=spec, label=label):
                known = self._trials.get(spec.key)
                if known is None or not known.asked or spec.phase == "report":
                    self._trials[spec.key] = ShownTrial(spec=spec, label=label or spec.model, among=self._among)
                if known is not None and known.spec.phase != spec.phase == "report":
                    self._thread.submit(lambda: self._runs.enter_report(spec))
            case TrialFinished(result=result):
                self._waiting[result.key] = result
                self._queue(result.key, result)
            case _:
                pass

    def close(self) -> None:
        """Writes what is queued and ends the runs of all cells; `lacks` says what could not be written."""
        if self._closed:
            return
        self._closed = True
        shown = one_each(shown_trials(self._look(), every=True)) if self._look is not None else self._trials

        def finish() -> None:
            self._runs.mark(shown)
            self._runs.finish()
            self._finished = True

        before, told_at = self._presses(), 0.0

        def wait(gone_s: float) -> bool:
            nonlocal told_at
            if gone_s - told_at > _TELL_EVERY_S or (not told_at and gone_s > _TELL_FIRST_S):
                told_at = gone_s
                n = f"{len(self._waiting)} runs to go" if self._waiting else "writing the last"
                self._tell(f"MLflow: {n}; Ctrl-C leaves them to {self._later}")
            if before and gone_s > _AFTER_A_PRESS_S:
                return False
            return self._presses() == before and before < _PRESSES_TO_DROP

        self._thread.close(finish if self._started else None, wait)
        if self._waiting:
            self.lacks = "1 trial" if len(self._waiting) == 1 else f"{len(self._waiting)} trials"
        elif self._started and not self._finished:
            self.lacks = "the latest numbers of the models"

    @property
    def _later(self) -> str:
        return f"`{shlex.join(['crowdsweep', 'mirror', self._store])}`"

    def _background(self, when_idle: Callable[[], None]) -> Background:
        return Background("MLflow", when_idle=when_idle, words=lambda error: words_of(error, self._uri))

    def _queue(self, key: str, result: TrialResult, *, beyond_limit: bool = False) -> None:
        if key not in self._trials:
            return

        def write() -> None:
            self._runs.write_trial(self._trials[key], result)
            if self._waiting.get(key) is result:
                del self._waiting[key]

        self._thread.submit(write, beyond_limit=beyond_limit)


@dataclass(frozen=True, kw_only=True)
class Mirrored:
    """What `mirror` did: numbers of trials that stood there already, that were written, that MLflow refuses."""

    found: int
    written: int
    refused: int

    def __str__(self) -> str:
        refused = f", {self.refused} refused" if self.refused else ""
        return f"{self.written} trials written, {self.found} stood there already{refused}"


def rebuild(
    state: JournalState,
    uri: str,
    experiment: str,
    *,
    read: ReadArtifact | None = None,
    draw: DrawConfusion | None = None,
) -> Mirrored:
    """Writes into MLflow all that a journal has and MLflow lacks; a run that is incomplete is deleted and made anew.

    Not while a driver is writing the same sweep: its open runs would be marked as interrupted.

    Args:
        state: what the journal says.
        uri: MLflow's tracking URI.
        experiment: its name.
        read: of the arrays that trials kept (`reader_of`); None leaves them out.
        draw: as for `MlflowMirror`.

    Raises:
        BadInput: MLflow cannot be reached or written.
    """
    door = MlflowDoor(uri, experiment)
    runs = RunBook(door, record=None, read=read, draw=draw)
    found = written = 0
    try:
        with told_of_silence(door):
            runs.open(state.name, state.environment, store_id(state.started[0]) if state.started else "")
            trials = one_each(shown_trials(state, every=True))
            for key, result in state.results.items():
                if key not in trials:
                    continue
                try:
                    fresh = runs.write_trial(trials[key], result)
                except Rejected as error:
                    _log.warning("MLflow refuses trial %s: %s", key, words_of(error, uri))
                    continue
                written, found = written + fresh, found + (not fresh)
            runs.mark(trials)
            runs.finish()
    except (OSError, Rejected) as error:
        raise BadInput(
            f"MLflow at {without_credentials(uri)} cannot be written: {words_of(error, uri)}. {written} trials were; "
            f"see to it, then do the same again"
        ) from None
    return Mirrored(found=found, written=written, refused=len(state.results) - found - written)


@contextmanager
def told_of_silence(door: MlflowDoor, after_s: float = _SILENT_S) -> Generator[None]:
    """Says so where MLflow owes an answer for long: whoever waits for it should know for what.

    Args:
        door: that is asked meanwhile, in this thread.
        after_s: of silence.
    """
    ended = threading.Event()

    def watch() -> None:
        told = False
        while not ended.wait(min(after_s, _LOOK_S)):
            if door.waiting_s < after_s:
                told = False
            elif not told:
                told = True
                _log.warning(
                    "MLflow at %s has not answered for %g s; it is waited for, Ctrl-C breaks that off",
                    door.place[0],
                    after_s,
                )

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def reader_of(store: str | Path) -> ReadArtifact:
    """Returns what reads the arrays that the trials of a store kept."""
    return lambda artifact: content_of(open_rows(store, write=False), artifact)
