"""Work that waits for MLflow: told of once where it waits for long, given up in the end."""

import logging
import threading
import time

import pytest

from crowdsweep.tracking.mlflow_connection import MlflowConnection
from crowdsweep.tracking.mlflow_failures import TrackingFailed
from crowdsweep.tracking.time_limit import with_time_limit


class Door(MlflowConnection):
    """Owes an answer for as long as it is told to."""

    waiting_s = 0.0
    place = ("http://host", "1")

    def __init__(self) -> None:  # connects to nothing
        pass


def test_what_work_returns_and_raises_comes_out() -> None:
    assert with_time_limit(Door(), bool) is True
    with pytest.raises(KeyError, match="gone"):
        with_time_limit(Door(), lambda _: {}["gone"])


def test_a_silence_in_the_middle_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    door = Door()

    def work(_: threading.Event) -> None:
        for door.waiting_s in (0.0, 1.0, 0.0):
            time.sleep(0.15)

    with caplog.at_level(logging.WARNING, logger="crowdsweep"):
        with_time_limit(door, work, silent_s=0.01)
    (told,) = caplog.records
    assert told.getMessage().startswith("MLflow at http://host has not answered for 0.01 s; waiting for it")


def test_a_silence_without_an_end_is_given_up_and_the_work_told() -> None:
    door, ended, seen = Door(), threading.Event(), []

    def work(abandoned: threading.Event) -> None:
        door.waiting_s = 0.2
        ended.wait(20)
        seen.append(abandoned.is_set())
        ended.clear()

    with pytest.raises(TrackingFailed, match=r"has not answered for 0\.1 s"):
        with_time_limit(door, work, silent_s=0.01, given_up_s=0.1)
    ended.set()
    until = time.monotonic() + 10
    while ended.is_set() and time.monotonic() < until:
        time.sleep(0.01)
    assert seen == [True]
