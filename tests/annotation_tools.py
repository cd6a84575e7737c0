"""Annotation tools as `test_back_to_the_tool` meets them: the files that they write, and how they read what comes back.

What comes back is read by this package's own reader where the tool exports what it imports, else by the structure that
the tool documents. Everything is made of one small crowd, `answered`.
"""

import csv
import io
import json
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from crowdsweep.importing.registry import read_form

MOODS = ("angry", "calm", "happy")
PEOPLE = ("Ann1", "Ann2", "Ann3", "Ann4", "Ann5")
TEXTS = {n: f'Film {n}, "so, so"\nand = good 😀' for n in range(24)}
Answers = Mapping[int, Mapping[str, str]]  # by item, of annotators; an item may have none
Labels = Mapping[str, Any]


def answered(classes: tuple[str, ...] = MOODS, seed: int = 0) -> dict[int, dict[str, str]]:
    """Twenty-four items, of which the last has no answer, and five people who are right in four of five cases."""
    draws = random.Random(seed)
    found: dict[int, dict[str, str]] = {}
    for item in TEXTS:
        truth = draws.choice(classes)
        asked = draws.sample(PEOPLE, 3) if item < len(TEXTS) - 1 else []
        found[item] = {who: truth if draws.random() < 0.8 else draws.choice(classes) for who in asked}
    return found


def text_of_rows(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    file = io.StringIO()
    csv.writer(file).writerows([list(header), *map(list, rows)])
    return file.getvalue()


def lines(records: Iterable[Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def each(answers: Answers) -> Iterable[tuple[int, str, str]]:
    return ((item, who, label) for item, said in answers.items() for who, label in said.items())


# The files that the tools write.


def label_studio_file(answers: Answers, place: Path) -> Path:
    def result(label: str) -> list[Any]:
        return [{"from_name": "mood", "to_name": "letter", "type": "choices", "value": {"choices": [label]}}]

    tasks = [
        {
            "id": item,
            "data": {"review": TEXTS[item], "image": f"/data/{item}.png"},
            "annotations": [
                {"completed_by": PEOPLE.index(who), "result": result(label)} for who, label in said.items()
            ],
        }
        for item, said in answers.items()
    ]
    return written(place / "project.json", json.dumps(tasks))


def argilla_file(answers: Answers, place: Path) -> Path:
    records = [
        {
            "id": f"rec-{item}",
            "fields": {"headline": TEXTS[item], "source": "web"},
            "responses": {
                "mood": [{"value": label, "user_id": who, "status": "submitted"} for who, label in said.items()]
            },
        }
        for item, said in answers.items()
    ]
    return written(place / "records.json", json.dumps(records))


def doccano_file(answers: Answers, place: Path) -> Path:
    folder = place / "project"
    folder.mkdir()
    for who in PEOPLE:
        own = [{"id": n, "text": TEXTS[n], "label": [said[who]] if who in said else []} for n, said in answers.items()]
        written(folder / f"{who}.jsonl", lines(own))
    return folder


def prodigy_file(answers: Answers, place: Path) -> Path:
    tasks = (
        {"text": TEXTS[item], "_input_hash": item - 12, "_annotator_id": who, "accept": [label], "answer": "accept"}
        for item, who, label in each(answers)
    )
    return written(place / "answers.jsonl", lines(tasks))


def potato_file(answers: Answers, place: Path) -> Path:
    header = ["user", "instance_id", "displayed_text", *(f"mood:::{label}" for label in MOODS)]
    rows = (
        [who, f"i{item}", TEXTS[item], *(1 if label == given else "" for label in MOODS)]
        for item, who, given in each(answers)
    )
    return written(place / "annotated.csv", text_of_rows(header, rows))


def mturk_file(answers: Answers, place: Path) -> Path:
    header = ["HITId", "WorkerId", "AssignmentStatus", "Input.tweet", "Input.url", "Answer.mood"]
    rows = (
        [f"HIT{item}", who, "Approved", TEXTS[item].replace("😀", "☺"), f"http://x/{item}", label]
        for item, who, label in each(answers)
    )
    return written(place / "batch.csv", text_of_rows(header, rows))


def peerannot_file(answers: Answers, place: Path) -> Path:
    coded = {n: {who: MOODS.index(label) for who, label in said.items()} for n, said in answers.items()}
    return written(place / "answers.json", json.dumps(coded))


def snorkel_file(answers: Answers, place: Path) -> Path:
    path = place / "votes.npy"
    np.save(path, [[MOODS.index(said[who]) if who in said else -1 for who in PEOPLE] for said in answers.values()])
    return path


def wide_file(answers: Answers, place: Path) -> Path:
    rows = ([f"p{item}", *(said.get(who, "") for who in PEOPLE)] for item, said in answers.items())
    return written(place / "wide.csv", text_of_rows(["id", *PEOPLE], rows))


def lewidi_file(answers: Answers, place: Path) -> Path:
    folder = place / "MOOD"
    folder.mkdir()
    for split, items in (("train", range(12)), ("dev", range(12, 24))):
        told = {
            str(item): {
                "text": {"post": TEXTS[item], "reply": "oh"},
                "annotators": ",".join(answers[item]),
                "annotations": answers[item],
                "soft_label": {label: [*answers[item].values()].count(label) / 3 for label in MOODS},
                "split": split,
            }
            for item in items
        }
        written(folder / f"MOOD_{split}.json", json.dumps(told))
    return folder


def crowd_kit_file(answers: Answers, place: Path) -> Path:
    rows = ((f"t{item}", who, label) for item, who, label in each(answers))
    return written(place / "answers.csv", text_of_rows(["task", "worker", "label"], rows))


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


# What the tools read.


def label_studio_read(out: Path) -> Labels:
    """https://labelstud.io/guide/predictions, and the data of the task as the project shows it."""
    tasks = json.loads((out / "label-studio.json").read_text())
    for task in tasks:
        (answer,) = task["predictions"][0]["result"]
        assert (answer["from_name"], answer["to_name"], answer["type"]) == ("mood", "letter", "choices")
        assert (task["data"]["review"], task["data"]["image"]) == (TEXTS[task["id"]], f"/data/{task['id']}.png")
    return {str(task["id"]): task["predictions"][0]["result"][0]["value"]["choices"] for task in tasks}


def argilla_read(out: Path) -> Labels:
    """`Record.from_dict` of Argilla 2: these keys, suggestions by question with arguments of `Suggestion`."""
    records = json.loads((out / "argilla.json").read_text())
    for record in records:
        number = int(record["id"].removeprefix("rec-"))
        assert record["fields"] == {"headline": TEXTS[number], "source": "web"}
        assert {**record, "id": 0, "fields": 0, "suggestions": 0} == {
            "id": 0, "fields": 0, "suggestions": 0, "metadata": {}, "responses": {}, "vectors": {},
        }  # fmt: skip
        assert 0 < record["suggestions"]["mood"]["score"] <= 1
        assert record["suggestions"]["mood"]["agent"] == "dawid-skene"
    return {record["id"]: record["suggestions"]["mood"]["value"] for record in records}


def doccano_read(out: Path) -> Labels:
    return read_again("doccano", out / "doccano.jsonl", lambda item: TEXTS[int(item)])


def prodigy_read(out: Path) -> Labels:
    for line in (out / "prodigy.jsonl").read_text().splitlines():
        task = json.loads(line)
        assert [option["id"] for option in task["options"]] == list(MOODS)
        assert (task["answer"], task["_view_id"], type(task["_input_hash"])) == ("accept", "choice", int)
    return read_again("prodigy", out / "prodigy.jsonl", lambda item: TEXTS[int(item) + 12])


def potato_read(out: Path) -> Labels:
    """What `QualityControlManager` of Potato 2 makes of a predictions file: a record a line with id and predictions."""
    records = [json.loads(line) for line in (out / "potato.jsonl").read_text().splitlines()]
    assert all(record["text"] == TEXTS[int(record["id"].removeprefix("i"))] for record in records)
    return {record["id"]: record["predictions"]["mood"] for record in records}


def mturk_read(out: Path) -> Labels:
    """What comes back of a batch in which one worker leaves each label as it is shown."""
    with (out / "mturk.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    header = [f"Input.{name}" for name in rows[0]]
    answers = [[f"NEW{n}", "A1", "Approved", *row.values(), row["label"]] for n, row in enumerate(rows)]
    columns = ["HITId", "WorkerId", "AssignmentStatus", *header, "Answer.mood"]
    path = written(out.parent / "next.csv", text_of_rows(columns, answers))
    assert all(row["url"] == f"http://x/{row['id'].removeprefix('HIT')}" for row in rows)
    return read_again("mturk", path, lambda item: TEXTS[int(item.removeprefix("HIT"))].replace("😀", "☺"))


def read_again(form: str, path: Path, text: Callable[[str], str]) -> Labels:
    imported = read_form(form, path)
    assert all(imported.text[row.item] == text(row.item) for row in imported.rows)
    return {row.item: list(row.labels) for row in imported.rows}


def arrays_read(form: str, prefix: str = "") -> Callable[[Path], Labels]:
    def read(out: Path) -> Labels:
        hard, soft = (np.load(out / f"{form}-{what}.npy") for what in ("labels", "probabilities"))
        classes = json.loads((out / f"{form}-classes.json").read_text())
        names = json.loads((out / f"{form}-items.json").read_text()) if form != "peerannot" else list(map(str, TEXTS))
        assert (hard.shape, soft.shape) == ((len(TEXTS),), (len(TEXTS), len(MOODS)))
        if form != "matrix":
            assert names == list(map(str, TEXTS)), "rows are those of the file"
        lacking = names.index(f"{prefix}{len(TEXTS) - 1}")
        assert (hard == -1).nonzero()[0].tolist() == [lacking]
        np.testing.assert_allclose(soft.sum(axis=1), 1.0)
        assert (soft.argmax(axis=1) == hard)[hard >= 0].all()
        return {name: classes[label] for name, label in zip(names, hard, strict=True) if label >= 0}

    return read


def lewidi_read(out: Path) -> Labels:
    """The submission files of 2025: id, tab, list."""
    found: dict[str, Any] = {}
    answers = answered()
    for split in ("train", "dev"):
        soft = [line.split("\t") for line in (out / f"lewidi-{split}-soft.tsv").read_text().splitlines()]
        assert {int(item) < 12 for item, _ in soft} == {split == "train"}
        for item, told in soft:
            assert sum(json.loads(told)) == pytest.approx(1.0, abs=1e-9)
            found[item] = MOODS[int(np.argmax(json.loads(told)))]
        people = [line.split("\t") for line in (out / f"lewidi-{split}-pe.tsv").read_text().splitlines()]
        assert [item for item, _ in people] == [item for item, _ in soft]
        assert all(len(json.loads(told)) == len(answers[int(item)]) for item, told in people)
    return found


def crowd_kit_read(out: Path) -> Labels:
    labels = pd.read_parquet(out / "crowd-kit-labels.parquet")["agg_label"]
    return dict(zip(map(str, labels.index), labels, strict=True))


def cleanlab_read(out: Path) -> Labels:
    matrix, probs = pd.read_parquet(out / "cleanlab-labels.parquet"), np.load(out / "cleanlab-pred-probs.npy")
    classes = json.loads((out / "cleanlab-classes.json").read_text())
    return {item: classes[best] for item, best in zip(matrix.index, probs.argmax(axis=1), strict=True)}


class Tool(NamedTuple):
    """A tool: what writes its file, the ids of that, what reads what comes back."""

    file: Callable[[Answers, Path], Path]
    item: str
    read: Callable[[Path], Labels]
    coded: bool = False


TOOLS = {
    "label-studio": Tool(label_studio_file, "{}", label_studio_read),
    "argilla": Tool(argilla_file, "rec-{}", argilla_read),
    "doccano": Tool(doccano_file, "{}", doccano_read),
    "prodigy": Tool(prodigy_file, "", prodigy_read),
    "potato": Tool(potato_file, "i{}", potato_read),
    "mturk": Tool(mturk_file, "HIT{}", mturk_read),
    "peerannot": Tool(peerannot_file, "{}", arrays_read("peerannot"), coded=True),
    "snorkel": Tool(snorkel_file, "{}", arrays_read("snorkel"), coded=True),
    "matrix": Tool(wide_file, "p{}", arrays_read("matrix", "p")),
    "lewidi": Tool(lewidi_file, "{}", lewidi_read),
    "crowd-kit": Tool(crowd_kit_file, "t{}", crowd_kit_read),
    "cleanlab": Tool(wide_file, "p{}", cleanlab_read),
}
