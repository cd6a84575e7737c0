"""Damaged exports and dataset folders end in a result or a named error: no traceback, no hang, bounded memory.

`CROWDSWEEP_MUTATIONS` says how many files are tried, each a sound one with up to three things done to it.
"""

import csv
import gzip
import io
import json
import os
import random
import resource
import signal
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdsweep.data.folder import read_folder
from crowdsweep.data.formats.normalise import normalised
from crowdsweep.data.formats.registry import FORMS, read_form
from crowdsweep.data.formats.rows import Asked
from crowdsweep.data.formats.write import write_rows
from crowdsweep.data.oddities import odd_things
from crowdsweep.errors import CrowdsweepError
from crowdsweep.testing.time_limit import TooSlow, at_most

MUTATIONS = int(os.environ.get("CROWDSWEEP_MUTATIONS", "300"))
WORDS = ("cat", "dog", "A|B", "Cat", "cat ", "1", "01", "1.0", "ä")


def table(header: list[str], rows: list[list[str]], separator: str = ",") -> bytes:
    out = io.StringIO()
    csv.writer(out, delimiter=separator, lineterminator="\n").writerows([header, *rows])
    return out.getvalue().encode()


def answers(rng: random.Random) -> list[tuple[str, str, str]]:
    labels = rng.sample(WORDS, 3)
    return [(f"t{i}", f"w{j}", labels[0] if i == j else rng.choice(labels[1:])) for i in range(4) for j in range(3)]


def with_gold(rng: random.Random) -> bytes:
    rows = answers(rng)
    gold = {item: label for item, _, label in rows}
    return table(["i", "a", "l", "g"], [[*row, gold[row[0]]] for row in rows], rng.choice(",;\t|"))


def label_studio(rng: random.Random) -> object:
    return [
        {
            "id": number,
            "data": {"text": f"text {number}"},
            "annotations": [
                {
                    "completed_by": rng.choice([who, {"id": who, "email": f"u{who}@x"}]),
                    "was_cancelled": False,
                    "result": [{"from_name": "q", "type": "choices", "value": {"choices": [rng.choice(WORDS[:3])]}}],
                }
                for who in range(3)
            ],
        }
        for number in range(3)
    ]


def label_studio_min(rng: random.Random) -> object:
    return [
        {"id": item, "text": f"text {item}", "q": rng.choice(WORDS[:3]), "annotator": who}
        for item in range(3)
        for who in range(3)
    ]


def argilla(rng: random.Random) -> object:
    responses = [{"value": rng.choice(WORDS), "user_id": f"u{who}", "status": "submitted"} for who in range(3)]
    by_user = [
        {"user_id": given["user_id"], "status": given["status"], "values": {"q": {"value": given["value"]}}}
        for given in responses
    ]
    flat = {
        "q.responses": [given["value"] for given in responses],
        "q.responses.users": [given["user_id"] for given in responses],
        "q.responses.status": [given["status"] for given in responses],
    }
    form = rng.choice([{"responses": {"q": responses}}, {"responses": by_user}, flat])
    return [{"id": f"r{number}", "fields": {"text": "x"}, **form} for number in range(3)]


def mturk(rng: random.Random) -> bytes:
    html = rng.random() < 0.5
    answer = "Answer.taskAnswers" if html else "Answer.q"
    rows = [
        [item, who, rng.choice(["Approved", "Rejected"]), "x", json.dumps([{"q": {"label": label}}]) if html else label]
        for item, who, label in answers(rng)
    ]
    return table(["HITId", "WorkerId", "AssignmentStatus", "Input.text", answer], rows)


def lines(records: list[dict[str, object]]) -> bytes:
    return "\n".join(map(json.dumps, records)).encode()


def prodigy(rng: random.Random) -> bytes:
    return lines(
        [
            {
                "text": "x",
                "_input_hash": item,
                "_annotator_id": f"a{who}",
                "accept": [rng.choice(WORDS)],
                "answer": "accept",
            }
            for item in range(3)
            for who in range(3)
        ]
    )


def doccano(rng: random.Random) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for who in ("ann", "bob"):
            records = [{"id": item, "text": "x", "label": [rng.choice(WORDS)]} for item in range(3)]
            archive.writestr(f"{who}.jsonl", lines(records))
    return out.getvalue()


def matrix(rng: random.Random) -> bytes:
    rows = [[str(rng.choice([0, 1, -1, ""])) for _ in range(4)] for _ in range(4)]
    return table([f"w{j}" for j in range(4)], rows, rng.choice([",", ";", "\t"]))


def npy(rng: random.Random) -> bytes:
    out = io.BytesIO()
    np.save(out, np.array([[rng.choice([0, 1, -1]) for _ in range(3)] for _ in range(4)]))
    return out.getvalue()


def potato(rng: random.Random) -> bytes:
    header = ["user", "instance_id", "displayed_text", "q:::yes", "q:::no"]
    rows = [[f"w{who}", f"t{item}", "x", *rng.choice([["1", ""], ["", "2"]])] for item in range(3) for who in range(3)]
    return table(header, rows)


def peerannot(rng: random.Random) -> bytes:
    given: dict[str, dict[str, str]] = {}
    for item, annotator, label in answers(rng):
        given.setdefault(item, {})[annotator] = label
    return as_json(given)


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


SOUND: list[tuple[str, str, Callable[[random.Random], bytes], Asked]] = [
    (
        "crowd-kit",
        "a.csv",
        lambda rng: table(["task", "worker", "label"], [list(row) for row in answers(rng)]),
        Asked(),
    ),
    (
        "csv",
        "a.csv",
        with_gold,
        Asked(item="i", annotator="a", label="l", gold="g"),
    ),
    ("matrix", "a.csv", matrix, Asked()),
    ("matrix", "a.npy", npy, Asked()),
    ("cleanlab", "a.csv", matrix, Asked()),
    ("snorkel", "a.npy", npy, Asked()),
    ("peerannot", "a.json", peerannot, Asked()),
    ("label-studio", "a.json", lambda rng: as_json(label_studio(rng)), Asked()),
    ("label-studio", "a.json", lambda rng: as_json(label_studio_min(rng)), Asked(question="q")),
    ("argilla", "a.json", lambda rng: as_json(argilla(rng)), Asked()),
    ("doccano", "a.zip", doccano, Asked()),
    ("prodigy", "a.jsonl", prodigy, Asked()),
    ("mturk", "a.csv", mturk, Asked()),
    ("potato", "a.csv", potato, Asked()),
]


def parquet(rng: random.Random) -> bytes:
    out = pa.BufferOutputStream()
    item, annotator, label = zip(*answers(rng), strict=True)
    pq.write_table(pa.table({"item": item, "annotator": annotator, "label": label}), out)
    return out.getvalue().to_pybytes()


def npz(rng: random.Random) -> bytes:
    out = io.BytesIO()
    save = rng.choice([np.savez, np.savez_compressed])
    save(out, features=np.ones((4, 3), dtype=np.float32), item=np.array([f"t{i}" for i in range(4)]))
    return out.getvalue()


def folder_files(rng: random.Random) -> dict[str, bytes]:
    rows = [list(row) for row in answers(rng)]
    files = {
        "items.csv": table(["item", "gold", "text"], [[f"t{i}", "", "x"] for i in range(4)]),
        "dataset.yaml": rng.choice([b"scale: multilabel\n", b"name: x\ntitle: y\n"]),
        "features-x.npz": npz(rng),
        "annotators.csv": rng.choice(
            [
                table(["annotator"], [["w0"], ["w9"]]),
                table(
                    ["annotator", "age", "team"], [[f"w{i}", rng.choice(["", str(i)]), "ab"[i % 2]] for i in range(4)]
                ),
            ]
        ),
    }
    if rng.random() < 0.5:
        files["annotations.parquet"] = parquet(rng)
    else:
        files["annotations.csv"] = table(["item", "annotator", "label"], rows, rng.choice(",;"))
    return files


ODD_VALUES = [
    *(None, True, 0, -1, 1.5, float("nan"), float("inf"), 10**40, "", " ", "\ud800", "\x00", "a\nb", '"', "|", "=1+1"),
    *([], {}, [None], [[]], {"id": None}, {"": ""}, "x" * 5000, [1, "a", None], 2**63, "None", "nan", "-1"),
]


def walk(value: object) -> Iterator[tuple[object, object]]:
    """Yields (container, key) of every place in a document."""
    places = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, inner in places:
        yield value, key
        yield from walk(inner)


def retyped(data: bytes, rng: random.Random) -> bytes:
    """Changes one place of a JSON document, or of a line: another value, none, twice, another order."""
    text = data.decode()
    try:
        document = json.loads(text)
    except ValueError:
        document = [json.loads(line) for line in text.splitlines()]
    place, key = rng.choice(list(walk(document)))
    what = rng.randrange(5)
    if what < 2:
        place[key] = rng.choice(ODD_VALUES)
    elif what == 2:
        del place[key]
    elif isinstance(place, list):
        rng.shuffle(place) if what == 3 else place.append(place[key])
    else:
        place[rng.choice(["id", "annotations", "x", str(key) + " "])] = place[key]
    return json.dumps(document).encode()


def recelled(data: bytes, rng: random.Random) -> bytes:
    """Changes one cell, row or column of a table."""
    rows = [line.split(",") for line in data.decode().split("\n")]
    row = rng.choice(rows)
    what = rng.randrange(6)
    if what < 2:
        row[rng.randrange(len(row))] = str(rng.choice([value for value in ODD_VALUES if value != "\ud800"]))
    elif what == 2:
        row.pop()
    elif what == 3:
        row.append("x")
    elif what == 4:
        rng.shuffle(rows)
    else:
        column = rng.randrange(len(rows[0]))
        rows = [[cell for place, cell in enumerate(line) if place != column] for line in rows]
    return "\n".join(map(",".join, rows)).encode()


def reencoded(data: bytes, rng: random.Random) -> bytes:
    how = rng.randrange(6)
    if how == 0:
        return data.decode().encode("utf-16")
    if how == 1:
        return b"\xef\xbb\xbf" + data
    if how == 2:
        return data.decode().encode("latin-1", errors="replace")
    if how == 3:
        return gzip.compress(data)
    if how == 4:
        return gzip.compress(data)[: rng.randrange(1, len(data) + 1)]
    return data.replace(b"\n", rng.choice([b"\r", b"\r\n", b"\n\n", b"\x00\n"]))


def scarred(data: bytes, rng: random.Random) -> bytes:
    """Cuts, repeats or overwrites bytes."""
    at = rng.randrange(len(data))
    how = rng.randrange(5)
    if how == 0:
        return data[:at]
    if how == 1:
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if how == 2:
        return data[:at] + data[at // 2 :]
    if how == 3:
        return data[:at] + rng.choice([b'"', b"[" * 3000, b"{", b",", b";", b"\xff", b"9" * 5000]) + data[at:]
    return bytes(data[at:] + data[:at])


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Does one to three things to a file, of those that its content allows."""
    for _ in range(rng.randint(1, 3)):
        how = rng.choice([retyped, retyped, recelled, reencoded, scarred])
        try:
            data = how(data, rng) or b"\n"
        except (ValueError, IndexError, AttributeError, TypeError, RecursionError):
            data = scarred(data, rng) or b"\n"
    return data


def try_import(rng: random.Random, place: Path) -> str:
    form, name, make, asked = rng.choice(SOUND)
    (place / name).write_bytes(mutated(make(rng), rng))
    imported = read_form(form, place / name, asked)
    if rng.random() < 0.3:
        imported = normalised(imported)
    odd_things(write_rows(imported, place / "out"))
    return form


def try_folder(rng: random.Random, place: Path) -> str:
    files = folder_files(rng)
    hurt = rng.choice(sorted(files))
    files[hurt] = mutated(files[hurt], rng)
    (place / "data").mkdir()
    for name, data in files.items():
        (place / "data" / name).write_bytes(data)
    odd_things(read_folder(place / "data"))
    return "folder"


def try_one(seed: int, place: Path) -> str:
    """Tries one damaged file, and says how it ended."""
    rng = random.Random(seed)
    place.mkdir()
    told = None
    try:
        with at_most(10):
            (try_folder if rng.random() < 0.3 else try_import)(rng, place)
    except CrowdsweepError as error:
        told = str(error)
    left_behind = told is not None and (place / "out").exists()
    rmtree(place)
    assert not left_behind, f"seed {seed}: something was left behind"
    assert told is None or str(place) in told, f"seed {seed}: which file? {told}"
    return "result" if told is None else "named error"


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="hangs are told by an alarm")
def test_damaged_files_end_in_results_or_named_errors(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, slowest, ended = time.perf_counter(), 0.0, {"result": 0, "named error": 0}
    for seed in range(MUTATIONS):
        one = time.perf_counter()
        try:
            ended[try_one(seed, tmp_path / "one")] += 1
        except (Exception, TooSlow) as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
        slowest = max(slowest, time.perf_counter() - one)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{ended} in {time.perf_counter() - started:.0f} s, slowest {slowest:.2f} s, {grown:.0f} MB more")
    assert grown < 2048
    assert min(ended.values()) > MUTATIONS / 20, "the files are all sound, or all hopeless"


def test_every_form_is_tried() -> None:
    assert {form for form, *_ in SOUND} == set(FORMS)


@pytest.mark.parametrize("entry", SOUND, ids=lambda entry: f"{entry[0]} {entry[1]}")
def test_undamaged_they_are_read(
    tmp_path: Path, entry: tuple[str, str, Callable[[random.Random], bytes], Asked]
) -> None:
    form, name, make, asked = entry
    for seed in range(5):
        (tmp_path / name).write_bytes(make(random.Random(seed)))
        assert write_rows(read_form(form, tmp_path / name, asked), tmp_path / f"out{seed}").n_classes > 1
