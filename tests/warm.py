"""Processes that begin where a cold start of the command line has come to after seconds of imports.

`WarmServer` is one process that has imported what commands use and runs none of it; each command that it is asked for
is a fork of it, in a session, a folder and an environment of its own. What differs from a cold start: all is imported
already, /proc tells the command line and the environment of the server, and Python's own switches are the server's; a
test of one of these starts cold. Ray is not imported: it reads its settings from the environment when it is.

`python tests/warm.py --socket PATH …` is the `crowdsweep` of shell scripts: it has the server run a command on the
script's own standard streams (`WarmServer.on_path`).
"""

import gc
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import IO, Any

ROOT = Path(__file__).parents[1]
_NUMBER = struct.Struct("=i")
_STARTS_S = 300.0  # its imports take seconds, and minutes where the machine is busy
WARM_FORKSERVERS = "WARM_FORKSERVERS"
"""In the environment of a command: the forkservers of its trials are forks as well, and bear this name (`comm` of
/proc), as their workers do."""
COMM_LENGTH = 15
_LEFT_OUT = (
    "crowdsweep.engine.ray_",
    "crowdsweep.engine.cluster",
    "crowdsweep.engine.slot_pool",
    "crowdsweep.testing",
    "crowdsweep.tune",
)


@dataclass(kw_only=True)
class Forked:
    """One process that the server made: what of `subprocess.Popen` tests use."""

    pid: int
    arguments: Sequence[str]
    returncode: int | None = None
    _talk: socket.socket = field(repr=False)

    def poll(self) -> int | None:
        """Returns how it ended, or None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end and returns the exit code, or the negative number of the signal that ended it.

        Raises:
            TimeoutExpired: it still runs then.
        """
        if self.returncode is None:
            self._talk.settimeout(timeout)
            try:
                said = self._talk.recv(_NUMBER.size)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(list(self.arguments), timeout or 0.0) from None
            self._talk.close()
            # Without an answer the server is gone, as at a session's end, and what it made was killed with it.
            self.returncode = os.waitstatus_to_exitcode(*_NUMBER.unpack(said)) if said else -signal.SIGKILL
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Sends it SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Sends it SIGKILL."""
        self.send_signal(signal.SIGKILL)


class WarmServer:
    """The process that has imported everything, started with the first request; or one that somebody else started."""

    def __init__(self, path: str | None = None) -> None:
        """Of this process, or the one of another that is there, or will be, at `path`."""
        self._folder = tempfile.TemporaryDirectory(prefix="warm") if path is None else None
        self.path = path or f"{self._folder.name}/socket"
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def start(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        stdin: IO[Any] | int | None = None,
        stdout: IO[Any] | int,
        stderr: IO[Any] | int,
    ) -> Forked:
        """Starts `crowdsweep ARGUMENTS`; parameters as those of `subprocess.Popen`, files being open ones.

        It always leads a session of its own, as a command that a terminal starts.
        """
        with Path(os.devnull).open("rb") as nothing:
            files = [_number(nothing if stdin is None else stdin), _number(stdout), _number(stderr)]
            return self.forked({"arguments": list(arguments), "cwd": str(cwd), "env": dict(env or os.environ)}, files)

    def run(
        self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 300.0
    ) -> "subprocess.CompletedProcess[str]":
        """Runs `crowdsweep ARGUMENTS` to its end and returns what it said.

        Raises:
            TimeoutExpired: it takes longer.
        """
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = self.start(arguments, cwd=cwd, env=env, stdout=out, stderr=err)
            try:
                process.wait(timeout)
            finally:
                process.kill()
            for file in (out, err):
                file.seek(0)
            return subprocess.CompletedProcess(list(arguments), process.wait(), out.read(), err.read())

    def forkserver(self, control: socket.socket, env: Mapping[str, str]) -> Forked:
        """Starts what looks after the workers of inline trials (`engine.forkserver.serve`) on the other end of a
        socket."""
        with Path(os.devnull).open("rb") as nothing:
            files = [nothing.fileno(), 2, 2, control.fileno()]
            return self.forked({"arguments": None, "cwd": str(Path.cwd()), "env": dict(env)}, files)

    def forked(self, request: Mapping[str, Any], files: Sequence[int]) -> Forked:
        """Has the server fork a process for a request."""
        self._wait()
        return ask(self.path, request, files)

    def on_path(self, folder: Path) -> str:
        """Writes a program `crowdsweep` into a folder, which has the server run a command; returns a PATH on which it
        comes first, and Python second."""
        self._wait()
        program = folder / "crowdsweep"
        # -S and -E: the program needs the standard library alone, and starts in an instant.
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -SE {__file__} --socket {self.path} "$@"\n')
        program.chmod(0o755)
        return os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])

    def close(self) -> None:
        """Ends the server; what it has made goes on."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._folder is not None:
            self._folder.cleanup()

    def begin(self) -> None:
        """Starts it, if it is this process's own and was not started yet; does not wait until it is there."""
        with self._lock:
            if self._folder is not None and self._process is None:
                environment = {
                    k: v for k, v in os.environ.items() if not k.startswith(("CROWDSWEEP", "MLFLOW", "RAY_"))
                }
                command = [sys.executable, "-P", __file__, "--serve", self.path]
                environment |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
                self._process = subprocess.Popen(command, env=environment, start_new_session=True)

    def _wait(self) -> None:
        self.begin()
        deadline = time.monotonic() + _STARTS_S
        while not Path(self.path).exists():
            assert self._process is None or self._process.poll() is None, "the warm server did not start"
            assert time.monotonic() < deadline, "the warm server does not start"
            time.sleep(0.02)


def cold_start(
    before: Sequence[str],
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdout: IO[Any] | int,
    stderr: IO[Any] | int,
) -> "subprocess.Popen[bytes]":
    """Starts `crowdsweep ARGUMENTS` as the console script does, behind the words of another program perhaps, and in a
    session of its own."""
    return subprocess.Popen(
        [*before, sys.executable, "-P", "-m", "crowdsweep", *arguments],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


def ask(path: str, request: Mapping[str, Any], files: Sequence[int]) -> Forked:
    """Asks the server at a socket for a process on these open files: the three standard streams, and perhaps more."""
    talk = socket.socket(socket.AF_UNIX)
    talk.connect(path)
    text = json.dumps(request).encode()
    socket.send_fds(talk, [_NUMBER.pack(len(text))], list(files))
    talk.sendall(text)
    (pid,) = _NUMBER.unpack(talk.recv(_NUMBER.size, socket.MSG_WAITALL))
    return Forked(pid=pid, arguments=request["arguments"] or ["forkserver"], _talk=talk)


def _number(file: IO[Any] | int) -> int:
    return file if isinstance(file, int) else file.fileno()


def _serve(path: str) -> None:
    """Imports, and then forks a process for each connection, until it is killed."""
    before = dict(os.environ)
    gc.disable()
    _import_everything()
    gc.freeze()  # the processes that it becomes share what is imported
    gc.enable()
    settings = {name: value for name, value in os.environ.items() if name not in before}
    waking, woken = socket.socketpair()
    woken.setblocking(False)
    signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{path}.new")
    listener.listen(64)
    Path(f"{path}.new").rename(path)
    made: dict[int, socket.socket] = {}
    from multiprocessing.connection import wait

    while True:
        ready = wait([listener, waking])
        if waking in ready:
            waking.recv(1024)
            for pid in list(made):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    with suppress(OSError), made.pop(pid) as talk:
                        talk.sendall(_NUMBER.pack(status))
        if listener in ready:
            talk, _ = listener.accept()
            files = list[int]()
            try:
                head, files, _, _ = socket.recv_fds(talk, _NUMBER.size, 8)
                request = json.loads(talk.recv(*_NUMBER.unpack(head), socket.MSG_WAITALL))
            except (OSError, ValueError, struct.error):  # whoever asks was killed meanwhile
                for open_one in (*files, talk.detach()):
                    os.close(open_one)
                continue
            pid = os.fork()
            if pid == 0:
                for inherited in (listener, waking, woken, talk, *made.values()):
                    inherited.close()
                request["env"] = {**settings, **request["env"]}
                _become(request, files, path)
            for file in files:
                os.close(file)
            made[pid] = talk
            try:
                talk.sendall(_NUMBER.pack(pid))
            except OSError:
                os.kill(pid, signal.SIGKILL)


def _become(request: Mapping[str, Any], files: Sequence[int], path: str) -> None:
    """Is the process that was asked for of the server at a socket; never returns."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        tempfile.tempdir = None
        for stream, file in enumerate(files[:3]):
            os.dup2(file, stream)
            os.close(file)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - they stay open
        if request["arguments"] is None:
            from crowdsweep.engine import forkserver

            Path("/proc/self/comm").write_text(os.environ.get(WARM_FORKSERVERS, "forkserver")[:COMM_LENGTH])
            forkserver.serve(files[3])
        from crowdsweep.__main__ import main

        if WARM_FORKSERVERS in os.environ:
            _have_warm_forkservers(path)

        sys.argv = ["crowdsweep", *request["arguments"]]
        main()
    except BaseException:  # noqa: BLE001 - what a cold process would print
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    os._exit(1)


def _have_warm_forkservers(path: str) -> None:
    from crowdsweep.engine import worker

    def started() -> worker._Server:
        ours, theirs = socket.socketpair()
        with theirs, Path(os.devnull).open("rb") as nothing:
            environment = {**dict.fromkeys(worker.THREAD_VARIABLES, "1"), **os.environ}
            request = {"arguments": None, "cwd": str(Path.cwd()), "env": environment}
            process = ask(path, request, [nothing.fileno(), 2, 2, theirs.fileno()])
        return worker._Server(process=process, control=ours)

    worker._started = started


def _import_everything() -> None:
    """Imports the package but what imports Ray, and what its functions import when they are called."""
    import importlib

    import crowdsweep.__main__

    heavy = ("matplotlib.backends.backend_svg", "matplotlib.backends.backend_agg", "mlflow", "optuna", "pandas")
    for name in (*heavy, "scipy.stats", "sklearn.cluster", "sklearn.datasets", "sqlalchemy", "torch"):
        importlib.import_module(name)
    _import_below(crowdsweep)


def _import_below(package: ModuleType) -> None:
    """Imports what is in a package; `pkgutil.walk_packages` would import the packages that are left out too."""
    import importlib
    import pkgutil

    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if not found.name.startswith(_LEFT_OUT):
            module = importlib.import_module(found.name)
            if found.ispkg:
                _import_below(module)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        _serve(sys.argv[2])
    else:
        place = str(Path.cwd())
        asked = ask(sys.argv[2], {"arguments": sys.argv[3:], "cwd": place, "env": dict(os.environ)}, [0, 1, 2])
        code = asked.wait()
        sys.exit(code if code >= 0 else 128 - code)
