"""A value that is missing is told with the row where it stands: of items, annotators, labels, gold and features."""

import re

import numpy as np
import pandas as pd
import pytest

import crowdsweep as cs
from crowdsweep.data.on_disk.folder import read_folder
from crowdsweep.errors import DataError
from crowdsweep.importing.registry import read_form
from crowdsweep.importing.rows import FileOptions

ANSWERS = "item,annotator,label\na,p,x\n,,\nb,q,y\nc,p,x\n"
"""The second row is none: row 3 is that of b."""
NO_NAME = "which means a missing value"


def folder(tmp_path, **files: str):
    place = tmp_path / "in"
    place.mkdir()
    for name, text in {"annotations": ANSWERS, **files}.items():
        if text:
            (place / f"{name}.csv").write_text(text)
    return place


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"annotations": ANSWERS + "NA,q,x\n,p,y\n"}, f"annotations.csv, row 5, column item: .* 'NA', {NO_NAME}"),
        ({"annotations": ANSWERS + ",q,x\nNA,p,y\n"}, "annotations.csv, row 5, column item: .* got an empty field"),
        ({"annotations": ANSWERS + "d,,x\n"}, "annotations.csv, row 5, column annotator: .* got an empty field"),
        ({"annotations": ANSWERS + "d, None ,x\n"}, f"row 5, column annotator: .* ' None ', {NO_NAME}"),
        (
            {"annotations": "", "votes": "item,label,count\na,x,1\n,,\nnull,y,2\n"},
            f"votes.csv, row 3, column item: expected an item, got 'null', {NO_NAME}",
        ),
        (
            {"items": "item,gold\na,x\n,\nNA,y\n"},
            f"items.csv, row 3, column item: expected an item, got 'NA', {NO_NAME}",
        ),
        ({"items": "item,gold\na,x\n,\n,y\n"}, "items.csv, row 3, column item: .* got an empty field"),
        ({"items": "item,gold\na,x\n,\nb,z\n", "classes": "label\nx\ny\n"}, "items.csv, row 3, column gold: "),
        ({"items": "item,split\na,dev\n,\nb,z\n"}, "items.csv, row 3, column split: "),
        ({"classes": "label,name\nx,X\n,\n,Y\n"}, "classes.csv, row 3, column label: "),
        ({"annotators": "annotator\np\nq\nNA\n"}, f"annotators.csv, row 3, column annotator: .* 'NA', {NO_NAME}"),
        (
            {"annotators": "annotator,age\np,3\n,\nq,4\n,5\n"},
            "annotators.csv, row 4, column annotator: .* an empty field",
        ),
    ],
)
def test_a_row_without_a_name_is_located(tmp_path, files, said) -> None:
    with pytest.raises(DataError, match=said):
        read_folder(folder(tmp_path, **files))


def test_gold_of_a_class_is_located(tmp_path) -> None:
    place = folder(tmp_path, items="item,gold_x,gold_y\na,1,0\n,,\nb,1,maybe\n")
    (place / "dataset.yaml").write_text("scale: multilabel\n")
    with pytest.raises(DataError, match=r"items\.csv, row 3, column gold_y: .* got 'maybe'"):
        read_folder(place)


def test_a_label_that_is_left_out_is_located_by_its_file_and_row(tmp_path) -> None:
    data = cs.load(folder(tmp_path, annotations=ANSWERS + "d,q,NA\nd,p,\na,q,NA\n"))
    assert data.dataset.left_out.first == {"NA": "annotations.csv, row 5", "": "annotations.csv, row 6"}
    (note,) = (note for note in data.notes if "left out" in note)
    assert note.startswith(
        "3 labels that are missing values, left out: NA (2, first: annotations.csv, row 5), "
        "empty (1: annotations.csv, row 6); "
    )
    assert "`missing: []` into dataset.yaml" in note


def test_only_the_rows_that_were_asked_for_are_counted(tmp_path) -> None:
    rows = "item,annotator,label,round\na,p,NA,1\na,p,NA,2\nb,q,x,2\nb,p,y,2\n"
    data = read_folder(folder(tmp_path, annotations=rows), where="round=2")
    assert (data.left_out.counts, data.left_out.first) == ({"NA": 1}, {"NA": "annotations.csv, row 2"})


def test_votes_without_a_label_are_located(tmp_path) -> None:
    votes = "item,label,count\na,x,1\na,y,2\nb,NA,3\n"
    data = read_folder(folder(tmp_path, annotations="", votes=votes))
    assert data.left_out.words() == ["NA (1: votes.csv, row 3)"]


def test_a_table_in_memory_says_rows_of_the_table() -> None:
    rows = {"item": ["a", "a", "b"], "annotator": ["p", "q", "p"], "label": ["x", "NA", "y"]}
    data = cs.load(rows)
    (note,) = data.notes
    assert "left out: NA (1: table, row 2); " in note
    assert "`missing=[]`" in note
    assert "csv" not in note
    with pytest.raises(DataError, match=r"table, row 3, column annotator: .* 'None', which means"):
        cs.load({**rows, "annotator": ["p", "q", "None"]})
    with pytest.raises(DataError, match=r"features, row 2, column item: .* got an empty field"):
        cs.load(rows, features={"item": ["a", None, "b"], "size": [1, 2, 3]})
    with pytest.raises(DataError, match=r"features, row 3, column item: .* got 'a' again"):
        cs.load(rows, features={"item": ["a", "b", "a"], "size": [1, 2, 3]})


@pytest.mark.parametrize("kind", ["csv", "parquet", "json"])
def test_an_import_says_the_line_or_row(tmp_path, kind) -> None:
    rows = pd.DataFrame({"item": ["a", "a", "b"], "annotator": ["p", "q", "p"], "label": ["x", "NA", "y"]})
    path = tmp_path / f"answers.{kind}"
    writes = {"csv": lambda: rows.to_csv(path, index=False), "parquet": lambda: rows.to_parquet(path)}
    writes.get(kind, lambda: rows.to_json(path, orient="records"))()
    imported = read_form("csv", path, FileOptions(item="item", annotator="annotator", label="label"))
    (note,) = imported.notes
    place = {"csv": "line 3", "parquet": "row 2"}.get(kind, r"entry \d|record \d|row \d")
    assert re.search(rf"left out: NA \(1: ({place})\)", note), note


def test_features_that_are_missing_name_their_item(tmp_path) -> None:
    place = folder(tmp_path)
    features = np.array([[1.0], [np.nan], [3.0]])
    np.savez(place / "features-x.npz", item=np.array(["a", "b", "c"]), features=features)
    with pytest.raises(DataError, match=r"features-x\.npz: expected finite features, got NaN or infinity for item 'b'"):
        read_folder(place)
