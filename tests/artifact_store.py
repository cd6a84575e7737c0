"""An S3 server on loopback that holds MLflow's artifacts: it is stopped and goes on with what it had."""

import logging
import urllib.request

import pytest

BUCKET = "artifacts"
SECRET = "a-secret-that-nobody-writes-down"
VARIABLES = {
    "AWS_ACCESS_KEY_ID": "an-access-key",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_DEFAULT_REGION": "us-east-1",
}


class ArtifactStore:
    """A server of moto's, in this process; it asks nobody who they are."""

    def __init__(self) -> None:
        self._port = 0
        self.start()
        self._ask("PUT", BUCKET)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Starts it where it was."""
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=self._port, verbose=False)
        self._server.start()
        self._port = self._server.get_host_and_port()[1]

    def stop(self) -> None:
        """Stops it; its objects stay."""
        self._server.stop()

    def put_into(self, patch: pytest.MonkeyPatch) -> None:
        """Has this process and those that it starts use it."""
        for name, value in {**VARIABLES, "MLFLOW_S3_ENDPOINT_URL": self.url}.items():
            patch.setenv(name, value)

    def names(self) -> list[str]:
        """Returns the names of all objects."""
        import boto3

        pages = boto3.client("s3", endpoint_url=self.url).get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return [one["Key"] for page in pages for one in page.get("Contents", [])]

    def _ask(self, method: str, place: str) -> None:
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/{place}", method=method), timeout=60).read()
