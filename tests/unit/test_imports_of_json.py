"""JSON exports with nulls, zeros, bare ids, odd names: read, or refused with the record and the key."""

import gzip
import json
import zipfile
from pathlib import Path

import pytest

from crowdsweep.errors import DataError
from crowdsweep.importing.registry import read_form
from crowdsweep.importing.rows import FileOptions, ImportedRows
from crowdsweep.importing.write import write_rows


def read(tmp_path: Path, form: str, content: object, question: str | None = None) -> ImportedRows:
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    return read_form(form, tmp_path / "a.json", FileOptions(question=question))


def triples(imported: ImportedRows) -> list[tuple[str, str, str]]:
    return [(row.item, row.annotator, "+".join(row.labels)) for row in imported.rows]


def choice(who: object, *choices: str, key: str = "choices", question: str = "q") -> dict:
    value = list(choices) if key == "choices" else choices[0]
    return {"completed_by": who, "result": [{"from_name": question, "type": key, "value": {key: value}}]}


def task(number: object, *annotations: object, data: object = None) -> dict:
    return {"id": number, "data": data, "annotations": list(annotations)}


SOUND = task(9, choice(1, "x"), choice(2, "y"))


def test_nulls_of_label_studio_are_no_answers(tmp_path: Path) -> None:
    tasks = [SOUND, {"id": 0, "data": None, "annotations": None}, task(1, {"completed_by": 1, "result": None})]
    imported = read(tmp_path, "label-studio", tasks)
    assert triples(imported) == [("9", "1", "x"), ("9", "2", "y")]
    assert list(imported.items) == ["9", "0", "1"]
    assert list(imported.notes) == ["annotations without an answer left out: 1"]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (task(3, 5, 6), r"task 3, annotations.0: expected an object, got 5; export it in full"),
        (task(3, None), r"task 3, annotations.0: expected an object, got null"),
        (task(3, choice(None, "x")), r"task 3, annotations.0, completed_by: expected who answered, got null"),
        (task(3, choice({}, "x")), r"task 3, annotations.0, completed_by: expected an id or an email, got null"),
        (task(3, choice("", "x")), r"completed_by: expected who answered, got ''"),
        (task(3, {"completed_by": 1, "result": [None]}), r"annotations.0, result.0: expected an object, got null"),
        (task(3, {"completed_by": 1, "result": {}}), r"annotations.0, result: expected a list, got an object"),
        (task(3, choice(1, ["x"])), r"task 3, annotations.0, q: expected a label, got a list"),
        ({"id": 3, "annotations": "all"}, r"task 3, annotations: expected a list, got 'all'"),
        (task(3, data=[1]), r"task 3, data: expected an object, got a list"),
        (task(9, choice(1, "x")), r"task 1, id: expected distinct ids, got '9' again"),
        (task(None, choice(1, "x")), r"task 1, id: expected an id in each record or in none, got null"),
        (task([3]), r"task 1, id: expected an id, got a list"),
        (
            {**task(3), "annotations": [{"completed_by": 1, "result": choice(1, "x")["result"] * 2}]},
            r"task 3, annotations.0, result.1: expected one answer to q in an annotation",
        ),
        (task(3, choice(1, "\ud800")), r"task 3, annotations.0, q: expected a label, .* an unpaired surrogate"),
        (7, r"entry 1: expected an object, got 7"),
    ],
)
def test_what_label_studio_should_not_hold_is_told_with_task_and_key(tmp_path: Path, broken, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, "label-studio", [SOUND, broken])


def test_one_person_is_one_annotator_however_an_export_names_them(tmp_path: Path) -> None:
    tasks = [task(1, choice(2, "x")), task(2, choice({"id": 2, "email": "b@x"}, "y")), task(3, choice({"id": 0}, "x"))]
    assert triples(read(tmp_path, "label-studio", tasks)) == [("1", "b@x", "x"), ("2", "b@x", "y"), ("3", "0", "x")]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("ending", ["\n", "\r\n", ""])
def test_a_task_a_line_packed_or_not(tmp_path: Path, packed: bool, ending: str) -> None:
    data = ("\ufeff" + ending.join(json.dumps(task(i, choice(1, "xy"[i]))) for i in (0, 1)) + ending).encode()
    file = tmp_path / "tasks.jsonl.gz"
    file.write_bytes(gzip.compress(data) if packed else data)
    assert triples(read_form("label-studio", file)) == [("0", "1", "x"), ("1", "1", "y")]


def test_ratings_and_pairs_are_labels_and_what_is_none_is_named(tmp_path: Path) -> None:
    assert triples(read(tmp_path, "label-studio", [task(1, {**choice(1, "4", key="rating")})])) == [("1", "1", "4")]
    assert triples(read(tmp_path, "label-studio", [task(1, choice(1, "left", key="selected"))])) == [("1", "1", "left")]
    with pytest.raises(DataError, match=r"expected classes \(.*\), got rectanglelabels: spans, regions"):
        read(tmp_path, "label-studio", [task(1, choice(1, "x", key="rectanglelabels"))])


def test_the_joiner_in_a_name_splits_no_class(tmp_path: Path) -> None:
    tasks = [task(1, choice(1, "A|B"), choice(2, "Neg")), task(2, choice(1, "A|B", "Neg"), choice(2, "A/B"))]
    data = write_rows(read(tmp_path, "label-studio", tasks), tmp_path / "out")
    assert data.scale == "multilabel"
    assert sorted(data.class_names) == ["A/B", "A|B", "Neg"]
    chosen = sorted(data.class_names[label] for label in data.annotations.label)
    assert chosen == ["A/B", "A|B", "A|B", "Neg", "Neg"]


def test_the_joiner_in_a_name_of_one_class_answers_stays(tmp_path: Path) -> None:
    data = write_rows(read(tmp_path, "label-studio", [task(1, choice(1, "A|B"), choice(2, "C"))]), tmp_path / "out")
    assert (data.scale, data.class_names) == ("nominal", ("A|B", "C"))


MIN = [
    {"id": 1, "text": "a", "q": "x", "annotator": 0, "lead_time": 1.5},
    {"id": 1, "text": "a", "q": "y", "annotator": 2, "lead_time": 2.5},
]


def test_json_min_is_a_row_an_annotation(tmp_path: Path) -> None:
    imported = read(
        tmp_path, "label-studio", [*MIN, {"id": 2, "text": "b", "q": {"choices": ["x", "y"]}, "annotator": 0}]
    )
    assert triples(imported) == [("1", "0", "x"), ("1", "2", "y"), ("2", "0", "x+y")]
    assert imported.text == {"1": "a", "2": "b"}
    agreed = [{**row, "q": "x"} for row in MIN]
    with pytest.raises(DataError, match=r"expected one question, got text, q; choose one by --question"):
        read(tmp_path, "label-studio", agreed)
    assert triples(read(tmp_path, "label-studio", agreed, "q")) == [("1", "0", "x"), ("1", "2", "x")]
    with pytest.raises(DataError, match=r"row 1: expected the annotator, got null"):
        read(tmp_path, "label-studio", [MIN[0], {**MIN[1], "annotator": None}])


def response(user: object, value: object, status: str | None = "submitted") -> dict:
    return {"user_id": user, "value": value, "status": status}


ARGILLA = [
    {"fields": None, "responses": {"q": [response("u1", "01"), response("u2", "1"), response("u3", "x", "draft")]}},
    {
        "fields": {"text": "t"},
        "responses": [
            {"user_id": user, "status": status, "values": {"q": {"value": value}}}
            for user, value, status in (("u1", "01", "submitted"), ("u2", "1", None), ("u3", "x", "draft"))
        ],
    },
    {
        "q.responses": ["01", "1", "x"],
        "q.responses.users": ["u1", "u2", "u3"],
        "q.responses.status": ["submitted", "submitted", "draft"],
    },
    {"q.responses": ["01", "1"], "q.responses.users": ["u1", "u2"]},
    {"text": "t", "q": [response("u1", "01"), response("u2", "1"), response("u3", "x", "discarded")]},
    {"text": "t", "q": {"user_id": ["u1", "u2"], "value": ["01", "1"], "status": ["submitted", "submitted"]}},
]


@pytest.mark.parametrize("record", ARGILLA)
def test_every_form_of_argilla(tmp_path: Path, record: dict) -> None:
    records = [{"id": 1, **record}, {"id": 0, **record}]
    expected = [("1", "u1", "01"), ("1", "u2", "1"), ("0", "u1", "01"), ("0", "u2", "1")]
    assert triples(read(tmp_path, "argilla", records)) == expected
    assert triples(read(tmp_path, "argilla", "\n".join(map(json.dumps, records)), "q")) == expected


@pytest.mark.parametrize(
    ("responses", "message"),
    [
        ({"q": [response(None, "x")]}, r"record r, responses.q.0: expected the annotator, got null"),
        ({"q": [response("u", {"a": 1})]}, r"record r, responses.q.0, value: expected a label, got an object"),
        ({"q": [response("u", [{"value": "x", "rank": 1}])]}, r"responses.q.0, value: expected a label, got an object"),
        ({"q": ["x"]}, r"record r, responses.q.0: expected an object, got 'x'"),
        ({"q": 5}, r"record r, responses.q: expected a list, got 5"),
        ([1], r"record r, responses.0: expected an object, got 1"),
        ({"q": None}, r"expected at least one label, found none"),
        (
            {"q": [response("u", "x"), response("v", "y")], "r": [response("u", "x")]},
            r"expected one question, got q, r",
        ),
    ],
)
def test_what_argilla_should_not_hold_is_told_with_record_and_key(tmp_path: Path, responses, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, "argilla", [{"id": "r", "responses": responses}])


def test_flat_columns_of_different_length_are_refused(tmp_path: Path) -> None:
    record = {"id": "r", "q.responses": ["x"], "q.responses.users": ["u", "v"]}
    with pytest.raises(DataError, match=r"record r, q.responses: .*, got 1 values, 2 users and 1 statuses"):
        read(tmp_path, "argilla", [record])


def test_several_labels_and_none_of_argilla(tmp_path: Path) -> None:
    imported = read(tmp_path, "argilla", [{"responses": {"q": [response("u", ["b", "a"]), response("v", [])]}}])
    assert triples(imported) == [("0", "u", "a+b"), ("0", "v", "")]
    assert write_rows(imported, tmp_path / "out").scale == "multilabel"


def test_numbers_and_texts_of_peerannot_stay_apart(tmp_path: Path) -> None:
    content = '{"0": {"a": 1, "b": "01"}, "01": {"a": "1.0", "b": 2.0}, "1": {"a": true, "b": "1_0"}, "2": {}}'
    imported = read(tmp_path, "peerannot", content)
    assert [label for _, _, label in triples(imported)] == ["1", "01", "1.0", "2", "True", "1_0"]
    assert list(imported.items) == ["0", "01", "1", "2"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '{"0": {"a": NaN, "b": null}}',
            r"found none \(2 answers have no label and were left out: empty \(2, first: item 0, annotator a\)\)",
        ),
        ('{"0": {"a": [1]}}', r"expected a label, got a list"),
        ('{"0": {"": 1}}', r"item 0, annotator : expected the annotator, got ''"),
        ('{"0": null}', r"item 0: expected an object of annotator: label, got null"),
        ('{"0": {"a": 1}, "0": {"b": 1}}', r"expected distinct keys in an object, got '0' twice"),
        ('{"0": {"a": 1}} {}', r"line 1, column 17: expected JSON: expected the end of the document"),
        ('{"0":\n {"a": 1]', r"line 2, column 9: expected JSON"),
        ('{"0": {"a": ' + "9" * 5000 + "}}", r"expected JSON, cannot read it as that"),
        ("[" * 100_000, r"expected JSON, cannot read it as that"),
        ("", r"expected JSON"),
    ],
)
def test_what_peerannot_should_not_hold_is_told(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, "peerannot", content)


def example(number: int, *labels: object) -> dict:
    return {"id": number, "text": f"t{number}", "label": list(labels), "Comments": []}


@pytest.mark.parametrize("archive", [False, True])
def test_doccano_has_a_file_an_annotator(tmp_path: Path, archive: bool) -> None:
    files = {
        "ann.jsonl": [example(0, "x"), example(1)],
        "bob.jsonl": [example(0, "y", "x"), example(1, "y")],
    }
    texts = {name: "\n".join(map(json.dumps, records)) for name, records in files.items()}
    place = tmp_path / ("export.zip" if archive else "export")
    if archive:
        with zipfile.ZipFile(place, "w") as packed:
            for name, text in texts.items():
                packed.writestr(f"labels/{name}", text)
    else:
        place.mkdir()
        for name, text in texts.items():
            (place / name).write_text(text)
    imported = read_form("doccano", place)
    assert triples(imported) == [("0", "ann", "x"), ("0", "bob", "x+y"), ("1", "bob", "y")]
    assert list(imported.notes) == ["examples without a label left out: 1"]
    assert imported.text == {"0": "t0", "1": "t1"}


def test_doccano_with_users_in_the_annotations(tmp_path: Path) -> None:
    records = [{"id": 5, "text": "t", "annotations": [{"label": 2, "user": 0}, {"label": 3, "user": 1}]}]
    assert triples(read(tmp_path, "doccano", records)) == [("5", "0", "2"), ("5", "1", "3")]
    with pytest.raises(DataError, match=r"example 5, annotations.0, user: expected who answered, got null"):
        read(tmp_path, "doccano", [{"id": 5, "annotations": [{"label": 2}]}])


def test_doccano_of_one_file_says_that_it_is_one_annotator(tmp_path: Path) -> None:
    imported = read(tmp_path, "doccano", [example(0, "x"), example(1, "y")])
    assert imported.notes[0].startswith("all answers are one annotator's, 'a'")
    with pytest.raises(DataError, match=r"example 0, label: expected classes, got spans"):
        read(tmp_path, "doccano", [example(0, [0, 9, "LOC"])])


def test_a_folder_without_exports_and_a_folder_where_a_file_should_be(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected a file ANNOTATOR.jsonl for each annotator, found none"):
        read_form("doccano", tmp_path)
    with pytest.raises(DataError, match=r"expected a file to import, found a folder"):
        read_form("prodigy", tmp_path)


def prodigy(item: object, who: object, answer: str = "accept", **more: object) -> dict:
    return {"text": f"t{item}", "_input_hash": item, "_annotator_id": who, "answer": answer, **more}


def test_choices_of_prodigy(tmp_path: Path) -> None:
    records = [
        prodigy(-5, "d-ann", accept=["x"]),
        prodigy(-5, "d-bob", accept=["y"]),
        prodigy(0, "d-ann", accept=["x"], answer="ignore"),
        prodigy(0, "d-bob", accept=["x"], answer="reject"),
        {**prodigy(0, None, accept=["y"]), "_session_id": "d-cleo"},
    ]
    imported = read(tmp_path, "prodigy", "\n".join(map(json.dumps, records)))
    assert triples(imported) == [("-5", "d-ann", "x"), ("-5", "d-bob", "y"), ("0", "d-cleo", "y")]
    assert list(imported.notes) == ["ignored answers left out: 1", "rejected answers left out: 1"]


def test_accepted_and_rejected_labels_of_prodigy(tmp_path: Path) -> None:
    records = [prodigy(1, "a", label="SPAM"), prodigy(1, "b", "reject", label="SPAM"), prodigy(1, "a", label="FUN")]
    with pytest.raises(DataError, match=r"expected one question, got SPAM, FUN"):
        read(tmp_path, "prodigy", records)
    assert triples(read(tmp_path, "prodigy", records, "SPAM")) == [("1", "a", "accept"), ("1", "b", "reject")]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (prodigy(1, None, accept=["x"]), r"entry 0, _annotator_id: expected who answered, got null"),
        (prodigy(None, "a", accept=["x"]), r"entry 0, _input_hash: expected an item id, got null"),
        (prodigy(1, "a", "maybe", accept=["x"]), r"entry 0, answer: expected accept, reject or ignore, got 'maybe'"),
        (prodigy(1, "a", accept="x"), r"entry 0, accept: expected a list, got 'x'"),
        (prodigy(1, "a", spans=[]), r"entry 0: expected accept \(choices\) or label"),
    ],
)
def test_what_prodigy_should_not_hold_is_told(tmp_path: Path, record: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, "prodigy", [record])


def test_an_export_larger_than_what_is_held_of_it(tmp_path: Path) -> None:
    tasks = [task(i, choice(1, "xy"[i % 2]), data={"text": "[{\\" + '"' * i + "ä" * 300}) for i in range(700)]
    imported = read(tmp_path, "label-studio", json.dumps(tasks, ensure_ascii=False, indent=1))
    assert triples(imported) == [(str(i), "1", "xy"[i % 2]) for i in range(700)]
    assert imported.text["699"].endswith("ä" * 300)
