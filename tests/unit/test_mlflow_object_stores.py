"""Artifacts of MLflow in an S3 store that cannot be used: in our words, soon, without secrets."""

import socket
import time
from collections.abc import Iterator

import pytest
from artifact_store import BUCKET, SECRET, ArtifactStore

from crowdsweep.tracking import mlflow_reachable
from crowdsweep.tracking.mlflow_connection import MlflowConnection  # its import sets how often S3 is asked
from crowdsweep.tracking.mlflow_failures import TrackingFailed, words_of
from crowdsweep.tracking.mlflow_reachable import check_artifacts
from crowdsweep.tracking.object_failures import of_objects

URI = "http://host:5000"
SOON_S = 15.0
assert MlflowConnection


@pytest.fixture(scope="module")
def server() -> Iterator[ArtifactStore]:
    server = ArtifactStore()
    yield server
    server.stop()


@pytest.fixture
def s3(server: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> ArtifactStore:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    server.put_into(monkeypatch)
    return server


def refused(location: str) -> str:
    began = time.monotonic()
    with pytest.raises(TrackingFailed) as told:
        check_artifacts(URI, URI, location)
    assert time.monotonic() - began < SOON_S
    words = str(told.value)
    assert words.startswith("artifacts at s3://")
    assert SECRET not in words
    assert "\n" not in words
    return words


def test_a_bucket_that_is_there_and_one_that_is_not(s3: ArtifactStore) -> None:
    check_artifacts(URI, URI, f"s3://{BUCKET}/7")
    assert "has no such bucket" in refused("s3://another-bucket/7")


def test_nothing_is_asked_of_folders() -> None:
    check_artifacts(URI, URI, "file:///no/such/folder")
    check_artifacts(URI, URI, "/no/such/folder")


def test_a_store_that_is_down(s3: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_S3_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "does not answer: is it up" in refused(f"s3://{BUCKET}/7")


def test_a_store_that_is_silent(s3: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlflow_reachable, "_ARTIFACTS_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("MLFLOW_S3_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert "does not answer within 0.5 s" in refused(f"s3://{BUCKET}/7")


def test_nobody_gave_credentials(
    s3: ArtifactStore, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    nothing = str(tmp_path_factory.mktemp("home") / "none")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, nothing)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr("boto3.DEFAULT_SESSION", None)  # which keeps what was found first
    monkeypatch.setenv("MLFLOW_S3_ENDPOINT_URL", f"{s3.url}/")  # MLflow keeps clients by what they were made with
    assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in refused(f"s3://{BUCKET}/7")


def test_words_of_what_its_client_raises() -> None:
    from boto3.exceptions import S3UploadFailedError
    from botocore.exceptions import ClientError

    said = "Failed to upload a to b: An error occurred ({}) when calling the PutObject operation: no\nroom"
    assert (
        of_objects(S3UploadFailedError(said.format("NoSuchBucket"))) == "the object store has no such bucket; make it"
    )
    assert "rejects these credentials" in words_of(S3UploadFailedError(said.format("AccessDenied")), URI)
    error = ClientError({"Error": {"Code": "SlowDown", "Message": SECRET}}, "PutObject")
    assert of_objects(error) == "the object store fails (SlowDown)"
    outer = RuntimeError("listing failed")
    outer.__context__ = error
    assert of_objects(outer) == "the object store fails (SlowDown)"
    assert of_objects(RuntimeError("something else")) is None
