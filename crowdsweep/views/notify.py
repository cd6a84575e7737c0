"""Notifies targets that a sweep has ended, well or not: a POST to a URL, or a command. Both get the same small JSON.

A sweep file may name a URL, whose host is said before anything runs, and nothing but counts and the best models goes
there. A command is only taken from who runs the sweep: a sweep file may come from a stranger, and runs nothing.
"""

import json
import os
import shlex
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from crowdsweep.errors import BadInput, CrowdsweepError, error_words, plain, shortened
from crowdsweep.metrics.shown import score_words
from crowdsweep.record.events import SweepStatus
from crowdsweep.record.journal import read_journal
from crowdsweep.record.shown_uri import redacted
from crowdsweep.record.store_uri import Store

VARIABLE = "CROWDSWEEP_NOTIFY"
"""Of the environment: a command, where none is given."""
FAILED = "failed"
"""State of a sweep whose run broke off with an error."""
_TRIES, _PAUSE_S, _ANSWER_S, _COMMAND_S = 3, 1.0, 5.0, 20.0
_PATIENCE_S = 25.0  # for all of it: names of hosts are looked up for as long as the system likes
_LOOK_S = 0.1
_TRIED_AGAIN = (408, 425, 429)  # and all from 500 on

Message = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class NotifyTargets:
    """Who is told.

    Attributes:
        url: gets a POST; empty for none.
        command: gets standard input; empty for none.
    """

    url: str = ""
    command: Sequence[str] = ()

    @property
    def host(self) -> str:
        """Of the URL, as people are told of it."""
        return plain(urlsplit(self.url).netloc.rpartition("@")[2])


def notify_targets(url: str, command: str | None) -> NotifyTargets:
    """Returns who is told.

    Args:
        url: as a checked sweep file has it; empty for none.
        command: as it is typed in a shell, which is not asked; the environment's where it is None.

    Raises:
        BadInput: the command is none that could be run here.
    """
    given, where = (os.environ.get(VARIABLE, ""), VARIABLE) if command is None else (command, "--notify-command")
    try:
        words = shlex.split(given)
    except ValueError as error:
        raise BadInput(f"{where}: expected a command as in a shell, got {shortened(repr(given))}: {error}") from error
    if words and shutil.which(words[0]) is None:
        raise BadInput(f"{where}: expected a command, found no program {shortened(repr(words[0]))} here")
    return NotifyTargets(url=url, command=words)


def message_of(store: Store, name: str, error: str = "") -> Message:
    """Returns what targets are told of a sweep whose run has ended: its name, state, counts, and the best model on each
    dataset so far; as a sentence too (`text`), which chats show.

    Args:
        store: of the sweep.
        name: of the sweep.
        error: kind of the error that ended the run; empty where none did.
    """
    from crowdsweep.analysis.standing import sweep_status  # noqa: PLC0415 - no trial waits for statistics

    message: dict[str, Any] = {"sweep": name, "state": FAILED, **({"error": error} if error else {})}
    try:
        found = sweep_status(read_journal(store))
    except (CrowdsweepError, OSError):  # which may be why the run ended
        return {**message, "text": f"{name}: {FAILED}"}
    ended = found["status"] not in (SweepStatus.NEW, SweepStatus.RUNNING)
    message["state"] = found["status"] if ended else FAILED
    message |= {key: found[key] for key in ("done", "failed", "lost", "stopped", "total", "best")}
    counts = f"{found['done']} of {found['total']} trials done" + "".join(
        f", {found[key]} {key}" for key in ("failed", "lost") if found[key]
    )
    bests = [
        f"best on {one['dataset']}: {one['model']}, {score_words(one['mean'], one['metric'])}" for one in found["best"]
    ]
    text = "; ".join([f"{name}: {message['state'].replace('_', ' ')}, {counts}", *bests])
    return {**message, "text": plain(shortened(text, 1_000))}


def send_notifications(
    targets: NotifyTargets, message: Message, *, sleep: Callable[[float], None] = time.sleep
) -> list[str]:
    """Tells everybody, and returns in words who could not be told; never raises, and ends after 25 seconds, or when a
    person presses Ctrl-C.

    Args:
        targets: who is told.
        message: what.
        sleep: waits so many seconds between two tries.
    """
    content = json.dumps(message, ensure_ascii=False).encode()
    tasks: dict[str, Callable[[], str]] = {}
    if targets.url:
        tasks[targets.host] = lambda: _post(targets.url, content, sleep)
    if targets.command:
        tasks[targets.command[0]] = lambda: _run(targets.command, content)
    failed = dict.fromkeys(tasks, "it took too long")

    def do(name: str) -> None:
        failed[name] = tasks[name]()

    threads = [threading.Thread(target=do, args=(name,), daemon=True) for name in tasks]
    for thread in threads:
        thread.start()
    until = time.monotonic() + _PATIENCE_S
    try:
        while any(thread.is_alive() for thread in threads) and time.monotonic() < until:
            threads[-1].join(_LOOK_S)
            threads[0].join(_LOOK_S)
    except KeyboardInterrupt:
        failed = {name: words and "it was broken off" for name, words in failed.items()}
    return [f"{name}: {words}" for name, words in failed.items() if words]


def _post(url: str, content: bytes, sleep: Callable[[float], None]) -> str:
    """Returns why a URL could not be told; empty where it was. It is asked again where that may help."""
    why = ""
    for number in range(_TRIES):
        if number:
            sleep(_PAUSE_S * number)
        try:
            with _opener().open(_request(url, content), timeout=_ANSWER_S):
                return ""
        except urllib.error.HTTPError as error:
            why = f"it answered {error.code}"
            if error.code < 500 and error.code not in _TRIED_AGAIN:
                break
        except Exception as error:  # noqa: BLE001 - whatever a server or a URL leads to, the sweep has ended
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            why = str(reason) or type(error).__name__
    return plain(shortened(redacted(why, url)))


def _opener() -> urllib.request.OpenerDirector:
    """Returns what sends a request to the host that was named and to no other: a redirect is an answer like any."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _request(url: str, content: bytes) -> urllib.request.Request:
    """Returns a POST; what stands before an `@` becomes a header."""
    parts = urlsplit(url)
    credentials, _, host = parts.netloc.rpartition("@")
    headers = {"Content-Type": "application/json", "User-Agent": "crowdsweep"}
    if credentials:
        headers["Authorization"] = f"Basic {b64encode(unquote(credentials).encode()).decode()}"
    bare = urlunsplit((parts.scheme, host, parts.path, parts.query, ""))
    return urllib.request.Request(bare, data=content, headers=headers, method="POST")  # noqa: S310 - it was checked


def _run(command: Sequence[str], content: bytes) -> str:
    """Returns why a command failed; empty where it did not."""
    try:
        done = subprocess.run(  # noqa: S603 - of who runs the sweep, and without a shell
            command,
            input=content,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_COMMAND_S,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return f"it was ended after {_COMMAND_S:.0f} s"
    except OSError as error:
        return error_words(error)
    said = " ".join(done.stderr.decode(errors="replace").split())
    return "" if done.returncode == 0 else plain(shortened(f"exit code {done.returncode}: {said}".removesuffix(": ")))
