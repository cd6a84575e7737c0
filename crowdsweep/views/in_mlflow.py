"""A sweep in MLflow: its page, written when the sweep has ended, and a rebuild of all of it from the record."""

import logging
import shlex
import threading
import time
from collections.abc import Callable, Mapping

from crowdsweep.analysis.sweep import AnalysedSweep, analysed
from crowdsweep.errors import BadInput
from crowdsweep.record.journal import read_journal, without_driver
from crowdsweep.record.shown_uri import redacted, without_credentials
from crowdsweep.record.store_uri import Store
from crowdsweep.tracking.uri import has_place, recorded_uri, tracking_uri
from crowdsweep.views.figures.drawing import to_png
from crowdsweep.views.figures.maps import heat_map
from crowdsweep.views.mlflow.page import sweep_page
from crowdsweep.views.report_files import WRITTEN, written_files

_LOOK_S = 0.1
_PATIENCE_S = 60.0

_log = logging.getLogger(__name__)


def show_when_ended(
    found: AnalysedSweep, files: Mapping[str, bytes], uri: str | None = None, *, lacks: str = ""
) -> None:
    """Writes the page of a sweep that has ended into MLflow. Never raises: one warning says what MLflow lacks, with the
    command that makes up for it.

    Args:
        uri: MLflow's tracking URI from the sweep file; the record has it without secrets.
        lacks: what MLflow lacks already, in words: `3 trials`.
    """
    store, tracking = found.store, found.state.config.get("tracking", {})
    if not tracking.get("enabled", True) or not has_place(store, uri or tracking.get("uri")):
        return
    failed: list[str] = ["it took too long"]

    def write() -> None:
        try:
            publish(found, files, tracking_uri(store, uri or tracking.get("uri")))
            failed.clear()
        except (BadInput, OSError) as error:
            failed[:] = [str(error)]
        except Exception as error:  # noqa: BLE001 - whatever it is, the sweep has ended well
            failed[:] = [redacted(f"{type(error).__name__}: {error}", uri or "")]

    thread, until = threading.Thread(target=write, daemon=True), time.monotonic() + _PATIENCE_S
    thread.start()
    try:
        while thread.is_alive() and time.monotonic() < until:
            thread.join(_LOOK_S)
    except KeyboardInterrupt:
        failed[:] = ["it was interrupted"]
    if failed or lacks:
        _log.warning("%s", catch_up_words(store, lacks, failed[0] if failed else ""))


def catch_up_words(store: Store, lacks: str, failed: str) -> str:
    """Returns a message on what MLflow lacks of a sweep, why its page could not be written, and the command that makes
    up for it."""
    what = [f"lacks {lacks}"] if lacks else []
    what += [f"does not show the report as it is now: {failed}"] if failed else []
    later = shlex.join(["crowdsweep", "mirror", str(store)])
    return f"MLflow {' and '.join(what)}. The record has it all: `{later}` writes what is missing"


def mirror(store: Store, uri: str | None, tell: Callable[[str], object]) -> None:
    """Rebuilds a sweep in MLflow from its record: its page, and whatever is missing or incomplete.

    Args:
        uri: MLflow's tracking URI; the sweep's own where it is None.

    Raises:
        JournalError: there is no sweep in that folder.
        BadInput: MLflow cannot be written, or a driver is at work, which writes MLflow itself.
    """
    tell(rebuild_runs(store, uri))
    found = analysed(store)
    place = recorded_uri(store, found.state.config, uri)
    try:
        publish(found, written_files(store), place)
    except OSError as error:
        raise BadInput(
            f"MLflow at {without_credentials(place)}: the sweep's own page cannot be written: {error}; correct this, "
            f"then do the same again"
        ) from error


def rebuild_runs(store: Store, uri: str | None = None) -> str:
    """Writes to MLflow the runs of a sweep that it lacks, and returns in words what was done."""
    from crowdsweep.tracking.mlflow_runs import (  # noqa: PLC0415 - mlflow takes seconds to import
        reader_of,
        rebuild,
    )

    with without_driver(store):
        state = read_journal(store)
        place = recorded_uri(store, state.config, uri)
        experiment = state.config.get("tracking", {}).get("experiment") or state.name
        done = rebuild(state, place, experiment, read=reader_of(store), draw=lambda matrix: to_png(heat_map(matrix)))
    return f"{without_credentials(place)}: {done}"


def publish(found: AnalysedSweep, files: Mapping[str, bytes], uri: str) -> None:
    """Writes the page of a sweep, with the files of its report, into MLflow at a URI, in place of an earlier one."""
    from crowdsweep.tracking.mlflow_page import publish  # noqa: PLC0415 - mlflow takes seconds to import

    experiment = found.state.config.get("tracking", {}).get("experiment") or found.state.name
    publish(uri, experiment, sweep_page(found, {name: files[name] for name in WRITTEN if name in files}))
