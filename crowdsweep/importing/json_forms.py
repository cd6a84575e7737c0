"""Tells which form a JSON file has, by the keys of its first record."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from crowdsweep.data.on_disk.json_text import objects_of
from crowdsweep.data.on_disk.text_files import opened_text
from crowdsweep.errors import DataError
from crowdsweep.importing.column_words import says
from crowdsweep.importing.delimited import header_of, listed
from crowdsweep.importing.forms.lewidi import is_lewidi
from crowdsweep.importing.json_tables import is_by_columns
from crowdsweep.importing.nested import rows_in
from crowdsweep.importing.registry import FORMS
from crowdsweep.importing.roles import Table, one_of_each

_FEWEST_COLUMNS = 3  # of a table of answers: items, annotators, labels


def form_of_json(path: Path) -> str:
    """Returns the form of a JSON file; `csv` is a table, saved as JSON.

    Raises:
        DataError: the file is no JSON, or of none of the forms.
    """
    with opened_text(path) as file:
        try:
            found = [record for _, record in islice(objects_of(path, file), 2)]
        except DataError as error:
            raise DataError(f"{error} (this file begins as JSON does; labels may also come as a table, CSV)") from error
    if not found:
        raise DataError(f"{path}: expected records, found none; export it with its answers")
    first = found[0]
    keys = set(first)
    if is_lewidi(first):
        return "lewidi"
    table = _named_table(path)
    if len(found) == 1 and all(isinstance(value, dict) for value in first.values()) and not table:
        if is_by_columns(first):
            return "csv"
        _check_answers(path, first)
        return "peerannot"
    marks = (
        ("argilla", "responses" in keys or any(key.endswith(".responses") for key in keys) or _answered(first)),
        ("csv", table and _holds_answers(first)),
        ("label-studio", bool({"annotations", "completions", "annotation_id", "lead_time"} & keys)),
        ("prodigy", bool({"_input_hash", "_annotator_id", "_session_id", "accept"} & keys)),
        ("csv", table),
        ("doccano", "label" in keys and bool({"id", "text", "data", "filename"} & keys)),
        ("label-studio", "annotator" in keys),  # JSON_MIN, whose other keys the user has chosen
    )
    nested = first.get("annotations")
    if isinstance(nested, list) and nested and isinstance(nested[0], dict) and "result" not in nested[0] and not table:
        raise DataError(
            f"{path}: expected annotations as Label Studio writes them, with a `result`, got "
            f"{listed(tuple(nested[0]))} in the first; of a file of one's own write an object for each answer, with "
            f"its item, annotator and label"
        )
    for name, holds in marks:
        if holds:
            return name
    if len(header_of(path)) >= _FEWEST_COLUMNS:
        return "csv"
    raise DataError(
        f"{path}: cannot tell which tool wrote this JSON; its records have {listed(tuple(keys))}; name the form by "
        f"--form, one of {', '.join(FORMS)}"
    )


def _named_table(path: Path) -> bool:
    """Returns whether a JSON file holds a table with a column named for annotators and one for labels."""
    return one_of_each(Table(header=tuple(header_of(path)), rows=[]))


def _holds_answers(first: Mapping[str, Any]) -> bool:
    """Returns whether the answers of a table stand within a JSON file's first object, in its lists."""
    return rows_in(first, "") != [first] or not any(map(partial(says, "annotator"), first))


def _check_answers(path: Path, given: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuses an object of objects whose keys are no annotators: most keys have only values that no other key has."""
    by_key: dict[str, list[str]] = {}
    for answers in given.values():
        for key, value in answers.items():
            by_key.setdefault(key, []).append(str(value))
    shared = Counter(value for values in by_key.values() for value in set(values))
    several = {key: values for key, values in by_key.items() if len(values) > 1 and len(by_key) > 1}
    alone = [key for key, values in several.items() if all(shared[value] == 1 for value in values)]
    if 2 * len(alone) > len(by_key):
        raise DataError(
            f"{path}: expected items, each an object of annotator: label, got objects with the keys "
            f"{listed(tuple(by_key))}, whose values have nothing in common; save it as CSV with a row per answer, or, "
            f"if these are annotators, give --form peerannot"
        )


def _answered(record: Mapping[str, Any]) -> bool:
    """Returns whether a record has a question as datasets of Argilla 1 have it."""
    return any(isinstance(value, dict) and {"user_id", "value"} <= set(value) for value in record.values())
