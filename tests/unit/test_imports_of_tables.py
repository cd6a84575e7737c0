"""Tables as spreadsheets, pandas, crowd-kit, cleanlab and Mechanical Turk write them: a header stays a header."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from crowdsweep.errors import DataError, UnknownName
from crowdsweep.importing.registry import read_form
from crowdsweep.importing.rows import FileOptions, ImportedRows
from crowdsweep.importing.write import write_rows


def matrix_of(tmp_path: Path, text: str, form: str = "matrix", name: str = "a.csv") -> ImportedRows:
    (tmp_path / name).write_bytes(text.encode())
    return read_form(form, tmp_path / name)


def triples(imported: ImportedRows) -> set[tuple[str, str, str]]:
    return {(row.item, row.annotator, "+".join(row.labels)) for row in imported.rows}


BODY = [(0, 0, "1"), (0, 1, "0"), (1, 0, "0"), (2, 1, "1")]  # row, column, label


@pytest.mark.parametrize(
    ("text", "items", "annotators"),
    [
        ("0,1,2\n1,0,\n0,,\n,1,\n", "012", "012"),  # columns without names: pandas calls them 0, 1, 2
        (",0,1\n0,1,0\n1,0,\n2,,1\n", "012", "01"),  # with the index that pandas adds
        (",ann,bob\n0,1,0\n1,0,\n2,,1\n", "012", ("ann", "bob")),
        (",ann,bob\nx,1,0\ny,0,\nz,,1\n", "xyz", ("ann", "bob")),
        (",101,102\n0,1,0\n1,0,\n2,,1\n", "012", ("101", "102")),
        ("Unnamed: 0,ann,bob\n0,1,0\n1,0,\n2,,1\n", "012", ("ann", "bob")),
        ("item,ann,bob\nx,1,0\ny,0,\nz,,1\n", "xyz", ("ann", "bob")),
        ("image_id,ann,bob\n7,1,0\n8,0,\n9,,1\n", "789", ("ann", "bob")),
        ("picture,ann,bob\nx.png,1,0\ny.png,0,\nz.png,,1\n", ("x.png", "y.png", "z.png"), ("ann", "bob")),
        ("x.png,1,0\ny.png,0,\nz.png,,1\n", ("x.png", "y.png", "z.png"), "01"),  # an index and no header
        ("101,102\n1,0\n0,\n-1,1\n", "012", ("101", "102")),
        ("ann,bob\n1,0\n0,\n-1,1\n", "012", ("ann", "bob")),
        ("1,0\n0,-1\n,1\n", "012", "01"),
        ("1 0\n0 -1\n-1 1\n", "012", "01"),
        ("# saved by numpy\n1 0\n0 -1\nnan 1\n", "012", "01"),
        ("1;0\n0;\n;1\n", "012", "01"),
        ("1\t0\n0\t\n\t1\n", "012", "01"),
        ("1|0\n0|\n|1\n", "012", "01"),
        ("\ufeffann;bob\r\n1;0\r\n0;\r\n;1\r\n", "012", ("ann", "bob")),
        ("1.0,0.0\n0.0,\nnan,1.0\n", "012", "01"),  # floats, because some answers are missing
        ("ann,bob\n1.0,0\n0.0,-1\n,1\n", "012", ("ann", "bob")),
    ],
)
def test_a_header_is_no_item_and_an_index_no_annotator(tmp_path: Path, text, items, annotators) -> None:
    imported = matrix_of(tmp_path, text)
    assert list(imported.items) == list(items)
    assert triples(imported) == {(items[row], annotators[column], label) for row, column, label in BODY}


def test_a_first_line_that_may_be_either_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"whether the first line, 0 1, is a header or an item; .* as cleanlab"):
        matrix_of(tmp_path, "0,1\n1,0\n0,1\n")
    assert list(matrix_of(tmp_path, "0,1\n1,0\n0,1\n", "cleanlab").items) == ["0", "1"]


def test_what_was_taken_for_what_is_told(tmp_path: Path) -> None:
    assert (
        "the first line (101, 102) was read as the names of annotators" in matrix_of(tmp_path, "101,102\n1,0\n").notes
    )
    assert "the first column was read as the ids of items" in matrix_of(tmp_path, ",a,b\nx,1,0\ny,0,1\n").notes


def test_labels_of_a_matrix_stay_the_text_they_are(tmp_path: Path) -> None:
    labels = {label for _, _, label in triples(matrix_of(tmp_path, "w1,w2\n01,1\n1.0,1_0\n1e0,001\n"))}
    assert labels == {"01", "1", "1.0", "1_0", "1e0", "001"}


def test_an_item_without_an_answer_is_an_item(tmp_path: Path) -> None:
    imported = matrix_of(tmp_path, "ann,bob\n1,0\n,\n0,1\n\n")
    assert list(imported.items) == ["0", "1", "2"]
    assert triples(imported) == {("0", "ann", "1"), ("0", "bob", "0"), ("2", "ann", "0"), ("2", "bob", "1")}


def test_cleanlab_reads_words_and_an_index(tmp_path: Path) -> None:
    imported = matrix_of(tmp_path, ",0,1\n0,cat,\n1,dog,cat\n", "cleanlab")
    assert triples(imported) == {("0", "0", "cat"), ("1", "0", "dog"), ("1", "1", "cat")}


@pytest.mark.parametrize("text", [",a,a\nx,1,0\ny,0,1\n", ",a,\nx,1,0\ny,0,1\n", ",a,b\nx,1,0\nx,0,1\n", "a,b\n"])
def test_names_that_are_not_distinct_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"distinct|items below"):
        matrix_of(tmp_path, text, "cleanlab")


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([[1, -1], [0, 1]]), {("0", "0", "1"), ("1", "0", "0"), ("1", "1", "1")}),
        (np.array([[1.0, np.nan], [0.0, 1.0]]), {("0", "0", "1"), ("1", "0", "0"), ("1", "1", "1")}),
        (np.array([["01", ""], ["1", "01"]]), {("0", "0", "01"), ("1", "0", "1"), ("1", "1", "01")}),
        (np.array([[b"a", b""], [b"b", b"a"]]), {("0", "0", "a"), ("1", "0", "b"), ("1", "1", "a")}),
        (np.array([[True, False]]), {("0", "0", "True"), ("0", "1", "False")}),
    ],
)
def test_arrays_of_any_type(tmp_path: Path, array: np.ndarray, expected: set) -> None:
    np.save(tmp_path / "a.npy", array)
    assert triples(read_form("matrix", tmp_path / "a.npy")) == expected


def test_a_column_of_texts_is_no_annotator_of_a_matrix(tmp_path: Path) -> None:
    lines = [f'p{item},"text {item}, of its own",{"ab"[item % 2]},{"ab"[item % 3 == 0]}' for item in range(12)]
    imported = matrix_of(tmp_path, "\n".join(["item,remark,ann,bob", *lines]))
    assert {annotator for _, annotator, _ in triples(imported)} == {"ann", "bob"}
    assert any(note.startswith("'remark' left out: nearly every cell is different") for note in imported.notes)


def test_measures_are_no_classes_of_a_matrix(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    np.save(tmp_path / "a.npy", draw.normal(size=(30, 4)))
    with pytest.raises(DataError, match="nearly every cell of column 0 is different"):
        read_form("matrix", tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", draw.integers(0, 99, (80, 4)) / 8)
    with pytest.raises(DataError, match=r"expected classes, got [0-9]+ numbers with decimals"):
        read_form("matrix", tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", draw.integers(0, 9, (80, 4)) / 2)
    labels = {label for _, _, label in triples(read_form("matrix", tmp_path / "a.npy"))}
    assert len(labels) == 9  # a scale in halves


def test_an_array_that_says_it_is_larger_than_its_file_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "a.npy").open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (2_000_000, 3_000_000)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(48))
    with pytest.raises(DataError, match=r"a\.npy: expected 48000000000000 bytes for shape .* the file has 176"):
        read_form("matrix", tmp_path / "a.npy")


ROWS = "picture{0}user{0}said{0}sure{0}expert\n" + "".join(
    f"p{item}{{0}}{user}{{0}}{said}{{0}}2{{0}}{expert}\n"
    for item, user, said, expert in [(1, "ann", "01", "1"), (1, "bob", "1", "1"), (2, "ann", "01", "")]
)
MAPPING = {"item": "picture", "annotator": "user", "label": "said"}


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("packed", [False, True])
def test_any_table_by_its_columns(tmp_path: Path, separator: str, packed: bool) -> None:
    file = tmp_path / ("a.csv.gz" if packed else "a.txt")
    data = ("\ufeff" + ROWS.format(separator).replace("\n", "\r\n")).encode()
    file.write_bytes(gzip.compress(data) if packed else data)
    imported = read_form("csv", file, FileOptions(**MAPPING, weight="sure", gold="expert"))
    assert triples(imported) == {("p1", "ann", "01"), ("p1", "bob", "1"), ("p2", "ann", "01")}
    assert {row.weight for row in imported.rows} == {"2"}
    assert imported.gold == {"p1": ("1",)}
    data = write_rows(imported, tmp_path / "out")
    assert (data.class_names, len(data.gold)) == (("01", "1"), 1)
    assert data.annotations.weight.tolist() == [2, 2, 2]


@pytest.mark.parametrize("header", ["picture,gold", "item,gold", "task,label", "picture,verdict"])
def test_gold_from_a_file_of_its_own(tmp_path: Path, header: str) -> None:
    (tmp_path / "a.csv").write_text(ROWS.format(","))
    (tmp_path / "gold.csv").write_text(f"{header}\np1,1\np2,\n")
    imported = read_form("csv", tmp_path / "a.csv", FileOptions(**MAPPING, gold=str(tmp_path / "gold.csv")))
    assert imported.gold == {"p1": ("1",)}


@pytest.mark.parametrize("form", ["csv", "cleanlab"])
def test_gold_of_items_that_nobody_answered_is_told(tmp_path: Path, form: str) -> None:
    (tmp_path / "a.csv").write_text(
        "item,annotator,label\np1,ann,1\np1,bob,2\n" if form == "csv" else "item,ann,bob\np1,1,2\n"
    )
    (tmp_path / "gold.csv").write_text("item,gold\np1,1\n" + "".join(f"q{number},1\n" for number in range(7)))
    columns = {"annotator": "annotator", "label": "label"} if form == "csv" else {}
    imported = read_form(form, tmp_path / "a.csv", FileOptions(item="item", **columns, gold=str(tmp_path / "gold.csv")))
    assert imported.items == ["p1", *(f"q{number}" for number in range(7))]
    note = next(note for note in imported.notes if "gold.csv" in note)
    assert "7 of its items have no answer and are added without one ('q0', 'q1', 'q2', 'q3', 'q4', …)" in note


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"item": "picture"}, r"expected --annotator COLUMN, --label COLUMN; the columns are picture, user, said"),
        ({**MAPPING, "label": "says"}, r"expected the columns picture, user, says, got picture, user, said"),
        ({**MAPPING, "gold": "truth"}, r"--gold truth: expected a column .* or a file, found neither"),
        (
            {**MAPPING, "weight": "expert", "gold": "user"},
            r"expected one gold class for item 'p1', got 'bob' after 'ann'",
        ),
        ({**MAPPING, "weight": "user"}, r"line 2, column user: expected a positive finite number, got 'ann'"),
        ({**MAPPING, "question": "q"}, r"the form csv takes --item, .*; leave --question out"),
        ({**MAPPING, "annotator": "expert"}, r"line 4: expected the annotator, got ''"),
    ],
)
def test_a_mapping_that_does_not_fit_is_told(tmp_path: Path, asked: dict, message: str) -> None:
    (tmp_path / "a.csv").write_text(ROWS.format(","))
    with pytest.raises(DataError, match=message):
        read_form("csv", tmp_path / "a.csv", FileOptions(**asked))


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        ("p8,1\np9,01\n", r"expected gold of items that have answers, got gold of 'p8'"),
        ("p1,1.0\n", r"expected gold spelled as the labels are, got '1.0' where labels say '1'; .* --normalise"),
    ],
)
def test_gold_that_no_label_can_agree_with_is_refused(tmp_path: Path, gold: str, message: str) -> None:
    (tmp_path / "a.csv").write_text("i,a,l\np1,x,1\np2,x,2\n")
    (tmp_path / "gold.csv").write_text(f"i,gold\n{gold}")
    asked = FileOptions(item="i", annotator="a", label="l", gold=str(tmp_path / "gold.csv"))
    with pytest.raises(DataError, match=message):
        write_rows(read_form("csv", tmp_path / "a.csv", asked), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_cell_may_hold_megabytes(tmp_path: Path) -> None:
    long = "word, " * 1_000_000
    (tmp_path / "a.csv").write_text(f'HITId,WorkerId,Input.text,Answer.q\nh,A,"{long}",yes\nh,B,"{long}",no\n')
    data = write_rows(read_form("mturk", tmp_path / "a.csv"), tmp_path / "out")
    assert data.items.text == [long]


@pytest.mark.parametrize(
    "text", ['task,worker,label\n"t,w,1\n', "task,worker,label\nt,w\n", "task,task,label,worker\na,b,c,d\n", 'a"\x00,b']
)
def test_a_broken_table_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=r"a\.csv"):
        read_form("crowd-kit", tmp_path / "a.csv")


def test_texts_in_place_of_labels_are_not_taken_for_classes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("task,worker,label\n" + "".join(f"{i},a,text {i}\n" for i in range(10_001)))
    with pytest.raises(DataError, match=r"at most 10,000 classes, got 10,001, .* is this the column or question"):
        write_rows(read_form("crowd-kit", tmp_path / "a.csv"), tmp_path / "out")


@pytest.mark.parametrize("magic", [b"PK\x03\x04", b"PAR1"])
def test_a_file_of_another_kind_is_named(tmp_path: Path, magic: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(magic + b"rest")
    with pytest.raises(DataError, match=r"expected (text, got a zip archive|a Parquet file)"):
        read_form("crowd-kit", tmp_path / "a.csv")


def test_a_cut_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"task,worker,label\nt,w,1\n" * 500)[:-20])
    with pytest.raises(DataError, match=r"a\.csv\.gz"):
        read_form("crowd-kit", tmp_path / "a.csv.gz")


def mturk(tmp_path: Path, header: str, *rows: list[str]) -> Path:
    import csv

    with (tmp_path / "batch.csv").open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([header.split(","), *rows])
    return tmp_path / "batch.csv"


def test_rejected_assignments_are_left_out_and_counted(tmp_path: Path) -> None:
    header = "HITId,WorkerId,AssignmentStatus,Answer.q,Approve,Reject"
    file = mturk(
        tmp_path,
        header,
        ["h1", "A", "Approved", "yes", "x", ""],
        ["h1", "B", "Rejected", "no", "", ""],
        ["h1", "C", "Submitted", "no", "", "spam"],
        ["h2", "D", "Submitted", "no", "", ""],
        ["h3", "B", "rejected ", "no", "", ""],
        ["h2", "A", "Approved", "", "x", ""],
    )
    imported = read_form("mturk", file)
    assert triples(imported) == {("h1", "A", "yes"), ("h2", "D", "no")}
    assert list(imported.items) == ["h1", "h2", "h3"]
    assert set(imported.notes) == {"rejected assignments left out: 3", "assignments without an answer to q left out: 1"}


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ({"category": {"label": "cat"}}, "cat"),
        ({"category": {"labels": ["cat", "dog"]}}, "cat+dog"),
        ({"category": {"cat": True, "dog": False}}, "cat"),
        ({"category": "cat"}, "cat"),
        ({"category": 3}, "3"),
        ({"category": True}, "True"),
    ],
)
def test_answers_of_crowd_html(tmp_path: Path, answer: dict, label: str) -> None:
    file = mturk(tmp_path, "HITId,WorkerId,Answer.taskAnswers", ["h", "A", json.dumps([answer])], ["h", "B", "[]"])
    assert triples(read_form("mturk", file)) == {("h", "A", label)}
    assert triples(read_form("mturk", file, FileOptions(question="category"))) == {("h", "A", label)}


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("{oops", r"line 2, Answer.taskAnswers: expected JSON"),
        ('[{"q": {"x": 1}}]', r"q: expected a class"),
        ("[1]", "1"),
    ],
)
def test_answers_of_crowd_html_that_are_none(tmp_path: Path, cell: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_form("mturk", mturk(tmp_path, "HITId,WorkerId,Answer.taskAnswers", ["h", "A", cell]))


def test_radio_buttons_and_check_boxes(tmp_path: Path) -> None:
    header = "HITId,WorkerId,Answer.kind.cat,Answer.kind.dog,Answer.seen.on"
    file = mturk(
        tmp_path,
        header,
        ["h1", "A", "true", "false", "true"],
        ["h1", "B", "false", "true", "false"],
        ["h2", "A", "FALSE", "", "false"],
    )
    assert triples(read_form("mturk", file, FileOptions(question="kind"))) == {("h1", "A", "cat"), ("h1", "B", "dog")}
    seen = triples(read_form("mturk", file, FileOptions(question="Answer.seen.on")))
    assert seen == {("h1", "A", "true"), ("h1", "B", "false"), ("h2", "A", "false")}
    with pytest.raises(DataError, match=r"expected one question, got kind, seen.on; choose one by --question"):
        read_form("mturk", file)
    with pytest.raises(UnknownName, match="did you mean 'kind'"):
        read_form("mturk", file, FileOptions(question="kinds"))


def test_two_texts_under_one_id_are_two_items(tmp_path: Path) -> None:
    file = mturk(tmp_path, "Input.id,Input.text,WorkerId,Answer.q", ["7", "one", "A", "x"], ["7", "two", "B", "y"])
    with pytest.raises(DataError, match=r"line 3, column Input.id: expected one text for item '7'"):
        read_form("mturk", file)
