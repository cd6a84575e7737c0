"""Drivers in processes that have imported everything already, so that a kill hits a sweep and not an import."""

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

import pytest


@contextmanager
def imported_drivers(**environment: str) -> Iterator[ForkServerContext]:
    """Yields what starts them, in this environment: Python has one server for all that a process forks so, and its
    environment is that of the first who asked."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["crowdsweep.app", "crowdsweep.search.optuna_points"])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        forkserver._forkserver._stop()
        yield context
        forkserver._forkserver._stop()
