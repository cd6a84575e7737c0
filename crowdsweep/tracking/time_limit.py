"""Runs work that calls MLflow: logs a warning while MLflow is silent, and limits how long the caller waits.

Database drivers and object-store clients have no reliable time limit: a server that stops during a request keeps its
connections open and never answers.
"""

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from crowdsweep.tracking.mlflow_connection import MlflowConnection
from crowdsweep.tracking.mlflow_failures import TrackingFailed

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

SILENT_S = 8.0
"""Seconds without an answer from MLflow before a warning is logged."""
GIVEN_UP_S = 60.0
"""Seconds without an answer from MLflow before the caller stops waiting."""
_LOOK_S = 0.5


def with_time_limit(
    door: MlflowConnection,
    work: Callable[[threading.Event], _T],
    *,
    silent_s: float = SILENT_S,
    given_up_s: float = GIVEN_UP_S,
) -> _T:
    """Runs `work` on a thread and returns its result. A thread that takes too long is abandoned.

    Args:
        work: receives an event that is set when nobody waits any more, to look at between steps. What it raises is
            raised here again.

    Raises:
        TrackingFailed: MLflow has not answered for `given_up_s`.
    """
    done: list[_T] = []
    failed: list[BaseException] = []
    abandoned = threading.Event()

    def do() -> None:
        try:
            done.append(work(abandoned))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            failed.append(error)

    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    warned = False
    try:
        while thread.is_alive():
            thread.join(min(silent_s, _LOOK_S))
            waiting_s = door.waiting_s if thread.is_alive() else 0.0
            if waiting_s >= given_up_s:
                raise TrackingFailed(f"the server has not answered for {given_up_s:g} s")
            if waiting_s >= silent_s and not warned:
                _log.warning(
                    "MLflow at %s has not answered for %g s; waiting for it (%g s at most; Ctrl-C stops waiting)",
                    door.place[0],
                    silent_s,
                    given_up_s,
                )
            warned = waiting_s >= silent_s
    finally:
        abandoned.set()
    if failed:
        raise failed[0]
    return done[0]
