"""MLflow as a mirror of the journal: experiment = sweep, parent run = cell, nested run = trial."""

import logging
import shlex
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from crowdsweep.errors import BadInput
from crowdsweep.record.events import Event, SweepStarted, TrialFinished, TrialPlanned
from crowdsweep.record.journal import open_rows
from crowdsweep.record.kept_arrays import content_of
from crowdsweep.record.shown_uri import without_credentials
from crowdsweep.record.state import JournalState
from crowdsweep.record.store_uri import Store
from crowdsweep.tracking.mlflow_connection import MlflowClient, MlflowConnection
from crowdsweep.tracking.mlflow_failures import words_of
from crowdsweep.tracking.projection import Projection
from crowdsweep.tracking.repeated_job import RepeatedJob, Timing
from crowdsweep.tracking.run_book import DrawConfusion, ReadArtifact, Rejected, RunBook
from crowdsweep.tracking.time_limit import with_time_limit
from crowdsweep.tracking.uri import tracking_uri

__all__ = ["Mirrored", "MlflowClient", "MlflowMirror", "rebuild", "tracking_uri"]

_log = logging.getLogger(__name__)

_TELL_FIRST_S, _TELL_EVERY_S = 4.0, 10.0
_SUMMARISED_EVERY_S = 10.0  # metrics of cells, which change with each trial
_RESTS = 20.0  # rest, in multiples of the time to read the record, which blocks the sweep's own thread
_REFUSED = "MLflow refuses trial %s: %s"
_PRESSES_TO_DROP = 2  # presses of Ctrl-C after which nothing is waited for
_AFTER_A_PRESS_S = 10.0  # longest wait for MLflow after a press of Ctrl-C


class MlflowMirror:
    """Keeps MLflow in step with the record of a running sweep, from a thread of its own; a `Mirror`.

    Every few seconds it writes what the record has and MLflow lacks. It reports a failure once and retries. `lacks`
    describes what could not be written in the end; `mirror` (or the next driver of the same sweep) writes it. Runs of
    trials that the sweep no longer asks for stay, with the tag `crowdsweep.asked` false, and no cell's metrics include
    them.

    Args:
        store: directory or URI of the sweep's store.
        experiment: name of the MLflow experiment; created if it is missing.
        look: returns a snapshot of the record, which must not change while the sweep goes on.
        uri: see `tracking_uri`.
        record: receives `RunsCreated` events on this mirror's thread; the journal reports its own failures.
        draw: draws the mean confusion matrix of a cell's reported trials, which becomes an artifact of the cell's run.
        presses: returns how often Ctrl-C was pressed; one more press, and `close` leaves the rest to `mirror`.
        tell: receives messages for the user while `close` waits.

    Attributes:
        lacks: description of what could not be written, set by `close`; empty where MLflow has everything.
    """

    def __init__(
        self,
        store: Store,
        *,
        experiment: str,
        look: Callable[[], JournalState],
        uri: str | None = None,
        record: Callable[[Event], None] | None = None,
        draw: DrawConfusion | None = None,
        timing: Timing | None = None,
        presses: Callable[[], int] = lambda: 0,
        tell: Callable[[str], object] = _log.info,
    ) -> None:
        self._store = str(store)
        self._look = look
        self._presses = presses
        self._tell = tell
        self._uri = tracking_uri(store, uri)
        self._runs = RunBook(MlflowConnection(self._uri, experiment), record=record, read=reader_of(store), draw=draw)
        self._projection = Projection(self._runs)
        self._summarised_at = 0.0
        self._refused = 0
        self.lacks = ""
        self._finished = False
        self._closed = False
        self._thread = RepeatedJob("MLflow", self._write, timing=timing, words=lambda error: words_of(error, self._uri))

    def handle(self, event: Event) -> None:
        """Schedules a comparison with the record; never waits for MLflow and never raises its errors."""
        if isinstance(event, SweepStarted | TrialPlanned | TrialFinished):
            self._thread.wake()

    def close(self) -> None:
        """Writes the rest and ends the runs of all cells; `lacks` then describes what could not be written."""
        if self._closed:
            return
        self._closed = True
        before, told_at, told = self._presses(), 0.0, ""

        def wait(gone_s: float) -> bool:
            nonlocal told_at, told
            if gone_s - told_at > _TELL_EVERY_S or (not told_at and gone_s > _TELL_FIRST_S):
                told_at = gone_s
                lacking = self._projection.lacking(self._look())
                n = f"{lacking} runs to go" if lacking else "writing the last"
                if n != told:
                    told = n
                    self._tell(f"MLflow: {n}; Ctrl-C leaves the rest to {self._later}")
            if before and gone_s > _AFTER_A_PRESS_S:
                return False
            return self._presses() == before and before < _PRESSES_TO_DROP

        self._thread.close(wait)
        state = self._look()
        if lacking := self._projection.lacking(state):
            self.lacks = "1 trial" if lacking == 1 else f"{lacking} trials"
        elif state.started and not self._finished:
            self.lacks = "the latest numbers of the models"

    def _write(self, last: bool) -> float:
        began, state = time.monotonic(), self._look()
        if not state.started:
            return 0.0
        steps = self._projection.write(state)
        read_s = time.monotonic() - began
        for key, done in steps:
            if isinstance(done, Rejected):
                _log.log(logging.DEBUG if self._refused else logging.WARNING, _REFUSED, key, words_of(done, self._uri))
                self._refused += 1
            if not self._thread.goes_on():
                return 0.0
        if last:
            self._runs.finish()
            self._finished = True
        elif self._runs.has_changes and time.monotonic() > self._summarised_at + _SUMMARISED_EVERY_S:
            self._runs.write_cells()
            self._summarised_at = time.monotonic()
        elif self._runs.has_changes:
            self._thread.wake()
        return _RESTS * read_s

    @property
    def _later(self) -> str:
        return f"`{shlex.join(['crowdsweep', 'mirror', self._store])}`"


@dataclass(frozen=True, kw_only=True)
class Mirrored:
    """Result of `mirror`: numbers of trials that MLflow had already, that were written, and that MLflow refuses; and of
    results whose trials the record does not describe (any more), so that no run can be made of them.
    """

    found: int
    written: int
    refused: int
    unknown: int

    def __str__(self) -> str:
        refused = f", {self.refused} refused" if self.refused else ""
        unknown = (
            f", {self.unknown} left out: the record has their results and not what they are" if self.unknown else ""
        )
        return f"{self.written} trials written, {self.found} were already there{refused}{unknown}"


def rebuild(
    state: JournalState,
    uri: str,
    experiment: str,
    *,
    read: ReadArtifact | None = None,
    draw: DrawConfusion | None = None,
) -> Mirrored:
    """Writes into MLflow all that a journal has and MLflow lacks; an incomplete run is deleted and created anew.

    Must not run while a driver writes the same sweep: the driver's open runs would be marked as interrupted.

    Args:
        read: reads the arrays that trials kept (`reader_of`); None leaves them out.
        draw: as for `MlflowMirror`.

    Raises:
        BadInput: MLflow cannot be reached or written, or does not answer for too long.
    """
    door = MlflowConnection(uri, experiment)
    runs = RunBook(door, record=None, read=read, draw=draw)
    found = written = refused = 0

    def write(abandoned: threading.Event) -> None:
        nonlocal found, written, refused
        for key, done in Projection(runs).write(state):
            if isinstance(done, Rejected):
                refused += 1
                _log.warning(_REFUSED, key, words_of(done, uri))
            else:
                written, found = written + done, found + (not done)
            if abandoned.is_set():
                return
        runs.finish()

    try:
        with_time_limit(door, write)
    except (OSError, Rejected) as error:
        raise BadInput(
            f"MLflow at {without_credentials(uri)} cannot be written: {words_of(error, uri)}. {written} trials were; "
            f"correct this, then do the same again"
        ) from None
    unknown = len(state.results) - found - written - refused
    return Mirrored(found=found, written=written, refused=refused, unknown=unknown)


def reader_of(store: Store) -> ReadArtifact:
    """Returns a function that reads the arrays which the trials of a store kept."""
    rows = open_rows(store)
    return lambda artifact: content_of(rows, artifact)
