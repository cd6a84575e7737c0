"""What the command line and Python both do with a sweep: run it, finish it, register its labels, rebuild MLflow."""

import logging
import shlex
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from crowdsweep.analysis.sweep import AnalysedSweep, analysed
from crowdsweep.errors import BadInput, CrowdsweepError
from crowdsweep.files.asked import is_file, is_folder
from crowdsweep.labelling.chosen import chosen_of_sweep
from crowdsweep.labelling.folder import fit_chosen
from crowdsweep.labelling.in_mlflow import write_and_tell
from crowdsweep.labelling.label_files import check_folder
from crowdsweep.labelling.recipe import RECIPE
from crowdsweep.sweep.driver import SweepOutcome
from crowdsweep.sweep.launch import open_and_run, rebuild_mirror
from crowdsweep.sweepfile.records import Engine, SweepConfig
from crowdsweep.tracking.uri import discreetly, recorded_uri, tracking_uri, without_credentials
from crowdsweep.views.figures import heat_map, to_png
from crowdsweep.views.mlflow.page import sweep_page
from crowdsweep.views.report_files import write_files, written_files

_LOOK_S = 0.1
_PATIENCE_S = 60.0

_log = logging.getLogger(__name__)


def run(
    config: SweepConfig,
    store: Path,
    *,
    engine: Engine | None = None,
    address: str | None = None,
    quiet: bool = False,
    retry_failed: bool = False,
) -> SweepOutcome:
    """Runs a sweep, or goes on with it; arguments and errors as for `launch.open_and_run`."""
    return open_and_run(
        config, store, engine=engine, address=address, quiet=quiet, draw=_confusion, retry_failed=retry_failed
    )


def finish(config: SweepConfig, store: Path, outcome: SweepOutcome) -> AnalysedSweep | None:
    """Writes the report of a sweep whose run has ended, and shows it in MLflow. What MLflow lacks is said in one
    warning, with the command that makes up for it.

    Returns:
        What the sweep found; None where a person had it broken off, and no report is written.

    Raises:
        NotWritten, NotOurs: as `write_report`.
    """
    if outcome.dropped:
        if outcome.mlflow_lacks:
            _log.warning("%s", _make_up(store, outcome.mlflow_lacks, ""))
        return None
    found = analysed(store)
    write_files(found)
    show_when_ended(found, config.tracking.uri, lacks=outcome.mlflow_lacks)
    return found


def register(config: SweepConfig, store: Path, outcome: SweepOutcome, tell: Callable[[str], object]) -> None:
    """Does what `crowdsweep label` does of a sweep that has ended well and whose file says `tracking.register`, so that
    its classifier is registered. Labels that stand are left as they are where the sweep has no new results. Never
    raises: the sweep has ended well whatever becomes of it.

    Args:
        config, store, outcome: of the sweep.
        tell: takes what was done, in words.
    """
    folder = store / "labels"
    if not config.tracking.register or outcome.status != "done" or (not outcome.ran and is_file(folder / RECIPE)):
        return
    try:
        chosen = chosen_of_sweep(store, None, None, None)
        check_folder(folder)
        fitted = fit_chosen(chosen)
        write_and_tell(fitted, chosen, folder, ["crowdsweep", "label", str(store)], tell, uri=config.tracking.uri)
    except (CrowdsweepError, OSError) as error:
        _log.warning("tracking.register: nothing could be registered: %s", error)
        return
    if not is_folder(folder / "classifier"):
        _log.warning("tracking.register: %s has no classifier that could be registered; see --model", chosen.model)


def mirror(store: Path, uri: str | None, tell: Callable[[str], object]) -> None:
    """Rebuilds MLflow's runs of a sweep from its record: what is missing or incomplete is written again.

    Args:
        store: of the sweep.
        uri: as for `tracking_uri`; the sweep's where it is None.
        tell: takes what was done, in words.

    Raises:
        JournalError: there is no sweep in that folder.
        BadInput: MLflow cannot be written, or a driver is at work, which writes MLflow itself.
    """
    tell(rebuild_mirror(store, uri, draw=_confusion))
    found = analysed(store)
    place = tracking_uri(store, uri) if uri else recorded_uri(store, found.state.config)
    try:
        _publish(found, place)
    except OSError as error:
        raise BadInput(
            f"MLflow at {without_credentials(place)}: the sweep's own page cannot be written: {error}; see to it, then "
            f"do the same again"
        ) from error


def show_when_ended(found: AnalysedSweep, uri: str | None = None, *, lacks: str = "") -> None:
    """Writes the page of a sweep that has ended into MLflow. Never raises: what MLflow lacks is said in one warning,
    with the command that makes up for it.

    Args:
        found: the sweep.
        uri: as the sweep file has it: the record keeps no secrets.
        lacks: what MLflow lacks already, in words: `3 trials`.
    """
    store, tracking = found.store, found.state.config.get("tracking", {})
    if not tracking.get("enabled", True):
        return
    failed: list[str] = ["it took too long"]

    def write() -> None:
        try:
            _publish(found, tracking_uri(store, uri or tracking.get("uri")))
            failed.clear()
        except (BadInput, OSError) as error:
            failed[:] = [str(error)]
        except Exception as error:  # noqa: BLE001 - whatever it is, the sweep has ended well
            failed[:] = [discreetly(f"{type(error).__name__}: {error}", uri or "")]

    thread, until = threading.Thread(target=write, daemon=True), time.monotonic() + _PATIENCE_S
    thread.start()
    try:
        while thread.is_alive() and time.monotonic() < until:
            thread.join(_LOOK_S)
    except KeyboardInterrupt:
        failed[:] = ["it was broken off"]
    if failed or lacks:
        _log.warning("%s", _make_up(store, lacks, failed[0] if failed else ""))


def _make_up(store: Path, lacks: str, failed: str) -> str:
    """Returns what MLflow lacks of a sweep, why its page could not be written, and the command that makes up for it."""
    what = [f"lacks {lacks}"] if lacks else []
    what += [f"does not show the report as it is now: {failed}"] if failed else []
    later = shlex.join(["crowdsweep", "mirror", str(store)])
    return f"MLflow {' and '.join(what)}. The record has it all: `{later}` makes up for it"


def _publish(found: AnalysedSweep, uri: str) -> None:
    from crowdsweep.tracking.mlflow_page import publish  # noqa: PLC0415 - mlflow takes seconds to import

    experiment = found.state.config.get("tracking", {}).get("experiment") or found.state.name
    publish(uri, experiment, sweep_page(found, written_files(found.store)))


def _confusion(matrix: Sequence[Sequence[float]]) -> bytes:
    return to_png(heat_map(matrix))
