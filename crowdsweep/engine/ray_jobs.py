"""Jobs of a Ray cluster, through its dashboard: submits them, follows their log, returns their state, stops them.

Ray's client reads the token itself: RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or the file ~/.ray/auth_token.
"""

import asyncio
import hmac
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import scrypt
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from crowdsweep.errors import BadInput, error_words, plain, shortened

ANSWERS_IN_S = 10.0
DASHBOARD_PORT = 8265
STOPS_IN_S = 300
"""Seconds that a stopped job has to finish what its slots run, before its driver is killed."""
_VARIABLES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:/@\[\]]+)(:\d{1,5})?")
_TRIES, _PAUSE_S = 5, 1.0
_HOW = "`ray start --head` on a machine that has `pip install crowdsweep[cluster]` serves it at port 8265"


@dataclass(frozen=True, kw_only=True)
class JobState:
    """State of a job.

    Attributes:
        status: Ray's status: PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED.
        exit_code: of the driver; None where it has not ended, or never started.
    """

    status: str
    message: str
    exit_code: int | None

    @property
    def has_ended(self) -> bool:
        """Whether the status is final."""
        return self.status in ("STOPPED", "SUCCEEDED", "FAILED")


def jobs_address(given: str | None) -> str:
    """Returns the address of a cluster's dashboard, which takes jobs, as `http://host:port` (or `https`).

    Args:
        given: as `--address` gives it: a URL, `host:port` or `host`; where it is None, RAY_API_SERVER_ADDRESS or
            RAY_ADDRESS, else this machine.

    Raises:
        BadInput: the address has another form.
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


def seal_of(job: str, address: str) -> str:
    """Returns the seal of a job's note, by which its writer proves to have the token that is set here; empty for none.

    Costs 50 ms, so that a short token cannot be found by trying.

    Raises:
        BadInput: Ray's client is not installed here, or RAY_AUTH_MODE asks for a token and there is none.
    """
    try:
        from ray._private.authentication import http_token_authentication as ray_tokens  # noqa: PLC0415 - as in _client
    except ImportError as error:
        raise no_client(error) from error
    with _in_words(address, "asked for the token"):
        token = "".join(ray_tokens.get_auth_headers_if_auth_enabled({}).values())
    if not token:
        return ""
    return scrypt(token.encode(), salt=f"{address} {job}".encode(), n=1 << 14, r=8, p=1, dklen=16).hex()


def noted_jobs(job: str, address: str, seal: str) -> "Jobs":
    """Returns the jobs of the cluster that a note names.

    A note may come from anybody. A token is sent only to the address that this user's environment names, or that a note
    names whose writer had the same token.

    Raises:
        BadInput: the token would be sent to an address that nobody vouches for; or as for `Jobs`.
    """
    ours = seal_of(job, address)
    if ours and not hmac.compare_digest(ours, seal) and address != jobs_address(None):
        raise BadInput(
            f"{address}: this address stands in the note of a job that somebody without your token wrote, and your "
            f"token would be sent there; if you know it, set {_VARIABLES[0]}={address}, then do this again"
        )
    return Jobs(address)


class Jobs:
    """The jobs of one cluster.

    Args:
        address: of the cluster's dashboard, as `jobs_address` returns it.

    Raises:
        BadInput: Ray's client is not installed here, nothing answers there, or the token is not the cluster's.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        _check_answers(address)
        with _in_words(self._address, "asked for its version"), _without_rays_variables():
            self._client = _client(address)

    def submit(self, job: str, package: Path, entrypoint: str, variables: Mapping[str, str]) -> None:
        """Submits a job: sends a folder to the cluster and has it run a command in that folder.

        Args:
            job: submission id, unused so far.
            package: the folder, which becomes the command's working directory.
            variables: environment variables of the command and of its workers.

        Raises:
            BadInput: the cluster does not accept the job.
        """
        environment = {"working_dir": str(package), "env_vars": dict(variables)}
        with _in_words(self._address, "given a job"):
            self._client.submit_job(entrypoint=entrypoint, submission_id=job, runtime_env=environment)

    def follow(self, job: str, tell: Callable[[str], object]) -> JobState:
        """Passes a job's log on until the job has ended, and returns its final state; reconnects when it has to.

        Raises:
            BadInput: the cluster does not answer any more, or does not know the job.
        """
        heard = _LogTail(tell)
        failures = 0
        while True:
            before = heard.length
            try:
                asyncio.run(heard.listen(self._client.tail_job_logs(job)))
            except Exception as error:  # noqa: BLE001 - any broken connection; the state is asked for next
                logging.getLogger(__name__).debug("the log of %s was cut off: %s", job, error)
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
        """Returns the state of a job.

        Raises:
            BadInput: the cluster does not answer, or does not know the job.
        """
        with _in_words(self._address, f"asked for {job}"):
            info = self._client.get_job_info(job)
        return JobState(status=str(info.status.value), message=str(info.message or ""), exit_code=info.driver_exit_code)

    def stop(self, job: str) -> None:
        """Stops a job as Ctrl-C does: running batches are finished first, for at most `STOPS_IN_S` seconds.

        Raises:
            BadInput: the cluster does not answer, or does not know the job.
        """
        with _in_words(self._address, f"asked to stop {job}"):
            self._client.stop_job(job)


@contextmanager
def _in_words(address: str, when: str) -> Generator[None]:
    """Turns any error of Ray's client into a BadInput that names the address and what was asked."""
    try:
        yield
    except BadInput:
        raise
    except Exception as error:
        if type(error).__name__ == "AuthenticationError":
            raise BadInput(
                f"{address}: expected the cluster's token, got none or another; set RAY_AUTH_MODE=token, and "
                f"RAY_AUTH_TOKEN or the file ~/.ray/auth_token, as on the cluster"
            ) from error
        said = plain(error_words(error))
        raise BadInput(
            f"{address}: expected a cluster's dashboard that takes jobs, got, {when}: {said}. {_HOW}"
        ) from error


class _LogTail:
    """Length of a log that was received so far: so much is skipped when the server sends it from its start again."""

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
    """Returns the error that Ray's job client is not installed on this machine, with the command that installs it."""
    return BadInput(
        f"expected Ray's client for jobs on this machine, and a part of it is missing ({error_words(error)}): "
        f"pip install 'crowdsweep[cluster]'"
    )


def _check_answers(address: str) -> None:
    """Checks that a service listens at the address, since Ray's client would wait for minutes.

    Raises:
        BadInput: nothing listens there.
    """
    parts = urlsplit(address)
    try:
        socket.create_connection((parts.hostname or "", parts.port or DASHBOARD_PORT), timeout=ANSWERS_IN_S).close()
    except (OSError, OverflowError) as error:
        raise BadInput(
            f"{address}: expected a cluster's dashboard, which takes jobs, and nothing answers there ({error}). {_HOW}"
        ) from error


@contextmanager
def _without_rays_variables() -> Generator[None]:
    """Hides Ray's address variables from its client, which prefers them to the address that it is given."""
    before = {name: os.environ.pop(name) for name in _VARIABLES if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(before)
