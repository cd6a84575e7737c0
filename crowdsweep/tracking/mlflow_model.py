"""A sweep's classifier as an MLflow model, which `mlflow models serve` can serve.

It is saved as a `torch.export` program (MLflow's format pt2), without pickle; loading it needs nothing of this package.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from jaxtyping import Float32

from crowdsweep.errors import BadInput
from crowdsweep.record.shown_uri import without_credentials
from crowdsweep.tracking.mlflow_connection import MlflowConnection
from crowdsweep.tracking.mlflow_failures import words_of
from crowdsweep.tracking.run_book import Rejected
from crowdsweep.tracking.run_records import KIND, MODEL_DIGEST, STORE, SWEEP

NAME = "classifier"
CLASSES = "classes"


@dataclass(frozen=True, kw_only=True, eq=False)
class ServedClassifier:
    """A classifier to be logged.

    Attributes:
        module: torch module that maps features [items, features] to probabilities [items, classes].
        example: features of two items or more.
        classes: class names, in the order of the probabilities.
        digest: digest of the weights; a classifier that was logged before is not logged again.
        facts: further metadata of the MLflow model, such as the model that trained the classifier.
    """

    module: Any
    example: Float32[np.ndarray, "items features"]
    classes: Sequence[str]
    digest: str
    facts: dict[str, str]


def log_classifier(uri: str, experiment: str, sweep: str, store: str, served: ServedClassifier, register: str) -> str:
    """Logs a classifier on a sweep's top run, and registers it where a name is given.

    Args:
        sweep, store: the sweep's name and the id of its store.
        register: name in MLflow's model registry; empty for none.

    Returns:
        The model's URI, `models:/…`.

    Raises:
        BadInput: MLflow cannot be written, or lacks the sweep's top run.
    """
    try:
        return _log(MlflowConnection(uri, experiment), sweep, store, served, register)
    except (OSError, Rejected) as error:
        raise BadInput(
            f"MLflow at {without_credentials(uri)}: the classifier cannot be logged: {words_of(error, uri)}"
        ) from None


def _log(door: MlflowConnection, sweep: str, store: str, served: ServedClassifier, register: str) -> str:
    door.open()
    try:
        tops = (run for run in door.runs(f"tags.`{KIND}` = 'sweep'") if run.tags.get(SWEEP) == sweep)
        top = next((run for run in tops if run.tags.get(STORE) == store), None)
        if top is None:
            raise Rejected("there is no run of the sweep yet; `crowdsweep mirror` writes it")
        model = door.model_of(top.run_id, MODEL_DIGEST, served.digest)
        if model is None:
            with TemporaryDirectory() as place:
                folder = Path(place) / NAME
                _save(folder, served)
                model = door.add_model(top.run_id, NAME, folder, {MODEL_DIGEST: served.digest, **served.facts})
        if register:
            return f"models:/{register}/{door.register(register, model, top.run_id)}"
        return f"models:/{model}"
    finally:
        door.close()


def _save(folder: Path, served: ServedClassifier) -> None:
    # MLflow warns about its own types on import. Not `catch_warnings`: see `MlflowConnection`.
    warnings.filterwarnings("ignore", message=r"(\x1b\[[\d;]*m)?Any type hint is inferred as AnyType")
    from mlflow import pytorch  # noqa: PLC0415 - torch takes seconds to import
    from mlflow.models import ModelSignature  # noqa: PLC0415
    from mlflow.types import Schema, TensorSpec  # noqa: PLC0415

    n_features, n_classes = served.example.shape[1], len(served.classes)
    inputs = Schema([TensorSpec(np.dtype(np.float32), (-1, n_features))])
    outputs = Schema([TensorSpec(np.dtype(np.float64), (-1, n_classes))])
    pytorch.save_model(
        served.module,
        str(folder),
        signature=ModelSignature(inputs=inputs, outputs=outputs),
        input_example=served.example,
        serialization_format="pt2",
        pip_requirements=[f"{name}=={version(name)}" for name in ("mlflow", "torch", "numpy")],
        metadata={CLASSES: list(served.classes), **served.facts},
    )
