"""Journals that were damaged in every way: read, or refused by name; repaired, and gone on with to the same sweep."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeExecutor, HistorySearcher

from crowdsweep.analysis.trial_table import results_table
from crowdsweep.errors import CrowdsweepError, JournalDamaged
from crowdsweep.record.codec import decode
from crowdsweep.record.events import TrialFinished
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.repair import repair_journal
from crowdsweep.record.rows import parse_row
from crowdsweep.record.spec import TrialSpec
from crowdsweep.record.store_files import JOURNAL_FILE
from crowdsweep.sweep.driver import run_sweep
from crowdsweep.sweep.plan import Plan, make_plan
from crowdsweep.sweepfile.read import parse_sweep

N_MUTATIONS = 400
Rows = list[bytes]


def score(spec: TrialSpec) -> Mapping[str, float]:
    return {"heldout_loglik": -((spec.params.get("smoothing", 0.0) - 0.3) ** 2) + 0.001 * (spec.seed % 7)}


@pytest.fixture(scope="module")
def plan() -> Plan:
    searched = {"name": "dawid-skene", "search": {"smoothing": {"min": 0.0, "max": 1.0}}}
    return make_plan(
        parse_sweep(
            {
                "name": "small",
                "datasets": ["anesthesia"],
                "models": ["majority-vote", searched],
                "budget": {"points": 4},
                "seeds": {"search": 2, "report": 2, "rescored": 1},
                "sampler": {"parallel": 2},
            }
        )
    )


def run(plan: Plan, store: Path) -> list[str]:
    """Runs what the store lacks; returns the keys of the trials that ran."""
    journal, slots = Journal(store), FakeExecutor(score=score)
    try:
        run_sweep(plan, executor=slots, journal=journal, make_searcher=lambda one: HistorySearcher(limit=one.limit))
    finally:
        journal.close()
    return slots.ran


def told(store: Path) -> tuple[Any, ...]:
    """What a sweep came to, but for what it cost."""
    state = read_journal(store)
    table = results_table(state, "all", every=True)
    cost = ["wall_s", "batch_wall_s", "batch_size", "peak_bytes", "host"]
    rows = sorted(table.drop_columns(cost).to_pylist(), key=lambda row: row["key"])
    return rows, {key: list(one) for key, one in state.proposals.items()}, dict(state.values), dict(state.selected)


@pytest.fixture(scope="module")
def sound(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("sound")
    run(plan, store)
    return store


def rows_of(store: Path) -> Rows:
    return (store / JOURNAL_FILE).read_bytes().splitlines(keepends=True)


def finished(row: bytes) -> list[str]:
    whole = parse_row(row)
    event = None if whole is None else decode(whole.text)
    return [event.result.key] if isinstance(event, TrialFinished) else []


WAYS: Mapping[str, Callable[[Rows, int], Rows]] = {
    "damaged": lambda rows, at: [*rows[:at], rows[at][:-6] + b"XXXX}\n", *rows[at + 1 :]],
    "deleted": lambda rows, at: [*rows[:at], *rows[at + 1 :]],
    "doubled": lambda rows, at: [*rows[: at + 1], *rows[at:]],
    "swapped": lambda rows, at: [*rows[:at], *rows[at : at + 2][::-1], *rows[at + 2 :]],
}


@pytest.mark.parametrize("way", WAYS)
def test_whichever_row_is_damaged_the_sweep_is_the_same(way: str, plan: Plan, sound: Path, tmp_path: Path) -> None:
    rows, expected = rows_of(sound), told(sound)
    for at in range(len(rows) - 1):  # the last one deleted is a journal that ends earlier
        store = tmp_path / str(at)
        store.mkdir()
        (store / JOURNAL_FILE).write_bytes(b"".join(WAYS[way](rows, at)))
        for read in (read_journal, Journal):
            with pytest.raises(JournalDamaged):
                read(store)
        assert repair_journal(store).copy is not None
        results_table(read_journal(store))  # what is left can be shown before anything is run again
        assert run(plan, store) == (finished(rows[at]) if way in ("damaged", "deleted") else [])
        assert told(store) == expected
        ends = Counter(key for row in rows_of(store) for key in finished(row))
        assert set(ends.values()) == {1}


def mutated(rows: Rows, draw: random.Random) -> bytes:
    """A journal changed in one to three ways."""
    data = b"".join(rows)
    for _ in range(draw.randint(1, 3)):
        at, length = draw.randrange(len(data) + 1), draw.choice([1, 1, 2, 30, 900])
        lines = data.splitlines(keepends=True)
        one, other = (draw.randrange(len(lines) + 1) for _ in range(2))
        match draw.randrange(9):
            case 0:
                data = data[:at] + draw.randbytes(length) + data[at:]
            case 1:
                data = data[:at] + data[at + length :]
            case 2:
                data = data[:at] + draw.randbytes(length) + data[at + length :]
            case 3:
                data = data[:at]
            case 4:
                data = b"".join([*lines[:one], *lines[one + 1 :]])
            case 5:
                data = b"".join([*lines[:one], *lines[other : other + 2], *lines[one:]])
            case 6:
                draw.shuffle(lines)
                data = b"".join(lines)
            case 7:
                data = data.replace(b"\n", draw.choice([b"\r\n", b"\r", b"\n\n", b"\0\n", b""]))
            case _:
                data = draw.choice([b"\xef\xbb\xbf", b"\0" * length, b"\n", b"{}\n", b"\xff\xfe"]) + data
        data = data or b"\n"
    return data


def test_a_mutated_journal_is_read_or_refused_by_name(plan: Plan, sound: Path, tmp_path: Path) -> None:
    rows, expected = rows_of(sound), told(sound)
    ends: Counter[str] = Counter()
    for seed in range(N_MUTATIONS):
        store = tmp_path / str(seed)
        store.mkdir()
        file, data = store / JOURNAL_FILE, mutated(rows, random.Random(seed))
        file.write_bytes(data)
        try:
            results_table(read_journal(store))
            ends["read"] += 1
        except CrowdsweepError:
            ends["refused"] += 1
        try:
            Journal(store).close()
        except CrowdsweepError:
            assert file.read_bytes() == data, f"seed {seed}: a journal that is refused stands as it was"
        try:
            done = repair_journal(store)
        except CrowdsweepError:
            assert file.read_bytes() == data
            ends["hopeless"] += 1
            continue
        assert done.copy is None or done.copy.read_bytes() == data
        if seed % 8 == 0:
            run(plan, store)
            assert told(store) == expected, f"seed {seed}"
            ends["can be continued"] += 1
    assert min(ends[end] for end in ("read", "refused", "hopeless", "can be continued")) > 5, ends
