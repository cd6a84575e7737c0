"""The page of a sweep in MLflow, written when the sweep has ended."""

import logging
import shlex
import threading
import time

from crowdsweep.analysis.sweep import AnalysedSweep
from crowdsweep.errors import BadInput
from crowdsweep.record.shown_uri import discreetly
from crowdsweep.record.store_uri import Store
from crowdsweep.tracking.uri import has_place, tracking_uri
from crowdsweep.views.mlflow.page import sweep_page
from crowdsweep.views.report_files import written_files

_LOOK_S = 0.1
_PATIENCE_S = 60.0

_log = logging.getLogger(__name__)


def show_when_ended(found: AnalysedSweep, uri: str | None = None, *, lacks: str = "") -> None:
    """Writes the page of a sweep that has ended into MLflow. Never raises: what MLflow lacks is said in one warning,
    with the command that makes up for it.

    Args:
        found: the sweep.
        uri: as the sweep file has it: the record keeps no secrets.
        lacks: what MLflow lacks already, in words: `3 trials`.
    """
    store, tracking = found.store, found.state.config.get("tracking", {})
    if not tracking.get("enabled", True) or not has_place(store, uri or tracking.get("uri")):
        return
    failed: list[str] = ["it took too long"]

    def write() -> None:
        try:
            publish(found, tracking_uri(store, uri or tracking.get("uri")))
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
        _log.warning("%s", make_up(store, lacks, failed[0] if failed else ""))


def make_up(store: Store, lacks: str, failed: str) -> str:
    """Returns what MLflow lacks of a sweep, why its page could not be written, and the command that makes up for it."""
    what = [f"lacks {lacks}"] if lacks else []
    what += [f"does not show the report as it is now: {failed}"] if failed else []
    later = shlex.join(["crowdsweep", "mirror", str(store)])
    return f"MLflow {' and '.join(what)}. The record has it all: `{later}` makes up for it"


def publish(found: AnalysedSweep, uri: str) -> None:
    """Writes the page of a sweep into MLflow at a URI, in place of the one that was there."""
    from crowdsweep.tracking.mlflow_page import publish  # noqa: PLC0415 - mlflow takes seconds to import

    experiment = found.state.config.get("tracking", {}).get("experiment") or found.state.name
    publish(uri, experiment, sweep_page(found, written_files(found.store)))
