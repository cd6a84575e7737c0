"""Who says that no word stands for a missing value means it of ids, annotators and gold as well, in every form."""

import json

import pytest

from crowdsweep.data.missing import MissingValues
from crowdsweep.errors import DataError
from crowdsweep.importing.registry import read_form
from crowdsweep.importing.rows import FileOptions

NOTHING = MissingValues.of([""])
TASKS = [
    {
        "id": name,
        "data": {"text": name},
        "annotations": [
            {
                "completed_by": who,
                "ground_truth": who == "gold",
                "result": [{"from_name": "q", "type": "choices", "value": {"choices": [label]}}],
            }
            for who, label in (("NA", "None"), ("bob", "yes"), ("gold", "None"))
        ],
    }
    for name in ("NA", "b")
]
RECORDS = [
    {"id": name, "fields": {"text": name}, "responses": {"q": [{"value": "None", "user_id": "null"}]}}
    for name in ("NA", "b")
]


@pytest.mark.parametrize(("form", "content"), [("label-studio", TASKS), ("argilla", RECORDS)])
def test_records_may_be_called_so(tmp_path, form, content) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match="'NA', which means a missing value"):
        read_form(form, path)
    rows = read_form(form, path, FileOptions(missing=NOTHING))
    assert list(rows.items) == ["NA", "b"]
    assert {label for row in rows.rows for label in row.labels} >= {"None"}
    if form == "label-studio":
        assert rows.gold == {"NA": ("None",), "b": ("None",)}
        assert {row.annotator for row in rows.rows} == {"NA", "bob"}


def test_items_of_a_file_of_gold_may_be_called_so(tmp_path) -> None:
    table, gold = tmp_path / "answers.csv", tmp_path / "gold.csv"
    table.write_text("item,annotator,label\nNA,ann,None\nb,ann,yes\n")
    gold.write_text("item,gold\nNA,None\nb,yes\n")
    asked = FileOptions(item="item", annotator="annotator", label="label", gold=str(gold), missing=NOTHING)
    rows = read_form("csv", table, asked)
    assert rows.gold == {"NA": ("None",), "b": ("yes",)}
    table.write_text("item,annotator,label\na,ann,no\nb,ann,yes\n")
    asked = FileOptions(item="item", annotator="annotator", label="label", gold=str(gold))
    with pytest.raises(DataError, match=r"gold\.csv, line 2, column item: .* 'NA', which means a missing value"):
        read_form("csv", table, asked)
