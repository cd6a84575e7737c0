"""Puts a sweep together from its parts and runs it: plan, record, engine, mirrors, Ctrl-C."""

import logging
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from crowdsweep.console.messages import tell
from crowdsweep.errors import BadInput, JournalLocked
from crowdsweep.files.asked import is_file
from crowdsweep.journal.journal import Journal, open_rows, read_journal
from crowdsweep.journal.store_files import JOURNAL_FILE, check_store
from crowdsweep.search.contract import PointSearcher
from crowdsweep.search.searchers import make_searcher
from crowdsweep.sweep.address import wanted_address
from crowdsweep.sweep.cells import Search
from crowdsweep.sweep.driver import SweepOutcome, run_sweep
from crowdsweep.sweep.environment import environment
from crowdsweep.sweep.executor import Executor
from crowdsweep.sweep.inline import InlineExecutor
from crowdsweep.sweep.interrupts import Interrupts
from crowdsweep.sweep.plan import Plan, make_plan
from crowdsweep.sweep.ray_link import Begin, RayLink
from crowdsweep.sweep.resume import data_changes
from crowdsweep.sweepfile.records import Engine, SweepConfig
from crowdsweep.tracking.uri import recorded_uri, tracking_uri, without_credentials
from crowdsweep.trial.events import Mirror

if TYPE_CHECKING:
    from crowdsweep.tracking.mlflow_runs import MlflowMirror

Draw = Callable[[Sequence[Sequence[float]]], bytes]
"""Draws a confusion matrix [true][observed] and returns a PNG: mirrors may not know the figures of the report."""

_log = logging.getLogger(__name__)


def open_and_run(
    config: SweepConfig,
    store: Path,
    *,
    engine: Engine | None = None,
    address: str | None = None,
    quiet: bool = False,
    draw: Draw | None = None,
    retry_failed: bool = False,
) -> SweepOutcome:
    """Runs a sweep, or goes on with it, with its record in `store`.

    Args:
        config: what to run.
        store: folder of the record; made where it is missing.
        engine: overrides the sweep file's.
        address: of a Ray cluster to join; see `cluster.connect`.
        quiet: no progress.
        draw: of the confusion matrices that MLflow shows; None leaves them out.
        retry_failed: runs again what failed in earlier runs.

    Raises:
        BadInput: the sweep cannot be run as it stands; nothing was run or written.
        JournalLocked: another driver is at work on this record.
        InfeasibleRequest: the cluster has no room for a single slot.
    """
    used = engine or config.engine
    joined = wanted_address(address) if used == "ray" else None  # before the data are loaded, which may take long

    def say(words: str) -> None:
        if not quiet:
            with suppress(OSError, ValueError):  # nobody reads any more
                tell(f"{config.name}: {words}")

    plan = make_plan(config)
    for note in plan.notes:
        _log.warning("%s", note)

    def searcher_of(search: Search) -> PointSearcher:
        return make_searcher(search.space, config.sampler, search.metric.goal, search.limit)

    with ExitStack() as stack:
        journal = stack.enter_context(closing(Journal(store)))
        if is_file(store / JOURNAL_FILE):
            check_store(store)
        for change in data_changes(plan, journal.state):
            _log.warning("%s", change)
        interrupts = stack.enter_context(Interrupts())  # to the very end: nothing that closes is broken off
        if used == "ray":
            say("starting Ray…" if joined == "local" else f"joining the Ray cluster at {joined}…")
        with interrupts.abortable(at_once=True):
            executor = stack.enter_context(closing(_executor(plan, used, address)))
            tracker = _tracker(plan, store, journal, draw, interrupts)
        mirrors = [*([] if quiet else [_console(journal)]), *([] if tracker is None else [tracker])]
        interrupts.listen()
        outcome = run_sweep(
            plan,
            executor=executor,
            journal=journal,
            make_searcher=searcher_of,
            mirrors=mirrors,
            environment=environment(),
            interrupts=interrupts,
            retry_failed=retry_failed,
        )
        return replace(outcome, mlflow_lacks="" if tracker is None else tracker.lacks)


def rebuild_mirror(store: Path, uri: str | None = None, draw: Draw | None = None) -> str:
    """Writes to MLflow what it lacks of a sweep, and returns what was done in words; `draw` as for `open_and_run`.

    Raises:
        JournalError: there is no record in `store`.
        BadInput: MLflow cannot be written there, or a driver is at work, which writes MLflow itself.
    """
    from crowdsweep.tracking.mlflow_runs import (  # noqa: PLC0415 - mlflow takes seconds to import
        reader_of,
        rebuild,
    )

    with _alone(store):
        state = read_journal(store)
        tracking = state.config.get("tracking", {})
        target = tracking_uri(store, uri) if uri else recorded_uri(store, state.config)
        done = rebuild(state, target, tracking.get("experiment") or state.name, read=reader_of(store), draw=draw)
    return (
        f"{without_credentials(target)}: {done.written} trials written, {done.found} stood there already, "
        f"{done.refused} refused"
    )


@contextmanager
def _alone(store: Path) -> Generator[None]:
    """Keeps drivers out meanwhile, but for a store that cannot be written: nobody goes on with a sweep there."""
    rows = None
    if is_file(store / JOURNAL_FILE) and os.access(store, os.W_OK):
        try:
            rows = open_rows(store, write=True)
        except JournalLocked as error:
            raise BadInput(
                f"{store}: a sweep runs here and writes MLflow itself; do this when it has ended ({error})"
            ) from error
    try:
        yield
    finally:
        if rows is not None:
            rows.close()


def _executor(plan: Plan, engine: Engine, address: str | None) -> Executor:
    if engine == "inline":
        return InlineExecutor(plan.bases, trial_minutes=plan.config.budget.trial_minutes)
    budget, resources = plan.config.budget, plan.config.resources
    return RayLink(plan.bases, Begin(address=address, resources=resources, trial_minutes=budget.trial_minutes))


def _console(journal: Journal) -> Mirror:
    from crowdsweep.console.live import ConsoleMirror  # noqa: PLC0415 - rich is for people only

    return ConsoleMirror(look=lambda: journal.state)


def _tracker(
    plan: Plan, store: Path, journal: Journal, draw: Draw | None, interrupts: Interrupts
) -> "MlflowMirror | None":
    """Returns what writes MLflow; None where the sweep leaves it out."""
    tracking = plan.config.tracking
    if not tracking.enabled:
        return None
    from crowdsweep.tracking.mlflow_runs import MlflowMirror  # noqa: PLC0415 - mlflow takes seconds to import

    return MlflowMirror(
        store,
        experiment=tracking.experiment or plan.config.name,
        look=journal.snapshot,
        uri=tracking.uri,
        record=journal.handle,
        draw=draw,
        presses=lambda: interrupts.count,
        tell=tell,
    )
