"""Confines MLflow's server to the artifacts of one folder, whatever a database or a request names."""

from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import PERMISSION_DENIED
from mlflow.store.artifact.artifact_repository_registry import (
    _artifact_repository_registry as _registry,  # pyright: ignore[reportPrivateUsage] - all of MLflow uses it
)
from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository

from crowdsweep.tracking.artifact_places import is_inside, is_within

_RESOLVED = ("runs", "models")
"""Schemes that MLflow resolves in its database; it then opens the location found there."""
_OBJECT_STORES = ("s3", "gs", "wasb", "wasbs", "abfss")


def confine(folder: Path, *, remote: bool = False) -> None:
    """Confines this process's MLflow to one folder: it refuses requests for other folders and for network locations.

    Args:
        remote: whether object stores are allowed, for the database of a server that keeps its artifacts there.
    """
    left = (*_RESOLVED, *(_OBJECT_STORES if remote else ()))
    for scheme in _registry.get_registered_artifact_repositories():
        if scheme not in left:
            _registry.register(scheme, partial(Confined, folder))


class Confined(LocalArtifactRepository):
    """MLflow's local artifact repository, confined to a folder.

    Args:
        folder: folder that the repository must lie in after links are resolved.

    Raises:
        MlflowException: the repository lies elsewhere.
    """

    def __init__(
        self, folder: Path, artifact_uri: str, tracking_uri: str | None = None, registry_uri: str | None = None
    ) -> None:
        if not is_inside(folder, artifact_uri):
            raise _refused(folder, artifact_uri)
        super().__init__(artifact_uri, tracking_uri, registry_uri)
        self._folder = folder

    def delete_artifacts(self, artifact_path: str | None = None) -> None:
        """Deletes a file or a folder, but nothing that a link leads to."""
        self._check(artifact_path or "")
        super().delete_artifacts(artifact_path)

    def download_trace_data(self) -> dict[str, Any]:
        """Reads a trace, unless its file is a link that leads outside the folder."""
        for path in Path(self.artifact_dir).glob("*"):
            self._check(path.name)
        return super().download_trace_data()

    def _check(self, name: str) -> None:
        for form in (name, unquote(name)):  # MLflow may use either form
            path = Path(self.artifact_dir, form)
            if not is_within(self._folder, path):
                raise _refused(self._folder, str(path))


def _refused(folder: Path, place: str) -> MlflowException:
    return MlflowException(
        f"{place} is not served: expected artifacts below {folder}, and no link that leads out of it",
        error_code=PERMISSION_DENIED,
    )
