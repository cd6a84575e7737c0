"""The process that Ray's library runs in; `ray_proxy` says why it is separate, and describes its messages."""

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
from crowdsweep.registry.plugin_transfer import plugin_folders


class DriverGone(Exception):
    """The driver has closed its end of the connection, or is dead."""


@runtime_checkable
class Make(Protocol):
    """Makes the executor, and a function that returns how the cluster was lost ("" where it was not)."""

    def __call__(
        self, settings: RaySettings, datasets: dict[str, CrowdDataset]
    ) -> tuple[Executor, Callable[[], str]]: ...


def serve(number: int, make_pool: Callable[..., SlotPool] = SlotPool) -> None:
    """Runs an executor on Ray for the driver at the other end of a socket, until that is closed; never returns.

    Args:
        number: descriptor of the inherited socket to the driver.
        make_pool: makes the executor's pool of slots.
    """
    _ignore_signals()
    serve_connection(Connection(number), partial(_on_ray, make_pool))
    os._exit(0)


def serve_connection(connection: Connection, make: Make) -> None:
    """Makes the executor that the driver asks for, and serves the driver's requests until it is gone."""
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
    """Serves the driver's requests, one after another, until the driver is gone.

    Raises:
        DriverGone: always, at the end.
    """
    failure: Exception | None = None  # of a request without a reply: the next `POLL` answers with it
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
    """Returns `slots_for` of each of the resources that batches may ask for."""
    return [executor.slots_for(resources) for resources in settings.resources]


def _send_progress(driver: "_Driver", executor: Executor, event: TrialProgressed) -> None:
    """Sends a trial's progress to the driver, and stops the trials that the driver names before it acknowledges.

    Raises:
        DriverGone: the driver has closed its end.
    """
    driver.send(PROGRESS, event)
    while (request := driver.receive())[0] != ACK:
        executor.stop(request[1])


def _on_ray(
    make_pool: Callable[..., SlotPool], settings: RaySettings, datasets: dict[str, CrowdDataset]
) -> tuple[Executor, Callable[[], str]]:
    plugins = (
        plugin_folders()
    )  # before Ray starts: it unpacks a job's files again for each node, and they are missing then
    cluster = connect(settings.address)
    _ignore_signals()  # again: Ray installs handlers of its own when it starts
    try:
        executor = RayExecutor(
            datasets, cluster, settings.resources, settings.trial_minutes, partial(make_pool, plugins=plugins)
        )
        return executor, cluster.reason_lost
    except BaseException:
        cluster.close()
        raise


def _ignore_signals() -> None:
    """Makes this process ignore ending signals, so that only the driver ends it; its child processes do not."""
    for number in ENDING_SIGNALS:
        signal.signal(number, _ignored)  # not SIG_IGN, which child processes would inherit


def _ignored(number: int, frame: FrameType | None) -> None:
    """Does nothing: the handler of ignored signals."""


@dataclass(kw_only=True, eq=False)
class _Driver(logging.Handler):
    """The driver at the other end of the connection; as a log handler, it forwards log records there."""

    connection: Connection
    _sending: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        super().__init__()

    def receive(self) -> Any:
        """Returns the next request.

        Raises:
            DriverGone: the driver has closed its end.
        """
        try:
            return self.connection.recv()
        except (OSError, EOFError):
            raise DriverGone from None

    def send(self, kind: str, value: object) -> None:
        """Sends a reply, or a message that comes before one.

        Raises:
            DriverGone: the driver has closed its end.
        """
        try:
            with self._sending:
                self.connection.send((kind, value))
        except OSError:
            raise DriverGone from None

    def fail(self, error: Exception, lost: str) -> None:
        """Replies with an error: `FAILED` with one of crowdsweep's own, or with `SlotLost` where the cluster is lost.

        Any other is a bug, and the reply `BUG` with its text.

        Args:
            error: what was raised.
            lost: how the cluster was lost; "" where it was not.
        """
        if isinstance(error, CrowdsweepError):
            self.send(FAILED, error)
        elif lost:
            self.send(FAILED, SlotLost(f"the Ray cluster is lost: {lost}"))
        else:
            trace = "".join(traceback.format_exception(error))
            self.send(BUG, (f"{type(error).__name__}: {error}", trace))

    def emit(self, record: logging.LogRecord) -> None:
        """Forwards a log record to the driver."""
        with suppress(DriverGone):
            self.send(LOG, (record.name, record.levelno, record.getMessage()))
