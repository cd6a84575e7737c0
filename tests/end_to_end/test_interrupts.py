"""Ctrl-C ends every command in every state within seconds of the second press, in a line, and leaves nobody behind."""

import fcntl
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from journals import made_up_trials
from warm import Forked, WarmServer, cold_start

from crowdsweep import app
from crowdsweep.record.events import SweepStarted
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.plan_record import PlanRecord
from crowdsweep.sweepfile.read import parse_sweep

INTERRUPTED = 130
PROMISED_S = 5.0
A_PERSON_S = 0.2  # between two presses: two signals at once are one to the system
PATIENCE_S = 240.0  # to reach a state, on a machine that does other things as well
PLUGINS = Path(__file__).parents[1] / "misbehaving"
# Groups: they share long records, but for those with a cluster. A test in two groups would run beside both.
SHARING = [pytest.mark.xdist_group("interrupts")]
RAY = [pytest.mark.ray, pytest.mark.xdist_group("ray")]
RUN = ("run", "sweep.yaml", "--store", "made", "--quiet")


@dataclass(kw_only=True)
class Started:
    """A command in a session of its own, as a terminal's foreground.

    Attributes:
        folder: where it stands, and where its output goes.
        server: accepts everybody and answers nobody.
        callers: whom it has accepted.
        warm: what starts it; None for a cold start.
    """

    folder: Path
    server: socket.socket
    arguments: Sequence[str]
    environment: dict[str, str]
    mark: str = field(default_factory=lambda: uuid4().hex)
    warm: WarmServer | None = None
    process: "subprocess.Popen[bytes] | Forked" = field(init=False)
    callers: list[socket.socket] = field(default_factory=list[socket.socket])

    def __post_init__(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW", "RAY_"))}
        environment |= {"CROWDSWEEP_PLUGINS": str(PLUGINS), "OMP_NUM_THREADS": "1", "MARK": self.mark}
        environment |= self.environment
        with (self.folder / "said").open("wb") as said:
            begin = partial(cold_start, ()) if self.warm is None else self.warm.start
            self.process = begin(self.arguments, cwd=self.folder, env=environment, stdout=said, stderr=said)

    @property
    def said(self) -> str:
        return (self.folder / "said").read_text()

    def journal(self) -> str:
        path = self.folder / "made" / "journal.jsonl"
        return path.read_text() if path.exists() else ""

    def others(self) -> dict[int, str]:
        """Returns the command lines of all processes that came of this one."""
        found: dict[int, str] = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if f"MARK={self.mark}".encode() in (folder / "environ").read_bytes():
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue  # it ended meanwhile
        found.pop(self.process.pid, None)
        return found

    def has_loaded(self, library: str) -> bool:
        """Whether it, or a process that came of it, has a library in memory."""
        for pid in (self.process.pid, *self.others()):
            with suppress(OSError):
                if library in Path(f"/proc/{pid}/maps").read_text():
                    return True
        return False

    def has_open(self, name: str) -> bool:
        try:
            return any(file.readlink().name == name for file in Path(f"/proc/{self.process.pid}/fd").iterdir())
        except OSError:
            return False

    def reaches(self, state: Callable[["Started"], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not state(self):
            assert self.process.poll() is None, f"it ended too early: {self.said}"
            assert time.monotonic() < deadline, f"it never came there: {self.said}"
            time.sleep(0.01)

    def press(self, number: signal.Signals = signal.SIGINT) -> None:
        os.killpg(self.process.pid, number)

    def ends_within(self, seconds: float) -> bool:
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        for process in [self.process.pid, *self.others()]:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
        for caller in self.callers:
            caller.close()


Start = Callable[..., Started]
State = Callable[[Started], bool]


@pytest.fixture
def start(tmp_path: Path, warm: WarmServer) -> Iterator[Start]:
    """Starts commands, `cold` ones as a person does; none of them outlives the test."""
    begun: list[Started] = []
    with socket.create_server(("", 0), backlog=64) as server:
        server.setblocking(False)

        def started(*arguments: str, cold: bool = False, **environment: str) -> Started:
            filled = [argument.replace("PORT", str(server.getsockname()[1])) for argument in arguments]
            by = None if cold else warm
            begun.append(Started(folder=tmp_path, server=server, arguments=filled, environment=environment, warm=by))
            return begun[-1]

        yield started
        for one in begun:
            one.kill()


def sweep_of(folder: Path, **changes: Any) -> dict[str, Any]:
    mapping = {
        "name": "pressed",
        "datasets": ["anesthesia"],
        "models": ["majority-vote"],
        "seeds": {"report": 2},
        "engine": "inline",
        "tracking": {"enabled": False},
        **changes,
    }
    (folder / "sweep.yaml").write_text(yaml.safe_dump(mapping))
    return mapping


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished sweep of the model and the template that are deaf where they are told to be."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CROWDSWEEP_PLUGINS", str(PLUGINS))
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        config = sweep_of(folder, models=["deaf"], study={"template": "deaf"}, tracking={})
        assert app.run(parse_sweep(config), folder / "store", quiet=True).status == "done"
    return folder / "store"


@pytest.fixture(scope="module")
def long_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record that takes a while to read."""
    store = tmp_path_factory.mktemp("long")
    journal = Journal(store)
    journal.handle(SweepStarted(name="long", config={}, plan=PlanRecord(), environment={}, resumed=False, time=0.0))
    journal.handle_many(made_up_trials("m", "d", [{"test_accuracy": 0.5}] * 20_000))
    journal.close()
    return store


@pytest.fixture(scope="module")
def long_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = tmp_path_factory.mktemp("table") / "answers.csv"
    rows = (f"item {n // 3},annotator {n % 1009},label {n % 7}\n" for n in range(1_500_000))
    table.write_text("item,annotator,label\n" + "".join(rows))
    return table


def starts_up(started: Started) -> bool:
    return started.has_loaded("numpy")


def is_deaf(started: Started) -> bool:
    return Path(started.environment["DEAF"]).exists()


def is_asking(started: Started) -> bool:
    try:
        started.callers.append(started.server.accept()[0])
    except BlockingIOError:
        return False
    return True


def reads_the_record(started: Started) -> bool:
    return started.has_open("journal.jsonl")


def has(program: str) -> State:
    return lambda started: any(program in command for command in started.others().values())


def has_written(kind: str) -> State:
    return lambda started: f'"{kind}"' in started.journal()


DEAF_MODEL = {"models": ["deaf"]}
SILENT_MLFLOW: dict[str, dict[str, str]] = {"tracking": {"uri": "http://127.0.0.1:PORT"}}
CASES: Sequence[tuple[str, Sequence[str], State, dict[str, Any], Any]] = [
    ("run starts", RUN, starts_up, {}, ()),
    ("run loads data", RUN, is_deaf, {"datasets": ["deaf"]}, ()),
    ("run imports a library of Ray", (*RUN, "--engine", "ray"), lambda one: one.has_loaded("_raylet"), {}, RAY),
    ("run starts a cluster", (*RUN, "--engine", "ray"), has("gcs_server"), {}, RAY),
    ("run starts actors", (*RUN, "--engine", "ray"), has_written("trial_planned"), DEAF_MODEL, RAY),
    ("run waits for a cluster", (*RUN, "--engine", "ray", "--address", "localhost:PORT"), is_asking, {}, ()),
    ("run starts the forkserver", RUN, has("forkserver.serve"), {}, ()),
    ("trials inline", RUN, is_deaf, DEAF_MODEL, ()),
    ("trials on Ray", (*RUN, "--engine", "ray"), is_deaf, DEAF_MODEL, RAY),
    ("MLflow is asked", RUN, is_asking, SILENT_MLFLOW, ()),
    ("run writes its report", RUN, is_deaf, {"study": {"template": "deaf"}}, ()),
    ("plan starts", ("plan", "sweep.yaml"), starts_up, {}, ()),
    ("plan tries a model", ("plan", "sweep.yaml"), is_deaf, DEAF_MODEL, ()),
    ("report starts", ("report", "STORE"), starts_up, {}, ()),
    ("report", ("report", "STORE"), is_deaf, {}, ()),
    ("replay", ("replay", "KEY", "--store", "STORE"), is_deaf, {}, ()),
    ("mirror starts", ("mirror", "STORE"), starts_up, {}, ()),
    ("mirror", ("mirror", "STORE", "--uri", "http://127.0.0.1:PORT"), is_asking, {}, ()),
    ("results", ("results", "LONG"), reads_the_record, {}, ()),
    ("status", ("status", "LONG"), reads_the_record, {}, ()),
    ("repair", ("repair", "LONG"), reads_the_record, {}, ()),
    ("data import", ("data", "import", "csv", "TABLE", "imported"), starts_up, {}, ()),
    ("data check", ("data", "check", "deaf"), is_deaf, {}, ()),
    ("data describe", ("data", "describe", "deaf"), is_deaf, {}, ()),
]
# Of states that are alike one is always pressed in, the others in the long suite.
MANY = {
    *("run starts a cluster", "run writes its report"),
    *("run imports a library of Ray", "run starts actors", "run starts the forkserver", "plan starts"),
    *(
        "trials on Ray",
        "report starts",
        "mirror starts",
        "mirror",
        "replay",
        "status",
        "repair",
        "data import",
        "data describe",
    ),
}
LONG = {True: [pytest.mark.long], False: list[pytest.MarkDecorator]()}


@pytest.mark.parametrize(
    ("arguments", "state", "changes"),
    [pytest.param(*case, id=name, marks=[*(marks or SHARING), *LONG[name in MANY]]) for name, *case, marks in CASES],
)
def test_two_presses_end_it(
    arguments: Sequence[str],
    state: State,
    changes: dict[str, Any],
    start: Start,
    store: Path,
    long_store: Path,
    long_table: Path,
    tmp_path: Path,
) -> None:
    places = {"STORE": str(store), "LONG": str(long_store), "TABLE": str(long_table)}
    places["KEY"] = next(iter(read_journal(store).results))
    sweep_of(tmp_path, **changes)
    if "tracking" in changes:  # the port is known once the server of the fixture is there
        arguments = (*arguments, "--set", f"tracking.uri={changes['tracking']['uri']}")
    words = [places.get(word, word) for word in arguments]
    started = start(*words, cold=state is starts_up, DEAF=str(tmp_path / "deaf"))
    started.reaches(state)
    started.press()
    presses, pressed = 1, time.monotonic()
    if not started.ends_within(1.0):
        started.press()
        presses, pressed = 2, time.monotonic()
        assert started.ends_within(60), "it hears nobody"
    took_s = time.monotonic() - pressed
    assert started.process.returncode == INTERRUPTED, started.said
    assert "Traceback" not in started.said
    assert re.search(r"^interrupted", started.said, re.MULTILINE), started.said
    assert took_s < PROMISED_S, f"{took_s:.1f} s after {presses} presses: {started.said}"
    nobody_is_left(started)


def nobody_is_left(started: Started) -> None:
    deadline = time.monotonic() + 15
    while left := started.others():
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


@pytest.mark.parametrize("presses", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_press_while_mlflow_catches_up_leaves_it_to_mirror(presses: int, start: Start, tmp_path: Path) -> None:
    """All trials are done by then: one press goes on to the report, and the second ends that too."""
    sweep_of(tmp_path, **SILENT_MLFLOW)
    started = start(*RUN, "--set", f"tracking.uri={SILENT_MLFLOW['tracking']['uri']}")
    started.reaches(has_written("sweep_finished"))
    for _ in range(presses):
        started.press()
        time.sleep(A_PERSON_S)
    pressed = time.monotonic()
    assert started.ends_within(60)
    assert started.process.returncode == 0 or (started.process.returncode == INTERRUPTED and presses == 2)
    assert time.monotonic() - pressed < PROMISED_S or presses == 1
    assert "Traceback" not in started.said
    assert presses == 2 or ("crowdsweep mirror" in started.said and (tmp_path / "made" / "report.html").exists())


@pytest.mark.parametrize("presses", [1, pytest.param(2, marks=pytest.mark.long)])
def test_ui_ends_with_its_server(presses: int, start: Start, store: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ui = start("ui", str(store), "--port", str(port))

    def answers(_: Started) -> bool:
        with socket.socket() as asking:
            return asking.connect_ex(("127.0.0.1", port)) == 0

    ui.reaches(answers if presses == 1 else has("mlflow"))
    pressed = time.monotonic()
    for _ in range(presses):
        ui.press()
    assert ui.ends_within(60)
    assert time.monotonic() - pressed < PROMISED_S * (1 if presses == 2 else 2)
    assert ui.process.returncode in (0, INTERRUPTED)
    assert "Traceback" not in ui.said
    nobody_is_left(ui)


SLOW = {"models": [{"name": "slow", "params": {"steps": 20, "pause_s": 0.05}}], "seeds": {"report": 200}, "pack": 2}


def ended_in_order(started: Started) -> None:
    """What ran was finished, the report is there, and the line to go on is said."""
    assert started.ends_within(60)
    assert started.process.returncode == INTERRUPTED
    state = read_journal(started.folder / "made")
    assert state.status == "interrupted"
    assert 0 < len(state.results) < 200
    assert len(state.results) % 2 == 0, "a batch was broken off"
    assert "interrupted" in (started.folder / "made" / "report.html").read_text()


@pytest.mark.parametrize("number", [pytest.param(signal.SIGHUP, marks=pytest.mark.long), signal.SIGTERM, signal.SIGINT])
def test_any_signal_that_asks_for_an_end_is_an_orderly_stop(
    number: signal.Signals, start: Start, tmp_path: Path
) -> None:
    sweep_of(tmp_path, **SLOW)
    started = start(*RUN)
    started.reaches(has_written("trial_finished"))
    started.press(number)
    if number == signal.SIGHUP:  # as a shell and the system may say it, both
        started.press(number)
    ended_in_order(started)
    assert "continue with `crowdsweep run sweep.yaml --store made`" in started.said


def test_a_terminal_that_is_closed_is_an_orderly_stop(start: Start, tmp_path: Path) -> None:
    """Nothing can be said any more, and the console still writes."""
    sweep_of(tmp_path, **SLOW)
    terminal, inside = pty.openpty()

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(inside, termios.TIOCSCTTY, 0)

    with subprocess.Popen(
        [sys.executable, "-P", "-m", "crowdsweep", "run", "sweep.yaml", "--store", "made"],
        cwd=tmp_path,
        env={**os.environ, "CROWDSWEEP_PLUGINS": str(PLUGINS), "OMP_NUM_THREADS": "1", "TERM": "xterm"},
        stdin=inside,
        stdout=inside,
        stderr=inside,
        preexec_fn=take_terminal,  # noqa: PLW1509 - it makes two system calls
    ) as driver:
        os.close(inside)
        os.set_blocking(terminal, False)
        deadline = time.monotonic() + PATIENCE_S
        journal = tmp_path / "made" / "journal.jsonl"
        while not journal.exists() or '"trial_finished"' not in journal.read_text():
            assert driver.poll() is None
            assert time.monotonic() < deadline
            try:
                os.read(terminal, 65536)
            except BlockingIOError:
                time.sleep(0.05)
        os.close(terminal)
        assert driver.wait(60) == INTERRUPTED
    state = read_journal(tmp_path / "made")
    assert state.status == "interrupted"
    assert len(state.results) % 2 == 0
    assert (tmp_path / "made" / "report.html").exists()


@pytest.mark.parametrize("ignored", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGHUP])
def test_started_with_a_signal_ignored(ignored: signal.Signals, start: Start, tmp_path: Path) -> None:
    """`&` in a script ignores SIGINT, which is heard all the same; `nohup` ignores SIGHUP, and means it."""
    sweep_of(tmp_path, **{**SLOW, "seeds": {"report": 200 if ignored == signal.SIGINT else 4}})
    before = signal.signal(ignored, signal.SIG_IGN)
    try:
        started = start(*RUN, cold=True)
    finally:
        signal.signal(ignored, before)
    started.reaches(has_written("trial_finished"))
    started.press(ignored)
    if ignored == signal.SIGINT:
        ended_in_order(started)
    else:
        assert started.ends_within(120)
        assert started.process.returncode == 0
        assert len(read_journal(tmp_path / "made").results) == 4
