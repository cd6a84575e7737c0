"""NotifyTargets are told when a sweep has ended: once, soon, and whatever they do, the sweep is none the worse."""

import json
import os
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import crowdsweep as cs
from crowdsweep import app
from crowdsweep.cli.commands import run_command_line
from crowdsweep.errors import BadInput, SweepFileError, Where
from crowdsweep.sweep.plan import make_plan
from crowdsweep.sweep.resume import recorded_config
from crowdsweep.sweepfile.read import sweep_of
from crowdsweep.views.notify import FAILED, NotifyTargets, message_of, notify_targets, send_notifications

SWEEP: dict[str, Any] = {
    "name": "told",
    "datasets": [{"name": "digits", "annotators": 8}],
    "models": ["majority-vote"],
    "seeds": {"report": 2},
    "engine": "inline",
    "tracking": {"enabled": False},
}
PATIENT = {"sleep": lambda _: None}


class Listener:
    """A server of this machine that notes what it is told, and answers as it was told to."""

    def __init__(self, answers: list[int]) -> None:
        self.heard: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                listener.heard.append((self.path, dict(self.headers), json.loads(content)))
                code = answers.pop(0) if answers else 200
                self.send_response(code)
                if code == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *_: Any) -> None:
                """Says nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/services/T0/SECRET"


@contextmanager
def listening(*answers: int) -> Iterator[Listener]:
    listener = Listener(list(answers))
    thread = threading.Thread(target=listener.http.serve_forever, daemon=True)
    thread.start()
    try:
        yield listener
    finally:
        listener.http.shutdown()
        listener.http.server_close()


@pytest.fixture(autouse=True)
def _nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CROWDSWEEP_NOTIFY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_a_sweep_tells_its_end_and_stays_the_same_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening() as server:
        sweep = {**SWEEP, "notify": {"url": server.url.replace("://", "://me:pass%20hunter@")}}
        found = cs.run(sweep, store=tmp_path / "s", quiet=True)
        (path, headers, message) = server.heard[0]
        host = server.url.split("/")[2]
        assert f"told: {host} is notified when this sweep ends" in capsys.readouterr().err, "also where it is quiet"
        assert path == "/services/T0/SECRET"
        assert headers["Authorization"] == "Basic bWU6cGFzcyBodW50ZXI="
        best = message.pop("best")[0]
        assert (best["model"], best["seeds"]) == ("majority-vote", 2)
        assert message.pop("text").startswith("told: done, 2 of 2 trials done; best on digits (annotators 8): majority")
        assert message == {
            "sweep": "told",
            "state": "done",
            "done": 2,
            "failed": 0,
            "lost": 0,
            "stopped": 0,
            "total": 2,
        }
        record = (tmp_path / "s" / "journal.jsonl").read_text() + found.report.read_text()
        assert host in record
        assert not [word for word in ("SECRET", "hunter", "me:pass") if word in record]
        rows = found.table
        written = tmp_path / "heard.json"
        code = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_bytes(sys.stdin.buffer.read())"
        monkeypatch.setenv("CROWDSWEEP_NOTIFY", shlex.join([sys.executable, "-c", code, str(written)]))
        again = cs.run(SWEEP, store=tmp_path / "s", quiet=True)
        assert again.table.equals(rows), "nothing was run again"
        assert json.loads(written.read_text())["state"] == "done"
        assert len(server.heard) == 1, "the file named nobody any more"


def test_whom_a_sweep_tells_decides_no_result() -> None:
    with_one, without = (
        make_plan(sweep_of({**SWEEP, **more}, Where())) for more in ({"notify": {"url": "https://a.example/x"}}, {})
    )
    keys = [[spec.key for cell in plan.cells for spec in cell.report_specs()] for plan in (with_one, without)]
    assert keys[0] == keys[1]
    assert recorded_config(with_one.config)["notify"] == {"url": "https://a.example/***"}


@pytest.mark.parametrize(
    ("answers", "n_heard", "failed"),
    [
        ([503, 500], 3, []),
        ([429], 2, []),
        ([500, 500, 500], 3, ["it answered 500"]),
        ([404], 1, ["it answered 404"]),
        ([302], 1, ["it answered 302"]),
    ],
)
def test_what_may_help_is_tried_again_and_no_redirect_followed(
    answers: list[int], n_heard: int, failed: list[str]
) -> None:
    with listening(*answers) as server:
        others = NotifyTargets(url=server.url)
        assert send_notifications(others, {"text": "x"}, **PATIENT) == [f"{others.host}: {words}" for words in failed]
        assert len(server.heard) == n_heard
        assert {path for path, *_ in server.heard} == {"/services/T0/SECRET"}


def test_nobody_there_is_told_without_what_is_secret() -> None:
    with listening() as server:
        url = server.url.replace("://", "://name:hunter2@")
    (words,) = send_notifications(NotifyTargets(url=url), {}, **PATIENT)
    assert words.startswith(server.url.split("/")[2])
    assert "hunter2" not in words
    assert "SECRET" not in words


def test_a_command_that_fails_says_why() -> None:
    fails = [sys.executable, "-c", "import sys; sys.exit('no network')"]
    assert send_notifications(NotifyTargets(command=fails), {}) == [f"{sys.executable}: exit code 1: no network"]
    assert send_notifications(NotifyTargets(command=["/nowhere/at/all"]), {}) == [
        "/nowhere/at/all: No such file or directory"
    ]


def test_a_sweep_file_names_no_command_and_no_odd_url(tmp_path: Path) -> None:
    with pytest.raises(SweepFileError, match=r"notify\.command: a sweep file may not run commands"):
        sweep_of({**SWEEP, "notify": {"command": ["touch", str(tmp_path / "x")]}}, Where())
    for url in (
        "file:///etc/passwd",
        "ftp://h/x",
        "https://",
        "h.example",
        "http://h:99999999/",
        "http://h/\x1b",
        "http:// h",
    ):
        with pytest.raises(SweepFileError, match=r"notify\.url: expected http") as caught:
            sweep_of({**SWEEP, "notify": {"url": url}}, Where())
        assert url not in str(caught.value).replace("expected http://… or https://…", "")
    with pytest.raises(SweepFileError, match="expected text"):
        sweep_of({**SWEEP, "notify": {"url": 3}}, Where())


def test_a_command_that_is_none_is_told_before_anything_runs(tmp_path: Path) -> None:
    for command, words in (
        ("'half", "expected a command as in a shell"),
        ("no-such-program x", "expected a command, found no program"),
    ):
        with pytest.raises(BadInput, match=f"--notify-command: {words}"):
            notify_targets("", command)
    sweep = tmp_path / "s.yaml"
    sweep.write_text(json.dumps(SWEEP))
    assert run_command_line(["run", str(sweep), "--store", str(tmp_path / "s"), "--notify-command", "no-such-x"]) == 2
    assert not (tmp_path / "s").exists()


def test_a_run_that_breaks_off_is_told_and_one_that_never_began_is_not(tmp_path: Path) -> None:
    config = sweep_of({**SWEEP, "notify": {"url": ""}}, Where())
    written = tmp_path / "heard.json"
    code = f"import sys, pathlib; pathlib.Path({os.fspath(written)!r}).write_bytes(sys.stdin.buffer.read())"
    command = shlex.join([sys.executable, "-c", code])
    with pytest.raises(BadInput), app.notifying(config, tmp_path / "s", command):
        raise BadInput("there is no such dataset")
    with pytest.raises(KeyboardInterrupt), app.notifying(config, tmp_path / "s", command):
        raise KeyboardInterrupt
    assert not written.exists()
    with pytest.raises(RuntimeError), app.notifying(config, tmp_path / "s", command):
        raise RuntimeError("a bug, with /a/path of somebody's")
    assert json.loads(written.read_text()) == {
        "sweep": "told",
        "state": FAILED,
        "error": "RuntimeError",
        "text": "told: failed",
    }


def test_a_record_that_is_gone_is_still_told_of(tmp_path: Path) -> None:
    assert message_of(tmp_path, "told", "JournalError")["state"] == FAILED


def test_a_host_and_a_command_of_one_name_are_both_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as listener:
        host = NotifyTargets(url=listener.url).host
        command = tmp_path / host
        command.write_text(f"#!{sys.executable}\nopen({str(tmp_path / 'told')!r}, 'w').write('told')\n")
        command.chmod(0o700)
        monkeypatch.setenv("PATH", str(tmp_path))
        assert send_notifications(NotifyTargets(url=listener.url, command=[host]), {"sweep": "a"}, **PATIENT) == []
        assert [message for _, _, message in listener.heard] == [{"sweep": "a"}]
        assert (tmp_path / "told").read_text() == "told"
