"""Tables of very many columns: the time to guess what they are grows with their size, not with its square."""

import json
import time
from pathlib import Path

import pytest

import crowdsweep as cs
from crowdsweep.cli.commands import run_command_line
from crowdsweep.errors import DataError
from crowdsweep.importing.guess import guess_file

COLUMNS = 20_000


@pytest.mark.unchecked
@pytest.mark.parametrize("answers", ["1,0", "1,1"], ids=["a matrix", "nothing that is known"])
def test_a_column_each_of_thousands_of_annotators(tmp_path: Path, answers: str) -> None:
    path = tmp_path / "wide.csv"
    names = ",".join(f"a{number}" for number in range(COLUMNS))
    row = ",".join([answers] * (COLUMNS // 2))
    path.write_text(f"item,{names}\ni1,{row}\ni2,{row}\ni3,{row}\n")
    run_command_line(["init", str(path), str(tmp_path / "first")])  # what it imports is not counted
    began = time.process_time()
    guess_file(path)
    assert time.process_time() - began < 5.0  # by squares it takes 15


def refused(path: Path) -> str:
    """Returns why a file is refused, which takes little time."""
    began = time.process_time()
    with pytest.raises(DataError) as error:
        guess_file(path)
    assert time.process_time() - began < 10.0
    return str(error.value)


def test_more_columns_than_anybody_means(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("item,annotator,label," + ",".join(map(str, range(60_000))) + "\n" + "a," * 60_002 + "a\n")
    assert "at most 50,000 columns, got 60,003; write a row for each answer" in refused(path)


def test_objects_that_share_no_keys(tmp_path: Path) -> None:
    path = tmp_path / "sparse.jsonl"
    rows = ({"item": "i", "annotator": "a", "label": "x", f"k{row}": 1} for row in range(6000))
    path.write_text("\n".join(map(json.dumps, rows)))
    assert "cells (rows × columns)" in refused(path)


def test_a_key_that_is_there_twice_among_many(tmp_path: Path) -> None:
    path = tmp_path / "twice.json"
    keys = ",".join(f'"k{number}":1' for number in range(100_000))
    path.write_text(f'[{{{keys},"k99999":2}}]')
    assert "got 'k99999' twice" in refused(path)


def test_a_dataset_s_table_of_very_many_columns(tmp_path: Path) -> None:
    more = ",".join(f"c{number}" for number in range(100_000))
    (tmp_path / "annotations.csv").write_text(f"item,annotator,label,{more}\n" + "a," * 100_002 + "a\n")
    began = time.process_time()
    with pytest.raises(DataError):
        cs.load(str(tmp_path))
    assert time.process_time() - began < 10.0
