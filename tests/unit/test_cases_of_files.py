"""Files that people bring and that are not what they look like: each is read as its owner means it, or refused."""

import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import crowdsweep as cs
from crowdsweep.cli.commands import run_command_line
from crowdsweep.data.class_order import by_the_alphabet, in_order
from crowdsweep.data.describe import describe
from crowdsweep.data.oddities import mistakes
from crowdsweep.data.on_disk.folder import read_folder, write_folder
from crowdsweep.errors import BadInput, DataError
from crowdsweep.importing.guess import guess_file, settled
from crowdsweep.importing.registry import read_form
from crowdsweep.importing.rows import FileOptions

ANSWERS = ["yes yes no", "no no no", "yes no yes", "no no yes"]
TABLE = pd.DataFrame(
    [
        (f"doc{n}", who, label)
        for n, row in enumerate(ANSWERS, 1)
        for who, label in zip("abc", row.split(), strict=True)
    ],
    columns=["item", "annotator", "label"],
)
MAJORITY = ["yes", "no", "yes", "no"]
TRIPLES = sorted(TABLE.itertuples(index=False, name=None))


def triples(folder: Path) -> list[tuple[str, str, str]]:
    data = read_folder(folder)
    rows, names = data.annotations, (data.item_names, data.annotator_names, data.class_names)
    codes = zip(rows.item.tolist(), rows.annotator.tolist(), rows.label.tolist(), strict=True)
    return sorted(tuple(str(names[axis][code]) for axis, code in enumerate(row)) for row in codes)


def begun(path: Path, *words: str) -> Path:
    folder = path.parent / "begun"
    assert run_command_line(["init", str(path), str(folder), *words]) == 0
    return folder


def renamed(**names: str) -> pd.DataFrame:
    return TABLE.rename(columns=names)


def parquet(frame: pd.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.to_parquet(out, index=False)
    return out.getvalue()


TABLES = {
    "records.json": TABLE.to_json(orient="records"),
    "lines.jsonl": TABLE.to_json(orient="records", lines=True),
    "columns.json": TABLE.to_json(),
    "columns-of-ids.json": TABLE.set_index(pd.Index([f"r{n}" for n in range(12)])).to_json(),
    "index.json": TABLE.to_json(orient="index"),
    "split.json": TABLE.to_json(orient="split"),
    "table.json": TABLE.to_json(orient="table", index=False),
    "lists.json": json.dumps(TABLE.to_dict(orient="list")),
    "crowdkit.json": renamed(item="task", annotator="worker").to_json(orient="records"),
    "turk.json": renamed(item="HITId", annotator="WorkerId").to_json(orient="records"),
    "doc.json": renamed(item="doc", annotator="user").to_json(orient="records"),
    "answer.json": renamed(label="answer").to_json(),
    "text.jsonl": renamed(item="id").assign(text="text of " + TABLE["item"]).to_json(orient="records", lines=True),
    "more.json": TABLE.assign(meta=[{"a": 1}] * 12, note=None).to_json(orient="records"),
    "table.csv": TABLE.to_csv(index=False),
    "table.tsv": TABLE.to_csv(index=False, sep="\t"),
    "semicolons.csv": TABLE.to_csv(index=False, sep=";"),
    "table.parquet": parquet(TABLE),
    "blank.csv": TABLE.to_csv(index=False) + ",,\n , ,\n",
    "excel.csv": TABLE.to_csv(index=False, lineterminator="\r\n").replace("doc3,a", ",,\r\ndoc3,a"),
    "more.csv": TABLE.assign(rater="r", answer="x", score=1).to_csv(index=False),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_one_in_whatever_file_it_comes(tmp_path: Path, name: str) -> None:
    content = TABLES[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    folder = begun(tmp_path / name)
    assert triples(folder) == TRIPLES
    assert cs.fit("majority-vote", str(folder)).labels["label"].to_pylist() == MAJORITY
    assert (read_folder(folder).items.text is not None) == (name == "text.jsonl")


@pytest.mark.parametrize("name", ["records.json", "columns.json", "table.parquet"])
def test_columns_of_such_a_table_can_be_named(tmp_path: Path, name: str) -> None:
    frame = renamed(item="a1", annotator="b2", label="c3")
    files = {
        "records.json": frame.to_json(orient="records"),
        "columns.json": frame.to_json(),
        "table.parquet": parquet(frame),
    }
    content = files[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert triples(begun(tmp_path / name, "--item", "a1", "--annotator", "b2", "--label", "c3")) == TRIPLES


NO_CROWDS = {
    "texts": ({str(n): {"text": f"post {n}", "topic": f"t{n}"} for n in range(4)}, "values have nothing in common"),
    "records without annotators": ([{"doc": 1, "label": "a", "when": 3}] * 3, "cannot tell which column is what"),
    "lists of lists": ([["a", "b"], ["c", "d"]], "expected an object, got a list"),
    "lists of other lengths": ({"item": [1], "annotator": [1, 2], "label": [0]}, "lists of one length"),
}


@pytest.mark.parametrize("name", NO_CROWDS)
def test_json_that_is_no_crowd_is_refused(tmp_path: Path, name: str) -> None:
    content, message = NO_CROWDS[name]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content))
    with pytest.raises(BadInput, match=message):
        settled(path, guess_file(path))


def test_answers_of_peerannot_stay_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    for given in (
        {"0": {"0": 1, "1": 0}, "1": {"0": 1}},
        {"p1": {"ann": "a"}, "p2": {"bob": "a", "ann": "b"}, "p3": {}},
    ):
        path.write_text(json.dumps(given))
        assert guess_file(path).form == "peerannot"


def test_rows_without_anything_are_told_and_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "matrix.csv"
    path.write_text("item,ann,bob,gold\n1,yes,no,yes\n,,,\n2,yes,yes,\n3,no,no,no\n,,,\n")
    folder = begun(path)
    assert "rows without anything in them left out: 2" in capsys.readouterr().out
    data = read_folder(folder)
    assert (data.items.n_items, len(data.annotations), data.gold.item.tolist()) == (3, 6, [0, 2])
    positions = tmp_path / "positions.csv"
    positions.write_text("yes,no\n,\nno,no\n")
    assert list(read_form("matrix", positions).items) == ["0", "1", "2"]  # an item that nobody answered


def test_a_folder_s_tables_may_have_such_rows_too(tmp_path: Path) -> None:
    (tmp_path / "annotations.csv").write_text("item,annotator,label\na,x,1\n,,\na,y,0\nb,y,0\n,,\n")
    (tmp_path / "items.csv").write_text("item,gold\n,\na,1\nb,\n")
    data = read_folder(tmp_path)
    assert (data.items.n_items, len(data.annotations), len(data.gold)) == (2, 3, 1)
    (tmp_path / "annotations.csv").write_text("item,annotator,label\na,x,1\n,,\na,,0\n")
    with pytest.raises(DataError, match="row 3, column annotator: expected an annotator, got an empty field"):
        read_folder(tmp_path)


def potato(**answers: str) -> str:
    rows = [
        f"user{who}\t{n}\ttext number {n}\t{'' if (n + who) % 3 else 1}\t{2 if (n + who) % 3 else ''}"
        for who in range(3)
        for n in range(6)
    ]
    return "user\tinstance_id\tdisplayed_text\tmood:::positive\tmood:::negative\n" + "\n".join(rows) + "\n"


def test_options_of_potato_are_the_classes(tmp_path: Path) -> None:
    (tmp_path / "annotated_instances.tsv").write_text(potato())
    data = read_folder(begun(tmp_path / "annotated_instances.tsv"))
    assert (data.items.n_items, data.annotations.n_annotators, data.class_names) == (6, 3, ("negative", "positive"))
    assert data.items.text[2] == "text number 2"
    assert Counter(label for *_, label in triples(tmp_path / "begun")) == {"negative": 12, "positive": 6}


@pytest.mark.parametrize("column", ["topic", "headline", "question", "title", "category", "class"])
def test_what_is_said_of_an_item_is_no_answer(tmp_path: Path, column: str) -> None:
    rows = [
        f"r{who},{n},{'news' if n % 2 else 'a blog'},{(n * 7 + who * 3) % 10 / 10}"
        for n in range(6)
        for who in range(3)
    ]
    path = tmp_path / "a.csv"
    path.write_text(f"annotator,sample,{column},confidence\n" + "\n".join(rows) + "\n")
    with pytest.raises(BadInput, match=rf"{column}' is the same for every answer to an item"):
        settled(path, guess_file(path))
    assert "label" not in {role: name for role, name in vars(guess_file(path).asked).items() if name is not None}
    told = FileOptions(label=column)
    assert settled(path, guess_file(path, told)).asked.label == column


STEPS = {
    "whole": ["1", "2", "3", "4", "5"],
    "negative": ["-2", "-1", "0", "1", "2"],
    "halves": ["0.5", "1.0", "2.5", "10.0", "20.0"],
    "exponents": ["1e-2", "0.5", "1", "2e1", "1e3"],
    "words": ["strongly disagree", "disagree", "neutral", "agree", "strongly agree"],
}


def ordinal(folder: Path, steps: list[str]) -> Path:
    random = np.random.default_rng(0)
    true = random.integers(0, 5, 40)
    said = np.clip(true[:, None] + random.integers(-1, 2, (40, 3)), 0, 4)
    rows = [f"q{n},r{who},{steps[said[n, who]]}" for n in range(40) for who in range(3)]
    folder.mkdir()
    (folder / "in.csv").write_text("item,annotator,label\n" + "\n".join(rows) + "\n")
    made = begun(folder / "in.csv")
    about = (made / "dataset.yaml").read_text()
    (made / "dataset.yaml").write_text(about.replace("nominal", "ordinal"))
    return made


def test_an_ordinal_scale_of_numbers_is_in_their_order_whatever_their_form(tmp_path: Path) -> None:
    alphas: dict[str, float] = {}
    for name, steps in STEPS.items():
        data = read_folder(ordinal(tmp_path / name, steps))
        assert (list(data.class_names) == steps) == (name != "words")
        alphas[name] = describe(data)["krippendorff_alpha"]
        told = [one for one in mistakes(data) if "alphabet" in one.kind]
        assert bool(told) == (name == "words")
    assert len({round(alphas[name], 12) for name in STEPS if name != "words"}) == 1
    classes = tmp_path / "words" / "begun" / "classes.csv"
    classes.write_text("label\n" + "\n".join(STEPS["words"]) + "\n")
    put_right = read_folder(classes.parent)
    assert describe(put_right)["krippendorff_alpha"] == pytest.approx(alphas["whole"])
    assert not mistakes(put_right)


def test_the_order_of_classes() -> None:
    assert in_order(["b", "10", "-1", "2", "a", "1e1"]) == ["-1", "2", "10", "1e1", "a", "b"]
    assert in_order(["level 10", "level 2"]) == ["level 2", "level 10"]
    assert by_the_alphabet(["agree", "disagree", "neutral"])
    assert not by_the_alphabet(["A", "B", "C"])
    assert not by_the_alphabet(["low", "high", "middle"])
    assert not by_the_alphabet(["1", "2", "3"])


def label_studio(number: int, *answers: tuple[int, str, bool], **data: object) -> dict:
    made = [
        {
            "completed_by": who,
            "ground_truth": trusted,
            "result": [{"from_name": "mood", "type": "choices", "value": {"choices": [label]}}],
        }
        for who, label, trusted in answers
    ]
    return {"id": number, "data": data or {"text": f"t {number}"}, "annotations": made}


def test_what_an_export_marks_as_ground_truth_is_gold(tmp_path: Path) -> None:
    tasks = [
        label_studio(1, (1, "a", False), (2, "b", False), (9, "a", True)),
        label_studio(2, (1, "b", False), (2, "b", False)),
        label_studio(3, (1, "a", False), (2, "b", False), (8, "a", True), (9, "b", True)),
    ]
    (tmp_path / "a.json").write_text(json.dumps(tasks))
    imported = read_form("label-studio", tmp_path / "a.json")
    assert imported.gold == {"1": ("a",)}
    assert {row.annotator for row in imported.rows} == {"1", "2"}
    assert any("ground truth are gold" in note and "of 1 items" in note for note in imported.notes)
    assert any("1 items have several ground truths that differ" in note for note in imported.notes)


def test_several_right_classes_in_one_cell_of_gold_are_no_class(tmp_path: Path) -> None:
    rows = [
        ("700", "a", "pos", "pos\nneu"),
        ("700", "b", "pos", "pos\nneu"),
        ("701", "a", "neg", "neg"),
        ("701", "b", "neu", "neg"),
    ]
    pd.DataFrame(rows, columns=["_unit_id", "_worker_id", "mood", "mood_gold"]).to_csv(
        tmp_path / "appen.csv", index=False
    )
    asked = FileOptions(item="_unit_id", annotator="_worker_id", label="mood", gold="mood_gold")
    imported = read_form("csv", tmp_path / "appen.csv", asked)
    assert imported.gold == {"701": ("neg",)}
    assert "1 items have several gold classes" in imported.notes[0]


def test_gold_that_nobody_can_reach_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("item,annotator,label,gold\na,x,1,other\na,y,0,other\nb,x,1,1\nb,y,1,1\n")
    begun(tmp_path / "a.csv")
    assert "note: classes of gold that no annotator used: other" in capsys.readouterr().out


SHOWN = {
    "review": [label_studio(n, (1, "a", False), (2, "b", False), review=f"It broke ({n})") for n in (7, 8)],
    "image": [label_studio(n, (1, "a", False), (2, "b", False), image=f"/data/{n}.png") for n in (7, 8)],
}
MIN = [
    {"id": n, "review": f"It broke ({n})", "mood": "ab"[who], "annotator": who, "lead_time": 1}
    for n in (7, 8)
    for who in (0, 1)
]


@pytest.mark.parametrize(
    ("key", "content"),
    [
        *SHOWN.items(),
        ("review", MIN),
        (
            "html",
            [
                {"_input_hash": n, "html": f"<b>{n}</b>", "_annotator_id": w, "accept": [c]}
                for n in (7, 8)
                for w, c in ("ua", "vb")
            ],
        ),
        (
            "headline",
            [
                {
                    "id": n,
                    "fields": {"headline": f"News {n}"},
                    "responses": {"q": [{"value": c, "user_id": c} for c in "ab"]},
                }
                for n in (7, 8)
            ],
        ),
    ],
)
def test_predictions_carry_what_the_project_shows(tmp_path: Path, key: str, content: list) -> None:
    (tmp_path / "a.json").write_text(json.dumps(content))
    (tmp_path / "project.xml").write_text(
        f'<View><Text name="w" value="${key}"/><Choices name="m" toName="w">'
        '<Choice value="a"/><Choice value="b"/></Choices></View>'
    )
    folder = begun(tmp_path / "a.json")
    words = ["label", str(folder), "--model", "majority-vote", "--export", "label-studio"]
    words += ["--interface", str(tmp_path / "project.xml"), "--out"]
    assert run_command_line([*words, str(tmp_path / "o")]) == 0
    tasks = json.loads((tmp_path / "o" / "label-studio.json").read_text())
    first = content[0]
    expected = first.get("data", first.get("fields", first))[key]
    assert tasks[0]["data"][key] == expected
    assert tasks[0].get("id") == (7 if key in ("review", "image") else None)
    assert (read_folder(folder).items.text is None) == (key == "image")
    if key == "image":
        (folder / "shown.jsonl").unlink()
        assert run_command_line([*words, str(tmp_path / "again")]) == 2


SPANS = {
    "doccano": [{"id": 1, "text": "x", "entities": [{"id": 1, "label": "ORG"}], "relations": []}],
    "doccano, boxes": [{"id": 1, "filename": "a.png", "bbox": []}],
    "label-studio": [
        {
            "id": 1,
            "data": {},
            "annotations": [
                {
                    "completed_by": 1,
                    "result": [{"from_name": "t", "type": "taxonomy", "value": {"taxonomy": [["A", "B"]]}}],
                }
            ],
        }
    ],
}


@pytest.mark.parametrize("name", SPANS)
@pytest.mark.parametrize("question", [None, "t"])
def test_spans_and_relations_are_called_so(tmp_path: Path, name: str, question: str | None) -> None:
    (tmp_path / "a.json").write_text(json.dumps(SPANS[name]))
    form = name.partition(",")[0]
    asked = FileOptions(question=question) if form == "label-studio" else FileOptions()
    with pytest.raises(DataError, match=r"expected classes.*, got (spans, relations or boxes \(keys|taxonomy: spans)"):
        read_form(form, tmp_path / "a.json", asked)


def with_texts_and_numbers(path: Path) -> Path:
    rows = [
        f"s{n},w{who},{'pos' if (n + who) % 3 else 'neg'},some words {n},{n / 4},{9 - n},"
        f"{'pos' if n < 2 else ''},{who * n}"
        for n in range(8)
        for who in range(3)
    ]
    path.write_text("id,worker,label,sentence,width,height,checked,seconds\n" + "\n".join(rows) + "\n")
    return path


def test_texts_are_kept_and_numbers_and_gold_are_offered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = with_texts_and_numbers(tmp_path / "a.csv")
    folder = begun(path)
    told = capsys.readouterr().out
    assert "text is 'sentence'" in told
    assert "to use them as features: --features width --features height\n" in told
    assert "--gold checked" in told
    assert read_folder(folder).items.text[3] == "some words 3"
    path.rename(tmp_path / "b.csv")
    again = tmp_path / "again"
    words = ["--features", "width", "--features", "height", "--gold", "checked", "--text", "sentence"]
    assert run_command_line(["init", str(tmp_path / "b.csv"), str(again), *words]) == 0
    assert "to use them as features" not in capsys.readouterr().out
    data = read_folder(again)
    assert data.items.features[[0, 5]].tolist() == [[0, 9], [1.25, 4]]
    assert (data.gold.item.tolist(), [data.class_names[code] for code in data.gold.label]) == ([0, 1], ["pos", "pos"])


@pytest.mark.parametrize(
    ("column", "message"),
    [("seconds", "expected one number for each item"), ("sentence", "expected a finite number as a feature")],
)
def test_features_are_one_number_an_item(tmp_path: Path, column: str, message: str) -> None:
    asked = FileOptions(item="id", annotator="worker", label="label", features=(column,))
    with pytest.raises(DataError, match=message):
        read_form("csv", with_texts_and_numbers(tmp_path / "a.csv"), asked)


def test_gold_of_a_matrix_is_nobody(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item,ann,bob,gold\np1,0,1,0\np2,1,1,1\np3,0,0,0\n")
    for form in ("matrix", "cleanlab", "snorkel"):
        assert guess_file(tmp_path / "a.csv", form=form).asked.gold == "gold"
    data = read_folder(begun(tmp_path / "a.csv", "--form", "matrix"))
    assert (data.annotations.n_annotators, len(data.gold)) == (2, 3)


@pytest.mark.parametrize("name", ["no", "012", "1:30", "on", "2020-01-02", "~", "1e3"])
def test_names_in_a_description_are_texts(tmp_path: Path, name: str) -> None:
    (tmp_path / "annotations.csv").write_text("item,annotator,label\na,x,0\na,y,1\n")
    (tmp_path / "dataset.yaml").write_text(f"name: {name}\ntitle: {name}\nmissing: [{name}]\n")
    data = read_folder(tmp_path)
    assert (data.name, data.title) == (name, name)


def test_a_spreadsheet_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(DataError, match="got a spreadsheet; save the sheet as CSV"):
        guess_file(tmp_path / "a.xlsx")


def test_what_is_imported_can_be_written_and_read_again(tmp_path: Path) -> None:
    data = read_folder(begun(with_texts_and_numbers(tmp_path / "a.csv"), "--features", "width"))
    write_folder(data, tmp_path / "again")
    again = read_folder(tmp_path / "again")
    assert np.array_equal(again.items.features, data.items.features)
    assert list(again.items.text) == list(data.items.text)
