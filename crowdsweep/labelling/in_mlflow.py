"""Logging of the classifier that `crowdsweep label` wrote, in MLflow beside the runs of its sweep."""

import shlex
from hashlib import blake2b
from pathlib import Path

import numpy as np

from crowdsweep.labelling.fitted import Fitted
from crowdsweep.labelling.label_files import CLASSIFIER
from crowdsweep.paths import is_file, is_folder
from crowdsweep.record.journal import read_journal
from crowdsweep.record.shown_uri import without_credentials
from crowdsweep.record.store_uri import Store
from crowdsweep.tracking.sweep_page import store_id
from crowdsweep.tracking.uri import database_file, has_place, recorded_uri

_EXAMPLES = 2  # in the example batch: with one, the exported program would only take batches of one


def log_labels_classifier(store: Store, folder: Path, fitted: Fitted, given: str | None = None) -> str:
    """Logs a classifier as a model on its sweep's top run, and registers it where the sweep file says so
    (`tracking.register`). A classifier that was logged before is left as it is.

    Args:
        given: MLflow's tracking URI from the sweep file; the record has it without secrets.

    Returns:
        The command that serves the model, in words; empty where there is no classifier, or the sweep's runs are not in
        MLflow.

    Raises:
        BadInput: MLflow cannot be written.
    """
    state, saved_in = read_journal(store), folder / CLASSIFIER
    tracking = state.config.get("tracking", {})
    features = fitted.dataset.items.features
    if not tracking.get("enabled", True) or not is_folder(saved_in) or features is None:
        return ""
    if not has_place(store, given or tracking.get("uri")):
        return ""
    uri = recorded_uri(store, state.config, given)
    database, shown = database_file(uri), without_credentials(uri)
    if shown not in state.runs and (database is None or not is_file(database)):
        return ""
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
    model = log_classifier(
        uri, experiment, state.name, store_id(state.started[0]), served, tracking.get("register") or ""
    )
    return f"MLflow:  MLFLOW_TRACKING_URI={shlex.quote(shown)} mlflow models serve --env-manager local -m {model}"


def _digest(folder: Path) -> str:
    found = blake2b(digest_size=16)
    for path in sorted(folder.iterdir()):
        found.update(path.name.encode())
        found.update(path.read_bytes())
    return found.hexdigest()
