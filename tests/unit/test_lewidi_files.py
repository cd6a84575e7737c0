"""The files of the LeWiDi shared tasks, in miniature: what becomes of them, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.errors import DataError
from crowdsweep.importing.guess import guess_file
from crowdsweep.importing.normalise import normalised
from crowdsweep.importing.registry import read_form
from crowdsweep.importing.rows import FileOptions, ImportedRows
from crowdsweep.importing.write import write_rows


def item(text: Any, soft: Any, split: str | None, annotations: Any, **more: Any) -> dict[str, Any]:
    given = {"text": text, "soft_label": soft, "annotations": annotations, "annotators": ",".join(annotations), **more}
    return given if split is None else {**given, "split": split, "lang": "en", "other_info": {}}


def shares(**given: float) -> dict[str, float]:
    return {str(value): given.get(f"n{value}", 0.0) for value in range(1, 7)}


CSC = {
    "CSC_train.json": {
        "10": item({"context": "a", "response": "b"}, shares(n1=0.5, n4=0.5), "train", {"Ann1": "1", "Ann2": "4"}),
        "11": item({"context": "c", "response": "d"}, shares(n6=1.0), "train", {"Ann2": "6", "Ann10": "6"}),
    },
    "CSC_dev.json": {"2": item({"context": "e", "response": "f"}, shares(n2=1.0), "dev", {"Ann10": "2"})},
    "CSC_test.json": {"3": item({"context": "g", "response": "h"}, shares(n3=1.0), "test", {"Ann3": "3"})},
    "CSC_test_clear.json": {"3": item({"context": "g", "response": "h"}, shares(), "test", {"Ann3": ""})},
    "CSC_annotators_meta.json": {
        "Ann1": {"Gender": "Female", "Age": "56"},
        "Ann2": {"Gender": "Male", "Age": "34"},
        "Ann10": {"Gender": "DATA_EXPIRED", "Age": "DATA_EXPIRED"},
    },
}


def of_classes(contradiction: float, entailment: float, neutral: float) -> dict[str, dict[str, float]]:
    chosen = {"contradiction": contradiction, "entailment": entailment, "neutral": neutral}
    return {label: {"0": 1.0 - share, "1": share} for label, share in chosen.items()}


VARI = {
    "VariErrNLI_train.json": {
        "7": item(
            {"context": "a", "statement": "b"},
            of_classes(0.0, 0.5, 0.5),
            "train",
            {"Ann1": "neutral", "Ann2": "entailment"},
        ),
        "8": item(
            {"context": "c", "statement": "d"}, of_classes(0.0, 1.0, 1.0), "train", {"Ann2": "entailment,neutral"}
        ),
    }
}


def written(folder: Path, files: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def read(path: Path) -> ImportedRows:
    return read_form("lewidi", path)


def made(path: Path, place: Path) -> CrowdDataset:
    guess = guess_file(path)
    assert guess.form == "lewidi"
    return write_rows(read_form(guess.form, path, guess.asked), place)


def answers_of(data: CrowdDataset) -> set[tuple[str, str, str]]:
    rows, items, people = data.annotations, list(data.item_names), list(data.annotator_names)
    return {
        (items[i], people[t], data.class_labels[k])
        for i, t, k in zip(rows.item, rows.annotator, rows.label, strict=True)
    }


def test_a_folder_of_the_third_edition(tmp_path: Path) -> None:
    data = made(written(tmp_path / "CSC", CSC), tmp_path / "made")
    assert answers_of(data) == {
        ("10", "Ann1", "1"), ("10", "Ann2", "4"), ("11", "Ann2", "6"), ("11", "Ann10", "6"), ("2", "Ann10", "2"),
        ("3", "Ann3", "3"),
    }  # fmt: skip
    assert (data.scale, data.class_labels) == ("ordinal", ("1", "2", "3", "4", "5", "6"))
    assert [list(data.items_of(split)) for split in ("train", "dev", "test")] == [[2, 3], [0], [1]]
    assert list(data.items.text or ()) == ["e", "g", "a", "c"]
    assert list(data.items.text_b or ()) == ["f", "h", "b", "d"]
    assert list(data.annotator_names) == ["Ann1", "Ann2", "Ann3", "Ann10"]
    # Gender is unknown, Female or Male; Age of Ann10 and Ann3 is their mean, and is not known.
    assert data.annotator_features is not None
    assert data.annotator_features.tolist() == [
        [0, 1, 0, 56, 0], [0, 0, 1, 34, 0], [1, 0, 0, 45, 1], [1, 0, 0, 45, 1]
    ]  # fmt: skip
    assert len(data.gold) == 0
    soft = {name: given["soft_label"] for file in CSC.values() for name, given in file.items() if "soft_label" in given}
    soft["3"] = CSC["CSC_test.json"]["3"]["soft_label"]
    expected = [[soft[name][label] for label in data.class_labels] for name in data.item_names]
    np.testing.assert_allclose(data.annotations.label_distribution(), expected)


def test_several_classes_an_answer(tmp_path: Path) -> None:
    data = made(written(tmp_path / "in", VARI), tmp_path / "made")
    assert (data.scale, data.class_labels) == ("multilabel", ("contradiction", "entailment", "neutral"))
    assert answers_of(data) == {
        ("7", "Ann1", "neutral"), ("7", "Ann2", "entailment"), ("8", "Ann2", "entailment"), ("8", "Ann2", "neutral")
    }  # fmt: skip


def test_the_number_of_an_annotator_and_classes_that_are_written_as_decimals(tmp_path: Path) -> None:
    soft = {"0.0": 0.5, "1.0": 0.5}
    files = {
        "MP_train.json": {"1": item({"post": "a", "reply": "b"}, soft, "train", {"Ann0": "0", "Ann12": "1"})},
        # As published, with commas behind the last entries; such a thing in a text stays.
        "MP_annotators_meta.json": '{"0": {"Age": 19.0, "Job": "a,}",}, "12": {"Age": NaN, "Job": "b",},}',
    }
    imported = read(written(tmp_path / "MP", files) / "MP_train.json")
    assert (imported.classes, imported.ordinal, imported.multilabel) == (("0", "1"), False, False)
    assert imported.attributes == {"Ann0": {"Age": "19", "Job": "a,}"}, "Ann12": {"Age": "", "Job": "b"}}
    assert list(imported.notes) == []


def test_the_second_edition_numbers_items_anew_in_each_file(tmp_path: Path) -> None:
    def of(text: str, split: str, labels: str) -> dict[str, Any]:
        more = {"annotations": labels, "annotators": "Ann1,Ann2", "hard_label": "0"}
        return {"1": {**item(text, {"0": 1.0, "1": 0.0}, split, {}), **more}}

    talk = json.dumps({"prev_agent": "hi", "prev_user": "ho", "agent": "a", "user": "b"})
    files = {"X_train.json": of(talk, "train", "-3,1"), "X_test.json": of("plain", "test", "0,0")}
    imported = read(written(tmp_path / "X", files))
    assert {(row.item, row.annotator, row.labels) for row in imported.rows} == {
        ("train-1", "Ann1", ("-3",)), ("train-1", "Ann2", ("1",)),
        ("test-1", "Ann1", ("0",)), ("test-1", "Ann2", ("0",)),
    }  # fmt: skip
    assert imported.text == {"train-1": "hi\nho\na\nb", "test-1": "plain"}
    assert imported.ordinal
    assert list(imported.notes) == [
        "the files number their items alike, so each id has its split before it",
        "soft labels of 1 items are not the shares of their answers; the answers count",
        "hard labels are the vote of the annotators, and not taken for gold",
    ]


def test_a_test_set_without_answers(tmp_path: Path) -> None:
    files = {name: CSC[name] for name in ("CSC_train.json", "CSC_test_clear.json")}
    data = made(written(tmp_path / "CSC", files), tmp_path / "made")
    assert list(data.items_of("test")) == [0]
    assert data.annotations.labels_per_item.tolist() == [0, 2, 2]
    assert data.annotator_features is None


def test_a_file_alone_is_its_split(tmp_path: Path) -> None:
    folder = written(tmp_path / "CSC", CSC)
    imported = read(folder / "CSC_dev.json")
    assert imported.split == {"2": "dev"}
    assert imported.attributes == {"Ann10": {"Gender": "", "Age": ""}}
    nameless = {"1": item("a", {"0": 1.0, "1": 0.0}, None, {"Ann1": "0"})}
    (tmp_path / "b_test.json").write_text(json.dumps(nameless))
    assert read(tmp_path / "b_test.json").split == {"1": "test"}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "expected files NAME_train.json, .* of one dataset, got none"),
        ({"A_train.json": {}, "B_train.json": {}}, r"got those of several \(A, B\); name one file"),
        ({"A_train.json": [1]}, "A_train.json: expected an object of items, each an object, got a list"),
        ({"A_train.json": {"1": 5}}, "expected an object of items, each an object"),
        ({"A_train.json": {"1": item("a", {}, "x", {})}}, "item .1., split: expected one of train, dev.*got .x."),
        ({"A_train.json": {"1": item(["a"], {}, "dev", {})}}, "item .1., text: expected an object, got a list"),
        ({"A_train.json": {"1": item("a", 3, "dev", {})}}, "item .1., soft_label: expected an object, got 3"),
        (
            {"A_train.json": {**VARI["VariErrNLI_train.json"], "9": item("a", {"0": 1.0}, "dev", {"Ann1": "0"})}},
            "item .9., soft_label: expected soft labels of one kind in all items",
        ),
        (
            {"A_train.json": {"1": {**item("a", {}, "dev", {}), "annotators": "Ann1,Ann2", "annotations": "0,1,1"}}},
            "item .1., annotations: expected a label for each of the annotators, who differ, got 3 labels and 2",
        ),
        ({"A_train.json": {"1": item("a", {}, "dev", {"Ann1": ["x"]})}}, "item .1.: expected a label, got a list"),
        ({"A_train.json": {"1": item("a", {}, "dev", {"Ann1": ""})}}, "expected at least one label, found none"),
        (
            {**CSC, "CSC_annotators_meta.json": {"Ann1": 3}},
            "CSC_annotators_meta.json, annotator Ann1: expected an object, got 3",
        ),
        ({**CSC, "CSC_annotators_meta.json": "{oops"}, "CSC_annotators_meta.json.*expected JSON"),
    ],
)
def test_what_is_none_of_it_is_refused_where_it_stands(tmp_path: Path, files: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(written(tmp_path / "in", files))


def test_joined_spellings_keep_splits_pairs_and_attributes(tmp_path: Path) -> None:
    same = normalised(read_form("lewidi", written(tmp_path / "CSC", CSC), FileOptions()))
    assert (same.split["2"], same.text_b["2"], same.attributes["Ann1"]["Age"], same.ordinal) == ("dev", "f", "56", True)
