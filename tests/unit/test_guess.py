"""What a file of labels is taken for, and what is said where nobody can tell."""

import csv
import io
import json
import os
import pty
import random
import select
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from crowdsweep.cli.commands import run_command_line
from crowdsweep.errors import BadInput, DataError
from crowdsweep.importing.file_to_folder import import_file
from crowdsweep.importing.guess import guess_file, settled
from crowdsweep.importing.registry import FORMS
from crowdsweep.importing.rows import FileOptions

CLASSES = ("cat", "dog", "bird")


def written(path: Path, rows: list[list[str]]) -> Path:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    path.write_text(text.getvalue())
    return path


def a_row_an_answer(*header: str, numbers: bool = False, more: str = "") -> list[list[str]]:
    draw = random.Random(0)
    rows = [list(header)]
    for item in range(60):
        for annotator in draw.sample(range(12), 3):
            label = draw.randrange(3)
            names = (
                [str(item), str(annotator), str(label)] if numbers else [f"p{item}", f"w{annotator}", CLASSES[label]]
            )
            last = {
                "": [],
                "gold": [CLASSES[item % 3]],
                "time": [f"{9 * draw.random():.1f}"],
                "other": [draw.choice("xyz")],
            }
            rows.append([*names, *last[more]])
    return rows


def a_column_an_annotator(
    *header: str, index: bool = True, numbers: bool = False, gold: bool = False
) -> list[list[str]]:
    draw = random.Random(0)
    rows = [list(header)]
    for item in range(30):
        answers = [
            "" if draw.random() < 0.4 else str(label) if numbers else CLASSES[label]
            for label in (draw.randrange(3) for _ in range(len(header) - index - gold))
        ]
        first = [str(item) if numbers else f"p{item}"] if index else []
        rows.append([*first, *answers, *([CLASSES[item % 3]] if gold else [])])
    return rows


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (a_row_an_answer("item", "annotator", "label"), "item annotator label"),
        (a_row_an_answer("task", "worker", "label"), "task worker label"),
        (a_row_an_answer("task_id", "worker_id", "answer", numbers=True), "task_id worker_id answer"),
        (a_row_an_answer("orig_id", "!amt_worker_ids", "response"), "orig_id !amt_worker_ids response"),
        (a_row_an_answer("photoId", "labeledBy", "breed"), "photoId labeledBy breed"),
        (a_row_an_answer("tweet_id", "rater", "sentiment", "time", more="time"), "tweet_id rater sentiment"),
        (
            a_row_an_answer("Question", "User ID", "Answer", "True Label", more="gold"),
            "Question/User ID/Answer/True Label",
        ),
        (a_row_an_answer("question", "user", "answer", "expert", more="gold"), "question user answer expert"),
        (a_row_an_answer("question", "user", "answer", "correct", more="other"), "question user answer"),
        (a_row_an_answer("answer_id", "worker_id", "worker_answer"), "answer_id worker_id worker_answer"),
    ],
)
def test_columns_of_a_table_with_a_row_an_answer(tmp_path: Path, rows: list[list[str]], columns: str) -> None:
    guess = guess_file(written(tmp_path / "a.csv", rows))
    assert (guess.form, guess.doubts) == ("csv", ())
    found = [guess.asked.item, guess.asked.annotator, guess.asked.label, guess.asked.gold]
    assert [column for column in found if column] == columns.split("/" if "/" in columns else " ")


@pytest.mark.parametrize("first", ["case", "thing"])
def test_a_remark_is_no_item_where_another_column_tells_answers_apart(tmp_path: Path, first: str) -> None:
    rows = [[*row[:2], f"remark {len(row[0])}", row[2]] for row in a_row_an_answer("", "", "")[1:]]
    guess = guess_file(written(tmp_path / "a.csv", [[first, "worker", "comment", "verdict"], *rows]))
    assert (guess.asked.item, guess.doubts) == (first, ())
    alone = [[row[0], row[1], row[3]] for row in rows]
    guess = guess_file(written(tmp_path / "a.csv", [["comment", "worker", "verdict"], *alone]))
    assert (guess.asked.item, guess.doubts) == ("comment", ())  # where nothing else is there, it is what is commented


def test_a_date_is_the_item_only_where_no_other_column_is_left(tmp_path: Path) -> None:
    rows = a_row_an_answer("date", "worker", "verdict")
    guess = settled(tmp_path / "a.csv", guess_file(written(tmp_path / "a.csv", rows)))
    assert guess.asked.item == "date"
    assert "'date' was taken for the items, as no other column is left" in guess.what
    days = [
        ["date", "worker", "verdict"],
        *(["Monday" if place % 2 else "Friday", *row[1:]] for place, row in enumerate(rows[1:])),
    ]
    assert guess_file(written(tmp_path / "a.csv", days)).doubts == ("no column looks like items",)


@pytest.mark.parametrize("header", [("item", "label", "count"), ("picture", "answer", "n_votes")])
def test_a_table_of_votes_is_sent_to_a_folder(tmp_path: Path, header: tuple[str, ...]) -> None:
    rows = [[f"p{item}", label, str(1 + item % 3)] for item in range(20) for label in CLASSES]
    with pytest.raises(DataError, match=rf"table of votes: '{header[2]}' counts.*votes\.csv.*item, label and count"):
        guess_file(written(tmp_path / "a.csv", [list(header), *rows]))


@pytest.mark.parametrize(
    ("rows", "item", "gold"),
    [
        (a_column_an_annotator("id", "ann", "bob", "cleo"), "id", None),
        (a_column_an_annotator("photo", "rater_a_label", "rater_b_label", numbers=True), "photo", None),
        (a_column_an_annotator("tweet", "label_1", "label_2", "label_3"), "tweet", None),
        (a_column_an_annotator("id", "ann", "bob", "cleo", "gold", gold=True), "id", "gold"),
        (a_column_an_annotator("ann", "bob", "cleo", index=False), None, None),
        (a_column_an_annotator("", "ann", "bob", "cleo"), None, None),
    ],
)
def test_columns_of_a_table_with_a_column_an_annotator(tmp_path: Path, rows, item, gold) -> None:
    guess = guess_file(written(tmp_path / "a.csv", rows))
    assert (guess.form, guess.doubts) == ("cleanlab", ())
    assert guess.asked == FileOptions(item=item, gold=gold)


@pytest.mark.parametrize("header", [("a", "b", "c"), ("tweet", "rater", "mood", "colour")])
def test_a_guess_that_is_not_sure_names_columns_and_options(tmp_path: Path, header: tuple[str, ...]) -> None:
    path = written(tmp_path / "a.csv", a_row_an_answer(*header, more="other" if len(header) > 3 else ""))
    guess = guess_file(path)
    assert guess.doubts
    with pytest.raises(BadInput) as refused:
        settled(path, guess)
    for told in ("--item", "--annotator", "--label", ",".join(header)):
        assert told in str(refused.value)
    told = FileOptions(item=header[0], annotator=header[1], label=header[2])
    assert settled(path, guess_file(path, told)).asked == told


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("peerannot", {"p1": {"ann": 0, "bob": 1}, "p2": {}}),
        ("lewidi", {"1": {"text": "…", "annotations": "0,1", "annotators": "Ann1,Ann2", "soft_label": {"0": 0.5}}}),
        ("label-studio", [{"id": 1, "data": {}, "annotations": []}]),
        ("label-studio", [{"id": 1, "mood": "happy", "annotator": 5}]),
        ("argilla", [{"id": "r1", "responses": {}}]),
        ("argilla", [{"id": "r1", "text": "…", "mood.responses": ["happy"]}]),
        ("prodigy", {"text": "…", "_input_hash": 7, "accept": ["happy"], "answer": "accept"}),
        ("doccano", {"id": 1, "text": "…", "label": ["happy"]}),
    ],
)
def test_exports_are_known_by_their_keys(tmp_path: Path, form: str, content: object) -> None:
    (tmp_path / "a.json").write_text(json.dumps(content))
    assert guess_file(tmp_path / "a.json").form == form
    (tmp_path / "a.csv").write_text("HITId,WorkerId,Answer.mood\nh1,A1,happy\nh1,A2,sad\n")
    assert guess_file(tmp_path / "a.csv").form == "mturk"
    assert guess_file(tmp_path / "a.csv", form="matrix").form == "matrix"
    assert set(FORMS) >= {form}


GOOD = "item,annotator,label\n" + "".join(
    f"p{item},w{annotator},{'yn'[(item + annotator) % 2]}\n" for item in range(6) for annotator in range(3)
)
BAD: dict[str, tuple[str | bytes, list[str]]] = {
    "empty": ("", ["a.csv", "empty"]),
    "white": (" \n\n", ["a.csv", "empty"]),
    "one column": ("label\nyes\nno\n", ["one column", "'label'"]),
    "no rows": ("item,annotator,label\n", ["rows below the columns item,annotator,label"]),
    "no header": (GOOD.partition("\n")[2], ["names of columns", "p0,w0,y", "item,annotator,label"]),
    "no annotators": ("item,label\na,y\nb,n\na,n\n", ["no column looks like annotators", "votes.csv", "item,label"]),
    "picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), ["UTF-8", "line 1"]),
    "Latin-1": (GOOD.encode() + "ü,w1,y\n".encode("latin-1"), ["UTF-8", "line 20"]),
    "Parquet": (b"PAR1....", ["Parquet", "make the file again"]),
    "web page": ("<html>\n<body>hello, world</body>\n</html>\n", ["XML or HTML"]),
    "a person's own JSON": (
        '[{"id": 1, "annotations": [{"by_whom": "ann", "what": "yes"}]}]',
        ["with a `result`, got by_whom,what", "an object for each answer"],
    ),
    "half JSON": ('[{"a": ', ["JSON", "line 1"]),
    "other JSON": ('[{"a": 1}]', ["cannot tell which tool", "--form"]),
    "short row": (GOOD + "p1,w1\n", ["line 20", "3 cells"]),
    "open quote": (GOOD + '"p1,w1,y\n', ["line 20", "double quotes"]),
    "empty annotator": (GOOD + "p9,,y\n", ["line 20", "expected the annotator"]),
    "one class": ("item,annotator,label\na,x,yes\nb,x,yes\na,y,yes\n", ["two classes", "'yes'"]),
    "column twice": ("item,item,annotator,label\na,a,x,y\nb,b,x,n\n", ["distinct column names", "'item' twice"]),
    "huge label": (f"item,annotator,label\np1,w1,{'x' * 5_000_000}\np1,w2,y\n", ["line 2", "5,000,000"]),
    "huge id": (f"item,annotator,label\n{'x' * 5_000_000},w1,n\np1,w2,y\np1,w1,y\n", ["line 2", "5,000,000"]),
    "huge name": (f"item,annotator,{'x' * 5_000_000}\np1,w1,n\np1,w2,y\n", ["item,annotator,xxx", "--label"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_get_one_clear_line_and_leave_nothing(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    content, told = BAD[case]
    Path("a.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    assert run_command_line(["init", "a.csv"]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("error: a.csv")
    assert printed.err.count("\n") == 1
    assert len(printed.err) < 800
    for part in told:
        assert part in printed.err, printed.err
    assert list(tmp_path.iterdir()) == [tmp_path / "a.csv"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere.csv"], ["nowhere.csv", "found none"]),
        (["used"], ["used", "annotations.csv"]),
        (["a.zip"], ["a.zip", "ANNOTATOR.jsonl"]),
        (["good.csv", "used"], ["used", "new or empty folder"]),
        (["good.csv", "good.csv"], ["good.csv", "got a file"]),
        (["good.csv", "--item", "itm"], ["--item", "did you mean 'item'"]),
        (["good.csv", "--gold", "nowhere.csv"], ["--gold nowhere.csv", "found neither"]),
        (["good.csv", "--gold", "other.csv"], ["other.csv", "a, b, c"]),
        (["good.csv", "--gold", "spelled.csv"], ["'Y' where labels say 'y'"]),
        (["good.csv", "--form", "matrix"], ["good.csv", "distinct item ids"]),
    ],
)
def test_bad_arguments_get_one_clear_line_and_leave_nothing(
    arguments: list[str],
    told: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("used").mkdir()
    Path("used/notes").touch()
    Path("good.csv").write_text(GOOD)
    Path("other.csv").write_text("a,b,c\n1,2,3\n")
    Path("spelled.csv").write_text("item,gold\np1,Y\np2,n\n")
    with zipfile.ZipFile("a.zip", "w") as packed:
        packed.writestr("a.txt", "hello")
    before = sorted(tmp_path.rglob("*"))
    assert run_command_line(["init", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1
    for part in told:
        assert part in printed.err, printed.err
    assert sorted(tmp_path.rglob("*")) == before


def test_what_differs_only_in_spelling_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text(GOOD + "P1,w0,Y\n")
    assert run_command_line(["init", "a.csv", "told"]) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if "only in spelling" in line]
    assert notes == [
        f"note: {kind} that differ only in spelling: {names}; --normalise merges them"
        for kind, names in (("classes", "'y' and 'Y'"), ("items", "'p1' and 'P1'"))
    ]
    Path("a.csv").write_text(GOOD.replace("w2,y", "w2,Y"))
    assert run_command_line(["init", "a.csv", "joined", "--normalise"]) == 0
    assert "only in spelling" not in capsys.readouterr().out
    assert run_command_line(["plan", "joined"]) == 0
    assert "joined: by its sweep.yaml" in capsys.readouterr().err


def test_a_class_that_may_mean_no_answer_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = [["x" if (item * who) % 3 else "y" for who in range(4)] for item in range(12)]
    cells[0][2] = cells[5][1] = "NA"
    written(
        tmp_path / "wide.csv", [["item", "ann", "bob", "cy", "di"], *([f"i{n}", *row] for n, row in enumerate(cells))]
    )
    assert run_command_line(["init", "wide.csv"]) == 0
    assert (
        "note: 2 answers have no label and were left out: NA (2, first: item 0, annotator cy)"
        in capsys.readouterr().out
    )
    assert run_command_line(["init", "wide.csv", "kept", "--missing", ""]) == 0
    assert "3 classes" in capsys.readouterr().out
    cells[0][2] = cells[5][1] = "-99"
    written(
        tmp_path / "odd.csv", [["item", "ann", "bob", "cy", "di"], *([f"i{n}", *row] for n, row in enumerate(cells))]
    )
    assert run_command_line(["init", "odd.csv"]) == 0
    assert "note: 2 answers are '-99', read as a class" in capsys.readouterr().out
    assert run_command_line(["init", "odd.csv", "less", "--missing=-99"]) == 0
    assert "46 labels, 2 classes" in capsys.readouterr().out
    cells[0][2] = cells[5][1] = ""
    written(
        tmp_path / "empty.csv", [["item", "ann", "bob", "cy", "di"], *([f"i{n}", *row] for n, row in enumerate(cells))]
    )
    assert run_command_line(["init", "empty.csv"]) == 0
    assert "46 labels, 2 classes" in (printed := capsys.readouterr().out)
    assert "note:" not in printed


def on_a_terminal(folder: Path, *arguments: str, typed: dict[str, str]) -> str:
    """Runs `crowdsweep init` on a pseudo-terminal, types an answer when its question comes, returns what was shown."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "crowdsweep", "init", *arguments]
    process = subprocess.Popen(command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True)
    os.close(theirs)
    shown, waiting, until = "", dict(typed), time.monotonic() + 120
    while time.monotonic() < until:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                shown += os.read(ours, 65536).decode()
            except OSError:  # the process has closed its terminal
                break
        question = next((question for question in waiting if question in shown), None)
        if question is not None:
            os.write(ours, waiting.pop(question).encode() + b"\n")
    os.close(ours)
    assert process.wait(60) == 0, shown
    assert not waiting
    return shown


def test_on_a_terminal_a_sure_guess_is_shown_and_confirmed(tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text(GOOD)
    shown = on_a_terminal(tmp_path, "good.csv", typed={"is that right?": ""})
    assert "annotator  w0  w1  w2" in shown
    assert (tmp_path / "good" / "sweep.yaml").is_file()


def test_on_a_terminal_columns_are_asked_where_nobody_can_tell(tmp_path: Path) -> None:
    written(tmp_path / "a.csv", a_row_an_answer("a", "b", "c"))
    typed = {
        "Is a row one answer": "answer",
        "The column of items": "a",
        "The column of annotators": "nothing",
        "there is no column 'nothing', but a, b, c": "b",
        "The column of labels": "c",
        "The column of gold,": "-",
        "The column of weights": "",
    }
    shown = on_a_terminal(tmp_path, "a.csv", typed=typed)
    assert "not sure: label may be" in shown
    assert (tmp_path / "a" / "annotations.csv").read_text().startswith("item,annotator,label\np0,w6,dog\n")


def test_an_expert_among_the_columns_may_be_gold(tmp_path: Path) -> None:
    rows = [["item", "ann", "bob", "Expert"], *([f"p{n}", "yn"[n % 2], "yn"[n % 3 > 0], "yn"[n % 2]] for n in range(9))]
    found = guess_file(written(tmp_path / "a.csv", rows))
    assert found.notes == ("the column 'Expert' was taken for an annotator; if it is gold, give --gold Expert",)
    assert guess_file(written(tmp_path / "a.csv", rows), FileOptions(gold="Expert")).notes == ()


@pytest.mark.parametrize("header", [("study", "reader", "finding"), ("pair", "evaluator", "preferred")])
def test_the_words_of_other_fields_are_known(tmp_path: Path, header: tuple[str, str, str]) -> None:
    asked = guess_file(written(tmp_path / "a.csv", a_row_an_answer(*header))).asked
    assert (asked.item, asked.annotator, asked.label) == header


@pytest.mark.parametrize("word", ["unsure", "Not sure", "don’t know", "cannot_tell"])
def test_a_class_that_may_be_no_answer_is_told_of(tmp_path: Path, word: str) -> None:
    rows = a_row_an_answer("item", "annotator", "label")
    rows[5][2] = word
    asked = guess_file(written(tmp_path / "a.csv", rows)).asked
    told = list(import_file("csv", tmp_path / "a.csv", asked, tmp_path / "made").doubtful())
    assert [note for note in told if f"1 answers are '{word}', read as a class" in note]
