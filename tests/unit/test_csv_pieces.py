"""CSV that is written in pieces, the texts of a column looked at all at once, is that of one cell after another."""

import csv
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdsweep.files import csv_files

TEXTS = st.text(st.characters(codec="utf-8"), max_size=4) | st.sampled_from(("=1", " =1", "\u200b@", "a\x1b", "ok", ""))


@given(st.lists(st.none() | TEXTS, min_size=1, max_size=9))
def test_each_text_is_what_it_is_alone(texts: list[str | None]) -> None:
    column = pa.array(texts, pa.string())
    alone = ["" if text is None else csv_files._csv_text(text) for text in texts]
    table = pa.table({"n": np.arange(len(texts)), "text": column, "coded": column.dictionary_encode()})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_files, "_PIECE", 2)
        read = list(csv.reader(io.StringIO(csv_files.to_csv(table), newline="")))
    assert read == [["n", "text", "coded"], *([str(n), text, text] for n, text in enumerate(alone))]


def test_a_file_holds_what_the_text_is(tmp_path: Path) -> None:
    table = pa.table({"a": ["x", "=y", None], "b": [0.1, None, 2.0]})
    csv_files.write_safe_table(tmp_path / "a.csv", table)
    assert (tmp_path / "a.csv").read_text() == csv_files.to_csv(table) == '"a","b"\n"x",0.1\n"\'=y",\n,2\n'
    csv_files.write_safe_table(tmp_path / "none.csv", table.slice(0, 0))
    assert (tmp_path / "none.csv").read_text() == '"a","b"\n'


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=9))
def test_columns_are_written_as_rows_are(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]) -> None:
    place = tmp_path_factory.mktemp("t")
    one, other = ([row[side] for row in rows] for side in (0, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_files, "_PIECE", 2)
        columns = {"a,b": pa.array(one, pa.string()), "c": pa.array(other, pa.string()).dictionary_encode()}
        csv_files.write_columns(place / "columns.csv", columns)
    csv_files.write_rows(place / "rows.csv", ["a,b", "c"], rows)
    assert (place / "columns.csv").read_bytes() == (place / "rows.csv").read_bytes()
