"""One rule for what stands for a missing value, at every door."""

import json

import numpy as np
import pandas as pd
import pytest

import crowdsweep as cs
from crowdsweep.cli.commands import run_command_line
from crowdsweep.data.missing import USUAL, WORDS, MissingLabels, MissingValues
from crowdsweep.data.oddities import mistakes
from crowdsweep.data.on_disk.folder import read_folder
from crowdsweep.errors import BadInput, DataError
from crowdsweep.importing.registry import read_form
from crowdsweep.importing.rows import FileOptions

LABELS = ["x", "y", "NA", "None", "none", "", "x", "y"]
KEPT = [label for label in LABELS if label not in ("NA", "None", "")]
ITEMS = [f"i{number // 2}" for number in range(len(LABELS))]
PEOPLE = ["ann", "bob"] * 4
"""i1 has no answer at all, and is an item nevertheless."""


def table(labels=LABELS) -> str:
    rows = (",".join(row) for row in zip(ITEMS, PEOPLE, labels, strict=True))
    return "item,annotator,label\n" + "\n".join(rows) + "\n"


def matrix() -> list[list[str]]:
    return np.array(LABELS, dtype=object).reshape(4, 2).tolist()


def by_folder(place, missing):
    place.mkdir()
    (place / "annotations.csv").write_text(table())
    if missing is not None:
        (place / "dataset.yaml").write_text(f"missing: {json.dumps(missing)}\n")
    return read_folder(place)


def by_init(name, text, *words):
    def read(place, missing):
        place.mkdir()
        (place / name).write_text(text)
        told = [word for said in ([""] if missing == [] else missing or []) for word in ("--missing", said)]
        assert run_command_line(["init", str(place / name), str(place / "d"), *words, *told]) == 0
        return read_folder(place / "d")

    return read


def by_table(form):
    def read(place, missing):
        labels = [None if label == "" else label for label in LABELS]
        given = form({"item": ITEMS, "annotator": PEOPLE, "label": labels})
        return cs.load(given, missing=missing).dataset

    return read


def by_estimator(place, missing):
    return cs.CrowdClassifier("majority-vote", missing=missing).fit(None, matrix()).result_.fitted.dataset


DOORS = {
    "folder": by_folder,
    "csv": by_init("a.csv", table()),
    "tsv": by_init("a.tsv", table().replace(",", "\t")),
    "matrix": by_init(
        "m.csv", "item,ann,bob\n" + "".join(f"i{n},{a},{b}\n" for n, (a, b) in enumerate(matrix())), "--form", "matrix"
    ),
    "peerannot": by_init(
        "answers.json",
        json.dumps({f"i{n}": {"ann": a, "bob": b} for n, (a, b) in enumerate(matrix())}),
        "--form",
        "peerannot",
    ),
    "dict": by_table(dict),
    "pandas": by_table(pd.DataFrame),
    "estimator": by_estimator,
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("missing", "classes", "n_labels"),
    [
        (None, ("none", "x", "y"), 5),
        ([], ("NA", "None", "none", "x", "y"), 7),
        (["none"], ("NA", "None", "x", "y"), 6),
    ],
)
def test_every_door_takes_the_same_for_missing(tmp_path, door, missing, classes, n_labels) -> None:
    data = DOORS[door](tmp_path / "in", missing)
    assert (data.items.n_items, data.class_names, len(data.annotations)) == (4, classes, n_labels)


def test_a_note_says_how_many_and_how_to_keep_them(tmp_path, capsys) -> None:
    by_init("a.csv", table())(tmp_path / "in", None)
    told = capsys.readouterr().out
    assert "3 answers have no label and were left out: NA (1: line 4), None (1: line 5), empty (1: line 7)" in told
    assert '--missing ""' in told
    assert "none" in told.partition("read as a class")[0].rpartition("note:")[2]
    (found,) = (one for one in mistakes(by_folder(tmp_path / "folder", None)) if "missing" in one.kind)
    assert (found.count, found.examples) == (
        3,
        ("NA (1: annotations.csv, row 3)", "None (1: annotations.csv, row 4)", "empty (1: annotations.csv, row 6)"),
    )
    assert "missing: []" in found.remedy


def test_a_class_that_is_declared_is_one(tmp_path) -> None:
    place = tmp_path / "in"
    place.mkdir()
    (place / "annotations.csv").write_text(table())
    (place / "classes.csv").write_text("label\nx\ny\nnone\nNA\n")
    (place / "items.csv").write_text("item,gold,split\ni0,NA,n/a\ni1,None,train\n")
    data = read_folder(place)
    assert (data.left_out.counts, len(data.annotations)) == ({"None": 1, "": 1}, 6)
    assert (data.gold.item.tolist(), [data.class_names[code] for code in data.gold.label]) == ([0], ["NA"])
    assert data.split.tolist() == [0, 1, 0, 0]


def test_a_class_that_was_kept_is_still_there_when_the_folder_is_read_again(tmp_path) -> None:
    by_init("a.csv", table())(tmp_path / "in", [])
    assert cs.load(tmp_path / "in" / "d").classes == ("NA", "None", "none", "x", "y")


@pytest.mark.parametrize("column", ["item", "annotator"])
def test_a_missing_name_is_refused_unless_it_is_one(tmp_path, column) -> None:
    rows = {"item": ["a", "b", "c"], "annotator": ["p", "q", "p"], "label": ["x", "y", "x"]}
    rows = {**rows, column: ["NA", *rows[column][:2]]}
    with pytest.raises(DataError, match=rf"column {column}: expected an {column}, got 'NA', which means a missing"):
        cs.load(rows)
    kept = cs.load(rows, missing=[])
    assert len(kept.dataset.annotations) == 3
    kept.save(tmp_path / "kept")
    assert cs.load(tmp_path / "kept").dataset.annotations.fingerprint() == kept.dataset.annotations.fingerprint()
    pd.DataFrame(rows).to_csv(tmp_path / "a.csv", index=False)
    asked = FileOptions(item="item", annotator="annotator", label="label")
    with pytest.raises(DataError, match="got 'NA', which means a missing value"):
        read_form("csv", tmp_path / "a.csv", asked)


@pytest.mark.parametrize("gold", ["NA", "", "None", "nan"])
def test_missing_gold_is_none(tmp_path, gold) -> None:
    rows = {"item": ["a", "a", "b", "b"], "annotator": ["p", "q"] * 2, "label": ["x", "y", "y", "y"]}
    known = ["x", "x", gold, gold]
    assert len(cs.load({**rows, "gold": known}).dataset.gold) == 1
    pd.DataFrame({**rows, "gold": known}).to_csv(tmp_path / "a.csv", index=False)
    assert run_command_line(["init", str(tmp_path / "a.csv"), str(tmp_path / "d")]) == 0
    data = read_folder(tmp_path / "d")
    assert (len(data.gold), data.class_names) == (1, ("x", "y"))


def test_numbers_and_features_may_be_missing_too(tmp_path) -> None:
    place = tmp_path / "in"
    place.mkdir()
    (place / "annotations.csv").write_text("item,annotator,label,weight\na,p,x,NA\na,q,y,2\nb,p,y,\n")
    (place / "annotators.csv").write_text("annotator,age,team\np,NA,red\nq,3,None\n")
    data = read_folder(place)
    assert data.annotations.weight.tolist() == [1, 2, 1]
    assert data.annotator_features.tolist() == [[3, 1, 0, 1], [3, 0, 1, 0]]


def test_minus_one_is_no_answer_in_a_matrix_unless_it_is_said_what_is(tmp_path) -> None:
    answers = np.array([[-2, -1], [-1, 0], [2, 1]])
    np.save(tmp_path / "m.npy", answers)
    for missing, n_labels in ((USUAL, 4), (MissingValues.of([]), 6), (MissingValues.of(["-2"]), 5)):
        imported = read_form("matrix", tmp_path / "m.npy", FileOptions(missing=missing))
        assert len(imported.rows) == n_labels
        assert any("-1" in note for note in imported.notes) == (missing == USUAL)
        given = None if missing == USUAL else sorted(missing.words)
        fitted = cs.CrowdClassifier("majority-vote", missing=given).fit(None, answers).result_.fitted
        assert len(fitted.dataset.annotations) == n_labels
    floats = np.where(answers == 1, np.nan, answers)
    fitted = cs.CrowdClassifier("majority-vote", missing=["-2"]).fit(None, floats).result_.fitted
    assert len(fitted.dataset.annotations) == 4


def test_the_rule_itself() -> None:
    assert all(map(USUAL, [*WORDS, "", "  ", " NA "]))
    assert not any(map(USUAL, ["none", "na", "0", "x", "N", "Nan A"]))
    assert MissingValues.of("").words == frozenset()
    assert MissingValues.of([" -99 "]) == MissingValues.of([np.int64(-99)]) == MissingValues.of([-99])
    assert MissingValues.of([-99])("-99")
    left_out = MissingLabels()
    for text, row, count in (("NA", 2, 3), (" ", 4, 1), ("", 5, 1)):
        left_out.add(text, f"row {row}", count)
    assert left_out.words() == ["NA (3, first: row 2)", "empty (2, first: row 4)"]
    with pytest.raises(BadInput, match="expected texts that mean a missing value, got None"):
        MissingValues.of([None])
