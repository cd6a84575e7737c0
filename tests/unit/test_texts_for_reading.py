"""Names in the tables that label writes do nothing to a terminal, a spreadsheet or an XML reader."""

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from data_folders import folder_of

import crowdsweep as cs
from crowdsweep.cli.commands import run_command_line
from crowdsweep.errors import BadInput
from crowdsweep.files.csv_files import to_csv
from crowdsweep.labelling.exports.label_studio import check_written
from crowdsweep.labelling.tables import escaped

OBEYED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
NAMES = [
    "\x1b]0;title\x07", "\x1b[2J", "\x9b31m", "\u202egnp.exe", "\x0b=1+1", "\x85=1+1", "\u2028=1+1",
    "＝1+1", "﹦1+1", "＋1", "－1", "＠SUM(A1)", "=1+1", "\u200b=1", " =1", "\ufeff=1", "a|b", "a\\", "b\\|c", "plain",
]  # fmt: skip


def answers(labels: Sequence[str]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(["item", "annotator", "label"])
    for place, name in enumerate(NAMES):
        for item in range(3):
            writer.writerow([f"{name}{item}", name, labels[(place + item) % len(labels)]])
    return out.getvalue()


@pytest.mark.parametrize("name", [name for name in NAMES if "1" in name and "m" not in name])
def test_formulas_of_every_form_are_text(name: str) -> None:
    (row,) = csv.DictReader(io.StringIO(to_csv(pa.table({"annotator": [name]})), newline=""))
    assert row["annotator"].startswith("'")


def test_nothing_that_label_writes_for_reading_is_obeyed(tmp_path: Path) -> None:
    data = folder_of(tmp_path / "d", annotations=answers(["no\x1b[31m", "yes", "\u202eno"]))
    words = ["label", str(data), "--model", "majority-vote", "--out", str(tmp_path / "o")]
    assert run_command_line(words) == 0
    for name in ("labels", "annotators", "answers", "next"):
        text = (tmp_path / "o" / f"{name}.csv").read_bytes().decode()
        assert not OBEYED.search(text), name
        rows = list(csv.reader(io.StringIO(text, newline="")))
        assert len({len(row) for row in rows}) == 1
    assert "no\\x1b[31m" in (tmp_path / "o" / "labels.csv").read_text()
    assert "no\x1b[31m" in cs.fit("majority-vote", str(data)).labels["label"].to_pylist(), "programs get it as it is"


def apart(joined: str) -> list[str]:
    """Takes names apart that were joined by bars."""
    return [re.sub(r"\\(.)", r"\1", name) for name in re.findall(r"(?:[^|\\]|\\.)+", joined)]


def test_names_that_are_joined_can_be_taken_apart() -> None:
    names = ["a|b", "a", "b", "a\\", "|", "\\|", "b\\|c", "\\\\"]
    assert apart("|".join(map(escaped, names))) == names


def test_xml_holds_the_classes_or_is_refused_before_the_fit(tmp_path: Path) -> None:
    fine = ["<a>", 'b"c', "d&e", "f\ng", "h\ti", "j\rk", "l\x85m", "n\u2028o", "p'q"]
    data = folder_of(tmp_path / "d", annotations=answers(fine))
    out = tmp_path / "o"
    words = ["label", str(data), "--model", "majority-vote", "--out", str(out), "--export", "label-studio"]
    assert run_command_line(words) == 0
    root = ElementTree.parse(out / "label-studio.xml").getroot()
    assert {choice.get("value") for choice in root.iter("Choice")} == set(cs.load(str(data)).dataset.class_labels)
    for bad in ("no\x1b[31m", "a\x01", "\ufffe", "\ud800"):
        with pytest.raises(BadInput, match="XML"):
            check_written([*fine, bad])
    data = folder_of(tmp_path / "e", annotations=answers(["no\x1b[31m", "yes"]))
    before = sorted(path.name for path in tmp_path.iterdir())
    assert run_command_line([*words[:1], str(data), *words[2:5], str(tmp_path / "p"), *words[6:]]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == before
