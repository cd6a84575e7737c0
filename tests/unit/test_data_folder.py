"""Dataset folders: the public sets load as counted, beginners' mistakes are told, values survive the way."""

import csv
import gzip
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_folders import GOOD, folder_of

from crowdsweep.data import catalogue
from crowdsweep.data.choices import choices_of
from crowdsweep.data.dataset import SPLITS
from crowdsweep.data.on_disk.folder import read_folder, write_folder
from crowdsweep.errors import DataError

# Annotated items, annotators, rows (multi-label: class rows), classes, items with gold: the table of the data's README.
COUNTED = {
    "adult-content": (11040, 825, 92721, 5, 1517),
    "anesthesia": (45, 5, 315, 4, 0),
    "bluebirds": (108, 39, 4212, 2, 108),
    "caries": (3859, 5, 19295, 2, 0),
    "dog": (807, 109, 8070, 4, 807),
    "face-sentiment": (584, 27, 5242, 4, 584),
    "jobs-q1": (2000, 1185, 20125, 5, 0),
    "jobs-q2": (2000, 1185, 20125, 5, 0),
    "jobs-q3": (2000, 1185, 21092, 12, 0),
    "labelme": (1000, 59, 2547, 8, 2688),
    "medical-causes": (3142, 466, 49597, 2, 975),
    "medical-relations": (3142, 466, None, 14, 975),
    "medical-treats": (3142, 466, 49597, 2, 621),
    "music-genre": (700, 44, 2945, 10, 1000),
    "pos-tagging": (22315, 96583, 96583, 12, 17503),
    "product": (8315, 176, 24945, 2, 8315),
    "rte": (800, 164, 8000, 2, 800),
    "sentiment-polarity": (4999, 203, 27746, 2, 8998),
    "sentiment-popularity-amt": (500, 143, 10000, 2, 500),
    "stemming": (6679, 26692, 26692, 2, 6679),
    "temporal-ordering": (462, 76, 4620, 2, 462),
    "weather-sentiment-amt": (300, 110, 6030, 5, 300),
    "web-relevance": (2665, 177, 15567, 5, 2653),
    "word-similarity": (30, 10, 300, 2, 30),
    "zencrowd-us": (2040, 74, 12190, 2, 2040),
}


@pytest.mark.parametrize("name", sorted(COUNTED))
def test_a_public_set_loads_as_counted(shared_data, name):
    items, annotators, rows, classes, gold = COUNTED[name]
    data = read_folder(shared_data / name)
    answers = data.annotations
    assert (answers.labels_per_item > 0).sum() == items
    assert (answers.n_annotators, answers.n_classes) == (annotators, classes)
    assert answers.n_active_annotators == annotators
    assert rows is None or len(answers) == rows
    assert len(set(data.gold.item.tolist())) == gold
    for kind in (shared_data / name).glob("features-*.npz"):
        with np.load(kind) as arrays:
            features, place = arrays["features"], {item: row for row, item in enumerate(arrays["item"].tolist())}
            for code in range(0, data.items.n_items, 97):
                expected = features[place[data.item_names[code]]].astype(np.float32)
                assert np.array_equal(data.items.features[code], expected)


def test_every_public_set_is_in_the_table(shared_data):
    assert {folder.name for folder in shared_data.iterdir() if folder.is_dir()} == set(COUNTED)


def test_splits_gold_and_texts_reach_their_items(shared_data):
    data = read_folder(shared_data / "labelme")
    assert [len(data.items_of(split)) for split in SPLITS[1:]] == [1000, 500, 1188, 0]
    code = list(data.item_names).index("2")
    assert data.gold.label[data.gold.item == code].tolist() == [2]
    assert data.class_names[:2] == ("highway", "inside city")
    jobs = read_folder(shared_data / "jobs-q1")
    assert jobs.items.text[list(jobs.item_names).index("0")] == "I need to work on my tan tomorrow!!!!"


def test_multilabel_rows_are_one_a_class(shared_data):
    data = read_folder(shared_data / "medical-relations")
    lines = (shared_data / "medical-relations" / "annotations.csv").read_text().splitlines()[1:]
    assert len(data.annotations) == sum(line.count("|") + 1 for line in lines)
    assert data.scale == "multilabel"


MULTILABEL = "item,annotator,label\na,x,red|blue\na,y,\nb,x,red\n"


def test_an_empty_multilabel_answer_chose_no_class(tmp_path):
    folder = folder_of(tmp_path / "data", annotations=MULTILABEL)
    (folder / "dataset.yaml").write_text("scale: multilabel")
    data = read_folder(folder)
    assert data.class_names == ("blue", "red")
    choices = choices_of(data.annotations)
    assert list(zip(choices.item.tolist(), choices.annotator.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 0)]
    assert choices.chosen.toarray().tolist() == [[1, 1], [0, 0], [0, 1]]
    write_folder(data, tmp_path / "again")
    assert (tmp_path / "again" / "annotations.csv").read_text() == (
        '"item","annotator","label"\n"a","x","blue|red"\n"a","y",""\n"b","x","red"\n'
    )
    assert read_folder(tmp_path / "again").annotations.fingerprint() == data.annotations.fingerprint()
    (folder / "dataset.yaml").write_text("scale: nominal")
    assert read_folder(folder).left_out.first == {"": "annotations.csv, row 2"}


def test_choosing_no_class_has_no_probability(tmp_path):
    rows = "item,annotator,label,probability\na,x,red,0.5\na,y,,{}\n"
    folder = folder_of(tmp_path / "data", annotations=rows.format(""))
    (folder / "dataset.yaml").write_text("scale: multilabel")
    assert choices_of(read_folder(folder).annotations).chosen.toarray().tolist() == [[0.5], [0]]
    folder_of(folder, annotations=rows.format("0.7"))
    with pytest.raises(DataError, match=r"row 2, column probability: expected none where the label is empty, got 0.7"):
        read_folder(folder)


def test_tokens_stand_in_sentence_order(shared_data):
    data = read_folder(shared_data / "pos-tagging")
    unit = data.items.unit
    assert (np.diff(unit) >= 0).all()
    lines = [line.split(",") for line in (shared_data / "pos-tagging" / "items.csv").read_text().splitlines()[1:]]
    position = {line[0]: int(line[4]) for line in lines}
    placed = np.array([position[name] for name in data.item_names])
    within = np.diff(unit) == 0
    assert (np.diff(placed)[within] > 0).all()
    with (shared_data / "pos-tagging" / "items.csv").open(newline="", encoding="utf-8") as file:
        tokens = {line["item"]: line["token"] for line in csv.DictReader(file)}
    assert data.items.text == [tokens[name] for name in data.item_names]
    assert len(set(unit.tolist())) == len({(line[1], line[3]) for line in lines})


def test_where_keeps_only_the_rows_that_meet_it(shared_data):
    path = shared_data / "jobs-q1" / "annotations.csv"
    expected = sum(line.split(",")[2] == "f8" for line in path.read_text().splitlines()[1:])
    data = catalogue.load(str(shared_data / "jobs-q1"), {"where": "platform=f8"})
    assert 0 < len(data.annotations) == expected < 20125
    assert data.annotations.n_active_annotators == data.annotations.n_annotators
    with pytest.raises(DataError, match=r"rows with platform=f9, found none; values there: .*f8"):
        read_folder(shared_data / "jobs-q1", where="platform=f9")
    with pytest.raises(DataError, match=r"one of the columns item, annotator, platform, label, got 'plattform=f8'"):
        read_folder(shared_data / "jobs-q1", where="plattform=f8")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, r"expected annotations.csv .* found neither"),
        ({"annotations": GOOD, "votes": "item,label,count\n"}, r"found annotations.csv and votes.csv"),
        ({"annotations": ""}, r"annotations.csv: expected a header with column names, got an empty file"),
        ({"annotations": "item,worker,label\na,x,1\n"}, r"expected a column 'annotator', got columns 'item', 'worker'"),
        ({"annotations": "item:annotator:label\na:x:1\n"}, r"got columns 'item:annotator:label'"),
        ({"annotations": "item,item,label\n"}, r"expected distinct column names, got 'item' twice"),
        ({"annotations": GOOD + "c,z\n"}, r"annotations.csv, row 3: expected 3 fields as in the header, got 2: 'c,z'"),
        ({"annotations": GOOD + ",z,no\n"}, r"row 3, column item: expected an item, got an empty field"),
        ({"annotations": GOOD + "NA,z,no\n"}, r"row 3, column item: expected an item, got 'NA', which means a"),
        ({"annotations": b"item,annotator,label\na,x,caf\xe9\n"}, r"expected UTF-8, got byte 0xe9 in line 2"),
        ({"annotations": "item,annotator,label\n".encode("utf-16")}, r"expected UTF-8"),
        ({"annotations": "item,annotator,label\n"}, r"expected at least two classes, got none; declare them"),
        ({"annotations": "item,annotator,label\na,x,yes\n"}, r"expected at least two classes, got only 'yes'"),
        (
            {"annotations": GOOD, "classes": "label\nyes\nmaybe\n"},
            r"annotations.csv, row 2, column label: expected one of the classes yes, maybe, got 'no'",
        ),
        ({"annotations": GOOD, "classes": "label\nyes\nyes\n"}, r"classes.csv, row 2, column label: expected distinct"),
        (
            {"annotations": GOOD, "classes": "label\nyes\nno\n", "items": "item,gold\na,yes\nb,nope\n"},
            r"items.csv, row 2, column gold: expected one of the classes yes, no, or empty, got 'nope'",
        ),
        (
            {"annotations": GOOD, "items": "item,split\na,trian\n"},
            r"row 1, column split: expected train, dev, .*'trian'",
        ),
        ({"annotations": GOOD, "items": "item\na\na\n"}, r"items.csv, row 2, column item: expected distinct item ids"),
        (
            {"annotations": "item,annotator,label,weight\na,x,y,1\nb,x,n,0\n"},
            r"row 2, column weight: expected a positive",
        ),
        ({"annotations": "item,annotator,label,weight\na,x,y,inf\n"}, r"row 1, column weight: .* got 'inf'"),
        (
            {"annotations": "item,annotator,label,probability\na,x,y,1.5\n"},
            r"column probability: .* from 0 to 1, got '1.5'",
        ),
        ({"votes": "item,label,count\na,yes,-1\n"}, r"votes.csv, row 1, column count: expected a whole number"),
        (
            {"votes": "item,label,count\na,yes,\n"},
            r"row 1, column count: expected a whole number of at least 0, got ''",
        ),
        ({"annotations": GOOD, "items": "item,sentence\na,1\nb,1\n"}, r"numeric column position"),
        ({"annotations": GOOD, "items": "item,sentence,position\na,1,0\nb,1,0\n"}, r"one token at each .* 'a' and 'b'"),
        ({"annotations": GOOD, "items": "item,sentence,position\na,1,0\n"}, r"every token .* annotation of 'b'"),
    ],
)
def test_mistakes_are_told_with_file_row_and_column(tmp_path, files, message):
    with pytest.raises(DataError, match=message):
        read_folder(folder_of(tmp_path / "data", **files))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scale: nominall", r"dataset.yaml, scale: expected one of nominal, ordinal, multilabel, got 'nominall'"),
        ("- a list", r"expected keys such as name, title, scale, missing, images, got list"),
        ("name: [", r"expected YAML"),
        ("!!python/object/apply:os.system ['true']", r"got the tag tag:yaml.org,2002:python/object"),
        ("missing: [[a]]", r"dataset.yaml, missing: expected texts that mean a missing value"),
    ],
)
def test_a_bad_description_is_told(tmp_path, text, message):
    folder = folder_of(tmp_path / "data", annotations=GOOD)
    (folder / "dataset.yaml").write_text(text)
    with pytest.raises(DataError, match=message):
        read_folder(folder)


def test_the_order_of_rows_changes_nothing(tmp_path):
    rows = ["i10,w2,1", "i2,w1,0", "i2,w2,1", "i1,w10,0"]
    items = ["i2,dev", "i10,train", "i3,test"]
    read = []
    for order in (1, -1):
        folder = tmp_path / f"data{order}"
        text = "item,annotator,label\n" + "\n".join(rows[::order]) + "\n"
        read.append(read_folder(folder_of(folder, annotations=text, items="item,split\n" + "\n".join(items[::order]))))
    assert read[0].fingerprint == read[1].fingerprint
    assert list(read[0].item_names) == ["i1", "i2", "i3", "i10"]
    assert list(read[0].annotator_names) == ["w1", "w2", "w10"]
    assert [SPLITS[code] for code in read[0].split] == ["none", "dev", "test", "train"]


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (pa.array([10, 2, 2]), ("2", "10")),
        (pa.array([True, False, True]), ("False", "True")),
        (pa.array(["ham", "SPAM", "ham"]), ("SPAM", "ham")),
        (pa.array([1.0, 0.0, 1.0]), ("0", "1")),
        (pa.array(["ja, nein", 'say "no"', "ja, nein"]).dictionary_encode(), ("ja, nein", 'say "no"')),
    ],
)
def test_labels_of_any_type_go_to_disk_and_back(tmp_path, labels, names):
    folder = tmp_path / "in"
    folder.mkdir()
    table = pa.table({"item": [1, 2, 2], "annotator": ["ä", "b", "c"], "label": labels})
    pq.write_table(table, folder / "annotations.parquet")
    data = read_folder(folder)
    assert data.class_names == names
    write_folder(data, tmp_path / "in2")
    again = read_folder(tmp_path / "in2")
    assert again.class_names == names
    assert replace(again, name="x").fingerprint == replace(data, name="x").fingerprint
    expected = Counter(
        (
            str(i),
            names.index(f"{v:g}" if isinstance(v, float) else str(v)),
        )
        for i, v in zip([1, 2, 2], labels.to_pylist(), strict=True)
    )
    got = Counter(
        (data.item_names[int(i)], int(k)) for i, k in zip(data.annotations.item, data.annotations.label, strict=True)
    )
    assert got == expected


def test_a_missing_label_in_parquet_is_no_answer(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    table = pa.table({"item": [1, 2, 3], "annotator": [1, 1, 1], "label": [1.0, float("nan"), 0.0]})
    pq.write_table(table, folder / "annotations.parquet")
    data = read_folder(folder)
    assert (data.item_names[1], len(data.annotations), data.left_out.counts) == ("2", 2, {"": 1})
    (folder / "annotations.parquet").write_bytes(b"not parquet")
    with pytest.raises(DataError, match="expected a Parquet file"):
        read_folder(folder)


@pytest.mark.parametrize("separator", [";", "\t", "|", ","])
@pytest.mark.parametrize("packed", [False, True])
def test_the_separator_is_told_from_the_file(tmp_path, separator, packed):
    rows = ('item,annotator,label,note\r\n1,x,yes,"a;b|c\td"\r\n' + "2,y,no,\r\n").replace(",", separator)
    items = f"\ufeffitem{separator}gold\n1{separator}yes\n2{separator}no\n"
    folder = folder_of(tmp_path / "data", items=items)
    if packed:
        (folder / "annotations.csv.gz").write_bytes(gzip.compress(rows.encode()))
    else:
        (folder / "annotations.csv").write_bytes(rows.encode())
    assert catalogue.is_dataset_folder(folder)
    data = read_folder(folder, where="note=a;b|c\td" if separator == "," else None)
    assert data.class_names == ("no", "yes")
    assert len(data.annotations) == (1 if separator == "," else 2)
    assert data.gold.label.tolist() == [1, 0]


@pytest.mark.parametrize("megabytes", [3, 12])
def test_rows_may_be_longer_than_what_is_read_at_once(tmp_path, megabytes):
    long = "word, " * (megabytes * 170_000)
    rows = "".join(f'{i},a,{"yn"[i % 2]},"{long if i == 400_000 else ""}"\n' for i in range(400_002))
    folder = folder_of(
        tmp_path / "data", annotations="item,annotator,label,comment\n" + rows, items=f'item,text\n0,"{long}"\n1,b\n'
    )
    data = read_folder(folder)
    assert (len(data.annotations), data.items.text[0], data.items.text[1]) == (400_002, long, "b")


def test_a_row_without_an_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("crowdsweep.data.bounds.LONGEST_LINE", 1 << 22)
    folder = folder_of(tmp_path / "data", annotations=GOOD + 'c,z,"' + "yes\n" * 2_000_000)
    with pytest.raises(DataError, match=r"annotations.csv, after row \d+: .* is a double quote not closed"):
        read_folder(folder)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([["a"], ["b"]], r"expected texts, numbers or booleans in the column label, got list"),
        ([{"a": 1}, {"a": 2}], r"in the column label"),
        ([b"\xff", b"a"], r"in the column label, .*UTF8"),
    ],
)
def test_parquet_of_other_types_is_told(tmp_path, column, message):
    (tmp_path / "data").mkdir()
    table = pa.table({"item": ["1", "2"], "annotator": ["x", "y"], "label": column})
    pq.write_table(table, tmp_path / "data" / "annotations.parquet")
    with pytest.raises(DataError, match=message):
        read_folder(tmp_path / "data")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &a [x, x]\nname: *a", r"expected plain keys and values, got an alias"),
        ("title: " + "[" * 1000, r"got values nested in values"),
        ("name: [a, b]", r"dataset.yaml, name: expected a text, got list"),
        ("title: " + "x" * 70_000, r"at most 65536 bytes"),
    ],
)
def test_a_description_that_would_cost_more_than_it_says_is_refused(tmp_path, text, message):
    folder = folder_of(tmp_path / "data", annotations=GOOD)
    (folder / "dataset.yaml").write_text(text)
    with pytest.raises(DataError, match=message):
        read_folder(folder)


def test_texts_in_place_of_labels_are_not_taken_for_classes(tmp_path):
    rows = "item,annotator,label\n" + "".join(f"{i},a,text {i}\n" for i in range(10_001))
    folder = folder_of(tmp_path / "data", annotations=rows)
    with pytest.raises(DataError, match=r"at most 10,000 classes, got 10,001, such as 'text 0'; is this the column"):
        read_folder(folder)
    (folder / "classes.csv").write_text("label\n" + "".join(f"text {i}\n" for i in range(10_001)))
    assert read_folder(folder).n_classes == 10_001


def test_a_joiner_in_a_multilabel_class_is_refused(tmp_path):
    folder = folder_of(tmp_path / "data", annotations=MULTILABEL, classes="label,name\nred|blue,both\nred,red\n")
    (folder / "dataset.yaml").write_text("scale: multilabel")
    with pytest.raises(DataError, match=r"classes.csv, row 1, column label: expected distinct labels without \|"):
        read_folder(folder)


def test_declared_annotators_and_no_rows_are_legal(tmp_path):
    data = read_folder(
        folder_of(
            tmp_path / "data",
            annotations="item,annotator,label\n",
            annotators="annotator\nx\ny\n",
            classes="label,name\n0,no\n1,yes\n",
            items="item\na\n",
        )
    )
    assert (len(data.annotations), data.annotations.n_annotators, data.annotations.n_items) == (0, 2, 1)


def test_a_folder_in_use_is_not_written_over(tmp_path):
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(DataError, match="expected a new or empty folder"):
        write_folder(catalogue.load("anesthesia", {}), tmp_path)


def test_an_empty_folder_that_is_written_into_stays_where_somebody_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = tmp_path.stat().st_ino
    write_folder(catalogue.load("anesthesia", {}), ".")
    assert tmp_path.stat().st_ino == before
    assert len(read_folder(".").annotations) == 315


def peak_of_reading(folder, comment):
    """Peak memory in MB of a process that reads 200,000 rows which also carry a comment."""
    folder.mkdir()
    with (folder / "annotations.csv").open("w") as file:
        file.write("item,annotator,label,comment\n")
        for row in range(200_000):
            file.write(f"item{row // 5},worker{row % 977},{row % 3},{comment}\n")
    code = (  # not ru_maxrss: that starts from what the parent held
        "from crowdsweep.data.on_disk.folder import read_folder\n"
        f"rows = read_folder({str(folder)!r}).annotations\n"
        "assert (len(rows), rows.n_items, rows.n_annotators, rows.n_classes) == (200_000, 40_000, 977, 3)\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return int(result.stdout) / 1024


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_a_column_that_nobody_asked_for_is_never_held(tmp_path):
    """200 MB of comments cost the few blocks that are read ahead."""
    assert peak_of_reading(tmp_path / "wide", "x" * 1000) - peak_of_reading(tmp_path / "narrow", "x") < 60
