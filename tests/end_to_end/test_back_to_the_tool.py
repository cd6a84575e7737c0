"""From a file of another tool to labels, and with them back: each form by `init`, `label` and `--export same`.

Labels are those of labels.csv, ids and texts those of the person's file. The tools are in `annotation_tools`.
"""

import csv
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from annotation_tools import (
    MOODS,
    PEOPLE,
    TEXTS,
    TOOLS,
    answered,
    crowd_kit_read,
    each,
    lines,
    mturk_file,
    mturk_read,
    text_of_rows,
    written,
)

import crowdsweep as cs
from crowdsweep.cli.commands import run_command_line
from crowdsweep.cli.data import EXPORT_NAMES
from crowdsweep.errors import BadInput, UnknownName
from crowdsweep.importing.registry import FORMS, read_form
from crowdsweep.labelling.exports.asked import SAME
from crowdsweep.labelling.exports.registry import EXPORTS, LABEL_STUDIO


def labels_of(out: Path) -> dict[str, str]:
    with (out / "labels.csv").open(newline="") as file:
        return {row["item"].removeprefix("'"): row["label"] for row in csv.DictReader(file)}


def taken_through(form: str, file: Path, place: Path, *more: str) -> Path:
    """Makes a dataset of a file and labels it; returns where the labels are."""
    assert run_command_line(["init", str(file), str(place / "data"), "--form", form]) == 0
    words = ["label", str(place / "data"), "--model", "dawid-skene", "--out", str(place / "out"), *more]
    assert run_command_line(words) == 0
    return place / "out"


def test_every_form_with_a_tool_has_its_way_back() -> None:
    assert set(TOOLS) == {*EXPORTS, LABEL_STUDIO} == set(FORMS) - {"csv"}
    assert set(EXPORT_NAMES) == {*TOOLS, SAME}


@pytest.mark.parametrize("form", TOOLS)
def test_labels_go_from_the_file_back_into_the_tool(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool, answers = TOOLS[form], answered()
    out = taken_through(form, tool.file(answers, tmp_path), tmp_path, "--export", SAME)
    assert f"back to where they came from ({form}) by `crowdsweep label … --export same`" in capsys.readouterr().out
    labels, back = labels_of(out), tool.read(out)
    own = [str(n - 12) if form == "prodigy" else tool.item.format(n) for n, said in answers.items() if said]
    assert sorted(labels) == sorted(own)
    assert {item: label if isinstance(label, str) else "|".join(label) for item, label in back.items()} == labels
    truth = set(map(str, range(3))) if tool.coded else set(MOODS)
    assert set(labels.values()) == truth, "all classes come back, or little is shown"


SEVERAL = {"argilla", "doccano", "label-studio", "lewidi", "mturk", "potato", "prodigy"}


def several_classes(place: Path) -> Path:
    """A dataset whose items may have several classes, one of them with a bar in its name."""
    draws = random.Random(3)
    classes = ("angry", "calm|cold", "happy")
    records: list[dict[str, Any]] = []
    for item in range(20):
        truth = draws.sample(classes, draws.randint(0, 2))
        values = [truth if draws.random() < 0.8 else draws.sample(classes, 1) for _ in range(3)]
        given = [{"value": value, "user_id": f"u{n}", "status": "submitted"} for n, value in enumerate(values)]
        records.append({"id": item, "fields": {"text": f"Film {item}"}, "responses": {"moods": given}})
    path = written(place / "records.json", json.dumps(records))
    assert run_command_line(["init", str(path), str(place / "data"), "--form", "argilla"]) == 0
    return place / "data"


def test_items_of_several_classes_go_back_where_the_form_holds_them(tmp_path: Path) -> None:
    data, out = several_classes(tmp_path), tmp_path / "out"
    words = [part for form in sorted(SEVERAL) for part in ("--export", form)]
    assert run_command_line(["label", str(data), "--model", "majority-vote", "--out", str(out), *words]) == 0
    labels = {item: set(filter(None, label.split("|"))) for item, label in labels_of(out).items()}
    assert {len(chosen) for chosen in labels.values()} == {0, 1, 2}
    own = {item: {"calm|cold" if one == "calm/cold" else one for one in chosen} for item, chosen in labels.items()}
    found = {
        "argilla": {
            record["id"]: record["suggestions"]["moods"]["value"] if record["suggestions"] else []
            for record in json.loads((out / "argilla.json").read_text())
        },
        "doccano": {str(one["id"]): one["label"] for one in records_of(out / "doccano.jsonl")},
        "label-studio": {
            task["data"]["item"]: [
                one for given in task["predictions"][0]["result"] for one in given["value"]["choices"]
            ]
            for task in json.loads((out / "label-studio.json").read_text())
        },
        "potato": {one["id"]: one["predictions"]["moods"] for one in records_of(out / "potato.jsonl")},
        "prodigy": {one["meta"]["item"]: one["accept"] for one in records_of(out / "prodigy.jsonl")},
    }
    for form, back in found.items():
        assert {item: set(chosen) for item, chosen in back.items()} == own, form
    with (out / "mturk.csv").open(newline="") as file:
        assert {row["id"]: set(filter(None, row["label"].split("|"))) for row in csv.DictReader(file)} == labels
    soft = [line.split("\t") for line in (out / "lewidi-soft.tsv").read_text().splitlines()]
    assert [item for item, _ in soft] == list(labels)
    assert all(no + yes == pytest.approx(1.0) for _, told in soft for no, yes in json.loads(told))
    people = [line.split("\t") for line in (out / "lewidi-pe.tsv").read_text().splitlines()]
    assert all(np.shape(json.loads(told)) == (3, 3) for _, told in people), "a list for each class, an entry for each"


def records_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("form", sorted(set(TOOLS) - SEVERAL))
def test_a_form_of_one_class_an_item_refuses_several(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(several_classes(tmp_path), form, f"--export {form}: it needs one class per item", capsys)


def refused(data: Path, form: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Checks that labels are refused in these words before anything is fitted or written."""
    out = data.parent / "out"
    capsys.readouterr()
    assert run_command_line(["label", str(data), "--model", "dawid-skene", "--out", str(out), "--export", form]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def table(place: Path, name: str = "i{}", text: str | None = None, who: str = "u{}") -> Path:
    """A dataset of a table with one row an answer."""
    told = [] if text is None else [text]
    rows = [[name.format(n), who.format(w), "yn"[(n + w) % 5 == 0], *told] for n in range(6) for w in range(3)]
    header = ["item", "annotator", "label", *(["text"] if told else [])]
    path = written(place / "table.csv", text_of_rows(header, rows))
    assert run_command_line(["init", str(path), str(place / "data"), *(["--text", "text"] if told else [])]) == 0
    return place / "data"


@pytest.mark.parametrize(
    ("form", "made", "message"),
    [
        ("doccano", {}, "expected a text of each item, as doccano imports no labels of anything else; item 'i0'"),
        ("peerannot", {}, "expected items called by whole numbers, as its tasks are, got 'i0'"),
        (
            "peerannot",
            {"name": "9{}00"},
            "expected items numbered one by one, as its tasks are, got numbers up to 9,500 of 6 items",
        ),
        ("mturk", {"text": "fine 😀"}, "as Mechanical Turk takes no file with others; item 'i0' has '😀'"),
        ("cleanlab", {"who": "item"}, "its column of items is called item, and so is an annotator"),
        (SAME, {}, "made of a table, and labels.csv, which is written anyway, is one"),
    ],
)
def test_what_a_form_cannot_hold_is_refused_before_a_fit(
    form: str, made: dict[str, str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(table(tmp_path, **made), form, message, capsys)


def test_a_folder_written_by_hand_came_in_no_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = table(tmp_path)
    about = (data / "dataset.yaml").read_text()
    for form, got in (("", "got none of data"), ("form: xlsx", "got 'xlsx' of data")):
        (data / "dataset.yaml").write_text(about.replace("form: csv", form))
        refused(data, SAME, got, capsys)


def test_ratings_go_back_as_numbers(tmp_path: Path) -> None:
    stars = {n: {who: int(label) for who, label in said.items()} for n, said in answered(("1", "3", "4")).items()}
    for form, text in (("argilla", rated_argilla(stars)), ("label-studio", rated_label_studio(stars))):
        (tmp_path / form).mkdir()
        file = written(tmp_path / form / "file.json", json.dumps(text))
        out = taken_through(form, file, tmp_path / form, "--export", SAME)
        labels = {item: int(label) for item, label in labels_of(out).items()}
        told = json.loads((out / f"{form}.json").read_text())
        if form == "argilla":
            assert {one["id"]: one["suggestions"]["stars"]["value"] for one in told} == labels
            continue
        answers = {str(one["id"]): one["predictions"][0]["result"][0] for one in told}
        assert {item: answer["value"] for item, answer in answers.items()} == {
            item: {"rating": label} for item, label in labels.items()
        }
        assert {(one["type"], one["from_name"], one["to_name"]) for one in answers.values()} == {
            ("rating", "stars", "t")
        }
        assert '<Rating name="stars" toName="t" maxRating="5"/>' in (out / "label-studio.xml").read_text()


def rated_argilla(stars: Mapping[int, Mapping[str, int]]) -> list[Any]:
    return [
        {
            "id": str(item),
            "fields": {"text": "…"},
            "responses": {
                "stars": [{"value": one, "user_id": who, "status": "submitted"} for who, one in said.items()]
            },
        }
        for item, said in stars.items()
    ]


def rated_label_studio(stars: Mapping[int, Mapping[str, int]]) -> list[Any]:
    def annotation(who: str, one: int) -> dict[str, Any]:
        result = {"from_name": "stars", "to_name": "t", "type": "rating", "value": {"rating": one}}
        return {"completed_by": PEOPLE.index(who), "result": [result]}

    return [
        {"id": item, "data": {"t": "…"}, "annotations": [annotation(who, one) for who, one in said.items()]}
        for item, said in stars.items()
    ]


def test_labels_that_prodigy_had_accepted_or_rejected_are_so_again(tmp_path: Path) -> None:
    answers = answered(("accept", "reject"))
    tasks = [
        {"text": TEXTS[item], "_input_hash": item, "_annotator_id": who, "label": "HAPPY", "answer": label}
        for item, who, label in each(answers)
    ]
    out = taken_through("prodigy", written(tmp_path / "a.jsonl", lines(tasks)), tmp_path, "--export", SAME)
    again = records_of(out / "prodigy.jsonl")
    assert {(task["label"], task["_view_id"], "accept" in task) for task in again} == {
        ("HAPPY", "classification", False)
    }
    assert {str(task["_input_hash"]): task["answer"] for task in again} == labels_of(out)
    back = read_form("prodigy", out / "prodigy.jsonl")
    assert {row.item: row.labels[0] for row in back.rows} == labels_of(out)


def test_a_fit_in_python_is_saved_for_tools_too(tmp_path: Path) -> None:
    rows = [(f"i{n}", f"u{who}", "yn"[(n + who) % 5 == 0]) for n in range(8) for who in range(3)]
    fit = cs.fit("majority-vote", pd.DataFrame(rows, columns=["item", "annotator", "label"]))
    fit.save(tmp_path / "out", exports=["potato", "crowd-kit"])
    labels = labels_of(tmp_path / "out")
    assert {one["id"]: one["predictions"]["label"] for one in records_of(tmp_path / "out" / "potato.jsonl")} == labels
    assert crowd_kit_read(tmp_path / "out") == labels
    assert "exports=['potato', 'crowd-kit']" in (tmp_path / "out" / "label.yaml").read_text()
    with pytest.raises(UnknownName, match="did you mean 'potato'"):
        fit.save(tmp_path / "new", exports="potatoe")
    with pytest.raises(BadInput, match=f"--export {SAME}: expected a dataset whose dataset.yaml says"):
        fit.save(tmp_path / "new", exports=[SAME])
    assert not (tmp_path / "new").exists()


def test_the_results_of_a_batch_join_the_items_that_they_are_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = taken_through("mturk", mturk_file(answered(), tmp_path), tmp_path, "--export", "mturk")
    mturk_read(out)  # leaves what comes back of the batch
    assert run_command_line(["add", str(tmp_path / "data"), str(tmp_path / "next.csv")]) == 0
    assert "23 answers added: 23 items (0 new), 1 annotators (1 new)" in capsys.readouterr().out
