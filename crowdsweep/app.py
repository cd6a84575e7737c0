"""Actions on a sweep that the command line and Python share: run it, report on it, notify others, register its labels.

Code that runs after the last trial has local imports, so that the first trial does not wait for statistics and drawing.
"""

import logging
import os
import shlex
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypedDict, Unpack

from crowdsweep.engine.address import wanted_address
from crowdsweep.engine.executor import Executor
from crowdsweep.engine.inline import InlineExecutor
from crowdsweep.engine.job_folder import check_outlives_job
from crowdsweep.engine.ray_proxy import RayProcess, RayProxy, RaySettings, start_process
from crowdsweep.errors import BadInput, CrowdsweepError, InfeasibleRequest, JournalLocked
from crowdsweep.record.events import Mirror
from crowdsweep.record.fetched import exists_in
from crowdsweep.record.journal import Journal
from crowdsweep.record.store_files import check_store
from crowdsweep.record.store_uri import Store
from crowdsweep.sweep.driver import SweepOutcome, run_sweep
from crowdsweep.sweep.environment import environment
from crowdsweep.sweep.interrupts import Interrupts
from crowdsweep.sweep.plan import Plan, make_plan
from crowdsweep.sweep.resume import data_changes
from crowdsweep.sweep.warm_start import recorded_of
from crowdsweep.sweepfile.records import Engine, SweepConfig
from crowdsweep.tracking.uri import has_place
from crowdsweep.views.notify import NotifyTargets, message_of, notify_targets, send_notifications
from crowdsweep.views.terminal.messages import print_message

if TYPE_CHECKING:
    from crowdsweep.analysis.sweep import AnalysedSweep
    from crowdsweep.tracking.mlflow_runs import MlflowMirror

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class NextSteps:
    """Commands that messages suggest for a sweep, in the syntax of the user's interface: a shell or Python.

    Attributes:
        go_on: resumes the sweep.
        retry: resumes the sweep and reruns its failed trials.
        with_key: (key of the sweep file, value) → a command that resumes the sweep with that value.
        status: shows the progress of the sweep and its failures.
        report: writes the report.
    """

    go_on: str
    retry: str
    with_key: Callable[[str, float], str]
    status: str
    report: str


class How(TypedDict, total=False):
    """Options of a run that the sweep file does not set, or that override it.

    Attributes:
        engine: overrides the engine of the sweep file.
        address: of a Ray cluster to join; see `cluster.connect`.
        quiet: whether to show no progress.
        retry_failed: whether to rerun trials that failed in earlier runs.
        live: whether to keep the report's page up to date during the run, and print its address.
    """

    engine: Engine | None
    address: str | None
    quiet: bool
    retry_failed: bool
    live: bool


def run_to_the_end(
    config: SweepConfig,
    store: Store,
    *,
    tell: Callable[[str], object],
    show: Callable[["AnalysedSweep"], object] = lambda _: None,
    show_end: Callable[[SweepOutcome], object] = lambda _: None,
    command: str | None = None,
    **how: Unpack[How],
) -> SweepOutcome:
    """Runs a sweep, writes its report, registers its classifier if the sweep file says so, and sends notifications.

    Args:
        config, store, how: as for `run`.
        tell: called with a message about what was registered.
        show: called with the analysed sweep, once the report is written.
        show_end: called with the outcome of the run, even if the report cannot be written.
        command: the command to notify of the end; see `notify_targets`.

    Raises:
        BadInput, JournalLocked, InfeasibleRequest, WriteFailed, ForeignFile: as `run` and `finish`.
    """
    with notifying(config, store, command) as ended:
        outcome = run(config, store, **how)
        ended.append(outcome)
        try:
            if not (how.get("quiet") or outcome.dropped):
                _say(f"{config.name}: writing the report…")
            found = finish(config, store, outcome)
            if found is not None:
                show(found)
                register(found, config, outcome, tell)
        finally:
            show_end(outcome)
    return outcome


def run(config: SweepConfig, store: Store, **how: Unpack[How]) -> SweepOutcome:
    """Runs or resumes a sweep and returns its outcome.

    Args:
        config: of the sweep.
        store: where the record is kept; created if it is missing.
        how: options of the run, see `How`.

    Raises:
        BadInput: the sweep cannot be run with this input; nothing was run or written.
        JournalLocked: another driver is writing this record.
        InfeasibleRequest: the cluster has no room for a single slot.
    """
    used, address, quiet = how.get("engine") or config.engine, how.get("address"), how.get("quiet", False)
    if address is not None and used != "ray":
        raise BadInput(f"address {address}: the engine of this sweep is {used}, which joins no cluster; use engine ray")
    check_outlives_job(store)
    joined = wanted_address(address) if used == "ray" else None  # fails before the data are loaded, which may take long

    def say(words: str) -> None:
        if not quiet:
            _say(f"{config.name}: {words}")

    with ExitStack() as stack:
        beside = stack.enter_context(closing(start_process())) if used == "ray" else None  # imports while we plan
        plan = make_plan(config, recorded_of(config, store))
        for note in plan.notes:
            _log.warning("%s", note)
        journal = stack.enter_context(closing(Journal(store)))
        check_store(store)
        for change in data_changes(plan, journal.state):
            _log.warning("%s", change)
        interrupts = stack.enter_context(Interrupts())  # until the end, so that no interrupt breaks off a close
        journal.heed(lambda: os.kill(os.getpid(), signal.SIGINT))
        if used == "ray":
            say("starting Ray…" if joined == "local" else f"joining the Ray cluster at {joined}…")
        with interrupts.abortable(at_once=True):
            executor = stack.enter_context(
                closing(_executor(plan, beside, address, partial(_import_mlflow, plan, store)))
            )
            tracker = _tracker(plan, store, journal, interrupts)
        mirrors = [*([] if quiet else [_terminal(journal)]), *([] if tracker is None else [tracker])]
        if how.get("live"):
            from crowdsweep.views.live import LivePage  # noqa: PLC0415 - see above

            mirrors.append(LivePage(store, look=lambda: journal.state, slots=executor.slots_for, tell=_say))
        interrupts.listen()
        outcome = run_sweep(
            plan,
            executor=executor,
            journal=journal,
            mirrors=mirrors,
            environment=environment(),
            interrupts=interrupts,
            retry_failed=how.get("retry_failed", False),
        )
        return replace(outcome, mlflow_lacks="" if tracker is None else tracker.lacks)


@contextmanager
def notifying(config: SweepConfig, store: Store, command: str | None = None) -> Generator[list[SweepOutcome]]:
    """Sends notifications when the `with` block ends, whether the sweep succeeded or not.

    The targets are those of the sweep file and of `command`. Each target that cannot be notified gets one warning.
    No notification is sent for a run that did not begin, or that a user broke off.

    Args:
        config, store: of the sweep.
        command: as for `notify_targets`.

    Yields:
        A list, to which the caller appends the outcome of the run.

    Raises:
        BadInput: the command cannot be run here.
    """
    others = notify_targets(config.notify.url, command)
    if others.url:  # even if quiet: somebody else may have written the file
        _say(f"{config.name}: {others.host} is notified when this sweep ends (notify.url)")
    ended: list[SweepOutcome] = []
    error = ""
    try:
        yield ended
    except (BadInput, JournalLocked, InfeasibleRequest):
        if not ended:
            others = NotifyTargets()
        raise
    except Exception as broken:
        error = type(broken).__name__
        raise
    except BaseException:  # a second Ctrl-C
        others = NotifyTargets()
        raise
    finally:
        if (others.url or others.command) and not any(outcome.dropped for outcome in ended):
            for words in send_notifications(others, message_of(store, config.name, error)):
                _log.warning("the notification of the sweep's end failed for %s", words)


def finish(config: SweepConfig, store: Store, outcome: SweepOutcome) -> "AnalysedSweep | None":
    """Writes the report of a sweep whose run has ended, and adds it to MLflow.

    If MLflow lacks something, one warning says so, with the command that adds it.

    Returns:
        The analysed sweep; None, without a report, if a user broke the run off.

    Raises:
        WriteFailed, ForeignFile: as `write_report`.
    """
    if outcome.dropped:
        return None  # before the imports, which take seconds: who pressed Ctrl-C twice waits for nothing
    from crowdsweep.analysis.sweep import analysed  # noqa: PLC0415 - see above
    from crowdsweep.views.in_mlflow import show_when_ended  # noqa: PLC0415 - see above
    from crowdsweep.views.report_files import put_in_store, rendered  # noqa: PLC0415 - see above

    found = analysed(store)
    files = rendered(found)
    put_in_store(found, files)
    show_when_ended(found, files, config.tracking.uri, lacks=outcome.mlflow_lacks)
    return found


def closing_words(outcome: SweepOutcome, config: SweepConfig, then: NextSteps) -> list[str]:
    """Returns messages about how a run ended, one line each; empty if all went well."""
    words: list[str] = []
    if outcome.status == "interrupted":
        words.append(f"interrupted: nothing that finished is lost; continue with {then.go_on}")
        if outcome.dropped:
            words.append(f"no report was written; {then.report} writes it")
    if outcome.status == "over_budget":
        raised = then.with_key("budget.failed_trials", min(1.0, max(0.5, 2 * config.budget.failed_trials)))
        words.append(
            f"stopped: {outcome.failed} of {outcome.finished} trials failed, more than budget.failed_trials "
            f"({config.budget.failed_trials:g}) allows: {outcome.allowed}. {then.status} says why; try the failed "
            f"trials again with {then.retry}, or continue in spite of them with {raised}"
        )
    if outcome.status == "out_of_time":
        words.append(
            f"out of time: budget.hours ({config.budget.hours:g}) is used up, counting every run of this sweep; "
            f"{outcome.finished} of {outcome.planned} trials known so far are done. Continue with "
            f"{then.with_key('budget.hours', 2 * (config.budget.hours or 1))}"
        )
    if outcome.failed and outcome.status not in ("over_budget", "interrupted"):
        words.append(
            f"{_trials(outcome.failed)} failed; the report lists them with their errors. Try them again with "
            f"{then.retry}"
        )
    if outcome.lost:
        words.append(
            f"{_trials(outcome.lost)} lost with their slots, which is not their models' fault; try them again with "
            f"{then.go_on}"
        )
    words += [f"{broken}; the record is kept; try again with {then.go_on}" for broken in outcome.broken]
    if outcome.refused:
        searches = "1 search" if outcome.refused == 1 else f"{outcome.refused} searches"
        words.append(f"{searches} could not be made; the report says why")
    return words


def register(found: "AnalysedSweep", config: SweepConfig, outcome: SweepOutcome, tell: Callable[[str], object]) -> None:
    """Runs `crowdsweep label`, which registers the classifier, if the sweep file sets `tracking.register`.

    Does nothing unless the sweep ended well. Keeps existing labels if this run has no new results. Never raises: the
    sweep itself has succeeded, so that an error becomes a warning.

    Args:
        found, config, outcome: of the sweep.
        tell: called with a message about what was done.
    """
    if not config.tracking.register or outcome.status != "done":
        return
    from crowdsweep.labelling.chosen import chosen_of_sweep  # noqa: PLC0415 - see above
    from crowdsweep.labelling.folder import default_folder, label_chosen  # noqa: PLC0415 - see above
    from crowdsweep.labelling.recipe import RECIPE  # noqa: PLC0415 - see above

    store, folder = found.store, found.store / "labels"
    if not outcome.ran and exists_in(folder, RECIPE):
        return
    try:
        chosen = chosen_of_sweep(found)
        folder = default_folder(folder, chosen.dataset, chosen.fingerprint)
        command = shlex.join(["crowdsweep", "label", str(store)])
        label_chosen(chosen, folder, command, tell, uri=config.tracking.uri)
    except (CrowdsweepError, OSError) as error:
        _log.warning("tracking.register: nothing could be registered: %s", error)
        return
    if not exists_in(folder, "classifier"):
        _log.warning("tracking.register: %s has no classifier that could be registered; see --model", chosen.model)


def _say(words: str) -> None:
    with suppress(OSError, ValueError):  # nobody reads the output any more
        print_message(words)


def _executor(plan: Plan, beside: RayProcess | None, address: str | None, meanwhile: Callable[[], object]) -> Executor:
    """Returns the executor on Ray whose process is given, else the inline one.

    Args:
        plan: of the sweep.
        beside: the process for Ray.
        address: of the cluster.
        meanwhile: called while Ray starts.
    """
    cells = [*plan.cells, *(search.cell for search in plan.searches)]
    shapes = [*dict.fromkeys([plan.config.resources, *(cell.resources for cell in cells)])]
    trial_minutes = plan.config.budget.trial_minutes
    if beside is None:
        return InlineExecutor(plan.bases, shapes, trial_minutes)
    name = plan.config.name
    settings = RaySettings(address=address, resources=shapes, trial_minutes=trial_minutes, name=name)
    return RayProxy(plan.bases, settings, beside, meanwhile)


def _terminal(journal: Journal) -> Mirror:
    from crowdsweep.views.terminal.live import ConsoleMirror  # noqa: PLC0415 - rich is only needed to show progress

    return ConsoleMirror(look=lambda: journal.state)


def _import_mlflow(plan: Plan, store: Store) -> None:
    """Imports MLflow, which takes seconds, where `_tracker` needs it."""
    if plan.config.tracking.enabled and has_place(store, plan.config.tracking.uri):
        import crowdsweep.tracking.mlflow_runs  # noqa: F401, PLC0415 # pyright: ignore[reportUnusedImport]


def _tracker(plan: Plan, store: Store, journal: Journal, interrupts: Interrupts) -> "MlflowMirror | None":
    """Returns the mirror that writes MLflow; None if tracking is off or has no place to write to."""
    tracking = plan.config.tracking
    if not tracking.enabled:
        return None
    if not has_place(store, tracking.uri):
        _log.warning(
            "MLflow is left out, as its database cannot be stored in %s; set tracking.uri or MLFLOW_TRACKING_URI (a "
            "tracking server), and `crowdsweep mirror` writes what is missing",
            store,
        )
        return None
    from crowdsweep.tracking.mlflow_runs import MlflowMirror  # noqa: PLC0415 - mlflow takes seconds to import

    return MlflowMirror(
        store,
        experiment=tracking.experiment or plan.config.name,
        look=journal.snapshot,
        uri=tracking.uri,
        record=journal.handle,
        draw=_confusion,
        presses=lambda: interrupts.count,
        tell=print_message,
    )


def _confusion(matrix: Sequence[Sequence[float]]) -> bytes:
    from crowdsweep.views.figures.drawing import to_png  # noqa: PLC0415 - see above
    from crowdsweep.views.figures.maps import heat_map  # noqa: PLC0415 - see above

    return to_png(heat_map(matrix))


def _trials(number: int) -> str:
    return "1 trial" if number == 1 else f"{number} trials"
