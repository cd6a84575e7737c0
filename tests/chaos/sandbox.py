"""A sweep under test in a folder of its own: its file, its commands as a person types them, its processes.

Nothing here sleeps for a fixed time: what is waited for is a state that can be seen from outside.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml
from chaos import person
from chaos.journal_file import finishes
from warm import COMM_LENGTH, WARM_FORKSERVERS, Forked, WarmServer, cold_start

from crowdsweep.record.events import SweepStatus
from crowdsweep.record.journal import read_journal
from crowdsweep.record.result import TrialResult

ROOT = Path(__file__).parents[2]
CONFINED = Path(__file__).with_name("confined.py")
MARK = "CROWDSWEEP_CHAOS"
PATIENCE_S = 300.0
DONE, FAILED_TRIALS = 0, 3
_AGAIN = re.compile(r"(?:go on|try again|try them again|again) with `crowdsweep (run [^`]*)`", re.IGNORECASE)

SWEEP: Mapping[str, Any] = {
    "name": "chaos",
    "datasets": [{"name": "gaussians", "items": 60, "annotators": 8}],
    "models": [
        "majority-vote",
        {"name": "poisoned", "params": {"every": 5}},
        {"name": "slow", "params": {"steps": 2, "pause_s": 0.02, "smoothing": 0.5}},
        {"name": "dawid-skene", "search": {"smoothing": {"min": 0.0, "max": 1.0}}},
    ],
    "budget": {"points": 5, "failed_trials": 0.9},
    "seeds": {"search": 2, "report": 6, "rescored": 2},
    "pack": 2,
    "engine": "inline",
    "tracking": {"enabled": False},
}
"""Two to three seconds: fixed points, a model that fails for one seed, one that draws random numbers, a search."""


class StillRunning(AssertionError):
    """A command did not reach a state, or its end, in the most generous time."""


@dataclass(kw_only=True)
class Command:
    """One `crowdsweep …` that was started in a session of its own, as a terminal does; what it says goes to a file."""

    line: str
    process: "subprocess.Popen[bytes] | Forked"
    said_in: Path

    @property
    def said(self) -> str:
        return self.said_in.read_text(errors="replace")

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None

    def signal(self, number: signal.Signals) -> bool:
        """Sends a signal to this process alone; returns whether it was still there."""
        alive = not self.is_over
        if alive:
            self.process.send_signal(number)
        return alive

    def press_ctrl_c(self) -> None:
        """Sends SIGINT to all of its group, as a terminal does."""
        if not self.is_over:
            os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> int:
        """Waits for its end and returns the exit code.

        Raises:
            StillRunning: it takes longer than anything here may.
        """
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise StillRunning(f"`{self.line}` still runs after {PATIENCE_S:g} s: {self.said[-1000:]}") from None


@dataclass(kw_only=True)
class Sandbox:
    """The folder of one sweep.

    Attributes:
        folder: where everything is, temporary files too.
        mapping: the sweep file.
        options: of `run`, beside the store.
        environment: of the commands, beside what all of them get.
        known: what had finished before the fault, by key; see `remember`.
        kept: of these, what is still there after it, arrays included: it may not be run again.
        to_be_retried: keys of trials that failed by the fault, and may finish a second time.
        said, code: of the command that the fault met, when it has ended by itself.
        last_said: by the last run, which came to the end.
        undisturbed: the store of the same sweep that nobody disturbed.
        repaired: whether a repair was asked for.
        place: name of the store in the folder.
        expected: names in the folder that a fault and its commands put there, beside those of every sandbox.
        persons: what a person has in the folder, which is looked at again in the end.
        servers: what else was started, closed with the sandbox.
        warm: what starts commands that nothing confines; None for cold starts.
        cold_forkservers: whether the processes that keep workers start cold all the same, so that a fault can find
            them.
    """

    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="cs", dir="/tmp")))
    mapping: dict[str, Any] = field(default_factory=lambda: dict(SWEEP))
    options: list[str] = field(default_factory=list[str])
    environment: dict[str, str] = field(default_factory=dict[str, str])
    known: dict[str, TrialResult] = field(default_factory=dict[str, TrialResult])
    kept: dict[str, TrialResult] = field(default_factory=dict[str, TrialResult])
    to_be_retried: set[str] = field(default_factory=set[str])
    said: str = ""
    code: int | None = None
    undisturbed: Path = Path()
    repaired: bool = False
    place: str = "store"
    last_said: str = ""
    expected: set[str] = field(default_factory=set[str])
    persons: Mapping[str, person.Seen] = field(default_factory=dict[str, person.Seen])
    servers: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])
    warm: WarmServer | None = None
    cold_forkservers: bool = False
    _mark: str = field(default_factory=lambda: uuid4().hex)
    _sessions: set[int] = field(default_factory=set[int])
    _count: int = 0

    def __post_init__(self) -> None:
        (self.folder / "tmp").mkdir()
        person.write_files(self.folder)
        self.persons = person.seen(self.folder)
        self.write()

    @property
    def store(self) -> Path:
        return self.folder / self.place

    @property
    def journal(self) -> Path:
        return self.store / "journal.jsonl"

    @property
    def is_tracked(self) -> bool:
        return bool(self.mapping["tracking"].get("enabled", True))

    def write(self, **changes: Any) -> None:
        """Changes keys of the sweep file, as an editor does."""
        self.mapping.update(changes)
        (self.folder / "sweep.yaml").write_text(yaml.safe_dump(self.mapping, sort_keys=False))

    def run_line(self) -> str:
        return shlex.join(["run", "sweep.yaml", "--store", self.place, *self.options])

    def start(self, line: str = "", *, largest_file: int | None = None) -> Command:
        """Starts a command.

        Args:
            line: without `crowdsweep`; the run of this sweep by default.
            largest_file: confines it (`confined.py`): no file may grow beyond so many bytes, 0 for no such limit, and
                permissions hold for root too.
        """
        line = line or self.run_line()
        said, environment = self._next_words(), self._environment()
        confined = [] if largest_file is None else [sys.executable, str(CONFINED), str(largest_file)]
        with said.open("wb") as out:
            begin = self.warm.start if self.warm is not None and not confined else partial(cold_start, confined)
            process = begin(shlex.split(line), cwd=self.folder, env=environment, stdout=out, stderr=out)
        self._sessions.add(process.pid)
        return Command(line=line, process=process, said_in=said)

    def start_python(self, program: str) -> Command:
        """Starts a program in Python that uses the package."""
        said = self._next_words()
        with said.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", program],
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._sessions.add(process.pid)
        return Command(line=program, process=process, said_in=said)

    def _next_words(self) -> Path:
        self._count += 1
        return self.folder / f"said-{self._count}.txt"

    def _environment(self) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("CROWDSWEEP", "MLFLOW", "RAY", "PYTEST"))}
        return {
            **inherited,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
            "CROWDSWEEP_PLUGINS": str(ROOT / "tests" / "misbehaving"),
            "TMPDIR": str(self.folder / "tmp"),
            MARK: self._mark,
            **({} if self.cold_forkservers else {WARM_FORKSERVERS: self._mark}),
            **self.environment,
        }

    def run(self, line: str = "", *, largest_file: int | None = None) -> tuple[int, str]:
        """Runs a command to its end; returns its exit code and what it said."""
        command = self.start(line, largest_file=largest_file)
        return command.end(), command.said

    def finish(self, command: Command) -> int:
        """Waits for the end of the command that a fault met, and keeps what it said; returns its exit code.

        Raises:
            AssertionError: it ended in words that are not ours.
        """
        self.code = command.end()
        self.said = command.said
        assert "Traceback (most recent call last)" not in self.said, self.said[-3000:]
        return self.code

    def rows(self) -> int:
        """Returns how many whole rows the journal has now."""
        try:
            return self.journal.read_bytes().count(b"\n")
        except OSError:
            return 0

    def until_rows(self, number: int, command: Command) -> None:
        """Waits until the journal has so many rows, or the command has ended."""
        self.until(lambda: self.rows() >= number, command)

    def until(self, state: Callable[[], object], command: Command) -> None:
        """Waits until a state is reached, or the command has ended.

        Raises:
            StillRunning: neither happens.
        """
        deadline = time.monotonic() + PATIENCE_S
        while not state() and not command.is_over:
            if time.monotonic() > deadline:
                raise StillRunning(f"`{command.line}` does not get there: {command.said[-1000:]}")
            time.sleep(0.01)

    def until_alone(self) -> None:
        """Waits until no process of this sandbox is left.

        Raises:
            StillRunning: one stays.
        """
        deadline = time.monotonic() + PATIENCE_S
        while alive := self.processes():
            if time.monotonic() > deadline:
                raise StillRunning(f"processes that stay: {alive}")
            time.sleep(0.05)

    def remember(self) -> None:
        """Takes down what has finished, before the record is damaged."""
        self.known = dict(read_journal(self.store).results) if self.rows() else {}

    def take_stock(self) -> None:
        """Takes down what is there after the fault, arrays included; what was not remembered was not touched by it."""
        finished = finishes(self.journal)
        self.known = self.known or dict(finished)
        there = {path.stem for path in (self.store / "artifacts").glob("*.npy")}
        self.kept = {k: one for k, one in finished.items() if {a.digest for a in one.kept.values()} <= {"", *there}}

    def go_on(self) -> str:
        """Runs the sweep to its end as a person does: by the line that was printed, else the same one again; not where
        the command that the fault met came to it.

        Returns:
            Nothing, or why it does not come to its end.
        """
        self.last_said = said = self.said
        if self._is_done(self.code):
            return ""
        for _ in range(6):
            told = _AGAIN.findall(said)
            code, said = self.run(told[-1] if told else self.run_line())
            self.last_said = said
            if "`crowdsweep repair" in said and not self.repaired:
                self.repaired = True
                self.run(shlex.join(["repair", self.place]))
            elif self._is_done(code):
                return ""
        return f"it does not come to its end: exit code {code}: {said[-1500:]}"

    def _is_done(self, code: int | None) -> bool:
        return code in (DONE, FAILED_TRIALS) and read_journal(self.store).status is SweepStatus.DONE

    def processes(self) -> dict[int, str]:
        """Returns the processes of this sweep that are alive, by id: those that inherited its mark or its session."""
        return dict(_alive(self._mark, self._sessions))

    def process(self, name: str) -> int | None:
        """Returns a process of this sweep by what stands in its command line; None where there is none."""
        return next((pid for pid, line in self.processes().items() if name in line), None)

    def worker(self) -> int | None:
        """Returns the process that runs the trials of the inline engine: the forkserver's child."""
        parent = self.process("forkserver.serve")
        processes = self.processes()
        return next((pid for pid in processes if pid != parent and _stat(pid)[1] == parent), None) if parent else None

    def close(self, *, keep: bool = False) -> None:
        """Ends all that is left of it; removes the folder unless it is to be kept."""
        for shut in self.servers:
            shut()
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not keep:
            for path in [self.store, *self.store.glob("*/")]:
                with suppress(OSError):
                    path.chmod(0o755)
            shutil.rmtree(self.folder, ignore_errors=True)


def _alive(mark: str, sessions: set[int]) -> Iterator[tuple[int, str]]:
    variable = f"{MARK}={mark}".encode()
    for place in Path("/proc").glob("[0-9]*"):
        pid = int(place.name)
        with suppress(OSError, ValueError):
            state, _, session = _stat(pid)
            if state == "Z":
                continue
            name = (place / "comm").read_text().strip()
            known = session in sessions or (len(name) == COMM_LENGTH and mark.startswith(name))
            if known or variable in (place / "environ").read_bytes().split(b"\0"):
                yield pid, (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()


def _stat(pid: int) -> tuple[str, int, int]:
    """Returns state, parent and session of a process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "Z", 0, 0
    return fields[0], int(fields[1]), int(fields[3])
