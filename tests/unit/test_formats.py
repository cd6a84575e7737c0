"""Each neighbour's form comes in as the rows that a person would read off the file."""

import json
from pathlib import Path

import numpy as np
import pytest

from crowdsweep.data.missing import MissingValues
from crowdsweep.data.on_disk.folder import read_folder
from crowdsweep.errors import DataError, UnknownName
from crowdsweep.importing.registry import read_form
from crowdsweep.importing.rows import FileOptions, ImportedRows
from crowdsweep.importing.write import write_rows


def rows_of(imported: ImportedRows) -> list[tuple[str, str, str]]:
    """Returns the answers as triples; classes of a multi-label answer joined by a plus."""
    return [(row.item, row.annotator, "+".join(row.labels)) for row in imported.rows]


EXPECTED = [("a", "w1", "cat"), ("a", "w2", "dog"), ("b", "w1", "cat")]


def test_crowd_kit_table(tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    file.write_text("task,worker,label\na,w1,cat\na,w2,dog\nb,w1,cat\n")
    imported = read_form("crowd-kit", file)
    assert rows_of(imported) == EXPECTED
    assert list(imported.items) == ["a", "b"]


def test_crowd_kit_tab_separated_with_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "answers.tsv"
    file.write_bytes("\ufefftask\tworker\tlabel\na\tw1\tcat\na\tw2\tdog\nb\tw1\tcat\n".encode())
    assert rows_of(read_form("crowd-kit", file)) == EXPECTED


def test_a_missing_label_is_left_out_and_told(tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    file.write_text("task,worker,label\na,w1,cat\nb,w2,\n")
    imported = read_form("crowd-kit", file)
    assert (rows_of(imported), list(imported.items)) == ([("a", "w1", "cat")], ["a", "b"])
    assert imported.notes == ["1 answers have no label and were left out: empty (1: line 3)"]


def test_labels_called_none_or_true_stay_labels_where_that_is_said(tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    file.write_text("task,worker,label\na,w1,None\nb,w1,True\nc,w1,NA\n")
    kept = FileOptions(missing=MissingValues.of([]))
    assert [label for _, _, label in rows_of(read_form("crowd-kit", file, kept))] == ["None", "True", "NA"]
    assert [label for _, _, label in rows_of(read_form("crowd-kit", file))] == ["True"]


@pytest.mark.parametrize("text", ["0 -1 2\n-1 1 -1\n", "0,,2\n,1,NaN\n", "0.0,nan,2.0\n-1.0,1.0,-1\n"])
def test_matrix_with_either_sign_for_missing(tmp_path: Path, text: str) -> None:
    file = tmp_path / "answers.txt"
    file.write_text(text)
    imported = read_form("matrix", file)
    assert rows_of(imported) == [("0", "0", "0"), ("0", "2", "2"), ("1", "1", "1")]


def test_matrix_with_a_header_of_annotators(tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    file.write_text("ann,bob\n1,0\n-1,1\n")
    assert rows_of(read_form("matrix", file)) == [("0", "ann", "1"), ("0", "bob", "0"), ("1", "bob", "1")]


def test_a_ragged_matrix_is_refused_with_the_item(tmp_path: Path) -> None:
    file = tmp_path / "answers.txt"
    file.write_text("0 1 2\n0 1\n")
    with pytest.raises(DataError, match="item 1: expected 3 cells"):
        read_form("matrix", file)


def test_snorkel_matrix_from_npy(tmp_path: Path) -> None:
    np.save(tmp_path / "L.npy", np.array([[0, -1], [-1, 1]]))
    assert rows_of(read_form("snorkel", tmp_path / "L.npy")) == [("0", "lf0", "0"), ("1", "lf1", "1")]


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "L.npy", np.array([[{}, None]], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="allow_pickle"):
        read_form("snorkel", tmp_path / "L.npy")


def test_peerannot_answers(tmp_path: Path) -> None:
    file = tmp_path / "answers.json"
    file.write_text(json.dumps({"0": {"12": 3, "7": 1}, "1": {"12": 3}, "2": {}}))
    imported = read_form("peerannot", file)
    assert rows_of(imported) == [("0", "12", "3"), ("0", "7", "1"), ("1", "12", "3")]
    assert list(imported.items) == ["0", "1", "2"]


def label_studio_task(number: int, *annotations: dict) -> dict:
    return {"id": number, "data": {"text": f"text {number}"}, "annotations": list(annotations)}


def choice(who: object, question: str, *choices: str, cancelled: bool = False) -> dict:
    result = {"from_name": question, "type": "choices", "value": {"choices": list(choices)}}
    return {"completed_by": who, "was_cancelled": cancelled, "result": [result]}


def test_label_studio_export(tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    tasks = [
        label_studio_task(1, choice(5, "q", "yes"), choice({"id": 6, "email": "b@x"}, "q", "no")),
        label_studio_task(2, choice(5, "q", "yes", cancelled=True)),
    ]
    file.write_text(json.dumps(tasks))
    imported = read_form("label-studio", file)
    assert rows_of(imported) == [("1", "5", "yes"), ("1", "b@x", "no")]
    assert imported.text == {"1": "text 1", "2": "text 2"}
    assert not imported.multilabel


def test_label_studio_asks_which_of_two_questions(tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    file.write_text(json.dumps([label_studio_task(1, choice(5, "q", "yes"), choice(5, "r", "a", "b"))]))
    with pytest.raises(DataError, match="--question"):
        read_form("label-studio", file)
    imported = read_form("label-studio", file, FileOptions(question="r"))
    assert imported.multilabel
    assert rows_of(imported) == [("1", "5", "a+b")]


def test_argilla_export(tmp_path: Path) -> None:
    file = tmp_path / "records.json"
    responses = [
        {"user_id": "u1", "value": "pos", "status": "submitted"},
        {"user_id": "u2", "value": "neg", "status": "draft"},
    ]
    file.write_text(json.dumps([{"id": "r1", "fields": {"text": "hello"}, "responses": {"label": responses}}]))
    imported = read_form("argilla", file)
    assert rows_of(imported) == [("r1", "u1", "pos")]
    assert imported.text == {"r1": "hello"}


def test_mturk_results(tmp_path: Path) -> None:
    file = tmp_path / "mturk_answers.csv"
    file.write_text("HITId,WorkerId,Input.id,Input.text,Answer.sent\nh1,A,7,good film,pos\nh1,B,7,good film,\n")
    imported = read_form("mturk", file)
    assert rows_of(imported) == [("7", "A", "pos")]
    assert imported.text == {"7": "good film"}


@pytest.mark.parametrize(
    ("form", "name", "content", "message"),
    [
        ("crowd-kit", "a.csv", b"item,worker,label\n", "expected the columns task, worker, label, got item"),
        ("crowd-kit", "a.csv", b"", "an empty file"),
        ("crowd-kit", "a.csv", b"task,worker,label\n\xff\xfe,a,b\n", "UTF-8"),
        ("peerannot", "a.json", b"{oops", "expected JSON"),
        ("peerannot", "a.json", b"[1]", "expected an object of items"),
        ("peerannot", "a.json", b"{}", "at least one label"),
        ("label-studio", "a.json", b"{}", "JSON list"),
        ("matrix", "a.txt", b"\n", "empty"),
    ],
)
def test_what_is_not_of_the_form_is_refused(tmp_path: Path, form: str, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_form(form, tmp_path / name)


def test_an_unknown_form_offers_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'crowd-kit'"):
        read_form("crowdkit", tmp_path)


def test_written_folder_reads_back(tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    file.write_text("task,worker,label\na,w1,cat\na,w2,dog\nb,w1,cat\n")
    write_rows(read_form("crowd-kit", file), tmp_path / "pets")
    dataset = read_folder(tmp_path / "pets")
    annotations = dataset.annotations
    rows = {
        (dataset.item_names[int(i)], dataset.annotator_names[int(t)], dataset.class_names[y])
        for i, t, y in zip(annotations.item, annotations.annotator, annotations.label, strict=True)
    }
    assert rows == set(EXPECTED)


def test_a_multilabel_folder_reads_back_as_one_row_a_class(tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    file.write_text(
        json.dumps([label_studio_task(1, choice(5, "r", "a", "b")), label_studio_task(2, choice(5, "r", "a"))])
    )
    write_rows(read_form("label-studio", file), tmp_path / "tags")
    dataset = read_folder(tmp_path / "tags")
    assert dataset.scale == "multilabel"
    assert len(dataset.annotations) == 3


def test_a_folder_with_files_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    file.write_text("task,worker,label\na,w1,cat\na,w2,dog\n")
    imported = read_form("crowd-kit", file)
    with pytest.raises(DataError, match="empty folder"):
        write_rows(imported, tmp_path)
