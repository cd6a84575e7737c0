"""Artifacts that MLflow's server reads, writes and deletes in one folder, whatever a database or a request names."""

from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import PERMISSION_DENIED
from mlflow.store.artifact.artifact_repository_registry import (
    _artifact_repository_registry as _registry,  # pyright: ignore[reportPrivateUsage] - what all of it asks
)
from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository

from crowdsweep.tracking.artifact_places import is_inside, is_within

_RESOLVED = ("runs", "models")
"""Schemes that MLflow looks up in its database and then asks for what stands there."""
_LOCAL = ("", "file")
_OBJECT_STORES = ("s3", "gs", "wasb", "wasbs", "abfss")


def confine(folder: Path, *, remote: bool = False) -> None:
    """Confines this process's MLflow to one folder: a request for another, or for a place on a network, is refused.

    Args:
        folder: of artifacts, absolute.
        remote: whether object stores are let through, as where a database is one of a server that keeps them there.
    """
    left = (*_RESOLVED, *(_OBJECT_STORES if remote else ()))
    for scheme in _registry.get_registered_artifact_repositories():
        if scheme not in left:
            _registry.register(scheme, partial(Confined, folder))


class Confined(LocalArtifactRepository):
    """MLflow's folder of artifacts, within another.

    Args:
        folder: that it must lie in, links followed.
        artifact_uri: of it.

    Raises:
        MlflowException: it lies elsewhere.
    """

    def __init__(
        self, folder: Path, artifact_uri: str, tracking_uri: str | None = None, registry_uri: str | None = None
    ) -> None:
        if not is_inside(folder, artifact_uri):
            raise _refused(folder, artifact_uri)
        super().__init__(artifact_uri, tracking_uri, registry_uri)
        self._folder = folder

    def delete_artifacts(self, artifact_path: str | None = None) -> None:
        """Deletes a file or a folder; of a link, nothing that it leads to."""
        self._check(artifact_path or "")
        super().delete_artifacts(artifact_path)

    def download_trace_data(self) -> dict[str, Any]:
        """Reads a trace, unless its file is a link that leads elsewhere."""
        for path in Path(self.artifact_dir).glob("*"):
            self._check(path.name)
        return super().download_trace_data()

    def _check(self, name: str) -> None:
        for form in (name, unquote(name)):  # MLflow takes it for either
            path = Path(self.artifact_dir, form)
            if not is_within(self._folder, path):
                raise _refused(self._folder, str(path))


def _refused(folder: Path, place: str) -> MlflowException:
    return MlflowException(
        f"{place} is not served: expected artifacts below {folder}, and no link that leads out of it",
        error_code=PERMISSION_DENIED,
    )
