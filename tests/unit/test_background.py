"""The thread behind a mirror: in order, retried, bounded, and never in the way."""

import logging
import threading
import time
from collections.abc import Callable

import pytest

from crowdsweep.tracking.background import Background, Rejected


def quick(**options: object) -> Background:
    return Background("the server", first_delay_s=0.001, longest_delay_s=0.002, **options)


def flaky(done: list[int], number: int, failures: int) -> Callable[[], None]:
    left = [failures]

    def job() -> None:
        if left[0]:
            left[0] -= 1
            raise ConnectionError("down")
        done.append(number)

    return job


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_jobs_run_in_order_whatever_fails(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []
    work = quick()
    with caplog.at_level(logging.INFO):
        for number in range(6):
            assert work.submit(flaky(done, number, failures=number % 3))
        until(lambda: len(done) == 6)
        work.close(lambda: done.append(99))
    assert done == [0, 1, 2, 3, 4, 5, 99]
    assert len(caplog.records) == 1, "the first failure is reported, and only that"
    assert "the server cannot be written" in caplog.text


def test_hopeless_jobs_are_dropped() -> None:
    done: list[int] = []
    tries: list[int] = []

    def rejected() -> None:
        tries.append(1)
        raise Rejected("too long")

    work = quick(attempts=3)
    work.submit(rejected)
    work.submit(flaky(done, 0, failures=3))
    work.submit(flaky(done, 1, failures=2))
    until(lambda: done == [1])
    assert len(tries) == 1
    work.close()


def test_a_full_queue_refuses_at_once() -> None:
    gate = threading.Event()
    work = quick(limit=2)
    work.submit(gate.wait)
    until(lambda: not work._jobs)
    assert [work.submit(lambda: None) for _ in range(3)] == [True, True, False]
    assert work.submit(lambda: None, beyond_limit=True)
    gate.set()
    work.close()
    assert not work.submit(lambda: None)


def test_close_does_not_wait_for_a_server_that_is_down() -> None:
    tries: list[int] = []

    def down() -> None:
        tries.append(1)
        raise ConnectionError

    work = Background("the server", first_delay_s=1000.0)
    for _ in range(100):
        work.submit(down)
    until(lambda: bool(tries))
    work.close(down)
    work.close()
    assert len(tries) == 2, "one more try of the job that was waiting, then it gives up"


def test_close_does_not_wait_for_a_server_that_hangs() -> None:
    gate = threading.Event()
    work = quick(patience_s=0.05)
    work.submit(lambda: gate.wait(20.0) and None)
    until(lambda: not work._jobs)
    began = time.monotonic()
    work.close()
    assert time.monotonic() - began < 15.0
    gate.set()


def test_idle_work_is_done_between_jobs() -> None:
    happened: list[str] = []
    work = quick(when_idle=lambda: happened.append("idle"), idle_s=0.01)
    work.submit(lambda: happened.append("job"))
    until(lambda: "idle" in happened)
    time.sleep(0.05)
    assert happened == ["job", "idle"], "once, as nothing was done since"
    work.close()
