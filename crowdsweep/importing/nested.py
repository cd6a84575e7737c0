"""Takes records apart that hold several answers each, as datasets in JSON and Parquet do: a row for each answer.

{"id": "p1", "annotators": ["ann", "bob"], "labels": ["yes", "no"]}
{"id": "p1", "annotations": [{"annotator": "ann", "label": "yes"}, {"annotator": "bob", "label": "no"}]}
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from crowdsweep.errors import DataError
from crowdsweep.importing.column_words import says

Record = Mapping[str, Any]
_OF_SPANS = {"start", "end", "start_offset", "end_offset", "span", "spans", "bbox", "points", "result"}


def rows_in(record: Record, where: str) -> list[Record]:
    """Returns a row for each answer of a record; the record itself if it is one.

    Raises:
        DataError: the record lists annotators, and labels of another number.
    """
    plain = {name: value for name, value in record.items() if not isinstance(value, list)}
    lists = {name: value for name, value in record.items() if isinstance(value, list)}
    people = [name for name in lists if says("annotator", name) and not _are_objects(lists[name])]
    if len(people) == 1:
        who = lists[people[0]]
        labels = [name for name in lists if name not in people and says("label", name) and is_cell(name, lists[name])]
        if labels and not any(len(lists[name]) == len(who) for name in labels):
            raise DataError(
                f"{where}: expected a label for each of {len(who)} {people[0]}, got {len(lists[labels[0]])} "
                f"{labels[0]}; correct them, or write a row for each answer"
            )
        if labels:
            together = [name for name, values in lists.items() if len(values) == len(who)]
            return [plain | {name: lists[name][place] for name in together} for place in range(len(who))]
    answers = [name for name, values in lists.items() if _are_objects(values) and _is_answer(values[0])]
    if len(answers) == 1:
        name = answers[0]
        return [
            plain | {f"{name}.{key}" if key in plain else key: value for key, value in answer.items()}
            for answer in lists[name]
        ]
    return [record]


def is_cell(name: str, value: Any) -> bool:
    """Returns whether a value of this column is a cell: a text, number or boolean, or several classes in a list."""
    if isinstance(value, list):
        return says("label", name) and not any(isinstance(part, dict | list) for part in value)
    return not isinstance(value, dict)


def cell_of(value: Any) -> str:
    """Returns a cell as the text that CSV would have: whole numbers without decimals, empty for null and NaN."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def _are_objects(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(value, dict) for value in values)


def _is_answer(given: Record) -> bool:
    people = [name for name in given if says("annotator", name)]
    return (
        bool(people) and any(says("label", name) for name in given if name not in people) and not _OF_SPANS & set(given)
    )
