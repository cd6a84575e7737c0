"""`crowdsweep add`: new answers join a dataset's folder, all that is new of them or nothing."""

import csv
import gzip
import json
import random
import shutil
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from data_folders import folder_of
from pets import FIRST, MORE, bytes_in, pets_folder, written

import crowdsweep as cs
from crowdsweep.cli.commands import run_command_line
from crowdsweep.data.on_disk.folder import read_folder
from crowdsweep.data.on_disk.shown import read_shown
from crowdsweep.errors import BadInput, DataError, UnknownName
from crowdsweep.importing.additions import compared
from crowdsweep.importing.file_to_folder import import_file
from crowdsweep.importing.guess import guess_file, settled
from crowdsweep.importing.rows import FileOptions, Row


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    return pets_folder(tmp_path / "pets")


def test_what_is_new_joins_and_what_stands_there_does_not(pets: Path, tmp_path: Path, capsys) -> None:
    file = written(tmp_path / "more.csv", MORE)
    assert run_command_line(["add", str(pets), str(file)]) == 0
    said = capsys.readouterr().out
    assert "1  answers that are there already, left out: p1 by ann: 'cat'" in said
    assert "2 answers added, gold of 1 items: 2 items (1 new), 2 annotators (1 new); 6 labels now" in said
    assert f"next: crowdsweep label {pets}" in said
    assert (pets / "annotations.csv").read_text() == FIRST + "p2,cleo,cat\np3,ann,dog\n"
    assert (pets / "items.csv").read_text() == "item,gold\np1,cat\np2,dog\np3,\n"
    now = bytes_in(pets)
    assert run_command_line(["add", str(pets), str(file)]) == 0
    assert "nothing is new, nothing was added; 6 labels" in capsys.readouterr().out
    assert bytes_in(pets) == now
    assert now["notes.txt"] == b"mine"


# The oracle: a file in two parts, the second added, is the dataset of the whole file.


def in_two(rows: list[list[str]], draws: random.Random) -> tuple[list[list[str]], list[list[str]]]:
    draws.shuffle(rows)
    return rows[: len(rows) // 2], rows[len(rows) // 2 :]


def tables(place: Path, draws: random.Random) -> tuple[list[Path], list[str]]:
    """Numbers for names, words with separators in them, weights, texts, gold of some."""
    said = ["yes; surely", 'no "never"', "05"]
    asked = [(item, who) for item in range(30) for who in draws.sample(range(8), 4)]
    rows = [[str(i), f"w,{w}", draws.choice(said), f"{draws.randint(1, 3)}", f"text {i}"] for i, w in asked]
    rows = [[*row, said[int(row[0]) % 3] if int(row[0]) < 12 else ""] for row in rows]
    return csv_files(place, ("sentence_id", "worker", "answer", "weight", "sentence", "gold"), rows, draws), []


def matrices(place: Path, draws: random.Random) -> tuple[list[Path], list[str]]:
    said = [[draws.choice(["good", "bad", ""]) for _ in range(5)] for _ in range(40)]
    rows = [[f"r{i}", *cells, "good" if i < 9 else ""] for i, cells in enumerate(said)]
    return csv_files(place, ("review", "ann", "bob", "cleo", "dan", "eve", "truth"), rows, draws), []


def csv_files(place: Path, header: tuple[str, ...], rows: list[list[str]], draws: random.Random) -> list[Path]:
    paths = [place / f"{name}.csv" for name in ("whole", "first", "second")]
    for path, part in zip(paths, (rows, *in_two([*rows], draws)), strict=True):
        with path.open("w", newline="") as file:
            csv.writer(file, delimiter=";").writerows([header, *part])
    return paths


def exports(place: Path, draws: random.Random) -> tuple[list[Path], list[str]]:
    """Of Label Studio: several classes an answer, one with a bar in its name, and what annotators saw."""

    def choices(who: int) -> dict[str, object]:
        chosen = sorted(draws.sample(["hap|py", "calm", "sad"], draws.randint(1, 2)))
        result = {"from_name": "mood", "type": "choices", "value": {"choices": chosen}}
        return {"completed_by": who, "result": [result]}

    tasks = [
        {"id": i, "data": {"image": f"/{i}.png", "n": i}, "annotations": [choices(who) for who in range(3)]}
        for i in range(20)
    ]
    paths = [place / f"{name}.json" for name in ("whole", "first", "second")]
    for path, part in zip(paths, (tasks, tasks[::2], tasks[1::2]), strict=True):
        path.write_text(json.dumps(part))
    return paths, ["--question", "mood"]


@pytest.mark.parametrize("make", [tables, matrices, exports])
def test_a_file_in_two_parts_is_the_whole(make, tmp_path: Path) -> None:
    (whole, first, second), options = make(tmp_path, random.Random(3))
    for file, folder in ((whole, "whole"), (first, "parts")):
        guess = settled(file, guess_file(file, FileOptions(question="mood" if options else None)))
        import_file(guess.form, file, guess.asked, tmp_path / folder)
    before = read_folder(tmp_path / "parts")
    assert run_command_line(["add", str(tmp_path / "parts"), str(second), *options]) == 0
    one, other = (read_folder(tmp_path / folder) for folder in ("whole", "parts"))
    assert one.fingerprint == other.fingerprint != before.fingerprint
    assert list(one.item_names) == list(other.item_names)
    assert list(one.annotator_names) == list(other.annotator_names)
    assert read_shown(tmp_path / "whole") == read_shown(tmp_path / "parts")
    assert run_command_line(["add", str(tmp_path / "parts"), str(whole), *options]) == 0
    assert read_folder(tmp_path / "parts").fingerprint == one.fingerprint


@pytest.mark.parametrize("seed", range(20))
def test_the_rule_equals_a_naive_one(seed: int) -> None:
    draws = random.Random(seed)

    def answers(n: int) -> list[Row]:
        return [Row(draws.choice("ij"), draws.choice("ab"), (draws.choice("xyz"),)) for _ in range(n)]

    there, given = answers(draws.randint(0, 6)), answers(draws.randint(0, 6))
    standing = defaultdict(list)
    for row in there:
        if row.labels not in standing[row.item, row.annotator]:
            standing[row.item, row.annotator].append(row.labels)
    for how in ("keep", "replace"):
        new = compared(given, standing, how, "f")
        after = [row for row in there if (row.item, row.annotator) not in new.replaced] + [*new.rows]
        pairs = {row[:2] for row in there + given}
        by_pair = {pair: [row.labels for row in after if row[:2] == pair] for pair in pairs}
        for pair, labels in by_pair.items():
            old = [row.labels for row in there if row[:2] == pair]
            said = [row.labels for row in given if row[:2] == pair]
            if set(said) <= set(old):
                assert sorted(labels) == sorted(old)
            elif how == "keep":
                assert sorted(labels) == sorted([*old, *(set(said) - set(old))])
            else:
                assert labels == [said[-1]] if said[-1] not in old else labels == old
        again = {pair: dict.fromkeys(labels) for pair, labels in by_pair.items()}
        assert not compared(given, again, how, "f").rows
        contradicted = any(len(set(by_pair[row[:2]])) > 1 for row in new.rows)
        if contradicted and how == "keep":
            with pytest.raises(DataError, match=r"f: expected one label per annotator and item"):
                compared(given, standing, "refuse", "f")


def test_a_file_with_one_answer_to_each_item_is_told_by_what_the_folder_knows(tmp_path: Path) -> None:
    rows = [f"q{item},{who},{'yn'[item % 2]}" for item in range(60) for who in ("ann", "bob")]
    folder = folder_of(tmp_path / "d", annotations="\n".join(["item,annotator,label", *rows]) + "\n")
    rows = [f"q{item},eve,{'yn'[item % 2]},2026" for item in range(50)] + ["q70,eve,y,2026"]
    file = written(tmp_path / "next.csv", "\n".join(["photo,user,said,year", *rows]) + "\n")
    assert run_command_line(["init", str(file), str(tmp_path / "no")]) == 2
    added = cs.add(folder, file)
    assert (added.answers, added.new_items, added.new_annotators) == (51, 1, 1)


def test_a_few_rows_with_a_column_per_annotator_are_told_by_the_annotators_of_the_folder(
    pets: Path, tmp_path: Path, capsys
) -> None:
    file = written(tmp_path / "more.csv", "pet,ann,bob,eve\np3,dog,,cat\np2,,dog,\n")
    assert run_command_line(["add", str(pets), str(file)]) == 0
    assert "a table with a column for each annotator, items in 'pet'" in capsys.readouterr().out
    rows = (pets / "annotations.csv").read_text().splitlines()
    assert sorted(rows[-2:]) == ["p3,ann,dog", "p3,eve,cat"]


def test_contradictions_are_refused_kept_or_replace(pets: Path, tmp_path: Path, capsys) -> None:
    file = written(tmp_path / "other.csv", "item,annotator,label\np1,ann,dog\np2,bob,dog\n")
    now = bytes_in(pets)
    assert run_command_line(["add", str(pets), str(file)]) == 2
    said = capsys.readouterr().err
    assert "got contradicting ones for 1 (p1 by ann: 'cat', then 'dog'); --contradictions keep counts both" in said
    assert bytes_in(pets) == now
    kept = shutil.copytree(pets, tmp_path / "kept")
    for _ in range(2):
        assert run_command_line(["add", str(kept), str(file), "--contradictions", "keep"]) == 0
        assert (kept / "annotations.csv").read_text() == f"{FIRST}p1,ann,dog\n"
        assert run_command_line(["add", str(pets), str(file), "--contradictions", "replace"]) == 0
        assert (pets / "annotations.csv").read_text() == FIRST.replace("p1,ann,cat\n", "") + "p1,ann,dog\n"
    assert "1  pairs of item and annotator with contradicting labels, both kept" in capsys.readouterr().out


def test_a_label_is_a_class_or_its_name_or_asked_for(pets: Path, tmp_path: Path, capsys) -> None:
    file = written(tmp_path / "f.csv", "item,annotator,label\np1,eve,Dog\np2,eve,dgo\np3,eve,owl\n")
    now = bytes_in(pets)
    assert run_command_line(["add", str(pets), str(file), "--new-class", "owl"]) == 2
    said = capsys.readouterr().err
    assert "got 'dgo' (1), did you mean 'dog'?; correct the file, or add a class by --new-class" in said
    assert bytes_in(pets) == now
    file.write_text(file.read_text().replace("dgo", "dog"))
    assert run_command_line(["add", str(pets), str(file), "--new-class", "owl", "--new-class", "dog"]) == 0
    assert (pets / "annotations.csv").read_text().endswith("p1,eve,dog\np2,eve,dog\np3,eve,owl\n")
    assert (pets / "classes.csv").read_text() == "label,name\ncat,Cat\ndog,Dog\nowl,owl\n"
    assert read_folder(pets).class_names == ("Cat", "Dog", "owl")


def test_a_persons_way_to_write_files_stays(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    rows = '\ufeffitem;mood;annotator;label\r\n1;"a ""b""";x;NA\r\n1;c;y;ja\r\n'
    (folder / "annotations.csv.gz").write_bytes(gzip.compress(rows.encode()))
    (folder / "annotations.csv.gz").chmod(0o640)
    (folder / "dataset.yaml").write_text("missing: []\n")
    added = cs.add(folder, written(tmp_path / "f.csv", "item,annotator,label\n1,z;1,NA\n2,x,\n2,y,ja\n"))
    assert (added.answers, added.new_items, added.new_annotators, added.total) == (2, 1, 1, 4)
    assert any("further columns (mood)" in note for note in added.notes)
    assert any("1 answers have no label" in note for note in added.notes)
    text = gzip.decompress((folder / "annotations.csv.gz").read_bytes()).decode()
    assert text == '\ufeffitem;mood;annotator;label\n1;"a ""b""";x;NA\n1;c;y;ja\n1;;"z;1";NA\n2;;y;ja\n'
    assert (folder / "annotations.csv.gz").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in folder.iterdir()) == ["annotations.csv.gz", "dataset.yaml"]


def test_multi_label_answers_are_repeats_in_any_order(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "d", annotations="item,annotator,label\n1,x,red|blue\n1,y,\n2,x,red\n")
    (folder / "dataset.yaml").write_text("scale: multilabel\n")
    more = written(tmp_path / "f.csv", "item,annotator,label\n1,x,blue|red\n2,y,blue|red\n")
    assert cs.add(folder, more).answers == 1
    assert (folder / "annotations.csv").read_text().endswith("2,y,blue|red\n")
    with pytest.raises(DataError, match=r"1 by y: '', then 'red'"):
        cs.add(folder, written(more, "item,annotator,label\n1,y,red\n1,z,red\n"))
    with pytest.raises(DataError, match=r"--new-class 'a\|b': expected a label without"):
        cs.add(folder, more, new_classes=["a|b"])


def features(path: Path, axis: str, *names: str) -> None:
    np.savez(path, features=np.zeros((len(names), 2)), **{axis: np.array(names)})


def with_features(folder: Path) -> None:
    features(folder / "features-x.npz", "item", "p1", "p2")
    features(folder / "features-y.npz", "item", "p1", "p2", "p3")


def with_years(folder: Path) -> None:
    (folder / "annotators.csv").write_text("annotator,years\nann,3\nbob,4\n")


def with_texts(folder: Path) -> None:
    (folder / "items.csv").write_text("item,text\np1,one\np2,two\n")


def with_tokens(folder: Path) -> None:
    (folder / "items.csv").write_text("item,sentence,position\np1,1,0\np2,1,1\n")


def with_votes(folder: Path) -> None:
    (folder / "annotations.csv").unlink()
    (folder / "votes.csv").write_text("item,label,count\np1,cat,2\np2,dog,3\n")


def with_gold_by_class(folder: Path) -> None:
    (folder / "dataset.yaml").write_text("scale: multilabel\n")
    (folder / "items.csv").write_text("item,gold_cat\np1,1\np2,\np3,\n")


def ordinal(folder: Path) -> None:
    (folder / "dataset.yaml").write_text("scale: ordinal\n")


def parquet(folder: Path) -> None:
    pq.write_table(pa_csv.read_csv(folder / "annotations.csv"), folder / "annotations.parquet")
    (folder / "annotations.csv").unlink()


def linked(folder: Path) -> None:
    (folder / "annotations.csv").rename(folder.parent / "elsewhere.csv")
    (folder / "annotations.csv").symlink_to(folder.parent / "elsewhere.csv")


def nothing(_: Path) -> None:
    pass


ANSWER = "item,annotator,label\np3,ann,cat\np3,bob,dog\n"
TEXTS = "item,annotator,label,text\np1,eve,cat,one\np2,eve,dog,2\n"
GOLD = "item,annotator,label,gold\np1,eve,cat,dog\np2,eve,dog,\n"


@pytest.mark.parametrize(
    ("prepare", "text", "message"),
    [
        (with_features, ANSWER, "add the features before .*features-x.npz: expected features of every item"),
        (with_years, ANSWER.replace("p3,bob", "p1,cleo"), "annotators.csv: expected features of every annotator"),
        (with_texts, ANSWER, "whose columns text describe each, got 1 others, such as 'p3'; name its column"),
        (with_texts, TEXTS, "text of item 'p2' that .*, 'two', got '2'"),
        (with_tokens, ANSWER, "whose columns sentence, position describe each"),
        (with_votes, ANSWER, "votes.csv: expected annotations.csv: votes do not say whose they are"),
        (with_gold_by_class, GOLD, "has gold class by class"),
        (ordinal, ANSWER.replace("dog", "owl"), "classes.csv: expected the classes of an ordinal scale"),
        (parquet, ANSWER, "annotations.parquet: expected a CSV to add to, got Parquet"),
        (linked, ANSWER, "annotations.csv: expected a file, .* got a link"),
        (nothing, GOLD, r"other gold of 1 items \(p1: 'cat' there, 'dog' here\)"),
        (
            nothing,
            "item,annotator,label\np1,,cat\np1,eve,dog\n",
            "line 2: expected the annotator",
        ),
        (nothing, "a,b\n1,2\n", "expected|cannot tell"),
    ],
)
def test_what_cannot_be_added_is_told_and_nothing_is_touched(
    prepare, text, message, pets: Path, tmp_path: Path
) -> None:
    prepare(pets)
    now = bytes_in(pets)
    columns = {name: name for name in ("text", "gold") if name in text.splitlines()[0]}
    with pytest.raises(BadInput, match=message):
        cs.add(pets, written(tmp_path / "f.csv", text), new_classes=["owl"], **columns)
    assert bytes_in(pets) == now


def test_known_items_of_a_folder_with_features_get_answers(pets: Path, tmp_path: Path) -> None:
    features(pets / "features-x.npz", "item", "p1", "p2", "p9")
    with_years(pets)
    added = cs.add(
        pets, {"item": ["p1", "p9"], "annotator": ["bob", "ann"], "label": ["cat", "cat"]}, contradictions="keep"
    )
    assert (added.answers, added.new_items) == (2, 1)
    assert read_folder(pets).items.features is not None


def test_from_python_as_from_the_command_line(pets: Path, tmp_path: Path) -> None:
    by_command = shutil.copytree(pets, tmp_path / "by-command")
    assert run_command_line(["add", str(by_command), str(written(tmp_path / "more.csv", MORE))]) == 0
    table = {"item": ["p2", "p1", "p3"], "annotator": ["cleo", "ann", "ann"], "label": ["cat", "cat", "dog"]}
    added = cs.add(str(pets), {**table, "gold": ["dog", None, None]})
    assert bytes_in(pets) == bytes_in(by_command)
    assert str(added) == "2 answers added, gold of 1 items: 2 items (1 new), 2 annotators (1 new); 6 labels now"
    for wrong, message in (
        ({**table, "label": ["cat", "cow", "dog"]}, "table: expected labels that are classes of .*, got 'cow'"),
        ({"item": ["1"], "label": ["cat"]}, "table: expected the columns item, annotator, label"),
        ({**table, "annotator": ["a", None, "b"]}, "table, row 2: expected the annotator"),
    ):
        with pytest.raises(DataError, match=message):
            cs.add(pets, wrong)
    with pytest.raises(UnknownName, match="add: unknown column 'items'; did you mean 'item'"):
        cs.add(pets, "more.csv", items="item")
    with pytest.raises(UnknownName, match="add: unknown column 'scale'"):
        cs.add(pets, "more.csv", scale="ordinal")
    with pytest.raises(DataError, match=r"gaussians: expected the folder of a dataset, .* as \./gaussians"):
        cs.add("gaussians", table)


@pytest.mark.unchecked
def test_what_becomes_of_contradictions_is_one_of_three(pets: Path) -> None:
    with pytest.raises(BadInput, match="contradictions: expected refuse, keep or replace, got 'both'"):
        cs.add(pets, {}, contradictions="both")  # type: ignore[arg-type]


def test_new_names_that_are_spelled_like_known_ones_are_told(pets: Path) -> None:
    added = cs.add(pets, {"item": ["P1", "p2"], "annotator": ["ann", "Bob "], "label": ["cat", "cat"]})
    told = " ".join(added.notes)
    assert "new items that differ from known ones only in spelling: 'P1' and 'p1'" in told
    assert "new annotators that differ from known ones only in spelling: 'Bob ' and 'bob'" in told
