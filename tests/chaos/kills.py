"""Processes that are killed: the driver by four signals, its worker and forkserver, and each part of a Ray cluster."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random

from chaos.faults import Strike, fault, rows_in_words
from chaos.sandbox import Command, Sandbox

LAST_ROW = 75
IN_START_UP = 0.2  # of the drivers are killed while they start
START_UP_S = 2.0
LOST_CLUSTER = "the Ray cluster is lost"


def _moment(box: Sandbox, draw: Random, command: Command) -> None:
    """Waits until the record has come to a row that is drawn, or for a part of the start-up."""
    row, start_up_s = draw.randint(1, LAST_ROW), draw.uniform(0.0, START_UP_S)
    if draw.random() < IN_START_UP:
        began = time.monotonic()
        box.until(lambda: time.monotonic() - began > start_up_s, command)
    else:
        box.until_rows(row, command)


def _driver_killed_by(number: signal.Signals) -> Strike:
    def strike(box: Sandbox, draw: Random) -> str:
        command = box.start()
        _moment(box, draw, command)
        hit = command.signal(number)
        box.finish(command)
        return rows_in_words(box) if hit else "after its end"

    return strike


for _number, _draws in ((signal.SIGKILL, 6), (signal.SIGTERM, 4), (signal.SIGHUP, 4), (signal.SIGINT, 4)):
    fault(f"driver {_number.name}", draws=_draws)(_driver_killed_by(_number))


@fault("Ctrl-C twice", draws=2)
def _ctrl_c_twice(box: Sandbox, draw: Random) -> str:
    command = box.start()
    box.until_rows(draw.randint(1, LAST_ROW), command)
    command.press_ctrl_c()
    box.until(lambda: "again to drop" in command.said, command)
    command.press_ctrl_c()
    box.finish(command)
    return rows_in_words(box)


def _killed_under_the_driver(
    find: Callable[[Sandbox], int | None], *options: str, by: signal.Signals = signal.SIGKILL
) -> Strike:
    """Kills a process that is not the driver's own, or asks it to end; the driver is left to come to its end."""

    def strike(box: Sandbox, draw: Random) -> str:
        box.options += options
        box.cold_forkservers = True
        command = box.start()
        box.until_rows(draw.randint(1, LAST_ROW), command)
        box.until(lambda: find(box), command)
        where, victim = rows_in_words(box), find(box)
        if victim is not None:
            with suppress(ProcessLookupError):
                os.kill(victim, by)
        box.finish(command)
        return where if victim is not None else "after its end"

    return strike


fault("inline worker SIGKILL", draws=4)(_killed_under_the_driver(Sandbox.worker))
fault("inline forkserver SIGKILL", draws=4)(_killed_under_the_driver(lambda box: box.process("forkserver.serve")))
_ON_RAY = ("--engine", "ray")
fault("Ray actor SIGKILL", draws=2, on_ray=True)(_killed_under_the_driver(lambda b: b.process("ray::Slot"), *_ON_RAY))
fault("Ray raylet SIGKILL", draws=1, on_ray=True)(
    _killed_under_the_driver(lambda b: b.process("raylet/raylet "), *_ON_RAY)
)
fault("Ray head SIGKILL", draws=1, on_ray=True)(
    _killed_under_the_driver(lambda b: b.process("gcs/gcs_server "), *_ON_RAY)
)


fault("Ray raylet SIGTERM", draws=1, on_ray=True)(
    _killed_under_the_driver(lambda b: b.process("raylet/raylet "), *_ON_RAY, by=signal.SIGTERM)
)
fault("Ray head SIGTERM", draws=1, on_ray=True)(
    _killed_under_the_driver(lambda b: b.process("gcs/gcs_server "), *_ON_RAY, by=signal.SIGTERM)
)
fault("Ray's process SIGKILL", draws=1, on_ray=True)(
    _killed_under_the_driver(lambda b: b.process("ray_process.serve"), *_ON_RAY)
)
fault("Ray forkserver SIGKILL", draws=1, on_ray=True)(
    _killed_under_the_driver(lambda b: b.process("forkserver.serve"), *_ON_RAY)
)


@fault("driver SIGKILL on Ray", draws=2, on_ray=True)
def _driver_on_ray(box: Sandbox, draw: Random) -> str:
    box.options += _ON_RAY
    command = box.start()
    box.until_rows(draw.randint(1, LAST_ROW), command)
    command.signal(signal.SIGKILL)
    box.finish(command)
    return rows_in_words(box)


@fault("two drivers at once", draws=3)
def _two_drivers(box: Sandbox, draw: Random) -> str:
    first = box.start()
    if together := draw.random() < 0.5:
        second = box.start()
    else:
        box.until_rows(draw.randint(1, LAST_ROW // 2), first)
        first.signal(signal.SIGSTOP)  # so that it is still at work when the second comes
        second = box.start()
    kept_out = [second] if not together else [first, second]
    if not together:
        second.end()
        first.signal(signal.SIGCONT)
    codes = [box.finish(first), box.finish(second)]
    refused = sum("another driver" in command.said for command in kept_out)
    assert refused == 1 or (together and 2 not in codes), f"two drivers: exit codes {codes}"
    return "from the start" if together else "in the middle"
