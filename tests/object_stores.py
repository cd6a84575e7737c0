"""Object stores for tests: one in memory, one that loses answers, and a server on loopback that speaks S3."""

import logging
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from obstore.store import MemoryStore

from crowdsweep.errors import JournalError
from crowdsweep.record.object_rows import ObjectRows
from crowdsweep.record.objects import Objects
from crowdsweep.record.store_uri import StoreUri, store_named

BUCKET = "sweeps"
PLACE = StoreUri("s3", BUCKET, ("a-sweep",))
VARIABLES = {
    "AWS_ACCESS_KEY_ID": "an-access-key",
    "AWS_SECRET_ACCESS_KEY": "a-secret-that-nobody-writes-down",
    "AWS_REGION": "us-east-1",
}


class LosesAnswers(Objects):
    """Objects whose server does what it is asked and then does not say so; `losing` times, from the next on."""

    losing = 0
    creates = 0

    def create(self, name: str, content: bytes) -> bool:
        self.creates += 1
        done = super().create(name, content)
        if self.losing:
            self.losing -= 1
            raise JournalError("the answer was lost")
        return done


def in_memory(memory: MemoryStore | None = None) -> LosesAnswers:
    """Returns objects in memory; others in the same one see them."""
    return LosesAnswers(PLACE, client=MemoryStore() if memory is None else memory)


def rows_of(objects: Objects, *, write: bool, packed: int = 256, answer_s: float = 0.3) -> ObjectRows:
    """Opens rows of a driver that looks often at what it is asked, and does not wait long for answers."""
    return ObjectRows(objects, write=write, listen_s=0.02, answer_s=answer_s, packed=packed)


@contextmanager
def served_s3() -> Generator[str]:
    """Serves S3 on loopback, with one bucket; yields its URL."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        make_bucket(url)
        yield url
    finally:
        server.stop()


def make_bucket(url: str, bucket: str = BUCKET) -> None:
    """Makes a bucket on a server that asks nobody who they are."""
    urllib.request.urlopen(urllib.request.Request(f"{url}/{bucket}", method="PUT"), timeout=60).read()


def speak_to(url: str, patch: pytest.MonkeyPatch) -> None:
    """Has this process use the server at a URL."""
    for name, value in {**VARIABLES, "AWS_ENDPOINT_URL": url}.items():
        patch.setenv(name, value)
    patch.delenv("MLFLOW_TRACKING_URI", raising=False)


def place(prefix: str) -> StoreUri:
    """Returns a store in the bucket."""
    named = store_named(f"s3://{BUCKET}/{prefix}")
    assert isinstance(named, StoreUri)
    return named
