"""Rows whose checksums and chain agree and that no driver wrote: refused by name, and nothing outside is touched. Then
a person puts a copy back, or does what was said: takes the row out and has the others repaired."""

import json
import shutil
from collections.abc import Callable
from random import Random
from typing import Any

from chaos.faults import fault
from chaos.journal_file import lines_of
from chaos.sandbox import Sandbox

from crowdsweep.record.rows import START, chain, parse_row

Data = dict[str, Any]
PATHS = (
    "../../thesis",
    "../thesis.tex",
    "/etc/passwd",
    "..",
    "a/b",
    "0123456789abcdef0123456789abcdeg",
    "\x00",
    "x" * 6000,
)
SHAPES = ([-1], [1 << 60], [1.5], "3", [True], [[2]], [2] * 100)


def _array(result: Data, **changes: Any) -> None:
    sound = {"digest": "0" * 32, "dtype": "<f8", "shape": [3]}
    result.setdefault("kept", {})["x"] = {**sound, **changes}


FORGE: dict[str, Callable[[Data, Random], None]] = {
    "a path": lambda result, draw: _array(result, digest=draw.choice(PATHS)),
    "a shape": lambda result, draw: _array(result, shape=draw.choice(SHAPES)),
    "a dtype": lambda result, draw: _array(result, dtype=draw.choice(["O", "<M8[s]", "no", 3])),
    "a metric": lambda result, draw: result.update(metrics={"train_accuracy": draw.choice(["1", None, [1.0], {}])}),
    "a status": lambda result, draw: result.update(status=draw.choice(["fine", 1, None, ""])),
    "a key": lambda result, draw: result.update(key=draw.choice(["", "../x", 7, None])),
    "iterations": lambda result, draw: result.update(iterations=draw.choice(["5", 1.5, [1]])),
}


@fault("rows forged", draws=4)
def _forged(box: Sandbox, draw: Random) -> str:
    shutil.copytree(box.undisturbed, box.store)
    box.remember()
    rows = [json.loads(parse_row(line).text) for line in lines_of(box.journal)]  # type: ignore[union-attr] # all are sound
    finished = [row for row in rows if row["kind"] == "trial_finished"]
    row, what = draw.choice(finished), draw.choice(sorted(FORGE))
    box.known.pop(row["data"]["result"]["key"], None)
    FORGE[what](row["data"]["result"], draw)
    sound = box.journal.read_bytes()
    texts = [json.dumps(one, separators=(",", ":")) for one in rows]
    box.journal.write_bytes(chain(texts, START)[0])
    code = box.finish(box.start())
    assert code == 2, f"exit code {code}: {box.said}"
    assert "journal" in box.said, box.said
    at = rows.index(row)
    assert f"row {at + 1}:" in box.said, box.said
    assert "take this row" in box.said, box.said
    assert box.finish(box.start("repair store")) in (0, 2), box.said
    if draw.random() < 0.5:
        box.journal.write_bytes(sound)  # a person has a copy
        how = "a copy put back"
    else:
        lines = lines_of(box.journal)
        box.journal.write_bytes(b"".join([*lines[:at], *lines[at + 1 :]]))
        assert box.finish(box.start("repair store")) == 0, box.said
        how = "taken out"
    box.code, box.repaired = None, True
    return f"{what}, row {at + 1} of {len(rows)}, {how}"
