"""Another user of the machine, in a process of theirs: reads, writes and deletes nothing of this one's."""

import json
import os
import pwd
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import crowdsweep as cs
from crowdsweep.tracking.mlflow_runs import MlflowClient, tracking_uri

pytestmark = [
    pytest.mark.xdist_group("second user"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
]
STARTS_S = 400.0
SECRET = "TOPSECRET"


@dataclass(frozen=True, kw_only=True)
class Served:
    """What one user has: a store of umask 077, and its `ui`."""

    store: Path
    run: str
    port: int
    token: str
    process: int


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    folder = Path(tempfile.mkdtemp(prefix="crowdsweep-second-user-"))
    folder.chmod(0o755)  # the way to the store is open to all
    before = os.umask(0o077)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("MLFLOW_TRACKING_URI", raising=False)
            store = folder / "store"
            cs.run(
                {
                    "name": "mine",
                    "datasets": [{"name": "gaussians", "items": 60, "annotators": 8}],
                    "models": ["majority-vote"],
                    "seeds": {"report": 1},
                    "engine": "inline",
                },
                store=store,
                quiet=True,
            )
            client = MlflowClient(tracking_uri(store))
            found = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
            run = next(one.info.run_id for one in found if one.data.tags["crowdsweep.kind"] == "trial")
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            words = [sys.executable, "-P", "-m", "crowdsweep", "ui", str(store), "--port", str(port)]
            (folder / "tmp").mkdir()
            (folder / "tmp").chmod(0o1777)
            temporary = {**os.environ, "TMPDIR": str(folder / "tmp")}
            with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=temporary) as server:
                assert server.stdout is not None
                token = re.search(r"token=([\w-]+)", server.stdout.readline())
                assert token is not None
                until_it_answers(port)
                yield Served(store=store, run=run, port=port, token=token[1], process=server.pid)
                server.terminate()
                server.wait(timeout=30)
    finally:
        os.umask(before)
        shutil.rmtree(folder)


def until_it_answers(port: int) -> None:
    deadline = time.monotonic() + STARTS_S
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10):
                return
        except (urllib.error.URLError, ConnectionError):
            assert time.monotonic() < deadline, "the server never answers"
            time.sleep(0.2)


def as_another_user(ask: Callable[[], Any]) -> Any:
    """Returns what a function gives in a process of the user `nobody`; it must be JSON-able."""
    other = pwd.getpwnam("nobody")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(other.pw_gid)
            os.setuid(other.pw_uid)
            os.write(writing, json.dumps(ask()).encode())
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 - the parent is told of it
            os.write(writing, json.dumps(f"failed: {error!r}").encode())
            os._exit(1)
    os.close(writing)
    with open(reading, "rb") as answer:  # noqa: PTH123 - a descriptor, not a path
        content = answer.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, content
    return json.loads(content)


def statuses(port: int, asked: Sequence[tuple[str, str, bytes]]) -> list[int]:
    """Returns the status of the answer to each request."""
    found = []
    for method, target, body in asked:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
            head = f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
            head += "Content-Type: application/json\r\n"
            if method == "WEBSOCKET":
                head = head.replace("WEBSOCKET", "GET").replace("Connection: close", "Connection: Upgrade")
                head += (
                    "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                )
            line.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            found.append(int(line.makefile("rb").readline().split()[1]))
    return found


def requests_of(served: Served) -> list[tuple[str, str, bytes]]:
    run = json.dumps({"run_id": served.run}).encode()
    metric = json.dumps({"run_id": served.run, "key": "train_accuracy", "value": 0.99, "timestamp": 1}).encode()
    return [
        ("GET", "/", b""),
        ("GET", "/?token=", b""),
        ("GET", f"/?token={'A' * 43}", b""),
        ("GET", "/static-files/index.html", b""),
        ("GET", f"/get-artifact?path=confusion.json&run_uuid={served.run}", b""),
        ("GET", f"/get-artifact?path=confusion.json&run_uuid={served.run}&token=x", b""),
        ("GET", f"/ajax-api/2.0/mlflow/runs/get?run_id={served.run}", b""),
        ("GET", f"/health/../get-artifact?path=confusion.json&run_uuid={served.run}", b""),
        ("GET", "/api/2.0/mlflow/experiments/search?max_results=5", b""),
        ("POST", "/api/2.0/mlflow/runs/search", b'{"experiment_ids": ["1"]}'),
        ("POST", "/api/2.0/mlflow/runs/delete", run),
        ("POST", "/api/2.0/mlflow/runs/log-metric", metric),
        ("POST", "/api/2.0/mlflow/experiments/create", b'{"name": "x", "artifact_location": "file:///etc"}'),
        ("PUT", "/api/2.0/mlflow-artifacts/artifacts/x/y.txt", b"x"),
        ("DELETE", "/api/2.0/mlflow-artifacts/artifacts/x", b""),
        ("OPTIONS", "/api/2.0/mlflow/runs/delete", b""),
        ("WEBSOCKET", "/ws", b""),
        ("WEBSOCKET", "/api/2.0/mlflow/x", b""),
    ]


def runs_in(served: Served) -> list[tuple[str, str, dict[str, float]]]:
    client = MlflowClient(tracking_uri(served.store))
    experiments = [one.experiment_id for one in client.search_experiments()]
    return [(run.info.run_id, run.info.lifecycle_stage, run.data.metrics) for run in client.search_runs(experiments)]


def test_the_server_answers_nobody_else(served: Served) -> None:
    before = runs_in(served)
    asked = requests_of(served)
    got = as_another_user(lambda: statuses(served.port, asked))
    assert [(one[:2], status) for one, status in zip(asked, got, strict=True) if status not in (401, 403)] == []
    assert runs_in(served) == before
    assert not (served.store / "mlartifacts" / "x").exists()


def test_the_files_are_this_users(served: Served) -> None:
    """What is made with umask 077 is open to nobody: the record, the report, MLflow's files, whatever else."""
    paths = [served.store, *served.store.rglob("*")]
    assert len(paths) > 10
    assert [path.name for path in paths if path.stat().st_mode & 0o077] == []

    def tried() -> list[str]:
        attempts: list[Callable[[Path], Any]] = [
            Path.read_bytes,
            lambda path: os.open(path, os.O_WRONLY),
            lambda path: [*path.iterdir()],
            Path.unlink,
            Path.rmdir,
        ]
        reached = []
        for path in paths:
            for attempt in attempts:
                with suppress(OSError):
                    attempt(path)
                    reached.append(str(path))
        return reached

    assert as_another_user(tried) == []
    assert all(path.exists() for path in paths)


def test_the_token_stands_where_nobody_else_reads(served: Served) -> None:
    """Neither in what processes were started with, nor in their environment, nor in a temporary file."""

    def seen() -> list[str]:
        looked = [process / name for process in Path("/proc").iterdir() for name in ("cmdline", "environ")]
        temporary = served.store.with_name("tmp")
        looked += [Path(folder, name) for folder, _, names in os.walk(temporary) for name in names]
        found = []
        for path in looked:
            with suppress(OSError), path.open("rb") as file:
                if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and served.token.encode() in file.read(100_000):
                    found.append(str(path))
        return found

    assert as_another_user(seen) == []


def test_this_user_is_let_in_and_reaches_nothing_outside_of_the_store(served: Served, tmp_path: Path) -> None:
    """With the token, an experiment that names another folder is made, and its artifacts are not served."""
    (tmp_path / "run" / "artifacts").mkdir(parents=True)

    def asked(target: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{served.port}{target}")
        request.add_header("Authorization", f"Bearer {served.token}")
        request.add_header("Content-Type", "application/json")
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, data, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    status, content = asked(f"/get-artifact?path=confusion.json&run_uuid={served.run}")
    assert (status, "probabilities" in content) == (200, True)
    hook = {"name": "h", "url": "https://example.com/", "events": [{"entity": "REGISTERED_MODEL", "action": "CREATED"}]}
    status, content = asked("/api/2.0/mlflow/webhooks", hook)  # nor those that a database names, when they are due
    assert (status, "Allowed schemes are: none" in content) == (400, True)
    status, content = asked(
        "/api/2.0/mlflow/experiments/create", {"name": "outside", "artifact_location": tmp_path.as_uri()}
    )
    experiment = json.loads(content).get("experiment_id")
    if status != 200:
        assert status in (400, 403)
        return
    _, content = asked("/api/2.0/mlflow/runs/create", {"experiment_id": experiment, "start_time": 1})
    run = json.loads(content)["run"]["info"]["run_id"]
    secret = tmp_path / run / "artifacts" / "id_rsa"
    secret.parent.mkdir(parents=True)
    secret.write_text(SECRET)
    for target in (
        f"/get-artifact?path=id_rsa&run_uuid={run}",
        f"/api/2.0/mlflow/artifacts/list?run_id={run}",
        f"/ajax-api/2.0/mlflow/artifacts/list?run_id={run}",
    ):
        status, content = asked(target)
        assert status >= 400, target
        assert SECRET not in content
        assert "id_rsa" not in content
        assert "is not served" in content
