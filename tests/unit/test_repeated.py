"""The thread behind a mirror: woken, retried, and never in the way."""

import logging
import threading
import time
from collections.abc import Callable

import pytest

from crowdsweep.tracking.repeated_job import RepeatedJob, Timing

QUICK = Timing(every_s=0.001, first_delay_s=0.001, longest_delay_s=0.002)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_it_is_done_when_there_is_something_new_and_once_more_at_the_end() -> None:
    times: list[bool] = []
    work = RepeatedJob("the server", lambda last: times.append(last) or 0.0, timing=QUICK)
    time.sleep(0.05)
    assert times == []
    work.wake()
    until(lambda: times == [False])
    time.sleep(0.05)
    assert times == [False], "nothing was new"
    work.wake()
    until(lambda: times == [False, False])
    work.close()
    work.close()
    assert times == [False, False, True]


def test_what_comes_meanwhile_is_done_at_once_or_after_a_rest() -> None:
    times: list[float] = []
    work = RepeatedJob("the server", lambda _: times.append(time.monotonic()) or 0.2, timing=QUICK)
    work.wake()
    until(lambda: len(times) == 1)
    for _ in range(5):
        work.wake()
    until(lambda: len(times) == 2)
    assert times[1] - times[0] >= 0.2, "it asked for a rest"
    work.close()
    assert len(times) == 3


def test_a_failure_is_tried_again_and_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    tries: list[bool] = []

    def flaky(last: bool) -> float:
        tries.append(last)
        if len(tries) < 4:
            raise ConnectionError("down")
        return 0.0

    with caplog.at_level(logging.INFO):
        work = RepeatedJob("the server", flaky, timing=QUICK)
        work.wake()
        until(lambda: len(tries) == 4)
        work.close()
    assert tries == [False] * 4 + [True]
    assert len(caplog.records) == 1
    assert "the server cannot be written" in caplog.text


def test_close_does_not_wait_for_a_server_that_is_down() -> None:
    tries: list[bool] = []

    def down(last: bool) -> float:
        tries.append(last)
        raise ConnectionError

    work = RepeatedJob("the server", down, timing=Timing(first_delay_s=1000.0))
    work.wake()
    until(lambda: bool(tries))
    began = time.monotonic()
    work.close()
    work.close()
    assert tries == [False, True], "once more, then it gives up"
    assert time.monotonic() - began < 15.0


def test_what_fails_at_the_end_is_tried_again_for_a_while() -> None:
    tries: list[bool] = []

    def restarted(last: bool) -> float:
        tries.append(last)
        if len(tries) < 4:
            raise ConnectionError
        return 0.0

    work = RepeatedJob("the server", restarted, timing=Timing(first_delay_s=0.01))
    work.close()
    assert tries == [True] * 4


@pytest.mark.parametrize("timing", [Timing(patience_s=0.05), Timing(stalled_s=0.05)], ids=["patience", "stalled"])
def test_close_does_not_wait_for_a_server_that_hangs(timing: Timing) -> None:
    gate, begun = threading.Event(), threading.Event()

    def hang(_: bool) -> float:
        begun.set()
        gate.wait(20.0)
        return 0.0

    work = RepeatedJob("the server", hang, timing=timing)
    work.wake()
    assert begun.wait(20.0)
    began = time.monotonic()
    work.close()
    assert time.monotonic() - began < 15.0
    gate.set()


def test_steps_end_where_nobody_waits_for_them_any_more() -> None:
    asked: list[bool] = []
    gate = threading.Event()

    def steps(_: bool) -> float:
        asked.append(work.goes_on())
        gate.wait(20.0)
        asked.append(work.goes_on())
        return 0.0

    work = RepeatedJob("the server", steps, timing=QUICK)
    work.wake()
    until(lambda: asked == [True])
    work.close(lambda gone_s: False)
    gate.set()
    until(lambda: asked == [True, False])
    work._thread.join(20.0)
    assert asked == [True, False], "the last time is not begun"
