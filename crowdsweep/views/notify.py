"""Notifies targets that a sweep has ended, well or not: a POST to a URL, or a command. Both get the same small JSON.

A sweep file may name a URL. Its host is shown before anything runs, and only counts and the best models are sent there.
Commands are only accepted from the person who runs the sweep: a sweep file may come from a stranger, so it cannot run a
command.
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
"""Environment variable with the command that is used where none is given."""
FAILED = "failed"
"""State of a sweep whose run broke off with an error."""
_TRIES, _PAUSE_S, _ANSWER_S, _COMMAND_S = 3, 1.0, 5.0, 20.0
_PATIENCE_S = 25.0  # for everything together, because the system may look up a host name for any time
_LOOK_S = 0.1
_TRIED_AGAIN = (408, 425, 429)  # and all codes from 500 on

Message = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class NotifyTargets:
    """The targets of notifications.

    Attributes:
        url: receives a POST; empty for none.
        command: receives the message on standard input; empty for none.
    """

    url: str = ""
    command: Sequence[str] = ()

    @property
    def host(self) -> str:
        """Host of the URL, as shown to people."""
        return plain(urlsplit(self.url).netloc.rpartition("@")[2])


def notify_targets(url: str, command: str | None) -> NotifyTargets:
    """Returns the targets of notifications.

    Args:
        url: as a checked sweep file has it; empty for none.
        command: as typed in a shell, though no shell runs it; None for the environment's.

    Raises:
        BadInput: the command cannot be run here.
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
    """Returns the message for targets about a sweep whose run has ended: its name, state, counts, and the best model on
    each dataset so far. `text` has the same as a sentence, which chats show.

    Args:
        error: kind of the error that ended the run; empty where none did.
    """
    from crowdsweep.analysis.status import sweep_status  # noqa: PLC0415 - no trial waits for statistics

    message: dict[str, Any] = {"sweep": name, "state": FAILED, **({"error": error} if error else {})}
    try:
        found = sweep_status(read_journal(store))
    except (CrowdsweepError, OSError):  # may be why the run ended
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
    """Notifies all targets, and returns in words which could not be notified. Never raises, and ends after 25 seconds
    or at Ctrl-C.
    """
    content = json.dumps(message, ensure_ascii=False).encode()
    tasks: list[tuple[str, Callable[[], str]]] = []  # a host and a command may have one name
    if targets.url:
        tasks.append((targets.host, lambda: _post(targets.url, content, sleep)))
    if targets.command:
        tasks.append((targets.command[0], lambda: _run(targets.command, content)))
    failed = ["it took too long"] * len(tasks)

    def do(number: int) -> None:
        failed[number] = tasks[number][1]()

    threads = [threading.Thread(target=do, args=(number,), daemon=True) for number in range(len(tasks))]
    for thread in threads:
        thread.start()
    until = time.monotonic() + _PATIENCE_S
    try:
        while any(thread.is_alive() for thread in threads) and time.monotonic() < until:
            threads[-1].join(_LOOK_S)
            threads[0].join(_LOOK_S)
    except KeyboardInterrupt:
        failed = [words and "it was interrupted" for words in failed]
    return [f"{name}: {words}" for (name, _), words in zip(tasks, failed, strict=True) if words]


def _post(url: str, content: bytes, sleep: Callable[[float], None]) -> str:
    """Returns why a POST to a URL failed; empty where it succeeded. It is tried again where that may help."""
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
    """Returns an opener that sends a request to the named host and to no other: it does not follow redirects."""
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
    """Returns a POST request; credentials before an `@` become a header."""
    parts = urlsplit(url)
    credentials, _, host = parts.netloc.rpartition("@")
    headers = {"Content-Type": "application/json", "User-Agent": "crowdsweep"}
    if credentials:
        headers["Authorization"] = f"Basic {b64encode(unquote(credentials).encode()).decode()}"
    bare = urlunsplit((parts.scheme, host, parts.path, parts.query, ""))
    return urllib.request.Request(bare, data=content, headers=headers, method="POST")  # noqa: S310 - it was checked


def _run(command: Sequence[str], content: bytes) -> str:
    """Returns why a command failed; empty where it succeeded."""
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
