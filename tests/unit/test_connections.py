"""Places that come of one another speak to their bucket with one client, made when it is first needed."""

import copy
import os
import pickle
from threading import Barrier, Thread

import pytest
from object_stores import PLACE, place
from obstore.store import MemoryStore

from crowdsweep.cli.commands import run_command_line
from crowdsweep.record import objects
from crowdsweep.record.connection import Connection
from crowdsweep.record.objects import Objects, RetrySettings
from crowdsweep.record.store_uri import StoreUri
from crowdsweep.record.stores import driver_of, has_journal, stores_below


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[StoreUri]:
    """The places for which a client was made, each on one memory."""
    made: list[StoreUri] = []
    memory = MemoryStore()

    def client_of(place: StoreUri, patience: RetrySettings) -> MemoryStore:
        made.append(place)
        return memory

    monkeypatch.setattr(objects, "_client_of", client_of)
    return made


def test_one_client_for_all_questions_of_a_place_and_those_around_it(made: list[StoreUri]) -> None:
    store = place("runs/birds")
    Objects(store / "labels").put("a.csv", b"a")
    assert Objects(store).get("labels/a.csv") == b"a"
    assert Objects(store.parent).folders() == ["birds"]
    assert [one.name for one in Objects(store.with_name("cats")).names("")] == []
    assert not has_journal(store)
    assert driver_of(store) is None
    assert stores_below(store.parent) == []
    assert len(made) == 1


def test_one_client_a_command(made: list[StoreUri], capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["status", "s3://sweeps/x"], ["repair", "s3://sweeps/x"], ["stop", "s3://sweeps/x"]):
        made.clear()
        assert run_command_line(words) == 2
        assert len(made) == 1, capsys.readouterr().err


def test_names_are_those_below_a_place_and_no_others(made: list[StoreUri]) -> None:
    for prefix in ("", "runs", "runs/b"):
        store = Objects(StoreUri("s3", "sweeps", tuple(prefix.split("/")) if prefix else ()))
        store.put("b.csv", b"1")
        store.put("b/c.csv", b"2")
    whole, runs, inner = (Objects(StoreUri("s3", "sweeps", parts)) for parts in ((), ("runs",), ("runs", "b")))
    assert [one.name for one in inner.names("")] == ["b.csv", "b/c.csv", "c.csv"]
    assert [one.name for one in inner.names_in("")] == ["b.csv", "c.csv"]
    assert [one.name for one in runs.names("b")] == ["b/b.csv", "b/b/c.csv", "b/c.csv"]
    assert [one.name for one in runs.names("", after="b/b.csv")] == ["b/b/c.csv", "b/c.csv"]
    assert (whole.folders(), runs.folders(), inner.folders()) == (["b", "runs"], ["b"], ["b"])
    assert runs.get("b/c.csv") == b"2"
    inner.remove(["b.csv"])
    assert runs.get("b/b.csv") is None
    assert not runs.create("b.csv", b"3")


def test_who_names_a_store_again_speaks_anew(made: list[StoreUri]) -> None:
    Objects(place("x")).get("a")
    Objects(place("x")).get("a")
    assert len(made) == 2


def test_another_environment_or_patience_has_a_client_of_its_own(
    made: list[StoreUri], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = place("x")
    for token in ("first", "first", "second"):  # as a session's token that is renewed
        monkeypatch.setenv("AWS_SESSION_TOKEN", token)
        Objects(store)
    assert len(made) == 2
    Objects(store, patience=RetrySettings(tries=1))
    assert len(made) == 3


def test_nothing_of_it_is_shown_compared_or_copied(made: list[StoreUri], monkeypatch: pytest.MonkeyPatch) -> None:
    store = place("x")
    Objects(store)
    again = pickle.loads(pickle.dumps(store))
    for other in (again, copy.deepcopy(store), place("x")):
        assert other == store
        assert hash(other) == hash(store)
        assert other.connection is not store.connection
    assert "onnection" not in repr(store)
    Objects(again)
    assert len(made) == 2
    monkeypatch.setattr(os, "getpid", lambda: -1)  # a fork: threads that a client has are not there any more
    Objects(store)
    assert len(made) == 3


def test_threads_that_ask_at_once_get_one() -> None:
    connection, ready, made, got = Connection(), Barrier(8), list[object](), list[object]()

    def make() -> object:
        made.append(object())
        return made[-1]

    def ask() -> None:
        ready.wait()
        got.append(connection.client("how", make))

    threads = [Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert {*map(id, got)} == {id(made[0])}


def test_a_client_that_could_not_be_made_is_tried_again() -> None:
    connection, answers = Connection(), [ValueError("not now"), "a client"]

    def make() -> object:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(ValueError, match="not now"):
        connection.client("how", make)
    assert connection.client("how", make) == "a client"


def test_a_place_of_its_own_begins_one() -> None:
    assert StoreUri("s3", "sweeps").connection is not StoreUri("s3", "sweeps").connection
    assert (PLACE / "labels").connection is PLACE.connection
