"""The classifier that `crowdsweep label` wrote, logged in MLflow beside the runs of its sweep."""

import logging
import shlex
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from crowdsweep.errors import BadInput
from crowdsweep.labelling.chosen import Chosen
from crowdsweep.labelling.exports.asked import Exports
from crowdsweep.labelling.fitted import Fitted
from crowdsweep.labelling.folder import write_labels
from crowdsweep.labelling.label_files import CLASSIFIER, CLASSIFIER_OF_LABELS
from crowdsweep.paths import is_file, is_folder
from crowdsweep.record.fetched import as_folder
from crowdsweep.record.journal import read_journal
from crowdsweep.record.shown_uri import without_credentials
from crowdsweep.record.store_uri import Store
from crowdsweep.tracking.sweep_page import store_id
from crowdsweep.tracking.uri import database_file, has_place, recorded_uri, tracking_uri

_EXAMPLES = 2  # of a batch: one alone would become the only size that the program takes

_log = logging.getLogger(__name__)


def _log_and_tell(
    store: Store, folder: Path, fitted: Fitted, tell: Callable[[str], object], place: str | None = None
) -> None:
    """Logs the classifier of a sweep's labels, and says how it is served, or why it is not there: the labels are.

    Args:
        store: of the sweep.
        folder: where labels were written.
        fitted: what they were written of.
        tell: takes what was done, in words.
        place: MLflow's tracking URI, as the sweep file has it: the record keeps no secrets.
    """
    try:
        uri = log_labels_classifier(store, folder, fitted, place)
    except BadInput as error:
        _log.warning("%s; the labels are written, label again to log it", error)
        return
    if uri is not None:
        shown = without_credentials(_place(store, read_journal(store).config, place))
        tell(f"MLflow:  MLFLOW_TRACKING_URI={shlex.quote(shown)} mlflow models serve --env-manager local -m {uri}")


def write_and_tell(
    fitted: Fitted,
    chosen: Chosen,
    folder: Store,
    command: Sequence[str],
    tell: Callable[[str], object],
    *,
    asked: Exports | None = None,
    uri: str | None = None,
) -> None:
    """Writes what `crowdsweep label` writes of a fit, and logs the classifier of a sweep's labels in MLflow.

    Args:
        fitted: of what was chosen.
        chosen: what was fitted.
        folder: where labels go (`check_folder`).
        command: words of the command that does the same again.
        tell: takes what was done, in words.
        asked: files for other tools.
        uri: of MLflow, as the sweep file has it: the record keeps no secrets.
    """
    for line in write_labels(fitted, chosen, folder, shlex.join(command), asked or Exports()):
        tell(line)
    if chosen.store is not None:
        with as_folder(folder, CLASSIFIER_OF_LABELS) as place:
            _log_and_tell(chosen.store, place, fitted, tell, uri)


def log_labels_classifier(store: Store, folder: Path, fitted: Fitted, place: str | None = None) -> str | None:
    """Logs a classifier as a model on the run on top of its sweep, and registers it where the sweep file says so
    (`tracking.register`). One that was logged before is left as it is.

    Args:
        store: of the sweep.
        folder: where labels were written.
        fitted: what they were written of.
        place: as for `write_and_tell`.

    Returns:
        The model's URI; None where there is no classifier, or the sweep's runs are not in MLflow.

    Raises:
        BadInput: MLflow cannot be written.
    """
    state, saved_in = read_journal(store), folder / CLASSIFIER
    tracking = state.config.get("tracking", {})
    features = fitted.dataset.items.features
    if not tracking.get("enabled", True) or not is_folder(saved_in) or features is None:
        return None
    if not has_place(store, place or tracking.get("uri")):
        return None
    uri = _place(store, state.config, place)
    database = database_file(uri)
    if without_credentials(uri) not in state.runs and (database is None or not is_file(database)):
        return None
    from crowdsweep.labelling.classifiers import load_classifier  # noqa: PLC0415 - torch takes seconds to import
    from crowdsweep.models.networks.averaged import AveragedNetworks  # noqa: PLC0415
    from crowdsweep.tracking.mlflow_model import ServedClassifier, log_classifier  # noqa: PLC0415 - and so does mlflow

    saved = load_classifier(saved_in)
    example = np.resize(features[:_EXAMPLES], (_EXAMPLES, features.shape[1])).astype(np.float32)
    served = ServedClassifier(
        module=AveragedNetworks([fit.arrays for fit in saved.fits]),
        example=example,
        classes=saved.class_names,
        digest=_digest(saved_in),
        facts={"model": fitted.model, "dataset": fitted.dataset.name, "fingerprint": fitted.dataset.fingerprint},
    )
    experiment = tracking.get("experiment") or state.name
    return log_classifier(
        uri, experiment, state.name, store_id(state.started[0]), served, tracking.get("register") or ""
    )


def _place(store: Store, config: Mapping[str, Any], given: str | None) -> str:
    return tracking_uri(store, given) if given else recorded_uri(store, config)


def _digest(folder: Path) -> str:
    found = blake2b(digest_size=16)
    for path in sorted(folder.iterdir()):
        found.update(path.name.encode())
        found.update(path.read_bytes())
    return found.hexdigest()
