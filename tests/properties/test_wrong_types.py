"""Rows whose checksum agrees and whose values are of the wrong type: a named error in every command, nothing else."""

import copy
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from crowdsweep import app
from crowdsweep.record.rows import START, chain, parse_row
from crowdsweep.record.store_files import JOURNAL_FILE
from crowdsweep.sweepfile.read import parse_sweep

WRONG = (None, True, "x", 7, 10**400, -1.5, [], {}, [None], {"x": None}, ["x", 3], {"x": {"x": []}}, [[1, [2]]])
N_CHANGES = max(25, int(os.environ.get("CROWDSWEEP_MUTATIONS", "0")) // 20)  # each is read by three commands
COMMANDS = """
import random, sys, traceback
from pathlib import Path
from crowdsweep.cli.commands import run_command_line
for store in map(Path, sys.argv[1:]):
    for command in (["results", "--phase", "all"], ["status"], ["report"]):
        try:
            code = run_command_line([*command, str(store)])
        except BaseException as error:
            traceback.print_exc()
            print("RAISED", command, store.name, type(error).__name__, error, file=sys.stderr)
        else:
            if code not in (0, 2):
                print("RAISED", command, store.name, code, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    store = tmp_path_factory.mktemp("sound") / "store"
    searched = {"name": "dawid-skene", "search": {"smoothing": {"min": 0.0, "max": 1.0}}}
    printed = {"values": [{"model": "majority-vote", "dataset": "digits", "metric": "test_accuracy", "value": 0.9}]}
    config = {
        "name": "typed",
        "datasets": ["anesthesia"],
        "models": ["majority-vote", searched],
        "budget": {"points": 3},
        "seeds": {"search": 2, "report": 2},
        "published": printed,
        "engine": "inline",
        "tracking": {"enabled": False},
    }
    app.run(parse_sweep(config), store, quiet=True)
    lines = (store / JOURNAL_FILE).read_bytes().splitlines(keepends=True)
    return [json.loads(whole.text) for whole in map(parse_row, lines) if whole is not None]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield from places(part, (*path, key))


def changed(rows: list[dict[str, Any]], draw: random.Random) -> list[dict[str, Any]]:
    """Returns the rows with one value in one of them replaced by another, often of another type."""
    rows = copy.deepcopy(rows)
    row = rows[draw.randrange(len(rows))]["data"]
    *path, last = draw.choice(list(places(row)))
    for key in path:
        row = row[key]
    row[last] = draw.choice(WRONG)
    return rows


def write(rows: list[dict[str, Any]], store: Path) -> None:
    store.mkdir()
    (store / JOURNAL_FILE).write_bytes(chain(map(json.dumps, rows), START)[0])


def said(stores: list[Path]) -> str:
    """Runs the commands where nothing but the product looks at types."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", COMMANDS, *map(str, stores)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stderr


@pytest.mark.long
def test_commands_name_the_row(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    draw = random.Random(7)
    stores = [tmp_path / str(number) for number in range(N_CHANGES)]
    for store in stores:
        write(changed(rows, draw), store)
    told = said(stores)
    assert "RAISED" not in told, told[-6000:]
    assert told.count("error: ") > N_CHANGES, "most of the changes were noticed, by three commands each"


NAMED: Sequence[tuple[str, tuple[str, ...], Any, str]] = (
    ("trial_finished", ("result", "metrics"), {"train_accuracy": "high"}, "metrics"),
    ("trial_finished", ("result", "wall_s"), True, "wall_s"),
    ("trial_finished", ("result", "batch_size"), 2**70, "batch_size"),
    ("trial_finished", ("result", "curve"), [[1, "x"]], "curve"),
    ("trial_planned", ("spec", "seed"), "0", "seed"),
    ("trial_planned", ("spec", "phase"), "never", "phase"),
    ("trial_planned", ("spec", "dataset_params"), {"a": [1]}, "dataset_params"),
    ("point_scored", ("value",), "good", "value"),
    ("points_selected", ("numbers",), ["x"], "numbers"),
    ("sweep_started", ("plan", "datasets"), [{"dataset": 3}], "datasets"),
    ("sweep_started", ("config", "metric"), {"name": "train_accuracy"}, "metric"),
    ("sweep_started", ("config", "models"), ["majority-vote"], "models"),
    ("sweep_started", ("config", "early_stop"), 7, "early_stop"),
    ("sweep_started", ("config", "seeds"), {"search": "x"}, "search"),
)


def test_the_field_is_named(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    stores = [tmp_path / f"{kind} {field}" for kind, *_, field in NAMED]
    for store, (kind, path, value, _) in zip(stores, NAMED, strict=True):
        wrong = copy.deepcopy(rows)
        place = next(row for row in wrong if row["kind"] == kind)["data"]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        write(wrong, store)
    told = said(stores).splitlines()
    assert len(told) == 3 * len(stores), told
    for number, line in enumerate(told):
        kind, *_, field = NAMED[number // 3]
        assert line.startswith("error: ")
        assert str(stores[number // 3] / JOURNAL_FILE) in line
        assert kind in line
        assert re.search(rf"field '(\w+\.)*{field}[.']", line), line
