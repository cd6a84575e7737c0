"""The journal under arbitrary events, cuts and changed bytes."""

import io
import json
import math
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mirror_checks
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdsweep.errors import JournalDamaged, JournalError
from crowdsweep.record.artifacts import Artifact
from crowdsweep.record.codec import decode, encode
from crowdsweep.record.events import (
    BatchLost,
    PointProposed,
    PointScored,
    PointsSelected,
    PointsTold,
    RunsCreated,
    SweepFinished,
    SweepStarted,
    SweepStatus,
    ToldPoint,
    TrialFinished,
    TrialPlanned,
)
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.plan_record import CellRecord, DatasetRecord, PlanRecord
from crowdsweep.record.result import Failure, Status, TrialResult
from crowdsweep.record.rows import START, chain, encode_row, parse_row, valid_rows
from crowdsweep.record.spec import TrialSpec

E = "e" * 16

texts = st.text(max_size=8)
keys = st.text("0123456789abcdef", min_size=16, max_size=16)
floats = st.floats(allow_nan=False)
finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | finite | texts
values = scalars | st.lists(scalars, max_size=2) | st.dictionaries(texts, scalars, max_size=2)
mappings = st.dictionaries(texts, values, max_size=3)
strings = st.dictionaries(texts, texts, max_size=3)
floats_in_order = st.lists(floats, max_size=3).map(tuple)


def one(kind: type, /, **of: st.SearchStrategy) -> st.SearchStrategy:
    """Draws a record as (class, fields): `built` makes it in the test's body, where its types may be checked."""
    return st.tuples(st.just(kind), st.fixed_dictionaries(of))


def several(record: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(record, max_size=2).map(tuple)


def built(drawn: Any) -> Any:
    if isinstance(drawn, tuple) and len(drawn) == 2 and isinstance(drawn[0], type):
        kind, of = drawn
        return kind(**{name: built(value) for name, value in of.items()})
    if isinstance(drawn, dict):
        return {name: built(value) for name, value in drawn.items()}
    return tuple(map(built, drawn)) if isinstance(drawn, tuple) else drawn


whole = st.integers(-(2**63), 2**63 - 1)
scalar_params = st.dictionaries(texts, st.booleans() | whole | texts, max_size=2)
failures = one(Failure, kind=texts, message=texts, traceback=texts)
kept_arrays = one(
    Artifact,
    digest=st.sampled_from(["", "0" * 32]),
    dtype=st.sampled_from(["<f8", "<i4", "|b1", "<U5"]),
    shape=st.lists(st.integers(0, 9), max_size=3).map(tuple),
)
done = one(
    TrialResult,
    key=keys,
    status=st.just(Status.OK),
    metrics=st.dictionaries(texts, finite, max_size=3),
    objective=floats_in_order,
    curve=st.lists(st.tuples(st.integers(1, 99), floats), max_size=3).map(tuple),
    watched=texts,
    confusion=st.none() | st.lists(floats, min_size=1, max_size=3).map(lambda row: (tuple(row),) * 2),
    kept=st.dictionaries(texts, kept_arrays, max_size=2),
    iterations=st.integers(0, 10**9),
    wall_s=floats,
)
specs = one(
    TrialSpec,
    model=texts,
    params=mappings,
    model_version=st.integers(0, 9),
    dataset=texts,
    dataset_params=scalar_params,
    fingerprint=texts,
    seed=st.integers(0, 2**32),
    phase=st.sampled_from(["search", "report"]),
    point=mappings,
)
numbers = st.integers(0, 10**6)
records = one(
    CellRecord,
    key=texts,
    label=texts,
    model=texts,
    dataset=texts,
    dataset_params=scalar_params,
    params=mappings,
    sees_gold=st.booleans(),
    metric=texts,
    goal=st.sampled_from(["maximize", "minimize"]),
    points=numbers,
    n_trials=numbers,
)
datasets = one(
    DatasetRecord,
    dataset=texts,
    dataset_params=scalar_params,
    gold=st.dictionaries(texts, st.booleans(), max_size=2),
    heldout=finite,
)
plans = one(
    PlanRecord,
    datasets=several(datasets),
    cells=several(records),
    searches=several(records),
    report_seeds=numbers,
    n_trials=numbers,
)
events = st.one_of(
    one(
        SweepStarted,
        name=texts,
        config=mappings,
        plan=plans,
        environment=strings,
        resumed=st.booleans(),
        time=floats,
    ),
    one(
        PointProposed,
        search=texts,
        number=numbers,
        point=mappings,
        model=texts,
        dataset=texts,
        dataset_params=mappings,
    ),
    one(
        PointsTold,
        search=texts,
        points=several(one(ToldPoint, point=mappings, value=finite, source=texts, further=several(finite))),
    ),
    one(PointScored, search=texts, number=numbers, value=st.none() | floats, further=several(floats)),
    one(PointsSelected, search=texts, numbers=st.lists(numbers, max_size=3).map(tuple)),
    one(TrialPlanned, spec=specs, label=texts, search=texts),
    one(TrialFinished, result=done | one(TrialResult, key=keys, status=st.just(Status.FAILED), failure=failures)),
    one(BatchLost, keys=st.lists(texts, max_size=3).map(tuple), reason=texts, slot=texts),
    one(RunsCreated, tracking_uri=texts, experiment_id=texts, runs=strings),
    one(
        SweepFinished,
        status=st.sampled_from([status for status in SweepStatus if status not in ("new", "running")]),
        time=floats,
    ),
)
rows = st.lists(
    st.dictionaries(texts, texts, min_size=1, max_size=2).map(lambda row: json.dumps(row, ensure_ascii=False)),
    min_size=1,
    max_size=4,
)


@given(events)
def test_an_event_comes_back_as_it_was(drawn: object) -> None:
    event = built(drawn)
    text = encode(event)
    assert decode(text) == event
    assert "\n" not in text
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_nan_comes_back_too() -> None:
    finished = mirror_checks.ok(E)
    event = replace(finished, result=replace(finished.result, objective=(1.0, math.nan, -math.inf)))
    text = encode(event)
    assert "NaN" not in text
    back = decode(text)
    assert isinstance(back, TrialFinished)
    assert back.result.objective[0] == 1.0
    assert math.isnan(back.result.objective[1])
    assert back.result.objective[2] == -math.inf


def _lines(rows_as_text: list[str]) -> list[bytes]:
    return chain(rows_as_text, START)[0].splitlines(keepends=True)


@given(rows, st.data())
def test_any_cut_leaves_the_rows_before_it(rows_as_text: list[str], data: st.DataObject) -> None:
    whole = b"".join(_lines(rows_as_text))
    cut = data.draw(st.integers(0, len(whole)))
    expected, end = [], 0
    for text, line in zip(rows_as_text, _lines(rows_as_text), strict=True):
        end += len(line)
        if end - 1 <= cut:  # of the last one, the newline may be missing
            expected.append(text)
    got = [row.text.decode() for row in valid_rows(io.BytesIO(whole[:cut]), "x")]
    assert got == expected


@given(rows, st.data())
def test_a_changed_byte_is_never_read(rows_as_text: list[str], data: st.DataObject) -> None:
    whole = bytearray(b"".join(_lines(rows_as_text)))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    before = bytes(whole[:place]).count(b"\n")
    got: list[str] = []
    message = ""
    try:
        got.extend(row.text.decode() for row in valid_rows(io.BytesIO(bytes(whole)), "x"))
    except JournalDamaged as error:
        message = str(error)
    assert got == rows_as_text[:before], "only what stands before the change may be believed"
    assert f"row {before + 1} " in message, "a changed byte is no torn tail"


@given(events)
def test_a_sealed_row_opens(drawn: object) -> None:
    text = encode(built(drawn))
    line = encode_row(text, START)
    assert line.count(b"\n") == 1
    opened = parse_row(line)
    assert opened is not None
    assert opened.text.decode("utf-8", "surrogatepass") == text


THREE = ["a" * 16, "b" * 16, "c" * 16]
outcomes = st.lists(st.tuples(st.sampled_from(THREE), st.sampled_from(Status), st.integers(0, 99)), max_size=20)


@settings(max_examples=25, deadline=None)
@given(outcomes, st.lists(st.integers(1, 5), max_size=8))
def test_a_trial_finishes_once(outcomes: list[tuple[str, Status, int]], groups: list[int]) -> None:
    """Against a naive rule: the first success wins, else the first failure, else the first that was stopped."""
    happened = [
        mirror_checks.failed(key, f"Kind{mark}")
        if status is Status.FAILED
        else TrialFinished(result=replace(mirror_checks.ok(key, score=float(mark)).result, status=status))
        for key, status, mark in outcomes
    ]
    expected = {}
    for key in THREE:
        own = [event.result for event in happened if event.result.key == key]
        for status in (Status.STOPPED, Status.FAILED, Status.OK):
            if ended_so := [result for result in own if result.status is status]:
                expected[key] = ended_so[0]
    with TemporaryDirectory() as folder:
        journal = Journal(Path(folder))
        journal.handle(mirror_checks.started())
        rest = happened
        for size in [*groups, len(happened)]:
            journal.handle_many(rest[:size])
            rest = rest[size:]
        assert dict(journal.state.results) == expected
        journal.close()
        assert dict(read_journal(Path(folder)).results) == expected
        lines = Path(folder, "journal.jsonl").read_bytes().count(b"\n")
        assert lines <= 1 + 3 * len(expected), "at most a stop, a failure and a success of each"


@pytest.mark.parametrize(
    "text", ['{"kind":"trial_paused","v":1,"data":{}}', '{"kind":"trial_finished","v":99,"data":{}}']
)
def test_rows_of_the_future_say_so(text: str) -> None:
    with pytest.raises(JournalError, match="newer crowdsweep"):
        decode(text)
