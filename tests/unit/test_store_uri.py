"""What a store may be called, and what is said of one that cannot be used."""

import builtins
import time
from pathlib import Path

import pytest
from object_stores import VARIABLES, place, speak_to

from crowdsweep.errors import BadInput, JournalError
from crowdsweep.record.objects import Objects, RetrySettings
from crowdsweep.record.store_uri import StoreUri, near, store_named

NOBODY = "http://127.0.0.1:9"  # nobody listens there
IMPATIENT = RetrySettings(connect_s=1.0, request_s=1.0, tries=1, all_s=1.0)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://bucket/a/b", "s3://bucket/a/b"),
        ("s3://bucket", "s3://bucket"),
        ("S3://bucket//a/b/", "s3://bucket/a/b"),
        ("gs://my-bucket/run=1", "gs://my-bucket/run=1"),
        ("az://container/x", "az://container/x"),
        ("abfss://container@account.dfs.core.windows.net/x", "abfss://container@account.dfs.core.windows.net/x"),
    ],
)
def test_places_in_object_stores(text: str, shown: str) -> None:
    named = store_named(text)
    assert isinstance(named, StoreUri)
    assert str(named) == shown
    assert store_named(named) is named


def test_folders_are_folders(tmp_path: Path) -> None:
    assert store_named(f"file://{tmp_path}/x") == tmp_path / "x"
    assert store_named("runs/x") == Path("runs/x")
    assert store_named(tmp_path) == tmp_path


def test_places_have_names_as_folders_do() -> None:
    store = place("runs/birds")
    assert str(store / "labels") == "s3://sweeps/runs/birds/labels"
    assert (store / "labels").with_name("labels-cats") == store / "labels-cats"
    assert (store.name, store.parent.parent.name) == ("birds", "sweeps")
    assert near(store) == Path.cwd() / "birds"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nowhere://bucket/x", "another kind of URI"),
        ("https://server/bucket/x", "another kind of URI"),
        ("s3://key:secret@bucket/x", "without credentials"),
        ("s3://token@bucket/x", "without credentials"),
        ("az://container/x?sv=2024&sig=verysecret", "without credentials"),
        ("s3://bucket/../x", "names have letters"),
        ("s3://bucket/.hidden", "names have letters"),
        ("s3:///x", "names have letters"),
        ("s3://bucket/a b", "names have letters"),
        ("s3://bucket/a\x1b[31m", "names have letters"),
    ],
)
def test_other_uris_are_refused_without_their_secrets(text: str, words: str) -> None:
    with pytest.raises(BadInput, match=words) as refused:
        store_named(text)
    assert not any(secret in str(refused.value) for secret in ("secret", "token", "\x1b"))


def test_a_uri_that_became_a_path_is_told() -> None:
    with pytest.raises(BadInput, match="loses one"):
        store_named(Path("s3://bucket/x"))


def test_a_missing_package_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = builtins.__import__

    def without(name: str, *rest: object, **more: object) -> object:
        if name.startswith("obstore"):
            raise ImportError(name)
        return whole(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BadInput, match=r"needs the package obstore.*pip install 'crowdsweep\[cloud\]'"):
        Objects(place("x"))


def test_what_a_store_needs_and_nobody_says_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(BadInput, match=r"Account must be specified.*use-an-object-store.md"):
        Objects(StoreUri("az", "container", ("x",)))


def test_a_server_that_is_not_there_is_told_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    speak_to(NOBODY, monkeypatch)
    objects, began = Objects(place("x"), patience=IMPATIENT), time.monotonic()
    for ask in (
        lambda: objects.get("a"),
        lambda: objects.create("a", b""),
        lambda: objects.put("a", b""),
        lambda: objects.names("journal"),
        lambda: objects.names_in("journal"),
        lambda: objects.remove(["a"]),
    ):
        with pytest.raises(JournalError, match=r"s3://sweeps/x.*the object store failed.*do the same again") as told:
            ask()
        assert not any(secret in str(told.value) for secret in VARIABLES.values() if secret != "us-east-1")
    assert time.monotonic() - began < 300


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"])
def test_a_server_of_one_s_own_is_asked(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    speak_to(NOBODY, monkeypatch)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv(variable, "http://127.0.0.1:11")
    with pytest.raises(JournalError, match=r"http://127\.0\.0\.1:11/sweeps/x/a"):
        Objects(place("x"), patience=IMPATIENT).get("a")


def test_what_a_library_says_holds_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    from crowdsweep.record import objects

    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "a-shared-signature")
    said = objects._said(ValueError("GET https://a.blob/c/x?sig=deadbeef failed for a-shared-signature\nDebug: …"))
    assert said == "GET https://a.blob/c/x?… failed for ***"


def test_credentials_of_files_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "credentials").write_text("[mine]\naws_access_key_id = a\naws_secret_access_key = b\n")
    (tmp_path / "config").write_text("[profile mine]\nregion = eu-west-1\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    client = Objects(place("x"))._client
    assert client.config["region"] == "eu-west-1"
    assert client.credential_provider()["access_key_id"] == "a"
    monkeypatch.setenv("AWS_PROFILE", "nobodys")
    with pytest.raises(BadInput, match=r"AWS's files .* cannot be used: .*nobodys"):
        Objects(place("x"))
