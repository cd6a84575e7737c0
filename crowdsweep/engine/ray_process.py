"""The process that Ray lives in; `ray_proxy` says why there is one, and which messages it takes."""

import logging
import os
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from threading import Lock
from types import FrameType
from typing import Any, Protocol, runtime_checkable

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.engine.cluster import connect
from crowdsweep.engine.executor import Executor
from crowdsweep.engine.ray_actors import RayExecutor
from crowdsweep.engine.ray_proxy import (
    ACK,
    BUG,
    DONE,
    FAILED,
    LOG,
    POLL,
    PROGRESS,
    STOP,
    SUBMIT,
    RaySettings,
)
from crowdsweep.engine.slot_pool import SlotPool
from crowdsweep.errors import ENDING_SIGNALS, CrowdsweepError, SlotLost
from crowdsweep.record.events import TrialProgressed
from crowdsweep.registry.carried import carried


class DriverGone(Exception):
    """The driver has closed its end, or is dead."""


@runtime_checkable
class Make(Protocol):
    """Makes the executor, and what looks why an error came: the cluster that is lost, or nothing."""

    def __call__(
        self, settings: RaySettings, datasets: dict[str, CrowdDataset]
    ) -> tuple[Executor, Callable[[], str]]: ...


def serve(number: int, make_pool: Callable[..., SlotPool] = SlotPool) -> None:
    """Runs an executor on Ray for the driver at the other end of a socket, until that is closed; never returns.

    Args:
        number: of the inherited file that leads to the driver.
        make_pool: makes the executor's slots.
    """
    _ignore_signals()
    serve_connection(Connection(number), partial(_on_ray, make_pool))
    os._exit(0)


def serve_connection(connection: Connection, make: Make) -> None:
    """Makes the executor that the driver asks for and serves it, until the driver is gone."""
    driver = _Driver(connection=connection)
    logger = logging.getLogger("crowdsweep")
    logger.addHandler(driver)
    datasets: dict[str, CrowdDataset] = {}
    executor: Executor | None = None
    try:
        settings = driver.receive()
        try:
            executor, lost = make(settings, datasets)
        except Exception as error:  # noqa: BLE001 - the driver raises it
            driver.fail(error, "")
            return
        executor.listen(partial(_send_progress, driver, executor))
        driver.send(DONE, _slots(executor, settings))
        _serve_requests(driver, executor, datasets, settings, lost)
    except DriverGone:
        pass
    finally:
        logger.removeHandler(driver)
        if executor is not None:
            executor.close()
        connection.close()


def _serve_requests(
    driver: "_Driver",
    executor: Executor,
    datasets: dict[str, CrowdDataset],
    settings: RaySettings,
    lost: Callable[[], str],
) -> None:
    """Serves the driver's requests, one after another.

    Raises:
        DriverGone: in the end.
    """
    failure: Exception | None = None  # of a request that is not answered
    while True:
        kind, value = driver.receive()
        try:
            if kind == SUBMIT:
                batch, dataset = value
                if dataset is not None:
                    datasets[batch.dataset] = dataset
                executor.submit(batch)
            elif kind == STOP:
                executor.stop(value)
            elif kind == POLL:
                if failure is not None:
                    raise failure
                events = executor.poll(value)
                driver.send(DONE, (events, _slots(executor, settings)))
        except DriverGone:
            raise
        except Exception as error:  # noqa: BLE001 - the driver raises it
            if kind == POLL:
                failure = None
                driver.fail(error, lost())
            else:
                failure = failure or error


def _slots(executor: Executor, settings: RaySettings) -> list[int]:
    """Returns how many slots there are of each shape that batches may ask for."""
    return [executor.slots_for(resources) for resources in settings.resources]


def _send_progress(driver: "_Driver", executor: Executor, event: TrialProgressed) -> None:
    """Tells the driver of a trial's progress, and stops the trials that need not go on by what it makes of it.

    Raises:
        DriverGone: it has closed its end.
    """
    driver.send(PROGRESS, event)
    while (request := driver.receive())[0] != ACK:
        executor.stop(request[1])


def _on_ray(
    make_pool: Callable[..., SlotPool], settings: RaySettings, datasets: dict[str, CrowdDataset]
) -> tuple[Executor, Callable[[], str]]:
    plugins = carried()  # before Ray, which unpacks a job's files anew for each node of a machine: they lack meanwhile
    cluster = connect(settings.address)
    _ignore_signals()  # Ray takes them for itself when it starts
    try:
        executor = RayExecutor(
            datasets, cluster, settings.resources, settings.trial_minutes, partial(make_pool, plugins=plugins)
        )
        return executor, cluster.reason_lost
    except BaseException:
        cluster.close()
        raise


def _ignore_signals() -> None:
    """Makes this process ignore signals and end with the driver only; the processes that it starts receive signals."""
    for number in ENDING_SIGNALS:
        signal.signal(number, _ignored)  # not SIG_IGN, which they would inherit


def _ignored(number: int, frame: FrameType | None) -> None:
    """That a signal came is nothing to this process."""


@dataclass(kw_only=True, eq=False)
class _Driver(logging.Handler):
    """The other end."""

    connection: Connection
    _sending: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        super().__init__()

    def receive(self) -> Any:
        """Returns the next request.

        Raises:
            DriverGone: there will be none.
        """
        try:
            return self.connection.recv()
        except (OSError, EOFError):
            raise DriverGone from None

    def send(self, kind: str, value: object) -> None:
        """Sends a reply, or what comes before it.

        Raises:
            DriverGone: it has closed its end.
        """
        try:
            with self._sending:
                self.connection.send((kind, value))
        except OSError:
            raise DriverGone from None

    def fail(self, error: Exception, lost: str) -> None:
        """Answers with an error; where the cluster is lost that is what it is, whatever Ray made of it."""
        if isinstance(error, CrowdsweepError):
            self.send(FAILED, error)
        elif lost:
            self.send(FAILED, SlotLost(f"the Ray cluster is lost: {lost}"))
        else:
            trace = "".join(traceback.format_exception(error))
            self.send(BUG, (f"{type(error).__name__}: {error}", trace))

    def emit(self, record: logging.LogRecord) -> None:
        """Forwards log records to the driver."""
        with suppress(DriverGone):
            self.send(LOG, (record.name, record.levelno, record.getMessage()))
