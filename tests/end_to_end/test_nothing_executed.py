"""Nothing is imported from where one stands, a cluster of our own is nobody else's, and ui leaves nothing behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from crowdsweep import app
from crowdsweep.registry import discovery, plugin_transfer
from crowdsweep.sweepfile.read import parse_sweep

MODULES = (
    *("cloudpickle", "pyarrow", "numpy", "torch", "ray", "mlflow", "optuna", "yaml", "matplotlib", "google", "pandas"),
    *("sitecustomize", "usercustomize", "uvicorn", "sqlalchemy", "secrets", "crowdsweep"),
)
SWEEP = """\
name: harmless
datasets: [{name: anesthesia}]
models: [majority-vote]
seeds: {report: 2}
"""
HOME = Path(__file__).parents[2]
FREE = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(HOME)}


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[Path]:
    """A folder whose every module tells that it was imported, and whose matplotlibrc wants LaTeX."""
    folder, canary = tmp_path / "downloaded", tmp_path / "executed"
    folder.mkdir()
    for name in MODULES:
        (folder / f"{name}.py").write_text(f"open({str(canary)!r}, 'a').write({name!r})\nraise ImportError\n")
    (folder / "matplotlibrc").write_text("text.usetex: True\nbackend: module://numpy\n")
    (folder / "sweep.yaml").write_text(SWEEP)
    yield folder
    assert not canary.exists(), f"imported from the current folder: {canary.read_text()}"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record of a small sweep."""
    folder = tmp_path_factory.mktemp("swept")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        app.run(parse_sweep({**yaml.safe_load(SWEEP), "engine": "inline"}), folder / "store", quiet=True)
    return folder / "store"


def started(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Starts a command as the console script does: without the current folder on the path."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CROWDSWEEP", "MLFLOW"))}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "crowdsweep", *arguments],
        cwd=folder,
        env={**environment, **FREE},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(folder: Path, *arguments: str) -> str:
    process = started(folder, *arguments)
    out, _ = process.communicate(timeout=180)
    assert process.returncode == 0, out
    return out


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def until(condition: Callable[[], bool], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.long
def test_commands_import_nothing_from_the_current_folder(trap: Path) -> None:
    run(trap, "run", "sweep.yaml", "--engine", "inline", "--store", "store")
    run(trap, "data", "simulate", "crowd", "--source", "gaussians")


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [
        "plan sweep.yaml",
        *("report STORE", "mirror STORE", "results STORE"),
        "models dawid-skene",
        "data check anesthesia",
    ],
)
def test_other_commands_import_nothing_from_the_current_folder(arguments: str, trap: Path, store: Path) -> None:
    run(trap, *arguments.replace("STORE", str(store)).split())


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP, signal.SIGINT])
def test_ui_imports_nothing_and_takes_its_server_along(trap: Path, store: Path, number: signal.Signals) -> None:
    port = free_port()
    ui = started(trap, "ui", str(store), "--port", str(port))
    until(lambda: answers(port))
    ui.send_signal(number)
    ui.communicate(timeout=40)  # the server held the pipe too
    until(lambda: not answers(port), 20)


@pytest.mark.long
@pytest.mark.ray
def test_a_sweep_on_ray_imports_nothing_from_the_current_folder(trap: Path) -> None:
    run(trap, "run", "sweep.yaml", "--engine", "ray", "--store", "store", "--set", "tracking.enabled=false")


@pytest.mark.ray
def test_workers_import_nothing_and_nobody_else_is_listened_to(trap: Path) -> None:
    (trap / "look.py").write_text(LOOK)
    looked = subprocess.run(
        [sys.executable, "-P", "look.py"],
        cwd=trap,
        env={**os.environ, **FREE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert looked.returncode == 0, looked.stderr
    found = json.loads(looked.stdout.splitlines()[-1])
    assert str(trap) not in found["paths"]
    assert set(found["listening"]) == {"0100007F", "0000000000000000FFFF00000100007F"}, "127.0.0.1, in both families"
    assert not Path(found["folder"]).exists()
    assert "raylet" in found["programs"]
    assert not {"dashboard.py", "monitor.py", "log_monitor.py"} & set(found["programs"]), "nobody asks them"


LOOK = """
import json, os, sys
from pathlib import Path
from crowdsweep.engine.cluster import connect
import ray

cluster = connect("local", cpus=1)
paths = ray.get(ray.remote(lambda: (sys.path, os.getcwd())).remote())
parents = {}
for stat in Path("/proc").glob("[0-9]*/stat"):
    try:
        parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    except OSError:
        pass  # it ended meanwhile
ours = {os.getpid()}
while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
    ours |= more
programs = [Path(f"/proc/{pid}/cmdline").read_text().split("\\0") for pid in ours]
programs = [os.path.basename(word) for words in programs for word in words]
sockets = set()
for pid in ours:
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            sockets.add(os.readlink(link))
        except OSError:
            pass
listening = []
for table in ("tcp", "tcp6"):
    for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
        _, local, _, state, *rest = line.split()
        if state == "0A" and f"socket:[{rest[5]}]" in sockets:
            listening.append(local.partition(":")[0])
folder = cluster.folder.made("ray").parent
cluster.close()
print(json.dumps({"paths": [*paths[0], paths[1]], "listening": listening, "programs": programs, "folder": str(folder)}))
"""


def test_plugins_are_carried_to_a_machine_that_lacks_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, place = tmp_path / "mine", tmp_path / "worker"
    for folder in (mine, place):
        folder.mkdir()
    (mine / "one.py").write_text("MODEL = 1\n")
    (mine / "data.csv").write_text("not carried")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(discovery.SEARCH_PATH, "mine")
    folders = plugin_transfer.plugin_folders()
    assert folders[0].path == str(mine)
    plugin_transfer.use_plugin_folders(folders, place)
    assert discovery.search_path() == [mine], "the same files at the same place are used where they lie"
    (mine / "one.py").write_text("MODEL = 'another'\n")
    plugin_transfer.use_plugin_folders(folders, place)
    (found,) = discovery.search_path()
    assert found.parent == place
    assert {path.name: path.read_text() for path in found.iterdir()} == {"one.py": "MODEL = 1\n"}
    assert found.stat().st_mode & 0o077 == 0
