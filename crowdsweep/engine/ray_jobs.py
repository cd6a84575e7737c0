"""Jobs of a Ray cluster, through its dashboard: submitted, followed, asked about, stopped.

The token is Ray's own affair: RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or the file ~/.ray/auth_token.
"""

import asyncio
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from crowdsweep.errors import BadInput, error_words, plain, shortened

ANSWERS_IN_S = 10.0
DASHBOARD_PORT = 8265
STOPS_IN_S = 300
"""How long a job that is stopped has for what its slots still run, before its driver is killed."""
_VARIABLES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:/@\[\]]+)(:\d{1,5})?")
_TRIES, _PAUSE_S = 5, 1.0
_HOW = "`ray start --head` on a machine that has `pip install crowdsweep[cluster]` serves it at port 8265"


@dataclass(frozen=True, kw_only=True)
class JobState:
    """How far a job is.

    Attributes:
        status: of Ray: PENDING, RUNNING, STOPPED, SUCCEEDED, FAILED.
        message: why, in Ray's words.
        exit_code: of the driver; None where it has not ended, or was not begun.
    """

    status: str
    message: str
    exit_code: int | None

    @property
    def has_ended(self) -> bool:
        """Whether nothing more becomes of it."""
        return self.status in ("STOPPED", "SUCCEEDED", "FAILED")


def jobs_address(given: str | None) -> str:
    """Returns the address of a cluster's dashboard, which takes jobs: `http://host:port`.

    Args:
        given: as `--address` gives it, `host` or `host:port` among the forms; where it is None, Ray's variables count,
            else this machine is meant.

    Raises:
        BadInput: it has another form.
    """
    variable = next((name for name in _VARIABLES if os.environ.get(name)), "")
    wanted = given or os.environ.get(variable) or "127.0.0.1"
    try:
        parts = urlsplit(f"http://{wanted}" if _HOST_PORT.fullmatch(wanted) else wanted)
        port = parts.port or (443 if parts.scheme == "https" else DASHBOARD_PORT)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.query:
            raise ValueError
    except ValueError:
        raise BadInput(
            f"{'--address' if given else variable} {shortened(plain(wanted))!r}: expected the address of a cluster's "
            f"dashboard, such as http://10.0.0.5:{DASHBOARD_PORT}, without a name or password in it"
        ) from None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}"


class Jobs:
    """The jobs of one cluster.

    Args:
        address: of its dashboard, as `jobs_address` returns it.

    Raises:
        BadInput: Ray's client is not installed here, nobody answers there, or the token is not the cluster's.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        _check_answers(address)
        with self._in_words("asked for its version"), _without_rays_variables():
            self._client = _client(address)

    def submit(self, job: str, package: Path, entrypoint: str, variables: Mapping[str, str]) -> None:
        """Sends a folder to the cluster and has a command run in it.

        Args:
            job: its submission id, which nobody has had.
            package: the folder, where the command stands.
            entrypoint: the command, as a shell takes it.
            variables: of its environment, and that of its workers.

        Raises:
            BadInput: the cluster does not take it.
        """
        environment = {"working_dir": str(package), "env_vars": dict(variables)}
        with self._in_words("given a job"):
            self._client.submit_job(entrypoint=entrypoint, submission_id=job, runtime_env=environment)

    def follow(self, job: str, tell: Callable[[str], object]) -> JobState:
        """Passes on what a job says until it has ended, and returns how. A connection that breaks is made again.

        Raises:
            BadInput: the cluster does not answer any more, or does not know the job.
        """
        heard = _LogTail(tell)
        failures = 0
        while True:
            before = heard.length
            try:
                asyncio.run(heard.listen(self._client.tail_job_logs(job)))
            except Exception as error:  # noqa: BLE001 - whatever breaks the connection; the state is asked for next
                logging.getLogger(__name__).debug("the log of %s broke off: %s", job, error)
            failures = 0 if heard.length > before else failures + 1
            try:
                state = self.state(job)
                if state.has_ended:
                    return state
            except BadInput:
                if failures > _TRIES:
                    raise
            time.sleep(_PAUSE_S)

    def state(self, job: str) -> JobState:
        """Returns how far a job is.

        Raises:
            BadInput: the cluster does not answer, or does not know it.
        """
        with self._in_words(f"asked for {job}"):
            told = self._client.get_job_info(job)
        return JobState(status=str(told.status.value), message=str(told.message or ""), exit_code=told.driver_exit_code)

    def stop(self, job: str) -> None:
        """Ends a job as Ctrl-C does: what runs is finished first, for at most `STOPS_IN_S`.

        Raises:
            BadInput: the cluster does not answer, or does not know it.
        """
        with self._in_words(f"asked to stop {job}"):
            self._client.stop_job(job)

    @contextmanager
    def _in_words(self, when: str) -> Generator[None]:
        try:
            yield
        except BadInput:
            raise
        except Exception as error:
            if type(error).__name__ == "AuthenticationError":
                raise BadInput(
                    f"{self._address}: expected the cluster's token, got none or another; set RAY_AUTH_MODE=token, and "
                    f"RAY_AUTH_TOKEN or the file ~/.ray/auth_token, as on the cluster"
                ) from error
            said = plain(error_words(error))
            raise BadInput(
                f"{self._address}: expected a cluster's dashboard that takes jobs, got, {when}: {said}. {_HOW}"
            ) from error


class _LogTail:
    """The part of a log that was received; it is skipped where the server sends the log from its start again."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self.length = 0

    async def listen(self, lines: Any) -> None:
        left_out = self.length
        async for text in lines:
            new = text[left_out:]
            left_out = max(0, left_out - len(text))
            if new:
                self.length += len(new)
                self._tell(new)


def _client(address: str) -> Any:
    try:
        from ray.job_submission import JobSubmissionClient  # noqa: PLC0415 - ray takes seconds to import
    except ImportError as error:
        raise no_client(error) from error
    for name in ("ray", "ray.dashboard.modules.job.sdk", "ray.dashboard.modules.dashboard_sdk"):
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        return JobSubmissionClient(address)
    except RuntimeError as error:
        if "ray[default]" in str(error):
            raise no_client(error) from error
        raise


def no_client(error: Exception) -> BadInput:
    """Returns the error that says what jobs need on this machine."""
    return BadInput(
        f"expected Ray's client for jobs on this machine, and a part of it is missing ({error_words(error)}): "
        f"pip install 'crowdsweep[cluster]'"
    )


def _check_answers(address: str) -> None:
    """Looks whether anybody listens: Ray's client would wait for minutes."""
    parts = urlsplit(address)
    try:
        socket.create_connection((parts.hostname or "", parts.port or DASHBOARD_PORT), timeout=ANSWERS_IN_S).close()
    except (OSError, OverflowError) as error:
        raise BadInput(
            f"{address}: expected a cluster's dashboard, which takes jobs, and nobody answers there ({error}). {_HOW}"
        ) from error


@contextmanager
def _without_rays_variables() -> Generator[None]:
    """Ray's client takes another address from the environment before the one that it is given."""
    before = {name: os.environ.pop(name) for name in _VARIABLES if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(before)
