"""Stops a sweep from another terminal, as Ctrl-C does in the sweep's own terminal."""

import os
import signal
import time
from pathlib import Path

from crowdsweep.errors import BadInput
from crowdsweep.record.asking import ask
from crowdsweep.record.events import SweepStatus
from crowdsweep.record.journal import read_journal
from crowdsweep.record.objects import Objects
from crowdsweep.record.store_uri import Store, StoreUri
from crowdsweep.record.stores import DEFAULT_STORES, Driver, driver_of, stores_in

LOOK_S = 0.2


def running_driver(store: Store) -> Driver | None:
    """Returns the driver that works on a sweep; None where the sweep has ended or no driver works on it.

    Raises:
        JournalError: the store holds no sweep.
    """
    driver = driver_of(store)
    unknown = driver is not None and not driver.here  # nobody here knows whether it lives: the record decides
    return None if unknown and read_journal(store).status is not SweepStatus.RUNNING else driver


def only_running_store() -> Path:
    """Returns the folder of the only sweep that runs in `DEFAULT_STORES`.

    Raises:
        BadInput: no sweep runs there, or several do.
    """
    running = [store for store in stores_in() if running_driver(store) is not None]
    if len(running) != 1:
        named = ", ".join(map(str, running))
        hint = f"{len(running)} run: name one of {named}" if running else f"none of {DEFAULT_STORES} runs"
        raise BadInput(f"expected the folder of a sweep that runs, as {hint}")
    return running[0]


def ask_to_stop(store: Store) -> Driver:
    """Asks the driver of a sweep to stop, as Ctrl-C would, and returns that driver.

    After the first request the running trials finish, their results are written, and the sweep ends. A second request
    ends it at once.

    Raises:
        BadInput: no driver works on the sweep, or its process cannot be reached from here.
    """
    driver = running_driver(store)
    if driver is None:
        raise BadInput(
            f"{store}: expected a sweep that runs, and none does; `crowdsweep status {store}` shows its progress"
        )
    who = f"process {driver.pid} on {driver.host}, since {driver.since}"
    if isinstance(store, StoreUri):
        if not ask(Objects(store), driver.writer, "stop"):
            raise BadInput(
                f"{store}: this sweep was run by {who}, which does not answer: it has ended, or is just starting. Run "
                f"the same sweep again to continue it, or stop it on that machine"
            )
        return driver
    if not driver.here:
        raise BadInput(
            f"{store}: this sweep is run by {who}, another machine than this: stop it there, by `crowdsweep stop` or "
            f"`kill -INT {driver.pid}`"
        )
    try:
        os.kill(driver.pid, signal.SIGINT)
    except PermissionError:
        raise BadInput(
            f"{store}: this sweep is run by {who}, which belongs to another user: ask them to stop it"
        ) from None
    except ProcessLookupError:
        pass  # it has just ended
    return driver


def wait_for_end(store: Store, driver: Driver) -> None:
    """Returns as soon as a driver no longer works on a sweep."""
    if isinstance(store, StoreUri):
        objects = Objects(store)
        while driver_of(store) == driver and ask(objects, driver.writer, "alive"):
            time.sleep(LOOK_S)
        return
    while driver_of(store) == driver:
        time.sleep(LOOK_S)
