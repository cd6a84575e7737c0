"""Small files that stand for much: a named error before anything of that size is made, whatever says how much.

Counts, run lengths, codes of one long text, packed text, headers and nesting; on disk and in tables of Python.
"""

import gzip
import io
import resource
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_folders import GOOD, folder_of
from time_limit import at_most

import crowdsweep as cs
from crowdsweep.cli.commands import run_command_line
from crowdsweep.data import bounds
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.describe import describe
from crowdsweep.data.on_disk.folder import read_folder
from crowdsweep.errors import BadInput, DataError
from crowdsweep.importing.registry import read_form
from crowdsweep.importing.rows import FileOptions
from crowdsweep.sweep.plan import make_plan
from crowdsweep.sweepfile.read import parse_sweep

MEGABYTE = 1 << 20


def packed(head: bytes, unit: bytes, megabytes: int) -> bytes:
    """Gzip members: a head, and the same text again and again."""
    member = gzip.compress(unit * (MEGABYTE // len(unit)), 6)
    return gzip.compress(head) + member * megabytes


def said_thrice(n_rows: int, item: str = "i") -> pa.Table:
    """Rows that all say the same, as codes of three texts."""
    codes = pa.array(np.zeros(n_rows, np.int32))
    texts = {"item": item, "annotator": "a", "label": "0"}
    return pa.table({name: pa.DictionaryArray.from_arrays(codes, pa.array([text])) for name, text in texts.items()})


def parquet(tables: Sequence[pa.Table], **how: Any) -> bytes:
    out = io.BytesIO()
    with pq.ParquetWriter(out, tables[0].schema, compression="zstd", **how) as writer:
        for table in tables:
            writer.write_table(table)
    return out.getvalue()


def run_lengths() -> bytes:
    return parquet([said_thrice(3_000_000)] * 8)


def long_ids() -> bytes:
    long = "x" * (30 * MEGABYTE)
    table = pa.table({"item": [long] * 3, "annotator": ["a", "b", "c"], "label": ["0", "1", "0"]})
    return parquet([table], use_dictionary=False)


def nested() -> bytes:
    table = pa.table({"item": ["i", "j"], "annotator": ["a", "b"], "label": [["0"], ["1"]]})
    return parquet([table])


def wide_ids() -> bytes:
    item = pa.array([b"x" * 5000] * 2, pa.binary(5000))
    return parquet([pa.table({"item": item, "annotator": ["a", "b"], "label": ["0", "1"]})])


HEAD = b"item,annotator,label\ni,a,0\ni,b,1\n"
BOMBS: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "counts": (
        "votes.csv",
        lambda: b"item,label,count\ni,0,2000000000\nj,1,2000000000\n",
        "expected counts that add up to at most 20,000,000, got 4,000,000,000",
    ),
    "many counts": (
        "votes.csv",
        lambda: b"item,label,count\n" + b"i,0,2000000\nj,1,2000000\n" * 6,
        "expected counts that add up to at most 20,000,000, got 24,000,000",
    ),
    "packed rows": (
        "annotations.csv.gz",
        lambda: packed(HEAD, b"i,a,0\n", 40),
        "expected at most 16 MB of packed text",
    ),
    "packed long rows": (
        "annotations.csv.gz",
        lambda: packed(HEAD, b"i,a," + b"x" * 500_000 + b"\n", 40),
        "expected at most 16 MB of packed text",
    ),
    "a packed line without an end": (
        "annotations.csv.gz",
        lambda: packed(b"", b"x", 40),
        "expected at most 16 MB of packed text",
    ),
    "a packed header": ("annotations.csv.gz", lambda: packed(b"", b"a,", 40), "expected at most 16 MB of packed text"),
    "run lengths": ("annotations.parquet", run_lengths, "expected at most 20,000,000 rows"),
    "long ids": ("annotations.parquet", long_ids, "got 90 MB packed into"),
    "nested": ("annotations.parquet", nested, "expected texts, numbers or booleans in the column label, got list"),
    "ids of one width": ("annotations.parquet", wide_ids, "in the column item, got fixed_size_binary"),
    "an id as long as a book": (
        "annotations.csv",
        lambda: HEAD + b"i," + b"x" * 20_000 + b",0\n",
        "row 3, column annotator: expected a name of at most 10,000 characters, got 20,000",
    ),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_small_file_that_stands_for_much_is_one_named_error(kind: str, tmp_path: Path) -> None:
    name, make, told = BOMBS[kind]
    folder = folder_of(tmp_path / "d")
    content = make()
    assert len(content) < 1_000_000
    (folder / name).write_bytes(content)
    del content
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with at_most(10), pytest.raises(DataError, match=told) as refused:
        read_folder(folder)
    assert str(folder / name) in str(refused.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB


@pytest.mark.parametrize("stem", ["items", "annotators", "classes"])
def test_the_other_tables_of_a_folder_are_bounded_too(stem: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "d", annotations=GOOD)
    column = {"items": "item", "annotators": "annotator", "classes": "label"}[stem]
    (folder / f"{stem}.csv.gz").write_bytes(packed(f"{column}\n".encode(), b"yes\n", 40))
    with pytest.raises(DataError, match=rf"{stem}.csv.gz: expected at most 16 MB of packed text"):
        read_folder(folder)
    (folder / f"{stem}.csv.gz").unlink()
    rows = 3_000_000 if stem != "annotators" else 24_000_000
    same = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows // 8, np.int32)), pa.array(["yes"]))
    (folder / f"{stem}.parquet").write_bytes(parquet([pa.table({column: same})] * 8))
    with pytest.raises(DataError, match=rf"{stem}.parquet: expected at most [0-9,]+ rows"):
        read_folder(folder)


def test_one_text_of_many_rows_counts_as_many(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "d", annotations=GOOD)
    text = "word " * 20_000
    same = pa.DictionaryArray.from_arrays(pa.array(np.zeros(20_000, np.int32)), pa.array([text]))
    ids = pa.array([f"i{number}" for number in range(20_000)])
    (folder / "items.parquet").write_bytes(parquet([pa.table({"item": ids, "text": same})]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(
        DataError, match=r"items.parquet, its texts: expected at most [0-9]+ MB, got 1907 MB packed into"
    ):
        read_folder(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_real_tables_are_read_as_before(tmp_path: Path) -> None:
    """Parquet with codes, missing values and texts that two codes share gives what CSV gives."""
    rows = [(f"i{n % 50}", f"a{n % 7}", ["yes", "no", None][n % 3]) for n in range(400)]
    item, annotator, label = zip(*rows, strict=True)
    table = pa.table({"item": item, "annotator": annotator, "label": label})
    coded = pa.table({name: table.column(name).dictionary_encode() for name in table.column_names})
    numbers = pa.array([0, 1, 0, None], pa.int32())
    table_of_twins = pa.table(
        {
            "item": ["a", "b", "c", "d"],
            "annotator": ["x", "y", "x", "y"],
            "label": pa.DictionaryArray.from_arrays(numbers, pa.array([1, 2])),
        }
    )
    found: list[str] = []
    for number, one in enumerate(
        [table, coded, table.cast(pa.schema([(n, pa.large_string()) for n in table.schema.names]))]
    ):
        folder = folder_of(tmp_path / f"d{number}")
        (folder / "annotations.parquet").write_bytes(parquet([one]))
        found.append(read_folder(folder).annotations.fingerprint())
    csv = "\n".join(["item,annotator,label", *(",".join(cell or "" for cell in row) for row in rows)])
    found.append(read_folder(folder_of(tmp_path / "csv", annotations=csv)).annotations.fingerprint())
    assert len(set(found)) == 1
    folder = folder_of(tmp_path / "twins")
    (folder / "annotations.parquet").write_bytes(parquet([table_of_twins]))
    read = read_folder(folder)
    assert (read.class_labels, sum(read.left_out.counts.values())) == (("1", "2"), 1)


@pytest.mark.parametrize(("declared", "most"), [(True, bounds.MOST_DECLARED), (False, bounds.MOST_CLASSES)])
def test_more_classes_than_anybody_chooses_among_are_refused(declared: bool, most: int, tmp_path: Path) -> None:
    labels = [f"c{number}" for number in range(most + 1)]
    rows = labels[:2] if declared else labels
    text = "\n".join(["item,annotator,label", *(f"i{n},a,{label}" for n, label in enumerate(rows))])
    files = {"classes": "\n".join(["label", *labels])} if declared else {}
    with pytest.raises(DataError, match=f"expected at most {most:,} classes, got {most + 1:,}"):
        read_folder(folder_of(tmp_path / "d", annotations=text, **files))


def test_a_few_answers_that_choose_everything_are_refused(tmp_path: Path) -> None:
    labels = [f"c{number}" for number in range(5000)]
    answers = pa.DictionaryArray.from_arrays(pa.array(np.zeros(5000, np.int32)), pa.array(["|".join(labels)[:9000]]))
    names = [f"i{number}" for number in range(5000)]
    folder = folder_of(tmp_path / "d")
    (folder / "dataset.yaml").write_text("scale: multilabel\n")
    (folder / "annotations.parquet").write_bytes(
        parquet([pa.table({"item": names, "annotator": names, "label": answers})] * 4)
    )
    with pytest.raises(DataError, match=r"expected at most 20,000,000 classes chosen in 20,000 answers, got"):
        read_folder(folder)


def test_features_of_annotators_are_counted_before_they_are_made(tmp_path: Path) -> None:
    names = [f"a{number}" for number in range(60_000)]
    words = {f"f{number}": [f"w{row % 32}" for row in range(len(names))] for number in range(80)}
    folder = folder_of(tmp_path / "d", annotations=GOOD)
    (folder / "annotators.parquet").write_bytes(parquet([pa.table({"annotator": ["x", "y", *names[2:]], **words})]))
    with pytest.raises(DataError, match=r"annotators.parquet: expected at most [0-9,]+ numbers in one table, got"):
        read_folder(folder)


def test_probabilities_over_many_classes_are_counted_before_they_are_made() -> None:
    few = np.zeros(20_000, np.int32)
    rows = Annotations.of(
        item=few,
        annotator=few,
        label=few,
        probability=np.full(len(few), 0.5, np.float32),
        n_items=1,
        n_annotators=1,
        n_classes=10_000,
    )
    with pytest.raises(DataError, match=r"got 20,000 answers × 10,000 classes \(1.6 GB\)"):
        _ = rows.counts


def test_arrays_packed_to_fill_memory_are_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "d", annotations=GOOD)
    wide = np.zeros(2, dtype="U20000")
    for arrays, told in (
        ({"features": np.zeros((2, 1)), "item": wide}, "item: expected texts of at most 10,000 characters"),
        (
            {"features": np.zeros((3_000_000, 0), np.float32), "item": np.zeros(3_000_000, np.int8)},
            "at most .* item ids",
        ),
    ):
        np.savez_compressed(folder / "features-x.npz", **arrays)
        with pytest.raises(DataError, match=told):
            read_folder(folder)


def rows_of(header: str, unit: str) -> Callable[[], bytes]:
    return lambda: packed(f"{header}\n".encode(), f"{unit}\n".encode(), 40)


def archive(n_files: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as zipped:
        for number in range(n_files):
            zipped.writestr(f"{number}.jsonl", b'{"id": 1, "text": "", "label": ["a"]}\n' * 250_000)
    return out.getvalue()


BY_COLUMNS = FileOptions(item="i", annotator="a", label="l")
IMPORTS: dict[str, tuple[str, str, Callable[[], bytes], FileOptions]] = {
    "a table": ("csv", "a.csv.gz", rows_of("i,a,l", "i,a,0"), BY_COLUMNS),
    "a matrix": ("matrix", "a.csv.gz", rows_of("a,b", "0,1"), FileOptions()),
    "lists in lists": ("peerannot", "a.json.gz", lambda: packed(b"[", b"[" * 3000, 40), FileOptions()),
    "JSON": ("label-studio", "a.json.gz", lambda: packed(b"[", b"{},", 40), FileOptions()),
    "an object": ("peerannot", "a.json.gz", lambda: packed(b'{"a": [', b"0,", 40), FileOptions()),
    "an archive": ("doccano", "a.zip", lambda: archive(8), FileOptions()),
    "a matrix without width": ("matrix", "a.npy", lambda: npy((3_000_000, 0)), FileOptions()),
    "records": ("csv", "a.json.gz", lambda: packed(b"[", b'{"i":"i","a":"a","l":"0"},', 40), BY_COLUMNS),
    "a long line": ("matrix", "a.csv.gz", lambda: packed(b"", b"0,", 40), FileOptions()),
    "Parquet": ("crowd-kit", "a.parquet", lambda: parquet([crowd_kit(1_500_000)]), FileOptions()),
    "Parquet with lists": (
        "csv",
        "a.parquet",
        lambda: parquet([pa.table({"item": ["i"], "who": [["a"] * 2_000_000], "label": [["0"] * 2_000_000]})]),
        FileOptions(item="item", annotator="who", label="label"),
    ),
}


def npy(shape: tuple[int, ...]) -> bytes:
    out = io.BytesIO()
    np.save(out, np.zeros(shape, np.int8))
    return out.getvalue()


def crowd_kit(n_rows: int) -> pa.Table:
    return said_thrice(n_rows).rename_columns(["task", "worker", "label"])


@pytest.mark.parametrize("kind", IMPORTS)
def test_a_small_export_that_stands_for_much_is_one_named_error(kind: str, tmp_path: Path) -> None:
    form, name, make, asked = IMPORTS[kind]
    (tmp_path / name).write_bytes(make())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with at_most(10), pytest.raises(DataError) as refused:
        read_form(form, tmp_path / name, asked)
    assert str(tmp_path / name) in str(refused.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_500_000  # kB


def test_what_is_packed_as_people_pack_it_is_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [
        f"photo-{i},annotator-{a},{'yes' if y else 'no'}" for i, a, y in rng.integers(0, [9000, 50, 2], (30_000, 3))
    ]
    text = "\n".join(["item,annotator,label", *lines]).encode()
    folder = folder_of(tmp_path / "d")
    (folder / "annotations.csv.gz").write_bytes(gzip.compress(text))
    plain = folder_of(tmp_path / "p", annotations=text)
    assert read_folder(folder).annotations.fingerprint() == read_folder(plain).annotations.fingerprint()


def test_tables_in_memory_are_bounded_by_what_they_hold() -> None:
    same = pa.RunEndEncodedArray.from_arrays(pa.array([2**31 - 1], pa.int32()), pa.array(["a"]))
    with pytest.raises(DataError, match=r"table: expected at most 20,000,000 rows in a table of"):
        cs.load(pa.table({"item": same, "annotator": same, "label": same}))
    codes = pa.array(np.zeros(100_000, np.int32))
    long = pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 100_000]))
    with pytest.raises(DataError, match="table, column item, texts: expected at most"):
        cs.load(pa.table({"item": long, "annotator": long, "label": long}))
    with pytest.raises(DataError, match="expected at most 100,000 classes"):
        cs.load(
            {"item": ["i", "j"], "annotator": ["a", "a"], "label": ["0", "1"]}, classes=[str(n) for n in range(100_001)]
        )
    with pytest.raises(DataError, match="votes, count: expected counts that add up to at most"):
        Annotations.from_votes(item=np.array([0]), label=np.array([0]), count=np.array([2**40]), n_items=1, n_classes=2)


def test_the_command_line_says_it_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(tmp_path / "d", votes="item,label,count\ni,0,2000000000\nj,1,2000000000\n")
    assert run_command_line(["data", "check", str(folder)]) == 2
    told = capsys.readouterr()
    assert "expected counts that add up to at most 20,000,000, got 4,000,000,000" in " ".join(told.err.split())
    assert "Traceback" not in told.err + told.out


def many_classes(folder: Path, n_classes: int) -> Path:
    lines = [f"i{n},a{n % 5},c{n}" for n in range(n_classes)] + [f"i{n},b,c{n}" for n in range(n_classes)]
    return folder_of(folder, annotations="\n".join(["item,annotator,label", *lines]))


def test_ten_thousand_classes_are_described_without_a_table_of_them(tmp_path: Path) -> None:
    dataset = read_folder(many_classes(tmp_path / "d", 10_000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = describe(dataset)
    assert (found["annotations"], found["label_entropy"], found["krippendorff_alpha"]) == (20_000, 0.0, 1.0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_a_fit_says_what_its_tables_would_take_before_they_are_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = many_classes(tmp_path / "d", 6000)
    assert run_command_line(["label", str(folder), "--model", "majority-vote", "--out", str(tmp_path / "out")]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "expected at most 48,000,000 numbers in the tables of a fit, got 72,000,000 of 6,000 items" in told
    assert not (tmp_path / "out").exists()
    with pytest.raises(DataError, match=r"12,000 labels \(0.6 GB each\); merge rare classes"):
        cs.fit("majority-vote", str(folder))
    sweep = {"name": "a", "datasets": [str(folder)], "models": ["majority-vote"], "engine": "inline"}
    with pytest.raises(BadInput, match="numbers in the tables of a fit"):
        make_plan(parse_sweep(sweep))


def test_votes_are_held_of_more_classes_than_matrices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "_FIT_NUMBERS", 100)
    monkeypatch.setattr(bounds, "_NUMBERS_PER_LABEL", 20)
    folder = str(many_classes(tmp_path / "d", 40))
    with pytest.raises(DataError, match=r"d, model dawid-skene: expected at most 1,600 .* or take majority-vote"):
        cs.fit("dawid-skene", folder)
    assert cs.fit("majority-vote", folder).labels.num_rows == 40


def test_what_real_data_need_is_let_pass() -> None:
    bounds.check_fit(50_000, 1000, 150_000, "pictures")
    bounds.check_fit(1_000_000, 10, 5_000_000, "a million items")
    bounds.check_fit(100_000, 300, 200_000, "tags", multilabel=True)
