"""Whoever puts a secret into the name of a store is refused without it: it comes into no record, message or job."""

import traceback
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import click
import pytest
from object_stores import VARIABLES, place, speak_to

import crowdsweep as cs
from crowdsweep.cli.commands import commands, run_command_line
from crowdsweep.cli.paths import PATH, STORE
from crowdsweep.errors import BadInput, JournalError
from crowdsweep.record import objects
from crowdsweep.record.objects import Objects, RetrySettings
from crowdsweep.record.store_uri import StoreUri, path_named, store_named

SECRET = "hunter2hunter2"
WITH_SECRETS = [
    f"s3://key:{SECRET}@bucket/x",
    f"S3://{SECRET}@bucket/x",
    f"s3://bucket:{SECRET}/x",
    f"s3://bucket/x?key={SECRET}",
    f"s3://bucket/x#{SECRET}",
    f"s3://bucket/x;key={SECRET}",
    f"s3://bucket/x&key={SECRET}",
    f"s3://bucket/x%3Fkey={SECRET}",
    f"s3://bucket/me:{SECRET}@x",
    f"az://container/x/sig={SECRET}",
    f"az://container/Token={SECRET}/x",
    f"az://sig={SECRET}/x",
    f"abfss://container@me:{SECRET}@account.dfs.core.windows.net/x",
    f"abfss://container@account.dfs.core.windows.net/x?sig={SECRET}",
    f"abfss://container:{SECRET}@account.dfs.core.windows.net/x",
    f"gs://bucket/x?token={SECRET}",
    f"s3:/key:{SECRET}@bucket/x",  # a slash is missing
    f"s3:key:{SECRET}@bucket/x",
]
REST = "<Message>It has expired.</Message><Token-0>the-token</Token-0></Error>"
OF_ANOTHER_KIND = f"https://me:{SECRET}@server/bucket/x"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        *(
            (given, read)
            for given in [*WITH_SECRETS, OF_ANOTHER_KIND]
            for read in (store_named, path_named, cs.results)
        ),
        *((given, lambda given: store_named(Path(given))) for given in WITH_SECRETS),
    ],
)
def test_it_is_refused_without_its_secret(
    given: str, read: Callable[[str], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput) as refused:
        read(given)
    assert SECRET not in "".join(traceback.format_exception(refused.value))
    assert list(tmp_path.iterdir()) == []


def doors() -> list[Any]:
    """Returns the words that give a URI to each argument and option of a command that is a store or a path."""
    found: list[Any] = []
    groups = [((name,), command) for name, command in commands.commands.items()]
    while groups:
        words, command = groups.pop()
        if isinstance(command, click.Group):
            groups += [((*words, name), one) for name, one in command.commands.items()]
            continue
        for param in command.params:
            if param.type in (PATH, STORE):
                is_option = isinstance(param, click.Option)
                before = command.params if is_option else command.params[: command.params.index(param)]
                arguments = [one for one in before if isinstance(one, click.Argument)]
                given = [_sound(one) for one in arguments if one.required or not is_option]
                found.append(pytest.param([*words, *given, *([param.opts[0]] if is_option else [])]))
    return [*found, pytest.param(["label"])]


def _sound(argument: click.Argument) -> str:
    return str(argument.type.choices[0]) if isinstance(argument.type, click.Choice) else "sweep.yaml"


def test_there_are_as_many_doors_as_a_person_sees() -> None:
    assert len(doors()) > 15


@pytest.mark.parametrize("words", doors())
def test_every_command_refuses_it_and_says_and_writes_nothing_of_it(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sweep.yaml").write_text("name: first\ndatasets: [anesthesia]\nmodels: [majority-vote]\n")
    for given in (WITH_SECRETS[0], WITH_SECRETS[3], WITH_SECRETS[-1], OF_ANOTHER_KIND):
        assert run_command_line([*words, given]) == 2
        said = capfd.readouterr()
        assert SECRET not in said.out + said.err
        assert "expected" in said.err
    assert [path.name for path in tmp_path.rglob("*")] == ["sweep.yaml"]


@pytest.mark.parametrize(
    ("scheme", "bucket"),
    [
        ("s3", f"key:{SECRET}@bucket"),
        ("s3", f"{SECRET}@bucket"),
        ("abfs", f"me:{SECRET}@a"),
        ("https", "server"),
        ("az", ""),
    ],
)
def test_no_such_place_can_be_built(scheme: str, bucket: str) -> None:
    with pytest.raises(BadInput) as refused:
        StoreUri(scheme, bucket)
    assert SECRET not in str(refused.value)


def test_a_name_and_a_password_of_a_server_are_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that somebody wrote into the address of a server of their own, which no name of a variable gives away."""
    speak_to(f"http://me:{SECRET}@127.0.0.1:9", monkeypatch)
    impatient = RetrySettings(connect_s=0.5, request_s=0.5, tries=0, all_s=0.5)
    with pytest.raises(JournalError, match="the object store failed") as failed:
        Objects(place("x"), patience=impatient).get("a")
    assert SECRET not in "".join(traceback.format_exception(failed.value))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "GET https://a.blob/c/x?sig=deadbeef failed for a-shared-signature",
            "GET https://a.blob/c/x?… failed for ***",
        ),
        ("GET http://me:pass@word@server/x: timed out", "GET http://***@server/x: timed out"),
        ("sent a%2Bb%2Fc%3D%3D to it", "sent *** to it"),
        (
            f"403 Forbidden: <?xml version='1.0'?>\n<Error><Code>ExpiredToken</Code>{REST}",
            "403 Forbidden: ExpiredToken: It has expired.",
        ),
        ("first\nDebug source: the-token", "first"),
    ],
)
def test_what_a_library_says_is_told_without_what_lets_one_in(
    said: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "a-shared-signature")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a+b/c==")
    assert objects._said(ValueError(said)) == words


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (403, "InvalidToken", r"with these credentials \(.*InvalidToken"),
        (400, "ExpiredToken", r"of these credentials has expired \(.*ExpiredToken"),
        (403, "RequestTimeTooSkewed", r"the clock of this machine \(.*RequestTimeTooSkewed"),
    ],
)
def test_a_server_that_refuses_says_why_and_what_it_sends_back_is_not_quoted(
    status: int, code: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials of files stand in no variable by which they could be known. S3 answers 400 to those that expired."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f"<Error><Code>{code}</Code><Message>bad</Message><Token-0>{SECRET}</Token-0></Error>".encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            speak_to(f"http://127.0.0.1:{http.server_port}", monkeypatch)
            with pytest.raises(JournalError, match=words) as failed:
                Objects(place("x")).get("a")
        finally:
            http.shutdown()
            thread.join()
    told = "".join(traceback.format_exception(failed.value))
    assert SECRET not in told
    assert not any(value in told for name, value in VARIABLES.items() if name != "AWS_REGION")


def test_a_job_is_given_no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a job's environment and package hold, the cluster's dashboard shows to everybody who sees it."""
    from crowdsweep.engine import ray_jobs

    sent: list[str] = []

    class Client:
        def submit_job(self, *, entrypoint: str, submission_id: str, runtime_env: dict[str, Any]) -> None:
            package = Path(runtime_env["working_dir"])
            sent.extend([entrypoint, submission_id, str(runtime_env["env_vars"])])
            sent.extend(path.read_text() for path in package.rglob("*") if path.is_file())

    for name in VARIABLES:
        monkeypatch.setenv(name, f"{SECRET}-{name}")
    monkeypatch.setattr(ray_jobs, "_check_answers", lambda address: None)
    monkeypatch.setattr(ray_jobs, "_client", lambda address: Client())
    monkeypatch.chdir(tmp_path)
    Path("sweep.yaml").write_text("name: first\ndatasets: [anesthesia]\nmodels: [majority-vote]\n")
    words = ["submit", "sweep.yaml", "--address", "http://127.0.0.1:8265", "--store", "s3://bucket/x", "--detach"]
    assert run_command_line(words) == 0
    assert any("s3://bucket/x" in one for one in sent)
    assert not any(SECRET in one for one in sent)
