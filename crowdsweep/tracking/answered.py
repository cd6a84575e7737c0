"""Work that asks MLflow for things, for as long as MLflow answers: whoever waits for it is told, and let go in the end.

Drivers of databases and clients of object stores know no limit that holds: a server that is stopped in the middle keeps
its connections and owes an answer for ever.
"""

import logging
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

from crowdsweep.tracking.mlflow_failures import TrackingFailed

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

SILENT_S = 8.0
"""How long MLflow may owe an answer before that is told."""
GIVEN_UP_S = 60.0
"""How long it may before nobody waits any more."""
_LOOK_S = 0.5


@runtime_checkable
class Asked(Protocol):
    """What asks MLflow."""

    @property
    def waiting_s(self) -> float:
        """How long MLflow has owed an answer; 0 where it owes none."""
        ...

    @property
    def place(self) -> tuple[str, str]:
        """Tracking URI, fit to be shown, and the experiment's id."""
        ...


class StillWanted:
    """Whether somebody waits for the work still."""

    def __init__(self) -> None:
        self._left = threading.Event()

    def __bool__(self) -> bool:
        return not self._left.is_set()

    def leave(self) -> None:
        """Nobody waits any more."""
        self._left.set()


def answered(
    door: Asked, work: Callable[[StillWanted], _T], *, silent_s: float = SILENT_S, given_up_s: float = GIVEN_UP_S
) -> _T:
    """Runs `work` on a thread and returns its result. A thread that takes too long is abandoned.

    Args:
        door: that the work asks MLflow by.
        work: given what says whether anybody waits still, to be asked between two steps; may raise anything.
        silent_s, given_up_s: of a door that waits.

    Raises:
        TrackingFailed: MLflow owes an answer for too long.
    """
    done: list[_T] = []
    failed: list[BaseException] = []
    goes_on = StillWanted()

    def do() -> None:
        try:
            done.append(work(goes_on))
        except BaseException as error:  # noqa: BLE001 - whoever waits for this thread raises it
            failed.append(error)

    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    told = False
    try:
        while thread.is_alive():
            thread.join(min(silent_s, _LOOK_S))
            waiting_s = door.waiting_s if thread.is_alive() else 0.0
            if waiting_s >= given_up_s:
                raise TrackingFailed(f"the server has not answered for {given_up_s:g} s")
            if waiting_s >= silent_s and not told:
                _log.warning(
                    "MLflow at %s has not answered for %g s; it is waited for (%g s at most), Ctrl-C breaks that off",
                    door.place[0],
                    silent_s,
                    given_up_s,
                )
            told = waiting_s >= silent_s
    finally:
        goes_on.leave()
    if failed:
        raise failed[0]
    return done[0]
