"""The journal in an object store: one writer at a time, lost answers, servers that fail, packs, and what is damaged."""

import time

import journal_checks
import mirror_checks
import numpy as np
import pytest
from mirror_checks import ok, one_of_each, spec
from object_stores import PLACE, in_memory, rows_of
from obstore.store import MemoryStore
from six_drivers import six_at_once

from crowdsweep.errors import JournalDamaged, JournalError, JournalLocked
from crowdsweep.record import object_writer
from crowdsweep.record.artifacts import Artifact
from crowdsweep.record.asking import ask
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.kept_arrays import array_of, arrays_of, keep, place_of
from crowdsweep.record.numbered import Head, head_of, object_name
from crowdsweep.record.object_rows import ObjectRows, last_head
from crowdsweep.record.object_writer import ObjectWriter
from crowdsweep.record.objects import Objects
from crowdsweep.record.repair import repair_journal

ROW = '{"a":%d}'


@pytest.fixture
def memory() -> MemoryStore:
    return MemoryStore()


def texts(memory: MemoryStore) -> list[str]:
    return [row.text.decode() for row in ObjectRows(in_memory(memory)).read_rows()]


def elsewhere(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """Has drivers that begin from now on say that they run on another machine."""
    monkeypatch.setattr(object_writer.socket, "gethostname", lambda: host)


@pytest.mark.parametrize(
    "check",
    [
        mirror_checks.check_rows_come_back,
        mirror_checks.check_reads_beside_a_writer,
        mirror_checks.check_second_writer_is_kept_out,
        mirror_checks.check_closed_rows_refuse,
    ],
)
@pytest.mark.parametrize("packed", [1, 2, 256])
def test_rows(check: object, packed: int, memory: MemoryStore) -> None:
    check(
        lambda write: (
            rows_of(in_memory(memory), packed=packed, answer_s=60.0) if write else ObjectRows(in_memory(memory))
        )
    )


@pytest.mark.parametrize("check", journal_checks.CHECKS)
@pytest.mark.parametrize("packed", [2, 256])
def test_journal(check: object, packed: int, memory: MemoryStore) -> None:
    check(lambda: Journal(PLACE, rows=rows_of(in_memory(memory), packed=packed)))


def test_one_of_six_drivers_writes(memory: MemoryStore) -> None:
    """All begin at once: five are refused by name, and the sixth is alone."""

    def begin(number: int) -> ObjectWriter:
        rows = rows_of(in_memory(memory), answer_s=60.0)
        rows.append_rows([ROW % number])
        return rows

    writers, refused = six_at_once(begin)
    assert (len(writers), len(refused)) == (1, 5)
    assert all("pid" in str(error) and "since" in str(error) for error in refused)
    assert len(texts(memory)) == 1
    writers[0].close()


def test_an_answer_that_was_lost_is_no_lost_race(memory: MemoryStore) -> None:
    objects = in_memory(memory)
    objects.losing = 1  # of the object that says that this driver begins
    rows = rows_of(objects)
    assert objects.creates == 3  # again, as no answer came, and to see that the server looks
    list(rows.read_rows())
    objects.losing = 2
    rows.append_rows([ROW % 1])
    rows.append_rows([ROW % 2])
    rows.close()
    assert texts(memory) == [ROW % 1, ROW % 2]


def test_a_driver_whose_answers_are_all_lost_stops_and_the_next_goes_on(memory: MemoryStore) -> None:
    """What it wrote and could not know of stands there, once; it tells nobody of it."""
    objects = in_memory(memory)
    journal = Journal(PLACE, rows=rows_of(objects))
    journal.handle(ok(spec(0).key))
    objects.create = _raises  # type: ignore[method-assign]
    for _ in range(2):
        with pytest.raises(JournalError, match="no server"):
            journal.handle(ok(spec(1).key))
    assert list(journal.state.results) == [spec(0).key]
    journal.close()
    again = Journal(PLACE, rows=rows_of(in_memory(memory)))
    again.handle(ok(spec(1).key))
    assert list(again.state.results) == [spec(0).key, spec(1).key]
    again.close()


def _raises(*_: object) -> bool:
    raise JournalError("no server")


def test_a_driver_that_does_not_answer_is_replaced_and_stops_before_it_tells(
    memory: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one is that hung, or whose machine was cut off: what it had not written is not known to have been done."""
    elsewhere(monkeypatch, "a spot node")
    first = Journal(PLACE, rows=(hung := rows_of(in_memory(memory))))
    first.handle(ok(spec(0).key))
    hung._listener._ended.set()
    elsewhere(monkeypatch, "another node")
    second = Journal(PLACE, rows=rows_of(in_memory(memory)))
    with pytest.raises(JournalLocked, match=r"another driver has continued .* on another node since .* are lost"):
        first.handle(ok(spec(1).key))
    assert list(first.state.results) == [spec(0).key]
    with pytest.raises(JournalLocked, match="has continued"):
        first.handle(ok(spec(2).key))
    first.close()
    second.handle(ok(spec(1).key))
    assert list(second.state.results) == [spec(0).key, spec(1).key]
    second.close()
    assert last_head(in_memory(memory))[1].ended


def test_a_driver_that_died_here_is_replaced_at_once(memory: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(in_memory(memory))
    rows._listener._ended.set()
    monkeypatch.setattr(object_writer, "is_gone", lambda driver: True)
    began = time.monotonic()
    rows_of(in_memory(memory), answer_s=600.0).close()
    assert time.monotonic() - began < 300


def test_stop_waits_for_somebody_who_heeds_it(memory: MemoryStore) -> None:
    rows = rows_of(in_memory(memory))
    writer = last_head(in_memory(memory))[1].writer
    assert not ask(in_memory(memory), writer, "stop", patience_s=0.2)  # nobody heeds it yet
    pressed: list[int] = []
    rows.heed(lambda: pressed.append(1))
    assert ask(in_memory(memory), writer, "stop", patience_s=60.0)
    assert ask(in_memory(memory), writer, "stop", patience_s=60.0)
    assert pressed == [1, 1]
    rows.close()
    assert not in_memory(memory).names("asked")


def test_rows_of_one_flush_are_one_object(memory: MemoryStore) -> None:
    rows = rows_of(in_memory(memory))
    rows.append_rows([ROW % number for number in range(50)])
    rows.close()
    names = [one.name for one in in_memory(memory).names("journal")]
    assert names == [object_name(number) for number in (1, 2, 3)]  # a driver begins, fifty rows, it ends


@pytest.mark.parametrize("packed", [1, 3, 7])
def test_packs_are_read_in_place_of_their_objects(packed: int, memory: MemoryStore) -> None:
    expected: list[str] = []
    for driver in range(3):
        rows = rows_of(in_memory(memory), packed=packed)
        for number in range(10):
            expected.append(ROW % (100 * driver + number))
            rows.append_rows(expected[-1:])
        rows.close()
    assert in_memory(memory).names("packs")
    counted = Counting(PLACE, client=memory)
    assert [row.text.decode() for row in ObjectRows(counted).read_rows()] == expected
    assert counted.read <= 36 // packed + packed + 1


class Counting(Objects):
    """Objects that say how many were read."""

    read = 0

    def get(self, name: str) -> bytes | None:
        self.read += 1
        return super().get(name)


def test_a_pack_that_cannot_be_written_is_not_missed(memory: MemoryStore) -> None:
    objects = in_memory(memory)
    rows = rows_of(objects, packed=3)
    list(rows.read_rows())
    whole = objects.create
    objects.create = lambda name, content: _raises() if name.startswith("packs/") else whole(name, content)
    for number in range(10):
        rows.append_rows([ROW % number])
    rows.close()
    assert texts(memory) == [ROW % number for number in range(10)]
    rows = rows_of(in_memory(memory), packed=3)
    list(rows.read_rows())
    rows.close()
    assert in_memory(memory).names("packs")


def written(memory: MemoryStore, flushes: int = 4) -> None:
    rows = rows_of(in_memory(memory))
    for number in range(flushes):
        rows.append_rows([ROW % (2 * number), ROW % (2 * number + 1)])
    rows.close()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda content: content[:-2], "ends before the last of its 2 rows"),
        (lambda content: content.partition(b"\n")[2], "does not begin as a driver writes it"),
        (lambda content: content.replace(b'"a":2', b'"a":9'), "cannot be read"),
        (lambda content: b"", "ends before object 3"),
        (None, "is missing, and later ones exist"),
    ],
)
def test_what_is_damaged_is_refused_and_nothing_of_it_is_lost_twice(
    damage: object, words: str, memory: MemoryStore
) -> None:
    written(memory)
    objects, name = in_memory(memory), object_name(3)
    before = objects.get(name)
    objects.remove([name]) if damage is None else objects.put(name, damage(before))
    with pytest.raises(JournalDamaged, match=words):
        texts(memory)
    rows = rows_of(objects)
    with pytest.raises(JournalDamaged, match="repair"):
        rows.append_rows([ROW % 9])
    rows.close()


def test_another_object_in_the_journal_is_named(memory: MemoryStore) -> None:
    written(memory)
    in_memory(memory).put("journal/notes.txt", b"mine")
    with pytest.raises(JournalDamaged, match=r"journal/notes\.txt: expected the objects of a journal alone"):
        texts(memory)


def test_repair_goes_by_what_can_be_read(memory: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(PLACE, rows=rows_of(in_memory(memory)))
    for event in one_of_each():
        journal.handle(event)
    journal.close()
    objects = in_memory(memory)
    monkeypatch.setattr("crowdsweep.record.repair.Objects", lambda place: in_memory(memory))
    sound = repair_journal(PLACE)
    assert (sound.copy, sound.dropped) == (None, 0)
    name = object_name(4)
    objects.put(name, damaged := objects.get(name)[:-5] + b"\n")
    done = repair_journal(PLACE)
    assert (done.kept, done.dropped, str(done.copy)) == (sound.kept - 1, 1, f"{PLACE}/journal")
    assert objects.get(name) == damaged
    assert len(texts(memory)) == done.kept
    assert repair_journal(PLACE).copy is None
    again = Journal(PLACE, rows=rows_of(in_memory(memory)))
    again.handle_many(one_of_each())
    again.close()
    assert read_journal(PLACE, rows=ObjectRows(in_memory(memory))).name == "a-sweep"


def test_repair_reads_the_objects_of_a_damaged_pack(memory: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(in_memory(memory), packed=4)
    for number in range(9):
        rows.append_rows([ROW % number])
    rows.close()
    objects = in_memory(memory)
    pack = objects.names("packs")[0].name
    objects.put(pack, objects.get(pack).replace(b'"a":1', b'"a":7'))
    with pytest.raises(JournalDamaged):
        texts(memory)
    monkeypatch.setattr("crowdsweep.record.repair.Objects", lambda place: in_memory(memory))
    assert repair_journal(PLACE).kept == 9
    assert texts(memory) == [ROW % number for number in range(9)]


def test_there_is_nothing_to_repair_where_no_sweep_ran(memory: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crowdsweep.record.repair.Objects", lambda place: in_memory(memory))
    with pytest.raises(JournalError, match="no journal to repair"):
        repair_journal(PLACE)
    assert not in_memory(memory).names("")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b'{"object":1}',
        b'{"object":true,"rows":0,"writer":"%s","pid":1,"host":"h","since":"s","ended":false}' % (b"0" * 32),
        b'{"object":1,"rows":0,"writer":"../../x","pid":1,"host":"h","since":"s","ended":false}',
        b'{"object":1,"rows":-1,"writer":"%s","pid":1,"host":"h","since":"s","ended":false}' % (b"0" * 32),
        b'{"object":' + b"[" * 5000,
    ],
)
def test_what_no_driver_begins_with_is_no_head(line: bytes) -> None:
    assert head_of(line + b"\n") is None


def test_a_head_comes_back() -> None:
    head = Head(object=3, rows=2, writer="0f" * 16, pid=7, host="a node", since="2026-11-29T21:00:00+00:00")
    assert head_of(head.line()) == head


def test_objects_at_once_come_in_their_order(memory: MemoryStore) -> None:
    objects = in_memory(memory)
    names = [f"many/{number:04d}" for number in range(150)]
    objects.create_all([(name, name.encode()) for name in names])
    assert [content.decode() for content in objects.get_all(names)] == names
    assert list(objects.get_all(["many/0000", "many/none"])) == [b"many/0000", None]
    assert [one.name for one in objects.names("many", after="many/0147")] == ["many/0148", "many/0149"]


class Overwriting(Objects):
    """Objects of a server that knows no conditional writes."""

    def create(self, name: str, content: bytes) -> bool:
        self.put(name, content)
        return True


def test_a_server_without_conditional_writes_is_refused(memory: MemoryStore) -> None:
    with pytest.raises(JournalError, match="asked to create only where none exists"):
        rows_of(Overwriting(PLACE, client=memory))


def test_arrays_are_kept_once(memory: MemoryStore) -> None:
    objects = in_memory(memory)
    rows = rows_of(objects)
    before = objects.creates
    for _ in range(3):
        rows.put("artifacts", {"a.npy": b"one", "b.npy": b"two"})
    assert objects.creates == before + 2
    assert rows.names("artifacts") == {"a.npy", "b.npy"}
    assert (rows.get("artifacts/a.npy"), rows.get("artifacts/c.npy")) == (b"one", None)
    rows.close()
    with pytest.raises(JournalError, match="not open for writing"):
        rows.put("artifacts", {"c.npy": b""})


def test_arrays_of_many_trials_are_read_at_once_and_looked_at(memory: MemoryStore) -> None:
    rows = rows_of(in_memory(memory))
    kept = keep(rows.put, {name: np.full(3, number) for number, name in enumerate("abc")})
    in_memory(memory).put(place_of(kept["b"]), b"damaged")
    found = arrays_of(rows, [*kept.values(), Artifact(dtype="<f8", shape=(10**6,))])
    assert {digest: array.tolist() for digest, array in found.items()} == {
        kept["a"].digest: [0, 0, 0],
        kept["c"].digest: [2, 2, 2],
    }
    assert array_of(rows, kept["b"]) is None
    rows.close()
