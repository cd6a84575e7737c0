"""One name in several spellings: refused where it cannot be meant, named by `check` and a run, joined if asked."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdsweep.cli.commands import run_command_line
from crowdsweep.cli.data import FORM_NAMES
from crowdsweep.data.oddities import mistakes
from crowdsweep.data.on_disk.folder import read_folder
from crowdsweep.data.spelling import alike, alike_names, spelling
from crowdsweep.errors import DataError
from crowdsweep.importing.registry import FORMS
from crowdsweep.sweep.plan import make_plan
from crowdsweep.sweepfile.read import load_sweep

LABELS = "item,annotator,label\n1,a,{0}\n1,b,{1}\n2,a,{0}\n2,b,{0}\n3,a,{1}\n3,b,{1}\n"


def folder_of(path: Path, **files: str) -> Path:
    path.mkdir()
    for stem, text in files.items():
        (path / f"{stem}.csv").write_text(text, encoding="utf-8")
    return path


def kinds(folder: Path) -> dict[str, tuple[str, ...]]:
    return {oddity.kind: oddity.examples for oddity in mistakes(read_folder(folder))}


@pytest.mark.parametrize(
    "group",
    [
        ("Yes", "yes", " YES "),
        ("1", "1.0", "01", "+1", "True", "true", "１"),
        ("0", "0.0", "00", "False"),
        ("-1", "-1.0", "-01"),
        ("1.5", "1.50", "01.5"),
        ("no idea", "no  idea", "No\tidea"),
        ("Straße", "STRASSE"),
        ("caf\u00e9", "cafe\u0301"),
        ("10", "10.0"),
    ],
)
def test_spellings_of_one_name(group: tuple[str, ...]) -> None:
    assert len({spelling(name) for name in group}) == 1
    assert alike([*group, "other"]) == [group]


@pytest.mark.parametrize(
    "pair", [("1", "10"), ("1", "-1"), ("1.5", "15"), ("0", "00.1"), ("a1", "a01"), ("yes", "no"), ("", "0")]
)
def test_other_names_are_others(pair: tuple[str, str]) -> None:
    assert alike(pair) == []


def test_many_names_are_compared_quickly_and_equally() -> None:
    names = [f"w{number}" for number in range(50_000)]
    assert alike_names(names) == []
    assert alike_names([*names, "W7", "w9 "]) == [("w7", "W7"), ("w9", "w9 ")]
    assert alike_names([*map(str, range(100)), "7.0", "08"]) == [("7", "7.0"), ("8", "08")]


@pytest.mark.parametrize(
    ("labels", "gold", "told"),
    [
        (("yes", "no"), ("Yes", "No"), r"'Yes' where labels say 'yes', 'No' where labels say 'no'"),
        (("yes", "no"), ("yes ", "no"), r"'yes ' where labels say 'yes'"),
        (("1", "0"), ("1.0", "0.0"), r"'1.0' where labels say '1'"),
        (("01", "02"), ("1", "2"), r"'1' where labels say '01'"),
        (("True", "False"), ("true", "false"), r"'true' where labels say 'True'"),
        (("True", "False"), ("1", "0"), r"'1' where labels say 'True'"),
    ],
)
def test_gold_in_another_spelling_is_refused_unless_both_are_declared(tmp_path: Path, labels, gold, told: str) -> None:
    items = f"item,gold\n1,{gold[0]}\n2,{gold[0]}\n3,{gold[1]}\n"
    folder = folder_of(tmp_path / "data", annotations=LABELS.format(*labels), items=items)
    with pytest.raises(DataError, match=told + r".* declare both in classes.csv"):
        read_folder(folder)
    declared = "".join(f"{label},{label}\n" for label in dict.fromkeys((*labels, *gold)))
    (folder / "classes.csv").write_text(f"label,name\n{declared}")
    assert "classes that differ only in spelling" in kinds(folder)


@pytest.mark.parametrize(("listed", "annotated"), [("{}.0", "{}"), ("0{}", "{}"), ("ID{}", "id{}"), (" {}", "{}")])
def test_items_listed_in_another_spelling_are_refused_unless_both_are(
    tmp_path: Path, listed: str, annotated: str
) -> None:
    rows = "".join(f"{annotated.format(i)},{who},{'yn'[i % 2]}\n" for i in (1, 2, 3) for who in "ab")
    items = "".join(f"{listed.format(i)},y\n" for i in (1, 2, 3))
    folder = folder_of(tmp_path / "data", annotations=f"item,annotator,label\n{rows}", items=f"item,gold\n{items}")
    told = f"got '{listed.format(1)}' where annotations say '{annotated.format(1)}', .* \\(3 in all\\)"
    with pytest.raises(DataError, match=told):
        read_folder(folder)
    also = "".join(f"{annotated.format(i)},\n" for i in (1, 2, 3))
    (folder / "items.csv").write_text(f"item,gold\n{items}{also}")
    assert "items that differ only in spelling" in kinds(folder)


def test_booleans_of_parquet_are_those_of_csv(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "data", items="item,gold\n1,True\n2,False\n")
    table = {"item": [1, 1, 2], "annotator": ["a", "b", "a"], "label": [True, False, False]}
    pq.write_table(pa.table(table), folder / "annotations.parquet")
    data = read_folder(folder)
    assert data.class_names == ("False", "True")
    assert data.gold.label.tolist() == [1, 0]
    assert mistakes(data) == []


def test_what_is_usable_and_suspicious_is_named(tmp_path: Path) -> None:
    rows = "item,annotator,label,truth\n1,w,Yes,x\n1,W,yes,x\n2,w,no,x\n2,w ,No,x\n"
    items = "item,gold,Label_True,Split\n1,maybe,x,train\n2,,x,dev\n"
    found = kinds(folder_of(tmp_path / "data", annotations=rows, items=items))
    assert found["classes that differ only in spelling"] == ("'No' = 'no'", "'Yes' = 'yes'")
    assert found["annotators that differ only in spelling"] == ("'W' = 'w' = 'w '",)
    assert found["classes of gold that no annotator used"] == ("maybe",)
    unread = ("annotations.csv: truth", "items.csv: Label_True", "items.csv: Split")
    assert found["columns that look relevant and are not read"] == unread


@pytest.mark.parametrize(
    "column", ["truth", "label_true", "ground_truth", "Gold", "gold_label", "true label", "expert", "GT"]
)
def test_columns_of_gold_under_other_names_are_named(tmp_path: Path, column: str) -> None:
    folder = folder_of(tmp_path / "data", annotations=LABELS.format("y", "n"), items=f"item,{column},colour\n1,y,red\n")
    assert kinds(folder) == {"columns that look relevant and are not read": (f"items.csv: {column}",)}


def test_gold_of_other_items_is_named(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "data", annotations=LABELS.format("y", "n"), items="item,gold\n8,y\n9,n\n")
    assert kinds(folder) == {"items with gold, of which none has a label": ("8", "9")}
    (folder / "items.csv").write_text("item,gold,split\n8,y,test\n9,n,test\n")
    assert kinds(folder) == {}


def test_a_class_that_unsure_labels_leave_room_for_is_used(tmp_path: Path) -> None:
    rows = "item,annotator,label,probability\n1,a,yes,0.2\n2,b,yes,0.9\n"
    folder = folder_of(
        tmp_path / "data", annotations=rows, items="item,gold\n1,no\n2,yes\n", classes="label,name\nno,no\nyes,yes\n"
    )
    assert kinds(folder) == {}


def test_features_of_items_in_another_spelling_are_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "data", annotations=LABELS.format("y", "n"))
    np.savez(folder / "features-x.npz", features=np.zeros((3, 2)), item=np.array([1.0, 2.0, 3.0]))
    with pytest.raises(DataError, match=r"expected features of every item, 3 have none, such as '1'"):
        read_folder(folder)


def test_check_and_the_start_of_a_run_name_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "item,annotator,label\n1,w,Yes\n1,v,yes\n2,w,no\n2,v,Yes\n3,v,no\n"
    folder = folder_of(tmp_path / "data", annotations=rows)
    assert run_command_line(["data", "check", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "1  classes that differ only in spelling: 'Yes' = 'yes'; correct the file, or let" in printed
    assert run_command_line(["data", "check", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["remedy"].startswith("correct the file")
    sweep = tmp_path / "s.yaml"
    sweep.write_text(f"name: s\ndatasets: [{folder}]\nmodels: [majority-vote]\n")
    (note,) = [note for note in make_plan(load_sweep(sweep)).notes if "spelling" in note]
    assert note.startswith(f"{folder}: classes that differ only in spelling: 'Yes' = 'yes'; correct")
    assert note.endswith(f"see `crowdsweep data check {folder}`")


MESSY = "task,worker,label\nt1,w1,Yes\nt1,w1 ,yes\nt1,W1,yes \nt2,w1,No\nt2,w2,no\nt1.0,w2,no\nt3 ,w3,no\n"


def test_import_normalises_when_asked_and_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "answers.csv"
    file.write_text(MESSY)
    assert run_command_line(["data", "import", "crowd-kit", str(file), str(tmp_path / "as-is")]) == 0
    assert read_folder(tmp_path / "as-is").n_classes == 5
    capsys.readouterr()
    assert run_command_line(["data", "import", "crowd-kit", str(file), str(tmp_path / "joined"), "--normalise"]) == 0
    printed = capsys.readouterr().out
    assert "class 'yes' merges 'Yes' (1), 'yes' (1), 'yes ' (1)" in printed
    assert "class 'no' merges 'No' (1), 'no' (3)" in printed
    assert "annotator 'w1' merges 'w1' (2), 'w1 ' (1), 'W1' (1)" in printed
    assert "spaces around the names of 1 items were cut off" in printed
    joined = read_folder(tmp_path / "joined")
    assert joined.class_names == ("no", "yes")
    assert list(joined.annotator_names) == ["w1", "w2", "w3"]
    assert list(joined.item_names) == ["t1", "t1.0", "t2", "t3"]  # t1.0 is no number
    assert mistakes(joined) == []


def test_items_that_become_one_must_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.csv"
    file.write_text("i,a,l,g\n1,x,yes,yes\n1.0,y,no,no\n")
    options = ["--item", "i", "--annotator", "a", "--label", "l", "--gold", "g"]
    arguments = ["data", "import", "csv", str(file), str(tmp_path / "out"), *options, "--normalise"]
    assert run_command_line(arguments) == 2
    assert "expected one gold class for item '1" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_s_own_files_are_normalised_the_same_way(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "data", annotations=LABELS.format("yes", "no"), items="item,gold\n1.0,Yes\n2.0,No\n")
    columns = ["--item", "item", "--annotator", "annotator", "--label", "label", "--gold", str(folder / "items.csv")]
    arguments = ["data", "import", "csv", str(folder / "annotations.csv"), str(tmp_path / "new"), *columns]
    assert run_command_line(arguments) == 2
    assert run_command_line([*arguments, "--normalise"]) == 0
    new = read_folder(tmp_path / "new")
    assert (new.class_names, list(new.item_names), len(new.gold)) == (("no", "yes"), ["1", "2", "3"], 2)


def test_a_failed_import_leaves_nothing_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.csv"
    file.write_text("task,worker,label\nt1,w1,yes\nt1,w2,yes\n")
    before = sorted(tmp_path.rglob("*"))
    place = tmp_path / "new" / "deep"
    assert run_command_line(["data", "import", "crowd-kit", str(file), str(place)]) == 2
    assert "expected labels of at least two classes, got only 'yes'" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before
    file.write_text("task,worker,label\nt1,w1,yes\nt1,w2,no\n")
    assert run_command_line(["data", "import", "crowd-kit", str(file), str(place)]) == 0
    assert sorted(path.name for path in place.iterdir()) == [
        "annotations.csv",
        "classes.csv",
        "dataset.yaml",
        "items.csv",
    ]
    (tmp_path / "empty").mkdir()
    assert run_command_line(["data", "import", "crowd-kit", str(file), str(tmp_path / "empty")]) == 0
    assert run_command_line(["data", "import", "crowd-kit", str(file), str(tmp_path / "empty")]) == 2
    assert run_command_line(["data", "import", "crowd-kit", str(file), str(file / "inside")]) == 2
    assert "expected a folder that can be written" in capsys.readouterr().err


def test_an_import_without_a_folder_is_called_as_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("votes.csv").write_text("i;a;l\n1;x;yes\n1;y;no\n")
    columns = ["--item", "i", "--annotator", "a", "--label", "l"]
    assert run_command_line(["data", "import", "csv", "votes.csv", *columns]) == 0
    assert read_folder("votes").name == "votes"


def test_the_command_line_offers_every_form() -> None:
    assert set(FORM_NAMES) == set(FORMS)
