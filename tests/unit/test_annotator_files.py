"""What a dataset folder knows of its annotators: features in a table's columns, or in an archive."""

import numpy as np
import pytest
from data_folders import GOOD, folder_of

from crowdsweep.data import catalogue, splits
from crowdsweep.data.on_disk.folder import read_folder, write_folder
from crowdsweep.errors import DataError

ANNOTATORS = "annotator,years,language\nx,3,fr\ny,,de\nidle,5,fr\n"


def test_columns_of_annotators_are_features_of_theirs(tmp_path):
    plain = read_folder(folder_of(tmp_path / "data", annotations=GOOD, annotators="annotator\nx\nidle\n"))
    assert plain.annotator_features is None
    folder = folder_of(tmp_path / "data", annotators=ANNOTATORS)
    data = read_folder(folder)
    assert list(data.annotator_names) == ["idle", "x", "y"]
    # Years, where they are missing, de, fr.
    assert data.annotator_features.tolist() == [[5, 0, 0, 1], [3, 0, 0, 1], [4, 1, 1, 0]]
    assert data.annotator_features.dtype == np.float32
    without = read_folder(folder, annotator_features="none")
    assert without.annotator_features is None
    assert without.fingerprint == plain.fingerprint != data.fingerprint
    write_folder(data, tmp_path / "again")
    again = catalogue.load(str(tmp_path / "again"), {})
    assert again.annotator_features.tolist() == data.annotator_features.tolist()
    assert splits.prepare(again, {"redundancy": 1}, 0).training.annotator_features.shape == (3, 4)
    assert splits.prepare(again, {"scenario": "global"}, 0).training.annotator_features is None


def test_names_are_no_features(tmp_path):
    people = [f"w{i}" for i in range(40)]
    rows = "item,annotator,label\n" + "".join(f"a,{who},{i % 2}\n" for i, who in enumerate(people))
    table = "annotator,email,team\n" + "".join(f"{who},{who}@x,{i % 3}\n" for i, who in enumerate(people))
    folder = folder_of(tmp_path / "data", annotations=rows, annotators=table)
    assert read_folder(folder).annotator_features.tolist() == [[i % 3] for i in range(40)]
    emails = "\n".join(line.rsplit(",", 1)[0] for line in table.splitlines())
    assert read_folder(folder_of(folder, annotators=emails)).annotator_features is None


def test_annotator_features_are_matched_by_name(tmp_path):
    folder = folder_of(tmp_path / "data", annotations=GOOD)
    path = folder / "annotator-features-hours.npz"
    np.savez(path, features=np.arange(6, dtype=np.float16).reshape(3, 2), annotator=np.array(["y", "gone", "x"]))
    assert read_folder(folder).annotator_features.tolist() == [[4, 5], [0, 1]]
    folder_of(folder, annotators=ANNOTATORS)
    with pytest.raises(DataError, match=r"annotator_features: hours \| annotators \| none"):
        read_folder(folder)
    with pytest.raises(DataError, match=r"features of every annotator, 1 have none, such as 'idle'; add them, or set"):
        read_folder(folder, annotator_features="hours")
    assert read_folder(folder, annotator_features="annotators").annotator_features.shape == (3, 4)
    with pytest.raises(DataError, match=r"expected annotator-features-../x.npz, found hours, annotators"):
        read_folder(folder, annotator_features="../x")
    np.savez(path, features=np.array([[1.0], [None]], dtype=object), annotator=np.array(["x", "y"]))
    with pytest.raises(DataError, match="objects"):
        read_folder(folder, annotator_features="hours")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("annotator,age\nx,1\n", r"features of every annotator, 1 are not listed, such as 'y'; add them"),
        ("annotator,age\nx,1\nY,2\n", r"such as 'y'; 'Y' is listed: is it meant\?; add them"),
        ("annotator,age\nx,1\ny,2\nx,3\n", r"row 3, column annotator: expected distinct annotators .* got 'x' again"),
        ("annotator,age\nx,1\ny,inf\n", r"row 2, column age: expected a finite number, got 'inf'"),
        ("annotator,age\nx,1\ny,1e300\n", r"expected numbers that fit into 32 bits, got a larger one for 'y'"),
        ("annotator,age\nx,1\ny\n", r"annotators.csv, row 2: expected 2 fields"),
    ],
)
def test_a_table_of_annotators_that_cannot_be_used_is_told(tmp_path, table, message):
    with pytest.raises(DataError, match=message):
        read_folder(folder_of(tmp_path / "data", annotations=GOOD, annotators=table))
