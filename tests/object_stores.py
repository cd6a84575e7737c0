"""Object stores for tests: one in memory, one that loses answers, and servers on loopback that speak S3."""

import logging
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from obstore.store import MemoryStore

from crowdsweep.errors import JournalError, JournalLocked
from crowdsweep.record.object_writer import ObjectWriter
from crowdsweep.record.objects import Objects
from crowdsweep.record.store_uri import Store, StoreUri, store_named

if TYPE_CHECKING:
    from crowdsweep.sweepfile.records import SweepConfig

BUCKET = "sweeps"
SMALL_SWEEP = """
name: small
datasets: [DATASET]
models:
  - majority-vote
  - {name: one-coin, search: {smoothing: {values: [0.01, 1.0]}}}
seeds: {search: 1, report: 2}
engine: inline
"""
N_TRIALS = 6
"""Of `SMALL_SWEEP`."""
REFUSED = 7
"""How a process of `drive` ends that another driver kept out, or took over from."""
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


def rows_of(objects: Objects, *, packed: int = 256, answer_s: float = 0.3) -> ObjectWriter:
    """Opens rows of a driver that looks often at what it is asked, and does not wait long for answers."""
    return ObjectWriter(objects, listen_s=0.02, answer_s=answer_s, packed=packed)


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


def place(prefix: str, *, scheme: str = "s3", bucket: str = BUCKET) -> StoreUri:
    """Returns a store in the bucket."""
    named = store_named(f"{scheme}://{bucket}/{prefix}")
    assert isinstance(named, StoreUri)
    return named


@contextmanager
def served_seaweedfs(folder: Path) -> Generator[str]:
    """Serves S3 by SeaweedFS, a real server with its own disk, on loopback; yields its URL."""
    for further in (True, True, False):
        server, url = _begun_seaweedfs(folder)
        try:
            _make_bucket_when_it_listens(server, url, folder / "log")
            break
        except RuntimeError:  # another test's server may have taken a port meanwhile
            _end(server)
            if not further:
                raise
    try:
        yield url
    finally:
        _end(server)


def _begun_seaweedfs(folder: Path) -> tuple["subprocess.Popen[bytes]", str]:
    master, volume, filer, s3 = map(str, free_ports(4))
    words = ["server", "-dir", str(folder), "-ip", "127.0.0.1", "-ip.bind", "127.0.0.1", "-s3", "-filer"]
    words += ["-master.port", master, "-volume.port", volume, "-filer.port", filer, "-s3.port", s3]
    words += ["-s3.iam=false", "-s3.port.iceberg=0", "-volume.max", "8", "-master.volumeSizeLimitMB", "64"]
    weed = Path(sys.executable).with_name("weed")
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([weed, *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder)
    return server, f"http://127.0.0.1:{s3}"


def _make_bucket_when_it_listens(server: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    until = time.monotonic() + 120
    while True:
        try:
            return make_bucket(url)
        except OSError:
            if server.poll() is not None or time.monotonic() > until:
                raise RuntimeError(log.read_text()[-2000:]) from None
            time.sleep(0.2)


def _end(server: "subprocess.Popen[bytes]") -> None:
    server.kill()
    server.wait()


def free_ports(number: int) -> list[int]:
    """Returns ports that nobody listens on, nor 10,000 above them, where SeaweedFS speaks to itself."""
    found: list[int] = []
    for port in range(21_000 + os.getpid() % 3000, 32_000):
        if len(found) == number:
            break
        with socket.socket() as one, socket.socket() as other, suppress(OSError):
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 10_000))
            found.append(port)
    return found


def drive(environment: Mapping[str, str], config: "SweepConfig", store: Store) -> None:
    """Runs a sweep in a process that was made for it, in an environment of its own."""
    from crowdsweep import app

    os.environ.update(environment)
    try:
        app.run(config, store, quiet=True)
    except JournalLocked:
        sys.exit(REFUSED)
