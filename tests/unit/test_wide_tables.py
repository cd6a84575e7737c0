"""Tables of very many columns: the time to guess what they are grows with their size, not with its square."""

import time
from pathlib import Path

import pytest

from crowdsweep.cli.commands import run_command_line
from crowdsweep.importing.guess import guess_file

COLUMNS = 20_000


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
