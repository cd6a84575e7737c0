"""Tables that are read column by column hold what reading row by row finds in them, or are left to that."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdsweep.data.missing import MissingValues
from crowdsweep.errors import DataError
from crowdsweep.importing import whole_columns
from crowdsweep.importing.forms.columns import _read_row_by_row
from crowdsweep.importing.rows import FileOptions, ImportedRows
from crowdsweep.importing.whole_columns import read_whole_columns

ROLES = FileOptions(item="item", annotator="who", label="said", weight="w")
WORDS = ("a", "b", "cat", "ünï", "", " ", "NA", " a", "1", "2.5", "-1", "0", 'q"q', "c,d", "x\ny", "\r", '"', "é\r\n")
CELL = st.one_of(st.sampled_from(WORDS[:3]), st.sampled_from(WORDS))
WEIGHT = st.one_of(st.just("2"), st.sampled_from(("", "1", " 1", "NA", "-1", "inf", "x")))
ROW = st.tuples(CELL, CELL, CELL, WEIGHT)


def found(imported: ImportedRows) -> tuple[object, ...]:
    return list(imported.rows), list(imported.items), list(imported.notes), imported.missing


def quoted(cell: str, always: bool) -> str:
    return '"' + cell.replace('"', '""') + '"' if always or set(cell) & set(',"\r\n') else cell


def written(path: Path, rows: list[tuple[str, ...]], always: bool, end: str, raw: str = "") -> Path:
    lines = [",".join(quoted(cell, always) for cell in row) for row in [("item", "who", "said", "w"), *rows]]
    path.write_bytes((end.join([*lines, raw] if raw else lines) + end).encode())
    return path


@given(
    rows=st.lists(ROW, max_size=6),
    always=st.booleans(),
    end=st.sampled_from(("\n", "\r\n", "\n\n")),
    raw=st.sampled_from(("", "", "a,b", 'a,b"c,d,1', '"a"b,c,d,1', ",,,", '"a,b', " ")),
    block=st.sampled_from((1, 2, 7, 1 << 20)),
)
def test_what_is_read_is_what_rows_hold(tmp_path_factory, rows, always, end, raw, block):
    path = written(tmp_path_factory.mktemp("t") / "a.csv", rows, always, end, raw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole_columns, "_BLOCK_BYTES", block)
        whole = read_whole_columns(path, ROLES)
    if whole is None:
        return
    assert found(whole) == found(_read_row_by_row(path, ROLES))


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_ordinary_tables_are_read_so(tmp_path, always, end):
    rows = [("i1", "ann", "c,at", ""), ("i2", "bob", "NA", "1"), ("i1", 'b"o', "dog", " 2"), ("i3", "ann", "", "NA")]
    path = written(tmp_path / "a.csv", rows, always, end)
    whole = read_whole_columns(path, ROLES)
    assert whole is not None
    assert found(whole) == found(_read_row_by_row(path, ROLES))
    assert [row.weight for row in whole.rows] == ["", "2"]
    assert "NA (1: line 3)" in whole.notes[0]
    assert list(whole.items) == ["i1", "i2", "i3"]


def test_what_has_to_be_refused_is_left_to_who_knows_the_line(tmp_path):
    path = written(tmp_path / "a.csv", [("i1", "ann", "cat", "1"), ("", "ann", "dog", "1")], False, "\n")
    assert read_whole_columns(path, ROLES) is None
    with pytest.raises(DataError, match="line 3, column item"):
        _read_row_by_row(path, ROLES)


def test_words_for_nothing_are_those_that_were_told(tmp_path):
    path = written(tmp_path / "a.csv", [("i1", "ann", "NA", "1"), ("i2", "ann", "-9", "1")], False, "\n")
    asked = FileOptions(item="item", annotator="who", label="said", missing=MissingValues.of(["-9"]))
    whole = read_whole_columns(path, asked)
    assert whole is not None
    assert found(whole) == found(_read_row_by_row(path, asked))
    assert [row.labels for row in whole.rows] == [("NA",)]


def test_rows_are_a_sequence(tmp_path):
    rows = [(f"i{n}", "ann", "cat" if n % 2 else "dog", "1") for n in range(5)]
    whole = read_whole_columns(written(tmp_path / "a.csv", rows, False, "\n"), ROLES)
    assert whole is not None
    assert whole.rows[-1] == whole.rows[4] == list(whole.rows)[4]
    assert whole.rows[1:3] == list(whole.rows)[1:3]
    with pytest.raises(IndexError):
        whole.rows[5]
