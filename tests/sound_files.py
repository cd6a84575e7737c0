"""Sound exports of every form, and dataset folders, drawn by a seed: what tests of damaged files damage."""

import csv
import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crowdsweep.importing.rows import FileOptions

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


def lewidi(rng: random.Random) -> bytes:
    given: dict[str, dict[str, str]] = {}
    for item, annotator, label in answers(rng):
        given.setdefault(item, {})[annotator] = label
    known = {
        "text": {"post": "x", "reply": "y"},
        "annotators": "",
        "soft_label": {"yes": 0.5, "no": 0.5},
        "split": "dev",
    }
    return as_json({item: {**known, "annotations": said} for item, said in given.items()})


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


SOUND: list[tuple[str, str, Callable[[random.Random], bytes], FileOptions]] = [
    (
        "crowd-kit",
        "a.csv",
        lambda rng: table(["task", "worker", "label"], [list(row) for row in answers(rng)]),
        FileOptions(),
    ),
    (
        "csv",
        "a.csv",
        with_gold,
        FileOptions(item="i", annotator="a", label="l", gold="g"),
    ),
    ("matrix", "a.csv", matrix, FileOptions()),
    ("matrix", "a.npy", npy, FileOptions()),
    ("cleanlab", "a.csv", matrix, FileOptions()),
    ("snorkel", "a.npy", npy, FileOptions()),
    ("peerannot", "a.json", peerannot, FileOptions()),
    ("lewidi", "a.json", lewidi, FileOptions()),
    ("label-studio", "a.json", lambda rng: as_json(label_studio(rng)), FileOptions()),
    ("label-studio", "a.json", lambda rng: as_json(label_studio_min(rng)), FileOptions(question="q")),
    ("argilla", "a.json", lambda rng: as_json(argilla(rng)), FileOptions()),
    ("doccano", "a.zip", doccano, FileOptions()),
    ("prodigy", "a.jsonl", prodigy, FileOptions()),
    ("mturk", "a.csv", mturk, FileOptions()),
    ("potato", "a.csv", potato, FileOptions()),
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
    if rng.random() < 0.2:
        del files["annotators.csv"]
        files["votes.csv"] = table(["item", "label", "count"], [[item, label, "3"] for item, _, label in rows])
    elif rng.random() < 0.5:
        files["annotations.parquet"] = parquet(rng)
    elif rng.random() < 0.3:
        files["annotations.csv.gz"] = gzip.compress(table(["item", "annotator", "label"], rows))
    else:
        files["annotations.csv"] = table(["item", "annotator", "label"], rows, rng.choice(",;"))
    if rng.random() < 0.3 and files["dataset.yaml"].startswith(b"name"):
        files["classes.csv"] = table(["label", "name"], [[word, word] for word in WORDS])
    return files
